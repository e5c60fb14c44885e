"""Where a batch's output goes: the results, and if wanted, late and invalid tuples and a row per window."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from skytide.batch import Output
from skytide.errors import InvalidInput
from skytide.records import WindowRow
from skytide.spark.checkpoint import Files, Store
from skytide.spark.checkpoint.files import fresh_name
from skytide.spark.checkpoint.folder import OwnedFolder
from skytide.spark.checkpoint.sink_notes import SinkNote, noted_sinks
from skytide.spark.engine.jobs import Jobs
from skytide.spark.engine.panes import times_us
from skytide.spark.sinks.parquet import ParquetSink, is_staged
from skytide.spark.sinks.sinks import Appending, MemorySink, Sink, console_sink
from skytide.windows import Windows


@dataclass(frozen=True)
class Sinks:
    """The sinks of a query: for results, and for what else is wanted."""

    results: Sink
    late: Sink | None = None
    windows: Sink | None = None
    invalid: Sink | None = None
    unread: OwnedFolder | None = None
    """Where the source itself writes what cannot be read."""

    @property
    def folders(self) -> list[OwnedFolder]:
        """All sinks that are folders of the query."""
        return [sink for sink in self._by_role().values() if isinstance(sink, OwnedFolder)]

    def notes(self) -> list[SinkNote]:
        """Return what a checkpoint notes of the sinks that keep what they get."""
        kept = {role: sink for role, sink in self._by_role().items() if sink is not None and sink is not console_sink}
        return [_note(role, sink) for role, sink in kept.items() if not isinstance(sink, MemorySink)]

    def _by_role(self) -> dict[str, object]:
        return {"results": self.results, "late": self.late, "windows": self.windows, "invalid": self.invalid, "unread": self.unread}

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

    def tables(self) -> list[tuple[Sink | None, pa.Schema]]:
        """Return the columns that each sink gets."""
        windows = window_columns(self.rows.field(self.time).type)
        sinks = self.sinks
        return [(sinks.results, self.results), (sinks.late, self.rows), (sinks.windows, windows), (sinks.invalid, self.rows)]

    def emit(self, jobs: Jobs, output: Output, number: int) -> None:
        """Hand each sink its part."""
        self._stored(jobs, self.sinks.late, output.late, number)
        self._stored(jobs, self.sinks.invalid, self._invalid_files(output, number) if self.sinks.invalid else (), number)
        if self.sinks.parquet and output.results:
            self.sinks.parquet.publish(self._staged(self.sinks.parquet, output.results, number), number)
        elif output.results:
            self.sinks.results(jobs.stored(self.store, output.results, self.results), number)
        else:
            _clear(self.sinks.results, number)
        kind = self.rows.field(self.time).type
        _write(
            self.sinks.windows,
            number,
            bool(output.rows),
            lambda: window_table(output.rows, kind),
            lambda: jobs.rows(window_table(output.rows, kind)),
        )

    def _staged(self, sink: ParquetSink, files: tuple[str, ...], number: int) -> tuple[str, ...]:
        """Return the names of results in the sink's folder; those that were in the store for another sink are brought there."""

        def staged(name: str) -> str:
            return sink.stage(self.store.read_table(name).select(self.results.names), number)

        return tuple(name if is_staged(name) else staged(name) for name in files)

    def _stored(self, jobs: Jobs, sink: Sink | None, files: tuple[str, ...], number: int) -> None:
        def table() -> pa.Table:
            return pa.concat_tables([self.store.read_table(name).select(self.rows.names) for name in files])

        _write(sink, number, bool(files), table, lambda: jobs.stored(self.store, files, self.rows))

    def _invalid_files(self, output: Output, number: int) -> tuple[str, ...]:
        """Return the files with tuples that belong to no window, including suspects that were too many."""
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


def check_unsent(sinks: Sinks, store: Store) -> None:
    """Refuse another sink after a batch that was cut off, if its results wait in a Parquet folder, where only that sink finds them."""
    state, sink = store.latest(), sinks.parquet
    waiting = tuple(name for name in state.output.results if is_staged(name))
    if not waiting or state.sequence <= store.emitted() or (sink and sink.has(waiting, state.sequence)):
        return
    folders = [note.uri for note in noted_sinks(store.files) or () if note.role == "results" and note.uri]
    if sink and folders[-1:] in ([], [sink.files.uri]):
        return  # the same sink: if its files are gone, it says so itself
    raise InvalidInput(
        value="another sink of results",
        reason=f"batch number {state.sequence} was cut off, and its results are still in {(folders or ['the Parquet folder of before'])[-1]}",
        remedy='start once more with the sink "parquet" and that path, which lets them out, and change the sink after that; '
        f"or have the batch done again for the new sink: `skytide checkpoint back {store.checkpoint} --to {state.sequence - 1}`",
    )


def _note(role: str, sink: object) -> SinkNote:
    """Return a sink without its options, which may be secret."""
    if isinstance(sink, OwnedFolder):
        return SinkNote(role, "folder", sink.files.uri)
    return SinkNote(role, sink.kind if isinstance(sink, Appending) else "function")


def _write(sink: Sink | None, number: int, some: bool, table: Callable[[], pa.Table], frame: Callable[[], Any]) -> None:
    """Hand a sink the rows of a batch: a folder gets them as a table, a function as a frame, which need not be read on the driver."""
    if isinstance(sink, ParquetSink):
        if some:
            sink.write(table(), number)
        else:
            sink.clear(number)
    elif sink and some:
        sink(frame(), number)


def _clear(sink: Sink | None, number: int) -> None:
    """Remove what an earlier attempt at a batch wrote, as now there is nothing to write."""
    if isinstance(sink, ParquetSink):
        sink.clear(number)


def window_table(rows: Sequence[WindowRow], time_type: pa.DataType) -> pa.Table:
    """Return a table with a row per window."""
    columns = window_columns(time_type)
    times = ("window_start", "window_end")
    values = {name: [getattr(row, f"{name}_us" if name in times else name) for row in rows] for name in columns.names}
    return pa.table(values, columns)


def window_columns(time_type: pa.DataType) -> pa.Schema:
    """Return the columns of a table with a row per window."""
    bounds, counts = ("window_start", "window_end"), ("tuples", "kept", "late")
    whole = [(name, pa.int64()) for name in counts]
    return pa.schema([*((name, time_type) for name in bounds), *whole, ("latency_s", pa.float64()), ("windows", pa.int64())])
