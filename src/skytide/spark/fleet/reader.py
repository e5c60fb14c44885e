"""The reader of a fleet. On the driver it discovers all streams, assigns them, and lets tuples in; copies of it read in the tasks.

`partitions` is the assignment of streams to splits. It follows from the log entry of the batch alone, so a repeated batch reads the same ranges
in the same splits, whatever the fleet looks like by then.
"""

import logging
import os
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from skytide.admission import STRATEGIES, Admission, Assignment, Sample, admit
from skytide.errors import SkytideError
from skytide.spark.checkpoint import Files
from skytide.spark.checkpoint.folder import OwnedFolder
from skytide.spark.clock import Now, time_of_day
from skytide.spark.fleet.arrived import Arrived
from skytide.spark.fleet.batch_log import NO_BATCH, BatchEntry, BatchLog, FileBatchLog, InlineBatchLog, Offset, Ranges
from skytide.spark.fleet.capacity import Capacity
from skytide.spark.fleet.channel import Channel, Control
from skytide.spark.fleet.feeds import Cut, Discovery, Feed, Range, Records, Skipped, UnavailableError
from skytide.spark.fleet.reports import Counts, Inbox, Report, Reporter, Wait
from skytide.spark.fleet.settings import Settings
from skytide.spark.fleet.states import StreamStates
from skytide.spark.fleet.status import FORGOTTEN, MOVED, status_fields, streams_table

if TYPE_CHECKING:  # the pane level loads the compiled queries, which not every process needs
    from skytide.routing import Router
    from skytide.spark.engine.panes import PaneTask, Tuples

OWNER, SPARKS = "owner", "(of a query on fleet.load())"
"""Where an offset says whose the folder for what cannot be read is, and the checkpoint of such a query, which only Spark knows."""
STREAMS_EVERY_S = 1.0
"""The minimum time between two reports of how each stream is doing."""
MIN_PERIOD_S = 1.0
"""The minimum time between two observations of rates and overload."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Split(InputPartition):
    """What one task reads."""

    split: int
    sequence: int
    columns: Ranges
    reader: str
    """The name of the reader that made it, which waits for a report of the task."""

    @cached_property
    def ranges(self) -> tuple[Range, ...]:
        """The ranges one by one."""
        return self.columns.to_ranges()


class FleetReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a fleet."""

    def __init__(self, settings: Settings, feed: Feed, clock: Now = time_of_day) -> None:
        self.settings, self.feed, self.clock = settings, feed, clock
        self.max_splits = settings.splits or os.cpu_count() or 1
        self._channel = Channel(settings.channel) if settings.channel else None
        self._capacity = Capacity(settings.interval_us / 1e6, settings.latency_us / 1e6, settings.capacity_hz)
        self._planner = self._admission().build()
        self._latest: tuple[Offset, BatchEntry] = {"sequence": 0, "tuples": 0}, NO_BATCH
        self._waiting = 0
        self._freezing = False
        self._frozen: Discovery | None = None
        self._name = uuid.uuid4().hex  # several queries may read one fleet
        self._reports: list[Report] = []
        self._learned = (0, 0), StreamStates()
        self._resumed = self._claimed = False
        self._arrived = Arrived()
        self._moved = 0  # streams, since the last entry
        self._streams_s = 0.0  # when each stream was last reported

    def _admission(self) -> Admission:
        return Admission(
            strategy=STRATEGIES[self.settings.strategy](),
            bound_s=self.settings.latency_us / 1e6,
            period_s=max(MIN_PERIOD_S, self.settings.interval_us / 1e6),
            max_splits=self.max_splits,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only what it was made from, for the process that keeps it, and for the tasks."""
        return FleetReader, (self.settings, self.feed)

    @cached_property
    def _batch_log(self) -> BatchLog:
        return FileBatchLog(Files(self.settings.notes)) if self.settings.notes else InlineBatchLog()

    @cached_property
    def _inbox(self) -> Inbox | None:
        reports = _reports(self.settings, self._name)
        return Inbox(reports) if reports else None

    def initialOffset(self) -> Offset:
        """Return an offset without streams: those that exist join with the first batch."""
        return {"sequence": 0, "tuples": 0}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Discovery at all streams, plan, let in what the splits can take, and return the offset after that."""
        began, now_s = time.perf_counter(), self.clock()
        self._resume(start)
        self._collect(start, now_s)
        control = self._channel.control() if self._channel else Control()
        try:
            discovery = self._discover(start, control)
        except UnavailableError as error:  # nothing is lost by waiting
            if self._freezing or self._frozen is not None:  # but a query that takes what is there would end
                raise SkytideError(f"{error}; restart the query: it resumes where it was") from error
            _log.warning("%s; trying again with the next batch", error)
            return start
        waiting = np.where(discovery.states.suspended, 0, discovery.waiting)
        assignment = self._planner.plan(self._sample(discovery, now_s), control.profiles, capacity_hz=self._capacity.sustained_hz)
        take = admit(waiting, assignment.splits, self._capacity.budget, turn=start["sequence"])
        cut = self.feed.cut(discovery, take)
        self._waiting = int((waiting - take).sum())
        self._moved += len(assignment.redirected)
        self._arrived.lost(cut.skipped)
        counts = self._counted(start, (*discovery.skipped, *cut.skipped), discovery.forgotten)
        offset = start
        changed = (
            self._from_latest(start) or discovery.changed or discovery.skipped or cut.skipped
        )  # is logged, though nothing may be let in
        if changed or (cut.states.at != cut.begin).any():
            behind = take < waiting
            behind[[cut.states.rows[name] for name in cut.unreadable]] = False  # nobody knows for how long
            after = cut.states.with_(split=assignment.splits, behind=behind)
            entry = BatchEntry(after, cut.begin, cut.begin_tail, discovery.states.behind, counts, self._planner.learned())
            offset = {"sequence": start["sequence"] + 1, "tuples": start["tuples"] + int(take.sum())}
            if self.settings.invalid:
                offset[OWNER] = start.get(OWNER) or uuid.uuid4().hex
            offset |= self._batch_log.put(offset["sequence"], entry)
            self._latest, self._moved = (offset, entry), 0
        self._report(discovery, cut, assignment, waiting - take, counts, offset, now_s, time.perf_counter() - began)
        return offset

    def reportLatestOffset(self) -> Offset | None:
        """Return how many tuples have come, from which Spark's progress computes the backlog."""
        offset, _ = self._latest
        return {**offset, "tuples": offset["tuples"] + self._waiting} if offset["sequence"] else None

    def prepareForTriggerAvailableNow(self) -> None:
        """Take what is there at the first discovery, and nothing that comes later."""
        self._freezing = True

    def partitions(self, start: Offset, end: Offset) -> list[Split]:
        """Return what each split reads, for a query of Spark's own: the folder for what cannot be read is that query's from now on."""
        if self.settings.invalid and OWNER in end and not self._claimed:
            OwnedFolder(self.settings.invalid).claim(end[OWNER], SPARKS, start["sequence"] or -1)
            self._claimed = True
        return self._splits(end)

    def _splits(self, end: Offset) -> list[Split]:
        """Return what each split reads, by the log entry of the batch."""
        return [Split(split, end["sequence"], ranges, self._name) for split, ranges in self._entry(end).splits().items()]

    def commit(self, end: Offset) -> None:
        """Forget the log entries of batches long ago."""
        self._batch_log.forget(end["sequence"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split."""
        assert isinstance(partition, Split)
        for records in self.records(partition, partition.sequence):
            yield from records.named(partition.ranges).to_batches()

    def records(self, split: Split, number: int, wait: Callable[[], Wait | None] = lambda: None) -> Iterator[Records]:
        """Yield the records of a split, and report what happened in the query's batch of a number; `wait` then says what windows wait for."""
        began = time.perf_counter()
        invalid = Files(self.settings.invalid) if self.settings.invalid else None
        reports = _reports(self.settings, split.reader)
        reporter = Reporter(split.ranges, split.sequence, split.split, reports, invalid, number)
        for records in self.feed.read(split.ranges) if split.ranges else ():
            reporter.add(records)
            yield records
        reporter.write(time.perf_counter() - began, wait())

    def panes(self, start: Offset, end: Offset, task: "PaneTask", router: "Router") -> list[tuple[int, InputPartition]]:
        """Return the splits of a batch, each a slot of the pane level; the next batch may have as many as the query has slots by then."""
        if task.instruction.slots != self.max_splits:
            self.max_splits = task.instruction.slots
            self._planner = self._admission().build(self._planner.snapshot())
        return list(enumerate(self._splits(end)))

    def tuples(self, partition: InputPartition, task: "PaneTask") -> "Iterator[Tuples]":
        """Yield the tuples of a split. Records that cannot be read are tuples without a time."""
        assert isinstance(partition, Split)
        from skytide.spark.fleet.rows import Holding, as_tuples

        holding = Holding(partition.ranges, task.instruction, self.settings.hold_us, partition.columns.left_out)
        yield from as_tuples(self.records(partition, task.instruction.sequence, holding.wait), holding, task)

    def times_us(self, start: Offset) -> None:
        """Return None: nobody knows how far streams have come in time."""

    def position(self, offset: Offset) -> int:
        """Return how many batches there were up to an offset."""
        return int(offset["sequence"])

    def _entry(self, offset: Offset) -> BatchEntry:
        if offset["sequence"] == 0:
            return NO_BATCH
        latest, entry = self._latest
        if latest == offset:
            return entry
        try:
            return self._batch_log.get(offset)
        except FileNotFoundError:
            raise SkytideError(
                f"{self.settings.notes}/{offset['note']}: the log entry of batch {offset['sequence']} is missing; "
                "restore the whole checkpoint, or start with a new one"
            ) from None

    def _discover(self, start: Offset, control: Control) -> Discovery:
        """Return how far streams can be read, from where a batch starts."""
        discovery = self.feed.discover(self._learned_states(start), newest=self._from_latest(start))
        if self._freezing:
            self._freezing, self._frozen = False, discovery
        if self._frozen is not None:
            discovery = discovery.until(self._frozen)
        return self._controlled(discovery, control)

    def _controlled(self, discovery: Discovery, control: Control) -> Discovery:
        """Return a discovery with the streams suspended as people want it."""
        rows, suspended = discovery.states.rows, discovery.states.suspended.copy()
        for name, value in control.suspended.items():
            if name in rows:
                suspended[rows[name]] = value
        unknown = sorted((control.suspended.keys() | control.profiles.keys()) - rows.keys())
        if (suspended == discovery.states.suspended).all():
            return replace(discovery, unknown=unknown)
        return replace(discovery, states=discovery.states.with_(suspended=suspended), unknown=unknown, changed=True)

    def _from_latest(self, start: Offset) -> bool:
        return self.settings.starting == "latest" and start["sequence"] == 0

    def _collect(self, start: Offset, now_s: float) -> None:
        self._reports, new = self._inbox.of(start["sequence"]) if self._inbox else ([], [])
        self._capacity.measured(new, now_s)

    def _learned_states(self, start: Offset) -> StreamStates:
        """Return where streams stand, with what the tasks of the last batch found out about the length of records."""
        entry = self._entry(start)
        if not self._reports:
            return entry.states
        reported = start["sequence"], len(self._reports)
        if self._learned[0] == reported:
            return self._learned[1]
        states, splits = entry.states, entry.splits()
        for report in self._reports:
            read = splits.get(report.split)
            if read is not None and read.names and len(read.names) == len(report.work):
                rows = np.array([states.rows[name] for name in read.names], np.intp)
                whole = np.delete(np.arange(len(rows)), report.skipped)
                lengths = read.end[whole, 0] - read.begin[whole, 0]
                states = self.feed.measured(states, rows[whole], lengths, np.array(report.work)[whole])
        self._learned = reported, states
        return states

    def _counted(self, start: Offset, skipped: Iterable[Skipped], forgotten: int) -> Counts:
        """Return how often something was odd until now: as logged, and since then."""
        counts = Counter(self._entry(start).counts)
        for report in self._reports:
            counts.update(report.odd)
        lost = self._lost_in_tasks(start)
        counts.update(loss.reason for loss in skipped if loss.stream not in lost)
        counts.update({MOVED: self._moved, FORGOTTEN: forgotten})
        return +counts

    def _lost_in_tasks(self, start: Offset) -> set[str]:
        """Return the streams of which tasks of the last batch lost something: if the driver notices it as well, it is the same loss."""
        reports = [report for report in self._reports if report.skipped]
        splits = self._entry(start).splits() if reports else {}
        return {splits[report.split].names[number] for report in reports if report.split in splits for number in report.skipped}

    def _resume(self, start: Offset) -> None:
        """Go on with what an earlier process has learned about the streams."""
        if self._resumed:
            return
        self._resumed = True
        entry = self._entry(start)
        if entry.states.names:
            self._planner = self._admission().resume(entry.states.names, {"split": entry.states.split, **entry.learned})

    def _sample(self, discovery: Discovery, now_s: float) -> Sample:
        states = discovery.states
        return Sample(
            now_s=now_s,
            names=states.names,
            arrived=self._arrived.count(discovery),
            waiting=discovery.waiting,
            suspended=states.suspended,
        )

    def _report(
        self,
        discovery: Discovery,
        cut: Cut,
        assignment: Assignment,
        buffered: NDArray[np.int64],
        counts: Counts,
        offset: Offset,
        now_s: float,
        took_s: float,
    ) -> None:
        if self._channel is None:
            return
        status = status_fields(discovery, cut, assignment, buffered, counts, self._capacity.sustained_hz, offset, took_s)
        waits = [report.wait for report in self._reports if report.wait]
        if waits:
            wait = max(waits, key=lambda wait: wait.behind_s)
            status |= {"waits_for": wait.stream, "waits_s": wait.behind_s}
        streams = None
        if now_s - self._streams_s >= STREAMS_EVERY_S:
            streams, self._streams_s = streams_table(discovery.states, assignment, buffered), now_s
        self._channel.write_status(status | {"seen_s": now_s}, streams)


def _reports(settings: Settings, reader: str) -> Files | None:
    """Return the folder for reports of tasks to a reader: one that they can reach, or None."""
    if settings.notes:
        return Files(settings.notes)
    return Files(f"{settings.channel}/{reader}") if settings.channel and os.path.isdir(settings.channel) else None
