"""Where a batch's output goes: the results, and if wanted, late and invalid tuples and a row per window."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from skytide.batch import Output
from skytide.records import WindowRow
from skytide.spark.checkpoint import Files
from skytide.spark.checkpoint.files import fresh_name
from skytide.spark.engine.jobs import Jobs
from skytide.spark.engine.pane_level import times_us
from skytide.spark.sinks.parquet import ParquetSink
from skytide.spark.sinks.sinks import Sink
from skytide.windows import Windows


@dataclass(frozen=True)
class Sinks:
    """The sinks of a query: for results, and for what else is wanted."""

    results: Sink
    late: Sink | None = None
    windows: Sink | None = None
    invalid: Sink | None = None

    @property
    def folders(self) -> list[ParquetSink]:
        """All sinks that are Parquet folders."""
        sinks = (self.results, self.late, self.windows, self.invalid)
        return [sink for sink in sinks if isinstance(sink, ParquetSink)]

    @property
    def parquet(self) -> ParquetSink | None:
        """The folder that the window level writes results to, if that is where they go."""
        return self.results if isinstance(self.results, ParquetSink) else None


@dataclass(frozen=True)
class Outlet:
    """Hands the output of a batch to the sinks of a query, and the same again if the batch is repeated."""

    sinks: Sinks
    store: Files
    rows: pa.Schema
    """The columns of tuples, as they came."""
    results: pa.Schema
    time: str
    windows: Windows

    def emit(self, jobs: Jobs, output: Output, number: int) -> None:
        """Hand each sink its part."""
        self._stored(jobs, self.sinks.late, output.late, number)
        self._stored(jobs, self.sinks.invalid, self._invalid_files(output, number) if self.sinks.invalid else (), number)
        if self.sinks.parquet and output.results:
            self.sinks.parquet.publish(output.results, number)
        elif output.results:
            self.sinks.results(jobs.stored(self.store, output.results, self.results), number)
        else:
            _clear(self.sinks.results, number)
        kind = self.rows.field(self.time).type
        _write(self.sinks.windows, number, bool(output.rows), lambda: window_table(output.rows, kind), jobs.rows)

    def _stored(self, jobs: Jobs, sink: Sink | None, files: tuple[str, ...], number: int) -> None:
        def table() -> pa.Table:
            return pa.concat_tables([self.store.read_table(name).select(self.rows.names) for name in files])

        _write(sink, number, bool(files), table, lambda _: jobs.stored(self.store, files, self.rows))

    def _invalid_files(self, output: Output, number: int) -> tuple[str, ...]:
        """Return the files with tuples that belong to no window, including suspects that turned out to be wrong."""
        odd = []
        for name in output.suspects if output.odd_panes else ():
            tuples = self.store.read_table(name)
            panes = self.windows.pane_of(times_us(tuples, self.time))
            odd.append(tuples.filter(pa.array(np.isin(panes, output.odd_panes))))
        if not sum(tuples.num_rows for tuples in odd):
            return output.invalid
        name = fresh_name("invalid", number)
        self.store.write_table(name, pa.concat_tables(odd), durable=False)
        return (*output.invalid, name)


def _write(sink: Sink | None, number: int, some: bool, table: Callable[[], pa.Table], frame: Callable[[pa.Table], Any]) -> None:
    if isinstance(sink, ParquetSink):
        if some:
            sink.write(table(), number)
        else:
            sink.clear(number)
    elif sink and some:
        sink(frame(table()), number)


def _clear(sink: Sink | None, number: int) -> None:
    """Remove what an earlier attempt at a batch wrote, as now there is nothing to write."""
    if isinstance(sink, ParquetSink):
        sink.clear(number)


def window_table(rows: Sequence[WindowRow], time_type: pa.DataType) -> pa.Table:
    """Return a table with a row per window."""
    bounds = {name: pa.array([getattr(row, f"{name}_us") for row in rows], time_type) for name in ("window_start", "window_end")}
    others = ("tuples", "kept", "late", "latency_s", "windows")
    return pa.table({**bounds, **{name: [getattr(row, name) for row in rows] for name in others}})
