"""The window level: the task that adds closed panes to the memory and answers the windows that ended."""

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skytide.queries import Query, sliding_memory
from skytide.queries.sliding import ALIVE, PANE, Incremental, Sliding
from skytide.spark.checkpoint import Files
from skytide.spark.parquet_sink import ParquetSink
from skytide.windows import Windows

REPORT = pa.schema(
    [
        ("window", pa.int64()),  # null in the row about the task as a whole
        ("kept", pa.int64()),  # rows of the result, or of the memory
        ("file", pa.string()),  # of the memory, or what a task that is a part of the work found
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
    """What the tasks of the window level need to know, and what they do.

    One task does all, unless the work is worth spreading: then parts of panes are merged first, each pane on its own; then slices of
    the memory are compared with the new panes, each slice on its own; and the last task puts together what they found.
    """

    query: Query
    windows: Windows
    rows: pa.Schema
    time_type: pa.DataType
    store: Files
    sequence: int
    memory: str | None
    panes: dict[int, tuple[str, ...]]
    """The closed panes that are not in the memory yet."""
    ended: range
    helpers: tuple[str, ...] = ()
    """Columns that do not belong to the results."""
    parquet: ParquetSink | None = None
    """Where the results are staged, instead of in a file for the sink to read."""

    def run(self) -> Iterator[pa.RecordBatch]:
        """Do all: add panes and answer windows in order; report the sizes of the results and the files, this attempt's own."""
        began = time.perf_counter()
        sliding = sliding_memory(self.query)
        memory = self._memory(sliding)
        waiting = sorted(self.panes)
        answers: list[Answer] = []
        for window in self._with_tuples(memory):
            panes = self.windows.panes_of(window)
            while waiting and waiting[0] < panes.stop:
                pane = waiting.pop(0)
                memory = sliding.add(memory, pane, self._kept(pane))
            answers.append((window, sliding.answer(sliding.forget(memory, panes.start), panes)))
            memory = sliding.forget(memory, panes.start + self.windows.panes_per_slide)
        yield self._written(answers, memory, began)

    def merge(self, pane: int) -> Iterator[pa.RecordBatch]:
        """Merge the parts of a pane."""
        began = time.perf_counter()
        name = f"panes/{self.sequence}-{pane}-{uuid.uuid4().hex}.arrow"
        self.store.write_table(name, self._kept(pane))
        yield _report(file=name, busy_s=time.perf_counter() - began)

    def compare(self, first: int, last: int) -> Iterator[pa.RecordBatch]:
        """Compare a slice of the memory with the new panes; the empty slice stands for the new panes among themselves."""
        began = time.perf_counter()
        sliding = Incremental(self.query)
        panes = [(pane, self._kept(pane)) for pane in sorted(self.panes)]
        if first == last:
            killed, blocked = sliding.among(panes)
        else:
            killed, blocked = sliding.compare(self._memory(sliding).slice(first, last - first), panes)
        name = f"verdicts/{self.sequence}-{uuid.uuid4().hex}.arrow"
        self.store.write_table(name, pa.table({"killed": [killed], "blocked": [blocked]}))
        yield _report(file=name, busy_s=time.perf_counter() - began)

    def assemble(self, verdicts: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """Put verdicts together (those of the slices in order, that of the new panes last), and answer windows in order."""
        began = time.perf_counter()
        sliding = Incremental(self.query)
        memory, panes = self._memory(sliding), [(pane, self._kept(pane)) for pane in sorted(self.panes)]
        found = [self.store.read_table(name) for name in verdicts]
        killed = np.concatenate([table["killed"].combine_chunks().values.to_numpy() for table in found])
        blocked = np.max([table["blocked"].combine_chunks().values.to_numpy() for table in found], axis=0)
        assembled = sliding.assemble(memory, panes, killed, blocked)
        answers: list[Answer] = []
        for window in self._with_tuples(memory):
            inside = self.windows.panes_of(window)
            answers.append((window, sliding.answer(sliding.at(assembled, inside), inside)))
        needed = self.windows.panes_of(self.ended.stop)
        after = sliding.forget(sliding.at(assembled, range(needed.start, ALIVE)), needed.start)
        yield self._written(answers, after, began)

    def _memory(self, sliding: Sliding) -> pa.Table:
        return self.store.read_table(self.memory) if self.memory else sliding.empty(self.rows)

    def _kept(self, pane: int) -> pa.Table:
        parts = [self.store.read_table(name) for name in self.panes[pane]]
        return parts[0] if len(parts) == 1 else self.query.merge(pa.concat_tables(parts))

    def _written(self, answers: list["Answer"], memory: pa.Table, began: float) -> pa.RecordBatch:
        attempt = uuid.uuid4().hex
        memory_file, result_file = (f"{kind}/{self.sequence}-{attempt}.arrow" for kind in ("memory", "results"))
        self.store.write_table(memory_file, memory)
        empty = result_columns(self.query, self.rows, self.time_type).empty_table()
        bounded = [with_bounds(answer, self.windows, window, self.time_type) for window, answer in answers]
        rows = pa.concat_tables([empty, *bounded]).drop_columns(list(self.helpers))
        if self.parquet:
            result_file = self.parquet.stage(rows, self.sequence)
        else:
            self.store.write_table(result_file, rows)
        reports = [{"window": window, "kept": answer.num_rows} for window, answer in answers]
        whole = {
            "file": memory_file,
            "kept": memory.num_rows,
            "results": result_file,
            "busy_s": time.perf_counter() - began,
        }
        return pa.RecordBatch.from_pylist([*reports, whole], REPORT)

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


Answer = tuple[int, pa.Table]
"""A window, and its rows."""


def _report(**values: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([values], REPORT)


def with_bounds(answer: pa.Table, windows: Windows, window: int, time_type: pa.DataType) -> pa.Table:
    """Put the window's bounds before the columns of its answer."""
    for place, (name, time_us) in enumerate(zip(BOUNDS, (windows.start_us(window), windows.end_us(window)), strict=True)):
        bound = pa.array(np.full(answer.num_rows, time_us, dtype=np.int64)).cast(time_type)
        answer = answer.add_column(place, pa.field(name, time_type), bound)
    return answer


def read_results(store: Files, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Give the rows of some files."""
    for name in names:
        yield from store.read_table(name).to_batches()
