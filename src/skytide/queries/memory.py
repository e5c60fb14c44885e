"""The base of all memories of closed panes, and the answers of several windows at once."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skytide.kernels import Indices
from skytide.queries.query import Query
from skytide.windows import Windows, stretches

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


class Sliding(ABC):
    """A memory of closed panes as one Arrow table; panes are added in order."""

    def __init__(self, query: Query) -> None:
        """Create the memory of a query."""
        self.query = query

    @abstractmethod
    def empty(self, rows: pa.Schema) -> pa.Table:
        """Return the memory of no panes."""

    @abstractmethod
    def add(self, memory: pa.Table, pane: int, kept: pa.Table) -> pa.Table:
        """Return the memory after a younger pane has closed, of which `kept` was kept."""

    @abstractmethod
    def answer(self, memory: pa.Table, panes: range) -> pa.Table:
        """Return the answer of the window of these panes, all of which have been added, and no younger one."""

    @abstractmethod
    def slide(self, memory: pa.Table, panes: Panes, windows: Windows, wanted: Indices) -> tuple[Answers, pa.Table]:
        """Return the answers of the windows with the numbers `wanted`, in order, and the memory for later windows.

        The new panes are all that came before the end of the last window. Consecutive windows with the same panes cost as much as one.
        """

    def forget(self, memory: pa.Table, first: int) -> pa.Table:
        """Return the memory without panes before `first`."""
        return memory.filter(pa.array(memory[PANE].to_numpy() >= first))


def constant(value: int, rows: pa.Table) -> pa.Array:
    """Return a column with the same number in every row."""
    return pa.array(np.full(rows.num_rows, value, dtype=np.int64))
