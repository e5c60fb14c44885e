"""The window level: the task that adds closed panes to the memory and answers the windows that ended."""

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skytide.queries import Query, sliding_memory
from skytide.queries.sliding import PANE
from skytide.spark.sinks import ParquetSink
from skytide.spark.store import Store
from skytide.windows import Windows

REPORT = pa.schema(
    [
        ("window", pa.int64()),  # null in the row about the task as a whole
        ("kept", pa.int64()),
        ("memory", pa.string()),
        ("results", pa.string()),
        ("busy_s", pa.float64()),
    ]
)
BOUNDS = ("window_start", "window_end")


def result_columns(query: Query, rows: pa.Schema, time_type: pa.DataType, helpers: tuple[str, ...] = ()) -> pa.Schema:
    """Give the columns of the results: the window's bounds, then the answer's, without helpers."""
    answer = [field for field in query.schema(rows) if field.name not in helpers]
    return pa.schema([*(pa.field(name, time_type) for name in BOUNDS), *answer])


@dataclass(frozen=True)
class WindowTask:
    """What the task of the window level needs to know."""

    query: Query
    windows: Windows
    rows: pa.Schema
    time_type: pa.DataType
    store: Store
    sequence: int
    memory: str | None
    panes: dict[int, tuple[str, ...]]
    """The closed panes that are not in the memory yet."""
    ended: range
    helpers: tuple[str, ...] = ()
    """Columns that do not belong to the results."""
    parquet: ParquetSink | None = None
    """Where the results go at once, instead of to a file for the sink to read."""

    def run(self) -> Iterator[pa.RecordBatch]:
        """Add panes and answer windows in order; report the sizes of the results and the files, which are this attempt's own."""
        began = time.perf_counter()
        attempt = uuid.uuid4().hex
        memory_file, result_file = (f"{kind}/{self.sequence}-{attempt}.arrow" for kind in ("memory", "results"))
        sliding = sliding_memory(self.query)
        memory = self.store.read_table(self.memory) if self.memory else sliding.empty(self.rows)
        waiting = sorted(self.panes)
        results = [result_columns(self.query, self.rows, self.time_type).empty_table()]
        reports = []
        for window in self._with_tuples(memory):
            panes = self.windows.panes_of(window)
            while waiting and waiting[0] < panes.stop:
                pane = waiting.pop(0)
                parts = [self.store.read_table(name) for name in self.panes[pane]]
                memory = sliding.add(memory, pane, parts[0] if len(parts) == 1 else self.query.merge(pa.concat_tables(parts)))
            answer = sliding.answer(sliding.forget(memory, panes.start), panes)
            results.append(with_bounds(answer, self.windows, window, self.time_type))
            reports.append({"window": window, "kept": answer.num_rows})
            memory = sliding.forget(memory, panes.start + self.windows.panes_a_slide)
        self.store.write_table(memory_file, memory)
        rows = pa.concat_tables(results).drop_columns(list(self.helpers))
        if self.parquet:
            self.parquet.write(rows, self.sequence)
        else:
            self.store.write_table(result_file, rows)
        whole = {"memory": memory_file, "results": None if self.parquet else result_file, "busy_s": time.perf_counter() - began}
        yield pa.RecordBatch.from_pylist([*reports, whole], REPORT)

    def _with_tuples(self, memory: pa.Table) -> list[int]:
        """Give the ended windows that hold a remembered or a new pane; all others are empty."""
        panes = {*self.panes, *np.unique(memory[PANE].to_numpy()).tolist()}
        holding = {
            window
            for pane in panes
            for window in range(self.windows.first_of_pane(pane), self.windows.last_of_pane(pane) + 1)
            if window in self.ended
        }
        return sorted(holding)


def with_bounds(answer: pa.Table, windows: Windows, window: int, time_type: pa.DataType) -> pa.Table:
    """Put the window's bounds before the columns of its answer."""
    for place, (name, time_us) in enumerate(zip(BOUNDS, (windows.start_us(window), windows.end_us(window)), strict=True)):
        bound = pa.array(np.full(answer.num_rows, time_us, dtype=np.int64)).cast(time_type)
        answer = answer.add_column(place, pa.field(name, time_type), bound)
    return answer


def read_results(store: Store, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Give the rows of some files."""
    for name in names:
        yield from store.read_table(name).to_batches()
