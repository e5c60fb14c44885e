"""Closed panes, and the answers of several windows at once."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skytide.kernels import Indices
from skytide.windows import stretches

PANE = "__skytide_pane"
Panes = list[tuple[int, pa.Table]]
"""New panes, from the oldest to the youngest, and what was kept of each."""


@dataclass(frozen=True)
class Answers:
    """The answers of several windows, one after the other."""

    rows: pa.Table
    counts: Indices
    """How many of the rows belong to each window."""

    def repeated(self, times: Indices) -> "Answers":
        """Return each answer as often as `times` says, for consecutive windows that have the same one."""
        if (times == 1).all():
            return self
        counts = np.repeat(self.counts, times)
        places = stretches(np.repeat(np.cumsum(self.counts) - self.counts, times), counts)
        return Answers(self.rows.take(pa.array(places)), counts)

    def tables(self) -> list[pa.Table]:
        """Return the answer of each window as a table of its own."""
        ends = np.cumsum(self.counts)
        return [self.rows.slice(end - rows, rows) for end, rows in zip(ends.tolist(), self.counts.tolist(), strict=True)]

    @staticmethod
    def of(tables: list[pa.Table], empty: pa.Table) -> "Answers":
        """Return the answers of windows; `empty` is one without rows."""
        counts = np.array([table.num_rows for table in tables], dtype=np.int64)
        return Answers(pa.concat_tables([empty, *tables]), counts)


def constant(value: int, rows: pa.Table) -> pa.Array:
    """Return a column with the same number in every row."""
    return pa.array(np.full(rows.num_rows, value, dtype=np.int64))
