"""The window level: the task that adds closed panes to the memory and answers the windows that ended."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from skytide.batch import Piece, RunWindows, StepReport, WindowFound, WindowReport
from skytide.kernels import Indices
from skytide.queries import sliding_memory
from skytide.queries.sliding import ALIVE, Answers, Incremental, Panes, Sliding
from skytide.spark.checkpoint import Files
from skytide.spark.checkpoint.files import fresh_name
from skytide.spark.engine.panes import REPORT
from skytide.spark.engine.spec import BOUNDS, QuerySpec, result_columns
from skytide.spark.sinks.base import Stages, stage_rows
from skytide.windows import Windows, pane_bounds, tuples_per_window, windows_with_panes

COUNTS = b"skytide.tuples"
"""The metadata in which a memory notes how many tuples its panes had."""
WINDOWS_AT_ONCE = 1024  # answered together: enough to spread the cost of a call, few enough to hold their rows


@dataclass(frozen=True)
class Memory:
    """What is remembered of closed panes: their rows, and how many tuples each had."""

    rows: pa.Table
    panes: Indices
    tuples: Indices

    def with_panes(self, tuples: dict[int, int]) -> "Memory":
        """Return the memory with the counts of younger panes."""
        panes = sorted(tuples)
        counts = np.array([tuples[pane] for pane in panes], np.int64)
        return replace(
            self, panes=np.concatenate([self.panes, np.array(panes, np.int64)]), tuples=np.concatenate([self.tuples, counts])
        )

    def forget(self, first: int) -> "Memory":
        """Return the memory without the counts of panes before `first`."""
        stays = self.panes >= first
        return replace(self, panes=self.panes[stays], tuples=self.tuples[stays])

    def to_table(self) -> pa.Table:
        """Return the memory as one table."""
        return self.rows.replace_schema_metadata({COUNTS: np.stack([self.panes, self.tuples]).tobytes()})

    @staticmethod
    def from_table(table: pa.Table) -> "Memory":
        """Return the memory from what `to_table` returned."""
        counts = (table.schema.metadata or {}).get(COUNTS, b"")
        panes, tuples = np.frombuffer(counts, np.int64).reshape(2, -1)
        return Memory(table.replace_schema_metadata(None), panes, tuples)


@dataclass(frozen=True)
class WindowTask:
    """What the tasks of the window level need to know, and what they do.

    One task does everything, unless the work is worth spreading: then the parts of panes are merged first, each pane on its own; then
    slices of the memory are compared with the new panes, each slice on its own; and the last task puts their findings together.
    """

    spec: QuerySpec
    files: Files
    instruction: RunWindows
    sink: Stages
    """Where results are staged."""

    def run(self, threads: int = 1) -> WindowReport:
        """Do everything: add panes, answer windows in order, and return a report with the files of this attempt."""
        began = time.perf_counter()
        sliding = sliding_memory(self.spec.query, threads)
        memory = self._memory(sliding).with_panes(self.instruction.tuples)
        wanted = windows_with_panes(self.spec.windows, memory.panes, self.instruction.ended)
        rows, bounded = memory.rows, []
        for some, answers, after in slide_over(sliding, memory.rows, self._panes(threads), self.spec.windows, wanted):
            bounded.append((answers.counts, with_bounds(answers, self.spec.windows, some, self.spec.time_type)))
            rows = after
        rows = sliding.forget(rows, self.spec.windows.panes_of(self.instruction.ended.stop).start)
        return self._written(wanted, bounded, replace(memory, rows=rows), began)

    def merge(self, pane: int) -> StepReport:
        """Merge the parts of a pane, and return a report."""
        began, kept = time.perf_counter(), self._kept(pane)
        name = fresh_name("panes", self.instruction.sequence)
        self.files.write_table(name, kept.combine_chunks())
        return StepReport(name, kept.num_rows, time.perf_counter() - began)

    def compare(self, first: int, last: int) -> StepReport:
        """Compare a slice of the memory with the new panes, and return a report; the empty slice stands for the new panes among themselves."""
        began = time.perf_counter()
        sliding = Incremental(self.spec.query)
        panes = self._panes()
        if first == last:
            killed, blocked = sliding.among(panes)
        else:
            killed, blocked = sliding.compare(self._memory(sliding).rows.slice(first, last - first), panes)
        name = fresh_name("verdicts", self.instruction.sequence)
        self.files.write_table(name, pa.table({"killed": [killed], "blocked": [blocked]}))
        return StepReport(name, len(killed), time.perf_counter() - began)

    def assemble(self, verdicts: tuple[str, ...]) -> WindowReport:
        """Combine verdicts (those of the slices in order, that of the new panes last), answer windows in order, and return a report."""
        began = time.perf_counter()
        sliding = Incremental(self.spec.query)
        memory = self._memory(sliding).with_panes(self.instruction.tuples)
        tables = [self.files.read_table(name) for name in verdicts]
        killed = np.concatenate([table["killed"].combine_chunks().values.to_numpy() for table in tables])
        blocked = np.max([table["blocked"].combine_chunks().values.to_numpy() for table in tables], axis=0)
        assembled = sliding.assemble(memory.rows, self._panes(), killed, blocked)
        wanted = windows_with_panes(self.spec.windows, memory.panes, self.instruction.ended)
        answers = sliding.answers(assembled, self.spec.windows, wanted)
        needed = self.spec.windows.panes_of(self.instruction.ended.stop)
        after = sliding.forget(sliding.at(assembled, range(needed.start, ALIVE)), needed.start)
        bounded = [(answers.counts, with_bounds(answers, self.spec.windows, wanted, self.spec.time_type))]
        return self._written(wanted, bounded, replace(memory, rows=after), began)

    def _memory(self, sliding: Sliding) -> Memory:
        if self.instruction.memory:
            return Memory.from_table(self.files.read_table(self.instruction.memory))
        nothing = np.empty(0, np.int64)
        return Memory(sliding.empty(self.spec.columns), nothing, nothing)

    def _kept(self, pane: int) -> pa.Table:
        parts = [self._read(piece) for piece in self.instruction.panes[pane]]
        return parts[0] if len(parts) == 1 else self.spec.query.merge(pa.concat_tables(parts))

    def _read(self, piece: Piece) -> pa.Table:
        batches = self.files.read_batches(piece.file, piece.at, piece.batches)
        return pa.Table.from_batches(batches, None if batches else self.spec.query.kept_schema(self.spec.columns))

    def _panes(self, threads: int = 1) -> Panes:
        numbers = sorted(self.instruction.panes)
        with ThreadPoolExecutor(threads) as merging:
            return list(zip(numbers, merging.map(self._kept, numbers), strict=True))

    def _written(self, wanted: Indices, answers: list[tuple[Indices, pa.Table]], memory: Memory, began: float) -> WindowReport:
        tuples = tuples_per_window(self.spec.windows, memory.panes, memory.tuples, wanted)
        kept = np.concatenate([np.empty(0, np.int64), *(counts for counts, _ in answers)])
        answered = [WindowFound(*row) for row in zip(wanted.tolist(), tuples.tolist(), kept.tolist(), strict=True)]
        memory_file = fresh_name("memory", self.instruction.sequence)
        needed = memory.forget(self.spec.windows.panes_of(self.instruction.ended.stop).start)
        with ThreadPoolExecutor(1) as beside:  # the disk is waited for only once
            written = beside.submit(self.files.write_table, memory_file, needed.to_table())
            results = self._results(answers)
            written.result()
        busy_s = time.perf_counter() - began
        return WindowReport(tuple(answered), results, memory_file, memory.rows.num_rows, busy_s)

    def _results(self, answers: list[tuple[Indices, pa.Table]]) -> str:
        """Write the rows of all answers, and return the name of their file."""
        empty = result_columns(self.spec.query, self.spec.columns, self.spec.time_type).empty_table()
        rows = pa.concat_tables([empty, *(table for _, table in answers)])
        rows = rows.drop_columns(
            [name for name in self.spec.helpers if name in rows.column_names]
        )  # aggregates no longer have them
        return stage_rows(self.sink, rows, self.instruction.sequence, 0)


def slide_over(
    sliding: Sliding, memory: pa.Table, panes: Panes, windows: Windows, wanted: Indices
) -> Iterator[tuple[Indices, Answers, pa.Table]]:
    """Answer windows in order, some at a time: yield their numbers, their answers, and the memory after them."""
    numbers, done = np.array([pane for pane, _ in panes], dtype=np.int64), 0
    for some in np.split(wanted, range(WINDOWS_AT_ONCE, len(wanted), WINDOWS_AT_ONCE)) if len(wanted) else ():
        closed = int(np.searchsorted(numbers, pane_bounds(windows, some[-1:])[1][0]))
        answers, memory = sliding.slide(memory, panes[done:closed], windows, some)
        done = closed
        yield some, answers, memory


def in_task(work: Callable[[], WindowReport | StepReport]) -> Iterator[pa.RecordBatch]:
    """Do work in a task, and yield its report as a row."""
    yield pa.RecordBatch.from_arrays([pa.array([work().to_text()])], schema=REPORT)


def with_bounds(answers: Answers, windows: Windows, wanted: Indices, time_type: pa.DataType) -> pa.Table:
    """Return answers with the bounds of their windows as the first columns."""
    rows, start = answers.rows, np.repeat(wanted * windows.slide_us, answers.counts)
    for place, (name, times_us) in enumerate(zip(BOUNDS, (start, start + windows.length_us), strict=True)):
        rows = rows.add_column(place, pa.field(name, time_type), pa.array(times_us, pa.int64()).cast(time_type))
    return rows


def read_results(store: Files, names: tuple[str, ...], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield some columns of the rows of some files."""
    for name in names:
        yield from store.read_table(name).select(columns.names).to_batches()
