"""How the output of a batch reaches the sinks of a query, and the same again if the batch is repeated."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from skytide.batch import Output
from skytide.records import WindowRow
from skytide.spark.checkpoint.files import Files, fresh_name
from skytide.spark.engine.panes import times_us
from skytide.spark.engine.spec import BOUNDS, QuerySpec
from skytide.spark.sinks.base import Frames, Staged
from skytide.spark.sinks.roles import Sinks


@dataclass(frozen=True)
class Emitter:
    """Hands each sink its part of an output."""

    spec: QuerySpec
    sinks: Sinks
    files: Files

    @cached_property
    def schemas(self) -> dict[str, pa.Schema]:
        """The columns that each sink gets, by its role."""
        columns = {"windows": window_columns(self.spec.time_type), "late": self.spec.rows, "invalid": self.spec.rows}
        return {"results": self.spec.results, **columns}

    def emit(self, frames: Frames, output: Output, sequence: int) -> None:
        """Publish what came out of a batch."""
        names = {"late": output.late, "invalid": self._invalid_files(output, sequence), "results": output.results}
        sinks = self.sinks.by_role()
        for role in ("late", "invalid", "results", "windows"):
            if role in sinks:
                small = window_table(output.rows, self.spec.time_type) if role == "windows" else None
                sinks[role].publish(sequence, Staged(self.schemas[role], frames, self.files, names.get(role, ()), small))

    def _invalid_files(self, output: Output, sequence: int) -> tuple[str, ...]:
        """Return the files with tuples that belong to no window, including suspects that were too many."""
        odd = []
        for name in output.suspects if output.odd_panes and self.sinks.invalid else ():
            tuples = self.files.read_table(name)
            panes = self.spec.windows.pane_of(times_us(tuples, self.spec.time))
            odd.append(tuples.filter(pa.array(np.isin(panes, output.odd_panes))))
        if not sum(tuples.num_rows for tuples in odd):
            return output.invalid
        name = fresh_name("invalid", sequence)
        self.files.write_table(name, pa.concat_tables(odd), durable=False)
        return (*output.invalid, name)


def window_table(rows: Sequence[WindowRow], time_type: pa.DataType) -> pa.Table:
    """Return a table with a row per window."""
    columns = window_columns(time_type)
    values = {name: [getattr(row, f"{name}_us" if name in BOUNDS else name) for row in rows] for name in columns.names}
    return pa.table(values, columns)


def window_columns(time_type: pa.DataType) -> pa.Schema:
    """Return the columns of a table with a row per window."""
    counts = [(name, pa.int64()) for name in ("tuples", "kept", "late")]
    return pa.schema([*((name, time_type) for name in BOUNDS), *counts, ("latency_s", pa.float64()), ("windows", pa.int64())])
