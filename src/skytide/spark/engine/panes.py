"""The pane level: tasks that turn tuples into partial results of panes, and report only what they did."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skytide.batch import PanePart, PaneReport, PaneTaskReport, Piece, RunPanes
from skytide.batch.open_panes import copies_of
from skytide.lateness import Arrivals, Order, observe
from skytide.lateness.delays import late_ones
from skytide.routing import Frequencies, FrequencyAware, KeyCounter, Keys, Router, Splitting, row_hashes
from skytide.spark.checkpoint import Files
from skytide.spark.checkpoint.files import fresh_name
from skytide.spark.engine.cache import cache
from skytide.spark.engine.parts import batches_of, in_parts
from skytide.spark.engine.spec import QuerySpec
from skytide.spark.engine.tasks import Reducer, gathered
from skytide.windows import Windows

REPORT = pa.schema([("report", pa.string())])
SLOT = "__skytide_slot"
PARTITION = "__skytide_partition"
ROUTED = pa.schema([(SLOT, pa.int32())])
"""What is added to tuples that are sent."""
MOST_PARTITIONS = 256
"""So many partitions are told apart in the report of a task to which tuples were sent."""
IN_TIME, SUSPECT, LATE, INVALID = range(4)
"""The kinds of tuples. Suspects are in time, but so far ahead that the stream may never get there."""

Times = NDArray[np.int64]


class Tuples(NamedTuple):
    """Some of the tuples of a task."""

    rows: pa.RecordBatch
    newest_us: int | None = None
    """The time of the newest tuple before them, which another task may have seen."""
    order: Order = Order.ARRIVAL
    hold_us: int | None = None
    """The earliest time of tuples that have come, but that the source keeps waiting."""


@dataclass(frozen=True)
class PaneTask:
    """What one task of the pane level needs to know."""

    spec: QuerySpec
    files: Files
    instruction: RunPanes

    def run(
        self, tuples: Iterable[Tuples], slot: int, source_end: int = 0, by_key: FrequencyAware | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Reduce tuples pane by pane, write what is kept, and yield a report; with `by_key` it tells the most frequent keys, too."""
        work, watch, counter = _Work(self, slot), _Watch(self), KeyCounter()
        holds = []
        for some in work.waiting_for(tuples):
            rows, times, kinds = watch.judge(some.rows, some.newest_us, some.order)
            work.add(rows, times, kinds)
            if by_key is not None:
                counter.observe(self._keys(rows.filter(pa.array(kinds < LATE)) if kinds.any() else rows))
            if some.hold_us is not None:
                holds.append(some.hold_us)
        keys = counter.frequencies().top(by_key.remembered) if by_key else Frequencies()
        yield work.report(watch.arrivals, source_end, min(holds, default=None), keys)

    def run_partition(self, batches: Iterable[pa.RecordBatch], slot: int) -> Iterator[pa.RecordBatch]:
        """Reduce the tuples of a partition of any DataFrame, and yield a report; Spark may have put them in any order, so their order says nothing about delays."""
        yield from self.run((Tuples(batch, order=Order.TOGETHER) for batch in gathered(batches)), slot)

    def split(self, batches: Iterable[pa.RecordBatch], router: Router) -> Iterator[pa.RecordBatch]:
        """Yield tuples with their slots, by their keys or the plan of the driver: a tuple has the same in every task, and whenever one is repeated."""
        by_key = router.keys if self.spec.query.routed_by() else None
        for batch in gathered(batches):
            rows = pa.Table.from_batches([batch])
            hashes = row_hashes(rows)
            if by_key is not None:
                slots = by_key.route(self._keys(rows), hashes)
            else:
                assert self.instruction.owners is not None
                slots = self.instruction.owners.slots_of(self.spec.windows.pane_of(times_us(rows, self.spec.time)), hashes)
            yield from rows.append_column(SLOT, pa.array(slots, pa.int32())).to_batches()

    def run_routed(self, batches: Iterable[pa.RecordBatch], slot: int, splitting: Splitting) -> Iterator[pa.RecordBatch]:
        """Reduce tuples that split tasks sent here, and yield a report."""
        sent = (Tuples(batch, order=Order.TOGETHER) for batch in gathered(batches))
        yield from self.run(sent, slot, by_key=self.by_key(splitting))

    def by_key(self, splitting: Splitting) -> FrequencyAware | None:
        """Return how tuples are sent by their keys; None if they are not, or have none."""
        return splitting.key_routing() if self.spec.query.routed_by() else None

    def _keys(self, rows: pa.Table) -> Keys:
        return Keys.of(rows.select(list(self.spec.query.routed_by())).columns)


class _Watch:
    """Looks at tuples as they come: which are late, which belong to no window, and what that says about the stream."""

    def __init__(self, task: PaneTask) -> None:
        self._task = task
        self.arrivals = Arrivals()

    def judge(
        self, batch: pa.RecordBatch, newest_us: int | None = None, order: Order = Order.ARRIVAL
    ) -> tuple[pa.Table, Times, NDArray[np.int8]]:
        """Return tuples with their times and kinds; `newest_us` was the newest before them, as far as other tasks know."""
        spec, plan = self._task.spec, self._task.instruction
        rows = pa.Table.from_batches([batch]).cast(spec.columns)  # Spark writes its session's time zone into the type
        times = times_us(rows, spec.time)
        kinds = np.zeros(len(times), np.int8)
        invalid = self._invalid(rows)
        if invalid is not None:
            kinds[invalid] = INVALID
        valid = times if invalid is None else times[~invalid]
        before = max((time_us for time_us in (self.arrivals.newest_us, newest_us) if time_us is not None), default=None)
        seen = observe(valid, plan.newest_us, plan.punctuation_us, plan.leap_us, seen_us=before, order=order, out_us=plan.out_us)
        follow = self.arrivals.followed_by if order is Order.ARRIVAL else self.arrivals.merged
        self.arrivals = follow(seen, plan.leap_us)
        if seen.late:
            kinds[late_ones(times, plan.punctuation_us, plan.out_us) & (kinds == IN_TIME)] = LATE
        if spec.invalid_wanted and len(valid):
            self._suspect(times, kinds, seen.newest_us)
        return rows, times, kinds

    def _invalid(self, rows: pa.Table) -> NDArray[np.bool_] | None:
        """Return which tuples belong to no window, or None if all have one."""
        column = rows[self._task.spec.time]
        refused = self._task.spec.query.refused(rows) if self._task.spec.invalid_wanted else None
        if not column.null_count and (refused is None or not refused.any()):
            return None
        missing = np.asarray(column.is_null().to_numpy(), dtype=np.bool_)
        return missing if refused is None else missing | refused

    def _suspect(self, times: Times, kinds: NDArray[np.int8], newest_us: int | None) -> None:
        suspects = kinds == IN_TIME
        if newest_us is not None:
            suspects &= times > newest_us
        kinds[suspects] = SUSPECT


class _Work:
    """What a slot does with its tuples.

    Every attempt writes files of its own, so what an earlier attempt at the batch left behind does no harm.
    """

    def __init__(self, task: PaneTask, slot: int) -> None:
        self._task, self._slot = task, slot
        self._began = time.perf_counter()
        self._panes: dict[int, Reducer] = {}
        self._aside: dict[int, list[pa.Table]] = {SUSPECT: [], LATE: [], INVALID: []}
        self._invalid = 0
        self._input_s = 0.0
        self._partitions: Counter[int] = Counter()
        cache.forget_ended()  # here, as tasks of all queries come by

    def waiting_for(self, tuples: Iterable[Tuples]) -> Iterator[Tuples]:
        """Yield tuples without what was added to send them, and note where they came from, and how long it took."""
        coming, began = iter(tuples), time.perf_counter()
        while (some := next(coming, None)) is not None:
            added = [name for name in (SLOT, PARTITION) if name in some.rows.schema.names]
            if PARTITION in added:
                numbers = pc.value_counts(some.rows[PARTITION])
                for number, count in zip(*(field.to_pylist() for field in numbers.flatten()), strict=True):
                    self._partitions[number] += count
            self._input_s += time.perf_counter() - began
            yield some._replace(rows=some.rows.drop_columns(added)) if added else some
            began = time.perf_counter()
        self._input_s += time.perf_counter() - began

    def add(self, rows: pa.Table, times: Times, kinds: NDArray[np.int8]) -> None:
        if kinds.any():
            self._put_aside(rows, kinds)
            in_time = kinds < LATE
            rows, times = rows.filter(pa.array(in_time)), times[in_time]
        for pane, part in _split(rows, self._task.spec.windows.pane_of(times)):
            self._panes.setdefault(pane, Reducer(self._task.spec.query)).add(part)

    def _put_aside(self, rows: pa.Table, kinds: NDArray[np.int8]) -> None:
        self._invalid += int((kinds == INVALID).sum())
        wanted = {
            SUSPECT: self._task.spec.invalid_wanted,
            LATE: self._task.spec.late_wanted,
            INVALID: self._task.spec.invalid_wanted,
        }
        for kind, kept in self._aside.items():
            mine = kinds == kind
            if wanted[kind] and mine.any():
                kept.append(rows.filter(pa.array(mine)))

    def report(
        self, arrivals: Arrivals, source_end: int = 0, hold_us: int | None = None, keys: Frequencies | None = None
    ) -> pa.RecordBatch:
        sequence = self._task.instruction.sequence
        panes = fresh_name("panes", sequence)
        parts = self._write_panes(panes)
        fresh = {SUSPECT: copies_of(panes), LATE: fresh_name("late", sequence), INVALID: fresh_name("invalid", sequence)}
        names = {kind: name for kind, name in fresh.items() if self._aside[kind]}
        for kind, name in names.items():
            self._task.files.write_table(name, pa.concat_tables(self._aside[kind]))
        report = PaneTaskReport(
            slot=self._slot,
            arrivals=arrivals,
            parts=tuple(parts),
            busy_s=time.perf_counter() - self._began,
            input_s=self._input_s,
            partitions=tuple(sorted(together(self._partitions).items())),
            invalid=self._invalid,
            late_file=names.get(LATE),
            invalid_file=names.get(INVALID),
            suspect_file=names.get(SUSPECT),
            source_end=source_end,
            hold_us=hold_us,
            keys=(keys or Frequencies()).packed(),
        )
        return pa.RecordBatch.from_arrays([pa.array([report.to_text()])], schema=REPORT)

    def _write_panes(self, file: str) -> list[PanePart]:
        """Write what is kept of all panes to one file, and return where each lies."""
        panes = sorted(self._panes.items())
        tables = in_parts([reducer.kept() for _, reducer in panes], self._task.spec.parted_by)
        parts: list[PanePart] = []
        batches: list[pa.RecordBatch] = []
        for (pane, reducer), kept in zip(panes, tables, strict=True):
            mine = batches_of(kept)
            parts.append(PanePart(pane, reducer.tuples, Piece(file, len(batches), len(mine), kept.num_rows)))
            batches += mine
        if parts:
            self._task.files.write_batches(file, kept.schema, batches)
        return parts


def together(partitions: Counter[int]) -> Counter[int]:
    """Return the tuples of partitions, of several together if they are many: every slot may have some of each of thousands.

    >>> together(Counter({7: 3, 8: 1})), len(together(Counter(range(3_000))))
    (Counter({7: 3, 8: 1}), 188)
    """
    if len(partitions) <= MOST_PARTITIONS:
        return partitions
    bits, fewer = (len(partitions) // MOST_PARTITIONS).bit_length(), Counter[int]()
    for partition, tuples in partitions.items():
        fewer[partition >> bits] += tuples
    return fewer


def read_reports(reports: pa.Table) -> PaneReport:
    """Return what all tasks of a batch reported."""
    return PaneReport(tuple(map(PaneTaskReport.from_text, reports["report"].to_pylist())))


def times_us(rows: pa.Table, time: str) -> Times:
    """Return the times of tuples in microseconds; 0 where there is none."""
    column = rows[time].cast(pa.int64())
    return np.asarray((column.fill_null(0) if column.null_count else column).to_numpy())


def by_pane(rows: pa.Table, time: str, windows: Windows) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of each pane; those without a time belong to none."""
    if rows[time].null_count:
        rows = rows.filter(rows[time].is_valid())
    yield from _split(rows, windows.pane_of(times_us(rows, time)))


def _split(rows: pa.Table, panes: Times) -> Iterator[tuple[int, pa.Table]]:
    if len(panes) == 0:
        return
    if panes.min() == panes.max():
        yield int(panes[0]), rows
        return
    order = np.argsort(panes, kind="stable")
    rows = rows.take(pa.array(order))
    numbers, starts = np.unique(panes[order], return_index=True)
    ends = np.append(starts[1:], len(panes))
    for pane, start, end in zip(numbers.tolist(), starts.tolist(), ends.tolist(), strict=True):
        yield pane, rows.slice(start, end - start)
