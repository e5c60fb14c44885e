"""Plays a workload as a streaming source: which ticks a batch has, and which task generates which of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from skytide.errors import InvalidInput
from skytide.routing import Router
from skytide.spark.clock import now_us
from skytide.spark.engine.panes import PaneTask, Tuples
from skytide.spark.sources.playback import Playback
from skytide.workloads.arrivals import SECOND_US
from skytide.workloads.workload import ARRIVING, EVENTS, Workload

LATEST_US = 8_000 * 365 * 86_400 * SECOND_US

Offset = dict[str, int]
"""Where a stream stands: "tick" is the next one, "tick_us" their length, "start_us" when tick 0 began, so that a replay has the same times;
"bursts" is 1 if events have the bursts, as earlier versions had them in arrivals only."""


@dataclass(frozen=True)
class TickRange(InputPartition):
    """The part of a stream that one task generates: the ticks of [first, last)."""

    workload: Workload
    start_us: int
    first: int
    last: int


@dataclass(frozen=True)
class SlotRanges(InputPartition):
    """What a slot of the pane level generates: some ranges of a batch that begins with tick `batch_first`."""

    ranges: tuple[TickRange, ...]
    batch_first: int


class WorkloadReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plays a workload.

    On the driver, `initialOffset` says where a new query begins, `latestOffset` how far a batch goes, `partitions` which task
    generates which ticks. In a task, `read` runs on a copy of the reader: all it needs has to be in its partition, or among the
    arguments that the reader was made from.
    """

    def __init__(self, stream: Playback, clock: Callable[[], int] = now_us) -> None:
        self.stream = stream
        self.clock = clock
        self.start_us: int | None = None  # as in the offset seen last
        self.bursts = int(stream.workload.delays_events)  # the same
        self.stopped_us: int | None = None  # when the clock was stopped, for a query that takes only what is available now

    def initialOffset(self) -> Offset:
        """Return tick 0, at the given start, or at the current second."""
        start_us, self.bursts = self.stream.start_us, int(self.stream.workload.delays_events)
        if start_us is None:
            start_us = self.clock() // SECOND_US * SECOND_US
        return self._offset(0, start_us)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return how far the stream has come by now, but no more than a batch away; `batch` is the limit, whatever the trigger is."""
        if start["tick_us"] != self.stream.workload.tick_us:
            raise InvalidInput(
                value=f"ticks of {self.stream.workload.tick_us:,} microseconds",
                reason=f"the checkpoint counts ticks of {start['tick_us']:,}",
                remedy="start with another checkpoint folder",
            )
        self.start_us, self.bursts = start["start_us"], start.get("bursts", 0)
        ends = [self._come(self.start_us), self.stream.batch_ticks and start["tick"] + self.stream.batch_ticks]
        end = min(end for end in ends if end is not None)
        return self._offset(max(end, start["tick"]), self.start_us)

    def reportLatestOffset(self) -> Offset | None:
        """Return how far the stream has come, from which Spark's progress computes the backlog."""
        come = None if self.start_us is None else self._come(self.start_us)
        return None if come is None or self.start_us is None else self._offset(come, self.start_us)

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop the clock; refuse a stream of which everything, or nothing, is available now."""
        if self.stream.pace == "fast" and self.stream.last_tick is None:
            raise InvalidInput(
                value='trigger availableNow with pace="fast"',
                reason="the stream has no end, so it would never be done",
                remedy='give a duration, for instance "10 s"',
            )
        if self.stream.pace == "real" and self.stream.start_us is None:
            raise InvalidInput(
                value='trigger availableNow with pace="real"',
                reason="the stream starts now, so nothing is available yet",
                remedy='choose pace="fast" and a duration, or give a start in the past',
            )
        self.stopped_us = self.clock()

    def partitions(self, start: Offset, end: Offset) -> list[TickRange]:
        """Return ranges of the ticks of a batch with about the same number of tuples: with bursts, equal ranges would be unequal work."""
        workload, first, last = self._workload(end), start["tick"], end["tick"]
        come = np.append(0, np.cumsum(workload.arriving(first, last)))
        shares = np.linspace(0, come[-1], self.stream.partitions + 1)[1:-1]
        cuts = [first, *(first + np.searchsorted(come, shares)).tolist(), last]
        start_us = end["start_us"]  # as Spark has noted it: without a note, it would ask for the start again
        return [TickRange(workload, start_us, *cut) for cut in pairwise(cuts) if cut[0] < cut[1]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the tuples of a range of ticks, in order of arrival."""
        assert isinstance(partition, TickRange)
        yield from partition.workload.tuples(partition.first, partition.last, partition.start_us)

    def panes(self, start: Offset, end: Offset, task: PaneTask, router: Router) -> list[tuple[int, InputPartition]]:
        """Return the ticks of a batch that each slot of the pane level generates, as the router's strategy plans it."""
        first, last = start["tick"], end["tick"]
        workload, start_us = self._workload(end), end["start_us"]
        counts = workload.arriving(first, last).tolist()
        panes = [task.spec.windows.pane_of(start_us + tick * workload.tick_us) for tick in range(first, last)]
        chosen = router.strategy.plan(router, list(zip(panes, counts, strict=True)))
        pieces: dict[int, list[TickRange]] = {}
        for slot, ticks in groupby(range(first, last), key=lambda tick: chosen[tick - first]):
            whole = list(ticks)
            pieces.setdefault(slot, []).append(TickRange(workload, start_us, whole[0], whole[-1] + 1))
        return [(slot, SlotRanges(tuple(made), first)) for slot, made in sorted(pieces.items())]

    def tuples(self, partition: InputPartition, task: PaneTask) -> Iterator[Tuples]:
        """Yield tuples, with the newest one before them, even if another task generates it: it tells how late they are."""
        assert isinstance(partition, SlotRanges)
        for ticks in partition.ranges:
            newest_us = ticks.workload.newest_us(partition.batch_first, ticks.first, ticks.start_us)
            for batch in self.read(ticks):
                yield Tuples(batch, newest_us)

    def position(self, offset: Offset) -> int:
        """Return the tick of an offset."""
        return offset["tick"]

    def times_us(self, start: Offset) -> tuple[int, int] | None:
        """Return the times of the tick of an offset, and of the tick that has come by now."""
        if self.stream.pace == "fast":
            return 0, LATEST_US
        tick_us, start_us = self.stream.workload.tick_us, start["start_us"]
        return start_us + start["tick"] * tick_us, start_us + (self._come(start_us) or 0) * tick_us

    def _offset(self, tick: int, start_us: int) -> Offset:
        offset = {"tick": tick, "tick_us": self.stream.workload.tick_us, "start_us": start_us}
        return offset | {"bursts": 1} if self.bursts else offset

    def _workload(self, offset: Offset) -> Workload:
        """Return the stream with its bursts where they were when it began: otherwise some of its tuples would come twice, others never."""
        workload = self.stream.workload
        bursts = EVENTS if offset.get("bursts") else ARRIVING
        return workload if workload.bursts == bursts or not workload.can_delay_events else replace(workload, bursts=bursts)

    def _come(self, start_us: int) -> int | None:
        """Return the ticks that have come by now, or None if the stream never ends."""
        if self.stream.pace == "fast":
            return self.stream.last_tick
        now = self.clock() if self.stopped_us is None else self.stopped_us
        come = max(0, (now - start_us) // self.stream.workload.tick_us)
        return come if self.stream.last_tick is None else min(come, self.stream.last_tick)
