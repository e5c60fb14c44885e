"""The reader of a fleet. On the driver it looks at all streams, plans, and lets tuples in; copies of it read in the tasks.

`partitions` is the assignment of streams to splits. It follows from the note of the batch alone, so a repeated batch reads the same ranges
in the same splits, whatever the fleet looks like by then.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from skytide.admission import STRATEGIES, Admission, Plan, Sample, admit
from skytide.errors import SkytideError
from skytide.spark.checkpoint import Files
from skytide.spark.clock import Clock, time_of_day
from skytide.spark.fleet.board import Board, Control
from skytide.spark.fleet.capacity import Capacity
from skytide.spark.fleet.feeds import Feed, Look, Range, Records
from skytide.spark.fleet.notes import NOTHING, FileNotes, InlineNotes, Note, Notes, Offset, Ranges
from skytide.spark.fleet.reports import Counts, Inbox, Reporter
from skytide.spark.fleet.settings import Settings
from skytide.spark.fleet.standing import standing, streams_table

if TYPE_CHECKING:  # the pane level loads the compiled queries, which not every process needs
    from skytide.routing import Router
    from skytide.spark.engine.pane_level import PaneTask, Tuples

STREAMS_EVERY_S = 1.0
"""The minimum time between two reports of how each stream is doing."""
MIN_PERIOD_S = 1.0
"""The minimum time between two looks at rates and overload."""


@dataclass(frozen=True, eq=False)
class Split(InputPartition):
    """What one task reads."""

    split: int
    sequence: int
    columns: Ranges

    @cached_property
    def ranges(self) -> tuple[Range, ...]:
        """The ranges one by one."""
        return self.columns.each()


class FleetReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a fleet."""

    def __init__(self, settings: Settings, feed: Feed, clock: Clock = time_of_day) -> None:
        self.settings, self.feed, self.clock = settings, feed, clock
        self.max_splits = settings.splits or os.cpu_count() or 1
        self._board = Board(settings.board) if settings.board else None
        self._capacity = Capacity(settings.interval_us / 1e6, settings.latency_us / 1e6, settings.capacity_hz)
        self._planner = self._admission().build()
        self._latest: tuple[Offset, Note] = {"sequence": 0, "tuples": 0}, NOTHING
        self._waiting = 0
        self._sampled = self._freezing = False
        self._frozen: Look | None = None
        self._odd: Counts = Counter()
        self._redirections = 0
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
    def _notes(self) -> Notes:
        return FileNotes(Files(self.settings.notes)) if self.settings.notes else InlineNotes()

    @cached_property
    def _inbox(self) -> Inbox | None:
        reports = _reports(self.settings)
        return Inbox(reports) if reports else None

    def initialOffset(self) -> Offset:
        """Return an offset without streams: those that exist join with the first batch."""
        return {"sequence": 0, "tuples": 0}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Look at all streams, plan, let in what the splits can take, and return the offset after that."""
        began, now_s = time.perf_counter(), self.clock()
        self._collect(now_s)
        control = self._board.control() if self._board else Control()
        look = self._look(start, control)
        waiting = np.where(look.book.suspended, 0, look.waiting)
        plan = self._planner.plan(_sample(look, now_s), control.profiles, capacity_hz=self._capacity.sustained_hz)
        take = admit(waiting, plan.splits, dict.fromkeys(plan.open, self._capacity.budget), turn=start["sequence"])
        ends = self.feed.cut(look, take)
        self._waiting = int((waiting - take).sum())
        offset = start
        begins_late = self._from_latest(start)  # then their positions have to be noted, though nothing is let in
        if begins_late or (ends != look.book.at).any():
            after = look.book.with_(at=ends, split=plan.splits, behind=take < waiting)
            note = Note(after, look.book.at, look.book.behind)
            offset = {"sequence": start["sequence"] + 1, "tuples": start["tuples"] + int(take.sum())}
            offset |= self._notes.put(offset["sequence"], note)
            self._latest = offset, note
        self._redirections += len(plan.redirected)
        self._report(look, plan, waiting - take, offset, now_s, time.perf_counter() - began)
        return offset

    def reportLatestOffset(self) -> Offset | None:
        """Return how many tuples have come, from which Spark's progress computes the backlog."""
        offset, _ = self._latest
        return {**offset, "tuples": offset["tuples"] + self._waiting} if offset["sequence"] else None

    def prepareForTriggerAvailableNow(self) -> None:
        """Take what is there with the first look, and nothing that comes later."""
        self._freezing = True

    def partitions(self, start: Offset, end: Offset) -> list[Split]:
        """Return what each split reads, by the note of the batch."""
        return [Split(split, end["sequence"], found) for split, found in self._note(end).splits().items()]

    def commit(self, end: Offset) -> None:
        """Forget the notes of batches long ago."""
        self._notes.forget(end["sequence"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split."""
        assert isinstance(partition, Split)
        for records in self.records(partition):
            yield from records.named(partition.ranges).to_batches()

    def records(self, split: Split) -> Iterator[Records]:
        """Yield the records of a split, and report what happened."""
        began = time.perf_counter()
        invalid = Files(self.settings.invalid) if self.settings.invalid else None
        reporter = Reporter(split.ranges, split.sequence, split.split, _reports(self.settings), invalid)
        for records in self.feed.read(split.ranges):
            reporter.add(records)
            yield records
        reporter.write(time.perf_counter() - began)

    def panes(self, start: Offset, end: Offset, task: "PaneTask", router: "Router") -> list[tuple[int, InputPartition]]:
        """Return the splits of a batch, each a slot of the pane level; the next batch may have as many as the query has slots by then."""
        if task.plan.slots != self.max_splits:
            self.max_splits = task.plan.slots
            self._planner = self._admission().build(self._planner.snapshot())
        return list(enumerate(self.partitions(start, end)))

    def tuples(self, partition: InputPartition, task: "PaneTask") -> "Iterator[Tuples]":
        """Yield the tuples of a split. Records that cannot be read are tuples without a time."""
        assert isinstance(partition, Split)
        from skytide.spark.fleet.rows import as_tuples

        yield from as_tuples(self.records(partition), partition.ranges, task)

    def times_us(self, start: Offset) -> None:
        """Return None: nobody knows how far streams have come in time."""

    def position(self, offset: Offset) -> int:
        """Return how many batches there were up to an offset."""
        return int(offset["sequence"])

    def _note(self, offset: Offset) -> Note:
        if offset["sequence"] == 0:
            return NOTHING
        latest, note = self._latest
        if latest == offset:
            return note
        try:
            return self._notes.get(offset)
        except FileNotFoundError:
            raise SkytideError(
                f"{self.settings.notes}/{offset['note']}: the note of a batch is missing; "
                "restore the whole checkpoint folder, or start with another one"
            ) from None

    def _look(self, start: Offset, control: Control) -> Look:
        """Return a look at the streams, from where a batch starts."""
        book = self._note(start).book
        if not self._sampled:
            self.feed, self._sampled = self.feed.sampled(self.feed.look(book).book), True
        look = self.feed.look(book, newest=self._from_latest(start))
        self._odd.update((each.stream, each.reason) for each in look.skipped)
        if self._freezing:
            self._freezing, self._frozen = False, look
        if self._frozen is not None:
            look = look.until(self._frozen)
        asked = [(row, value) for name, value in control.suspended.items() if (row := look.book.rows.get(name)) is not None]
        if asked:
            suspended = look.book.suspended.copy()
            suspended[[row for row, _ in asked]] = [value for _, value in asked]
            look = look.with_book(look.book.with_(suspended=suspended))
        return look

    def _from_latest(self, start: Offset) -> bool:
        return self.settings.starting == "latest" and start["sequence"] == 0

    def _collect(self, now_s: float) -> None:
        reports = self._inbox.new() if self._inbox else []
        for report in reports:
            self._odd.update(report.odd)
        self._capacity.measured(reports, now_s)

    def _report(self, look: Look, plan: Plan, buffered: NDArray[np.int64], offset: Offset, now_s: float, took_s: float) -> None:
        if self._board is None:
            return
        status = standing(look, plan, buffered, self._odd, self._redirections, self._capacity.sustained_hz, offset, took_s)
        streams = None
        if now_s - self._streams_s >= STREAMS_EVERY_S:
            streams, self._streams_s = streams_table(look.book, plan, buffered), now_s
        self._board.write_status(status, streams)


def _reports(settings: Settings) -> Files | None:
    """Return the folder for reports of tasks: one that they can reach, or None."""
    if settings.notes:
        return Files(settings.notes)
    return Files(settings.board) if settings.board and os.path.isdir(settings.board) else None


def _sample(look: Look, now_s: float) -> Sample:
    book = look.book
    return Sample(now_s=now_s, names=book.names, arrived=look.arrived, waiting=look.waiting, suspended=book.suspended)
