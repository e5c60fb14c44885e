"""The window level: tasks that add closed panes to the memory and answer the windows that ended."""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skytide.batch import Piece, RunWindows, StepReport, WindowFound, WindowReport
from skytide.batch.spreading import PARTS
from skytide.kernels import Indices
from skytide.queries import Answers, Blocks, Incremental, Panes
from skytide.queries.blocks import FANOUT, Place, Segment
from skytide.queries.incremental import ALIVE, PLACE
from skytide.queries.memory import PANE
from skytide.spark.checkpoint import Files
from skytide.spark.checkpoint.files import fresh_name
from skytide.spark.engine.answers import slide_over, with_bounds
from skytide.spark.engine.cache import cache
from skytide.spark.engine.candidates import COUNTS, Candidates
from skytide.spark.engine.panes import REPORT
from skytide.spark.engine.parts import ALL_PARTS, DIVIDED, Remembered, cut_out, divided, first_of, share, write_segments
from skytide.spark.engine.pieces import Pieces
from skytide.spark.engine.spec import BOUNDS, QuerySpec, result_columns
from skytide.spark.sinks.base import Stages, stage_rows
from skytide.windows import tuples_per_window, windows_with_panes

ROWS_HELD = 2**21  # of the state, or of answers, at most: with more, a task works on some of its parts at a time
ROWS_AT_ONCE = 2**17  # about as many are grouped while they fit into a processor's cache: three times as fast as millions


@dataclass(frozen=True)
class WindowTask:
    """What the tasks of the window level need to know, and what they do.

    If rows of different groups are independent, each slot does everything for its parts of them. Of a skyline without groups, each slot
    compares the candidates of its parts with the new rows; then it answers with those of its parts, by what all slots have found.
    """

    spec: QuerySpec
    files: Files
    instruction: RunWindows
    sink: Stages
    """Where results are staged."""

    def run(self, threads: int = 1, mine: int = ALL_PARTS) -> WindowReport:
        """Do everything for some parts of the groups: add panes, answer windows in order, and return a report with the files of this attempt."""
        began = time.perf_counter()
        work = self._with_candidates if self.spec.query.skyline_inside() is not None else self._with_blocks
        report, rows = work(threads, mine)
        busy_s = time.perf_counter() - began
        of_parts = {part: busy_s * int(rows[part]) / int(rows.sum()) for part in np.flatnonzero(rows).tolist()}
        return replace(report, busy_s=busy_s, of_parts=of_parts)

    def run_parts(self, mine: int) -> str:
        """Do everything for some parts in a task, and return the report as a text."""
        return self.run(mine=mine).to_text()

    def _with_blocks(self, threads: int, mine: int) -> tuple[WindowReport, Indices]:
        """Answer windows from panes and blocks of them, which never change; with many rows, some parts at a time."""
        work, windows, groups = self.instruction, self.spec.windows, self.spec.parted_by
        old = [name for run in work.memory if run.level < 0 for name in run.files]
        runs = [run for run in work.memory if run.level >= 0]
        cache.keep_only(self.files.uri, {name for run in runs for name in run.files})
        earlier = {pane: found for name in old for pane, found in panes_of_memory(self.files.read_table(name)).items()}
        tuples = {pane: count for pane, (_, count) in earlier.items()} | work.tuples
        whole = Remembered(self.files, runs, mine, groups)
        panes, counts = whole.counts
        new = np.array(sorted(tuples.items()), np.int64).reshape(-1, 2)
        panes, counts = np.append(panes, new[:, 0]), np.append(counts, new[:, 1])
        wanted = windows_with_panes(windows, panes, work.ended)
        needed, closed = self._needed, windows.panes_of(work.ended[-1]).stop

        lots, reading = self._lots(mine), Pieces(self.files, self.spec)
        apart = self.spec.query.of_groups() if (mine, len(lots)) != (ALL_PARTS, 1) else None
        blocks, segments = Blocks(apart or self.spec.query, self.spec.columns), []
        kept, ready = np.zeros(len(wanted), np.int64), list[pa.Table]()
        results = list[str]()
        for some in lots:
            remembered = whole if some == mine else Remembered(self.files, runs, some, groups)
            closing = [(pane, cut_out(found, some, groups)) for pane, (found, _) in earlier.items()] + self._panes(
                reading, threads, some
            )
            answers, made = blocks.slide(remembered, closing, windows, wanted, closed)
            rows, done = [], 0
            for answer in answers:
                alike = wanted[done : done + len(answer.counts)]
                rows.append(with_bounds(answer, windows, alike, self.spec.time_type))
                kept[done : done + len(alike)] += answer.counts
                done += len(alike)
            ready += rows
            if apart is None and sum(table.num_rows for table in ready) > ROWS_HELD:
                results, ready = [*results, *self._staged(ready, some)], []
            segments += [segment for segment in made if segment.place.panes.stop > needed]
        if apart is None:
            results += self._staged(ready, lots[-1] if results else mine) if ready or not results else []
        else:
            together = pa.concat_tables([result_columns(apart, self.spec.columns, self.spec.time_type).empty_table(), *ready])
            results, kept = self._from_groups(together, wanted) if mine == ALL_PARTS else ([self._noted(together)], kept)
        replaced = whole.latest(min(work.replaced, len(runs)), needed)
        tuples |= {place.number: count for place, (_, count) in replaced.items() if place.level == 0}
        segments = _joined(segments)
        most_rows = max([0, *(rows for rows, _ in replaced.values()), *(segment.kept.num_rows for segment in segments)])
        again = (Segment(place, blocks.together(whole.read(place) or [])) for place in replaced)
        # The slot with the first part notes all panes, the others only those of which they have rows.
        noted = (segment for segment in chain(again, segments) if segment.kept.num_rows or mine & 1)
        run = write_segments(self.files, fresh_name("memory", work.sequence), noted, most_rows, tuples, mine, groups)
        per_window = tuples_per_window(windows, panes, counts, wanted)
        found = [WindowFound(*row) for row in zip(wanted.tolist(), per_window.tolist(), kept.tolist(), strict=True)]
        return WindowReport(tuple(found), tuple(results), run and replace(run, level=work.level), 0.0), reading.of_parts

    def from_groups(self, apart: WindowReport) -> WindowReport:
        """Put together what slots answered for their groups, and return the report of all."""
        began, wanted = time.perf_counter(), np.array([found.window for found in apart.windows], np.int64)
        results, kept = self._from_groups(pa.concat_tables([self.files.read_table(name) for name in apart.results]), wanted)
        windows = tuple(replace(found, kept=rows) for found, rows in zip(apart.windows, kept.tolist(), strict=True))
        return replace(apart, windows=windows, results=tuple(results), busy_s=apart.busy_s + time.perf_counter() - began)

    def _from_groups(self, apart: pa.Table, wanted: Indices) -> tuple[list[str], Indices]:
        """Answer windows from the answers for some groups each, stage them, and return the names and how many rows each window has."""
        query, of_rows = self.spec.query, apart[BOUNDS[0]].cast(pa.int64()).to_numpy() // self.spec.windows.slide_us
        order = np.argsort(of_rows, kind="stable")
        rows, ends = apart.drop_columns(list(BOUNDS)).take(pa.array(order)), np.searchsorted(of_rows[order], wanted, side="right")
        starts = np.searchsorted(of_rows[order], wanted)
        tables = [
            query.from_groups(rows.slice(start, end - start)) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
        answers = Answers.of(tables, query.schema(self.spec.columns).empty_table())
        return self._staged([with_bounds(answers, self.spec.windows, wanted, self.spec.time_type)], ALL_PARTS), answers.counts

    def _noted(self, answers: pa.Table) -> str:
        name = fresh_name("verdicts", self.instruction.sequence)
        self.files.write_table(name, answers)
        return name

    def _lots(self, mine: int) -> list[int]:
        """Return parts to work on at a time: so few that what is held has a bound; then, no fewer than are read together."""
        parts = mine.bit_count()
        new = sum(piece.rows for pieces in self.instruction.panes.values() for piece in pieces)
        remembered = sum(run.rows for run in self.instruction.memory)
        touched = min(remembered, 2 * FANOUT * new // max(1, len(self.instruction.panes)))  # about as much makes up a window
        rows = (new + touched) * parts // PARTS
        if not self.spec.parted_by:
            return [mine]
        together = max(1, DIVIDED[-1] * parts // PARTS)
        return divided(mine, min(max(1, rows // ROWS_HELD, min(rows // ROWS_AT_ONCE, together)), parts))

    def _with_candidates(self, threads: int, mine: int) -> tuple[WindowReport, Indices]:
        """Answer windows from the rows that can still be in an answer, some windows at a time."""
        sliding = Incremental(self.spec.query, threads)
        memory = self._memory(sliding, mine)
        wanted, panes = self._wanted(memory), self._panes(reading := Pieces(self.files, self.spec), threads, mine)
        rows, bounded = memory.rows, []
        for some, answers, after in slide_over(sliding, memory.rows, panes, self.spec.windows, wanted):
            bounded.append((answers.counts, with_bounds(answers, self.spec.windows, some, self.spec.time_type)))
            rows = after
        report = self._written(memory, wanted, bounded, sliding.forget(rows, self._needed), mine)
        return report, memory.of_parts + reading.of_parts

    def compare(self, mine: int) -> StepReport:
        """Compare the candidates of some parts with the new panes, and their share of the new rows with all others, and return a report."""
        began, sliding, panes = time.perf_counter(), Incremental(self.spec.query), self._panes(Pieces(self.files, self.spec))
        old = self._memory(sliding, mine).rows
        killed, blocked = sliding.compare(old, panes)
        first, count = share(len(blocked), mine)
        new_killed, new_blocked = sliding.among(panes, slice(first, first + count))
        found = {
            "place": old[PLACE].to_numpy(),
            "killed": killed,
            "blocked": blocked,
            "new_killed": new_killed,
            "new_blocked": new_blocked,
        }
        name = fresh_name("verdicts", self.instruction.sequence)
        self.files.write_table(name, pa.table({column: [values] for column, values in found.items()}))
        return StepReport(name, len(killed), time.perf_counter() - began)

    def assemble(self, mine: int, verdicts: Mapping[int, str]) -> WindowReport:
        """Answer windows with the candidates of some parts and their share of the new rows, by the verdicts of all parts, and return a report."""
        began, sliding, panes = time.perf_counter(), Incremental(self.spec.query), self._panes(Pieces(self.files, self.spec))
        memory = self._memory(sliding, mine)
        tables = {of: self.files.map_table(name) for of, name in verdicts.items()}
        told = [table for of, table in tables.items() if mine in (of, ALL_PARTS)]
        places, killed, new_killed, new_blocked = (
            np.concatenate([_numbers(table, name) for table in told]) for name in ("place", "killed", "new_killed", "new_blocked")
        )
        order = np.argsort(places)
        killed = killed[order][np.searchsorted(places, memory.rows[PLACE].to_numpy(), sorter=order)]
        first, count = share(sum(kept.num_rows for _, kept in panes), mine)
        blocked = np.max([new_blocked, *(_numbers(table, "blocked")[first : first + count] for table in tables.values())], axis=0)
        new = _sliced(panes, first, count)
        assembled = sliding.assemble(memory.rows, new, np.concatenate([killed, new_killed]), blocked)
        wanted = self._wanted(memory)
        answers = sliding.answers(assembled, self.spec.windows, wanted)
        after = sliding.forget(sliding.at(assembled, range(self._needed, ALIVE)), self._needed)
        bounded = [(answers.counts, with_bounds(answers, self.spec.windows, wanted, self.spec.time_type))]
        report = self._written(memory, wanted, bounded, after, mine)
        return replace(report, busy_s=time.perf_counter() - began)

    @property
    def _needed(self) -> int:
        """The first pane that a later window holds."""
        return self.spec.windows.panes_of(self.instruction.ended.stop).start

    def _memory(self, sliding: Incremental, mine: int = ALL_PARTS) -> Candidates:
        """Return the rows of some parts that are remembered."""
        return Candidates.read(self.files, self.instruction.memory, mine, self.spec.parted_by, sliding.empty(self.spec.columns))

    def _tuples(self, memory: Candidates) -> tuple[Indices, Indices]:
        """Return the panes with tuples, in order, and how many each has."""
        new = np.array(sorted(self.instruction.tuples.items()), np.int64).reshape(-1, 2)
        return np.append(memory.panes, new[:, 0]), np.append(memory.tuples, new[:, 1])

    def _wanted(self, memory: Candidates) -> Indices:
        return windows_with_panes(self.spec.windows, self._tuples(memory)[0], self.instruction.ended)

    def _panes(self, reading: Pieces, threads: int = 1, some: int = ALL_PARTS) -> Panes:
        panes = sorted(self.instruction.panes.items())

        def kept(pieces: tuple[Piece, ...]) -> pa.Table:
            tables = [reading.read(piece, some) for piece in pieces]
            return tables[0] if len(tables) == 1 else self.spec.query.merge(pa.concat_tables(tables))

        with ThreadPoolExecutor(threads) as merging:
            return [(number, merged) for (number, _), merged in zip(panes, merging.map(kept, [of for _, of in panes]), strict=True)]

    def _written(
        self, memory: Candidates, wanted: Indices, answers: list[tuple[Indices, pa.Table]], after: pa.Table, mine: int
    ) -> WindowReport:
        work = self.instruction
        tuples = tuples_per_window(self.spec.windows, *self._tuples(memory), wanted)
        kept = np.concatenate([np.empty(0, np.int64), *(counts for counts, _ in answers)])
        answered = [WindowFound(*row) for row in zip(wanted.tolist(), tuples.tolist(), kept.tolist(), strict=True)]
        name, whole = fresh_name("memory", work.sequence), work.replaced == len(work.memory)
        with ThreadPoolExecutor(1) as beside:  # the disk is waited for only once
            written = beside.submit(
                memory.write, self.files, name, after, work.tuples, self._needed, mine, self.spec.parted_by, whole=whole
            )
            results = self._staged([table for _, table in answers], mine)
            return WindowReport(tuple(answered), tuple(results), written.result(), 0.0)

    def _staged(self, answers: list[pa.Table], some: int) -> list[str]:
        """Stage the rows of answers, and return their names; without rows, the slot with the first part stages an empty table."""
        empty = result_columns(self.spec.query, self.spec.columns, self.spec.time_type).empty_table()
        rows = pa.concat_tables([empty, *answers])
        if not some & 1 and not rows.num_rows:
            return []
        rows = rows.drop_columns(
            [name for name in self.spec.helpers if name in rows.column_names]
        )  # aggregates no longer have them
        return [stage_rows(self.sink, rows, self.instruction.sequence, first_of(some))]


def _joined(segments: list[Segment]) -> list[Segment]:
    """Return what was kept of the same panes or blocks as one segment each."""
    kept: dict[Place, list[pa.Table]] = {}
    for segment in segments:
        kept.setdefault(segment.place, []).append(segment.kept)
    return [Segment(place, tables[0] if len(tables) == 1 else pa.concat_tables(tables)) for place, tables in kept.items()]


def _numbers(verdicts: pa.Table, name: str) -> Indices:
    return np.asarray(verdicts[name].combine_chunks().values.to_numpy())


def _sliced(panes: Panes, first: int, count: int) -> Panes:
    """Return some of the rows of panes, counted over all of them."""
    sliced, at = [], 0
    for pane, kept in panes:
        start, stop = max(first, at), min(first + count, at + kept.num_rows)
        sliced.append((pane, kept.slice(start - at, max(0, stop - start))))
        at += kept.num_rows
    return sliced


def panes_of_memory(table: pa.Table) -> dict[int, tuple[pa.Table, int]]:
    """Return what a memory of format 4 and before kept of each pane, and the tuples of the pane."""
    panes, tuples = np.frombuffer((table.schema.metadata or {}).get(COUNTS, b""), np.int64).reshape(2, -1)
    rows = table.replace_schema_metadata(None).filter(pc.equal(table["__skytide_level"], 0))
    order = np.argsort(rows[PANE].to_numpy(), kind="stable")
    rows, numbers = rows.take(pa.array(order)), rows[PANE].to_numpy()[order]
    rows = rows.drop_columns([PANE, "__skytide_last", "__skytide_level"])
    starts, ends = np.searchsorted(numbers, panes), np.searchsorted(numbers, panes, side="right")
    noted = zip(panes.tolist(), starts.tolist(), ends.tolist(), tuples.tolist(), strict=True)
    return {pane: (rows.slice(start, end - start), count) for pane, start, end, count in noted}


def in_task(work: Callable[[], WindowReport | StepReport]) -> Iterator[pa.RecordBatch]:
    """Do work in a task, and yield its report as a row."""
    yield pa.RecordBatch.from_arrays([pa.array([work().to_text()])], schema=REPORT)
