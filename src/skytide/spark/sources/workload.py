"""Workloads as a streaming source, `spark.readStream.format("skytide-workload")`: generated in the tasks, from identity."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from skytide.batch import InSource, Way
from skytide.errors import InvalidInput
from skytide.errors.checks import is_whole, kind_of, one_of, refused, whole
from skytide.routing import EVEN, Router, Splitting
from skytide.spark.checkpoint import Files
from skytide.spark.engine.pane_level import PaneTask, Tuples
from skytide.spark.sources.quiet_end import end_quietly
from skytide.windows.duration import Duration, duration_us
from skytide.workloads.arrivals import SECOND_US
from skytide.workloads.workload import Workload, typed

FORMAT = "skytide-workload"
PACES = ("real", "fast")
FAST_BATCH_US = 500_000
LATEST_US = 8_000 * 365 * 86_400 * SECOND_US

Offset = dict[str, int]
"""Where a stream stands: "tick", the next one; "tick_us", their length; "start_us", when tick 0 began, so that a replay has the same times."""


@dataclass(frozen=True, kw_only=True)
class WorkloadStream:
    """A workload, and how it is played: what the source is told by its options. Made by `workload`."""

    workload: Workload
    partitions: int = 2
    pace: str = "real"
    batch_us: int | None = None
    duration_us: int | None = None
    start_us: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be played."""
        kind_of("workload", self.workload, Workload, reason="not a workload", remedy="make one by skytide.workload(...)")
        whole("partitions", self.partitions, 1, 100_000)
        one_of("pace", self.pace, PACES)
        for name, length_us in (("batch", self.batch_us), ("duration", self.duration_us)):
            if length_us is not None and length_us < self.workload.tick_us:
                raise InvalidInput(
                    value=f"a {name} of {length_us:,} microseconds",
                    reason=f"shorter than a tick, which has {self.workload.tick_us:,}",
                    remedy=f"choose a longer {name}, or a shorter tick",
                )

    @property
    def batch_ticks(self) -> int | None:
        """Return the most ticks that a micro-batch takes, if there is a limit."""
        batch_us = self.batch_us or (FAST_BATCH_US if self.pace == "fast" else None)
        return batch_us and max(1, batch_us // self.workload.tick_us)

    @property
    def last_tick(self) -> int | None:
        """Return the tick at which the stream ends, if it does."""
        return self.duration_us and self.duration_us // self.workload.tick_us

    def load(self, spark: SparkSession) -> DataFrame:
        """Return the stream as a DataFrame with columns id, ts, arrival, x0, x1, and so on."""
        register_sources(spark)
        return spark.readStream.format(FORMAT).options(**self.options()).load()

    def way(self, splitting: Splitting | None) -> Way | None:
        """Return how tuples reach slots inside the source: it makes them wherever it is told to, before anybody knows their keys."""
        by_key = splitting is not None and splitting.key_routing() is not None
        return None if by_key else InSource(splitting or EVEN)

    def expected_hz(self) -> float | None:
        """Return what is expected soon: a workload does not tell, as what it stands for would not."""
        return None

    def reader(self, columns: StructType, notes: Files, trigger_us: int | None) -> "WorkloadReader":
        """Return the reader; it has nothing to note but its offsets."""
        return WorkloadReader(self)

    def options(self) -> dict[str, str]:
        """Return the options that tell the source all this.

        >>> workload(rate=1000, delay="300 ms", pace="fast").options()
        {'rate': '1000', 'delays': 'uniform', 'delay': '300000 us', 'partitions': '2', 'pace': 'fast'}
        """
        options = self.workload.to_json()
        lengths: dict[str, object] = {"batch": self.batch_us, "duration": self.duration_us}
        lengths |= {name: options.pop(f"{name}_us", None) for name in ("delay", "tick", "on", "off")}
        options |= {name: f"{length} us" for name, length in lengths.items() if length is not None}
        options |= {"partitions": str(self.partitions), "pace": self.pace}
        return options if self.start_us is None else options | {"start": str(self.start_us)}

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> "WorkloadStream":
        """Read the options of the source.

        >>> WorkloadStream.from_options({"rate": "1000", "speed": "3"})
        Traceback (most recent call last):
        ...
        skytide.errors.InvalidInput: option='speed': not known; choose one of rate, arrivals, dispersion, ...
        """
        for name in options:
            one_of("option", name, OPTIONS)
        values: dict[str, Any] = {name: typed(name, text) for name, text in options.items()}
        return workload(**values)


def workload(
    *,
    rate: float | None = None,
    arrivals: str = "poisson",
    dispersion: float | None = None,
    steps: str | None = None,
    hurst: float | None = None,
    on: Duration | None = None,
    off: Duration | None = None,
    series: str | None = None,
    streams: int | None = None,
    delay: Duration | None = None,
    delays: str | None = None,
    delay_series: str | None = None,
    late_share: float = 1.0,
    points: str = "independent",
    dimensions: int = 8,
    seed: int = 0,
    tick: Duration = "10 ms",
    partitions: int = 2,
    pace: str = "real",
    batch: Duration | None = None,
    duration: Duration | None = None,
    start: str | int | datetime | None = None,
) -> WorkloadStream:
    """Describe a stream that skytide generates by itself, the same one every time.

    - How many: `rate` tuples a second with `arrivals` "constant", "poisson", "map" (bursts of that index of `dispersion`),
      "selfsimilar" (with that `hurst` parameter), "walk" (a random walk) or "onoff" (for `on` and `off` on average); of so many
      `streams` that are steady ("constw"), go up and down in opposite pairs ("psfcw", "ptfcw") or together ("sfvar", "tfvar");
      "steps" written as `steps="10:1000, 5:20000"`: ten seconds with 1,000 tuples a second, five with 20,000, and over again;
      or "replay" of a `series`, a Parquet file with rates or times.
    - How late: `delays` "uniform" up to `delay` (the papers' way, and the default), or "exponential" or "pareto" with that
      mean, for a `late_share` of the tuples; or "replay" of a `delay_series`, a Parquet file with `ts` and `arrival`.
    - What: `points` "independent", "correlated", "anticorrelated" or "drifting" between these, in so many `dimensions`, x0, x1, ...
    - How it is played: at a `pace` of "real" time, or "fast", as fast as Spark asks for the next `batch` of stream time
      ("500 ms"; in real time a batch takes all that has come, unless there is a `batch` to limit it). It ends after `duration`.
      It `start`s now, or at a given time (ISO, UTC unless it says; or microseconds since 1970); a query that goes on from a
      checkpoint keeps the time of its first start.

    >>> workload(rate=1000, arrivals="map", dispersion=4000, delay="300 ms", late_share=0.2).workload.delay_us
    300000
    """
    return WorkloadStream(
        workload=Workload(
            rate=rate,
            arrivals=arrivals,
            dispersion=dispersion,
            steps=steps,
            hurst=hurst,
            on_us=None if on is None else duration_us(on, "on"),
            off_us=None if off is None else duration_us(off, "off"),
            series=series,
            streams=streams,
            delays=delays,
            delay_series=delay_series,
            delay_us=None if delay is None else duration_us(delay, "delay"),
            late_share=late_share,
            points=points,
            dimensions=dimensions,
            seed=seed,
            tick_us=duration_us(tick, "tick"),
        ),
        partitions=partitions,
        pace=pace,
        batch_us=None if batch is None else duration_us(batch, "batch"),
        duration_us=None if duration is None else duration_us(duration, "duration"),
        start_us=None if start is None else _instant_us(start),
    )


OPTIONS = tuple(name for name in workload.__annotations__ if name != "return")


def _instant_us(start: str | int | datetime) -> int:
    remedy = 'write it as "2026-01-31 12:00:00", or as microseconds since 1970'
    if isinstance(start, str) and start.strip().isdecimal() and len(start) < 30:
        start = int(start)
    if isinstance(start, int) and is_whole(start, 0, LATEST_US):
        return start
    try:
        instant = start if isinstance(start, datetime) else datetime.fromisoformat(start)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise refused("start", start, "not a time", remedy) from None
    instant = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


class WorkloadSource(DataSource):
    """The format "skytide-workload"; its options are the arguments of `workload`, as texts."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns; Spark asks when the stream is loaded, so that wrong options are refused then."""
        end_quietly()
        columns = WorkloadStream.from_options(self.options).workload.schema
        names = {pa.int64(): "bigint", pa.int32(): "int", pa.float64(): "double"}
        return ", ".join(f"{column.name} {names.get(column.type, 'timestamp')}" for column in columns)

    def streamReader(self, schema: StructType) -> "WorkloadReader":
        """Return the reader that Spark's driver keeps for the whole query; tasks have copies of their own."""
        end_quietly()
        return WorkloadReader(WorkloadStream.from_options(self.options))


def register_sources(spark: SparkSession) -> None:
    """Make skytide's own formats known to a session."""
    spark.dataSource.register(WorkloadSource)


@dataclass(frozen=True)
class TickRange(InputPartition):
    """The part of a stream that one task makes: the ticks of [first, last)."""

    workload: Workload
    start_us: int
    first: int
    last: int


def now_us() -> int:
    """Read the clock on the wall."""
    return time.time_ns() // 1000


@dataclass(frozen=True)
class SlotRanges(InputPartition):
    """What a slot of the pane level makes: some ranges of a batch that begins with tick `batch_first`."""

    ranges: tuple[TickRange, ...]
    batch_first: int


class WorkloadReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plays a workload.

    On the driver: `initialOffset` says where a new query begins, `latestOffset` how far a batch goes, `partitions` which task
    makes which ticks. In a task, on a copy of the reader: `read`. All that `read` needs has to be in its partition, or in what
    the reader was made of.
    """

    def __init__(self, stream: WorkloadStream, clock: Callable[[], int] = now_us) -> None:
        self.stream = stream
        self.clock = clock
        self.start_us: int | None = None  # as in the offset seen last
        self.stopped_us: int | None = None  # when the clock was stopped, for a query that takes what is available now

    def initialOffset(self) -> Offset:
        """Begin with tick 0, at the time asked for, or with the current second."""
        start_us = self.stream.start_us
        if start_us is None:
            start_us = self.clock() // SECOND_US * SECOND_US
        return self._offset(0, start_us)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Go on to what has come by now, but by no more than a batch; `batch` is the limit, whatever the trigger is."""
        if start["tick_us"] != self.stream.workload.tick_us:
            raise InvalidInput(
                value=f"ticks of {self.stream.workload.tick_us:,} microseconds",
                reason=f"the checkpoint counts ticks of {start['tick_us']:,}",
                remedy="start with another checkpoint folder",
            )
        self.start_us = start["start_us"]
        ends = [self._come(self.start_us), self.stream.batch_ticks and start["tick"] + self.stream.batch_ticks]
        end = min(end for end in ends if end is not None)
        return self._offset(max(end, start["tick"]), self.start_us)

    def reportLatestOffset(self) -> Offset | None:
        """Tell how far the stream has come, which is how Spark's progress shows the backlog."""
        come = None if self.start_us is None else self._come(self.start_us)
        return None if come is None or self.start_us is None else self._offset(come, self.start_us)

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop the clock; refuse a stream of which all, or nothing, is available now."""
        if self.stream.pace == "fast" and self.stream.last_tick is None:
            raise InvalidInput(
                value='trigger availableNow with pace="fast"',
                reason="the stream has no end, so that all of it never comes",
                remedy='give a duration, for instance "10 s"',
            )
        if self.stream.pace == "real" and self.stream.start_us is None:
            raise InvalidInput(
                value='trigger availableNow with pace="real"',
                reason="the stream starts now, so that nothing is available yet",
                remedy='choose pace="fast" and a duration, or give a start in the past',
            )
        self.stopped_us = self.clock()

    def partitions(self, start: Offset, end: Offset) -> list[TickRange]:
        """Cut the ticks of a batch into ranges of about as many tuples, as bursts would make equal ranges unequal work."""
        workload, first, last = self.stream.workload, start["tick"], end["tick"]
        come = np.append(0, np.cumsum(workload.counts(first, last)))
        shares = np.linspace(0, come[-1], self.stream.partitions + 1)[1:-1]
        cuts = [first, *(first + np.searchsorted(come, shares)).tolist(), last]
        start_us = end["start_us"]  # as Spark has noted it: where nothing was noted before, it asks for the start again
        return [TickRange(workload, start_us, *cut) for cut in pairwise(cuts) if cut[0] < cut[1]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Make the tuples of a range of ticks, in order of arrival."""
        assert isinstance(partition, TickRange)
        yield from partition.workload.tuples(partition.first, partition.last, partition.start_us)

    def panes(self, start: Offset, end: Offset, task: PaneTask, router: Router) -> list[tuple[int, InputPartition]]:
        """Divide the ticks of a batch among the slots of the pane level, as the router's strategy plans it."""
        first, last = start["tick"], end["tick"]
        workload, start_us = self.stream.workload, end["start_us"]
        counts = workload.counts(first, last).tolist()
        panes = [task.windows.pane_of(start_us + tick * workload.tick_us) for tick in range(first, last)]
        chosen = router.strategy.plan(router, list(zip(panes, counts, strict=True)))
        pieces: dict[int, list[TickRange]] = {}
        for slot, ticks in groupby(range(first, last), key=lambda tick: chosen[tick - first]):
            whole = list(ticks)
            pieces.setdefault(slot, []).append(TickRange(workload, start_us, whole[0], whole[-1] + 1))
        return [(slot, SlotRanges(tuple(made), first)) for slot, made in sorted(pieces.items())]

    def tuples(self, partition: InputPartition, task: PaneTask) -> Iterator[Tuples]:
        """Make tuples. How late they are is told by the newest one before them, also if another task makes that."""
        assert isinstance(partition, SlotRanges)
        for ticks in partition.ranges:
            newest_us = ticks.workload.newest_us(partition.batch_first, ticks.first, ticks.start_us)
            for batch in self.read(ticks):
                yield Tuples(batch, newest_us)

    def position(self, offset: Offset) -> int:
        """Return the tick."""
        return offset["tick"]

    def times_us(self, start: Offset) -> tuple[int, int] | None:
        """Return the times of the tick of an offset, and of the tick that has come by now."""
        if self.stream.pace == "fast":
            return 0, LATEST_US
        tick_us, start_us = self.stream.workload.tick_us, start["start_us"]
        return start_us + start["tick"] * tick_us, start_us + (self._come(start_us) or 0) * tick_us

    def _offset(self, tick: int, start_us: int) -> Offset:
        return {"tick": tick, "tick_us": self.stream.workload.tick_us, "start_us": start_us}

    def _come(self, start_us: int) -> int | None:
        """Return the ticks that have come by now, or None if they come for as long as somebody asks."""
        if self.stream.pace == "fast":
            return self.stream.last_tick
        now = self.clock() if self.stopped_us is None else self.stopped_us
        come = max(0, (now - start_us) // self.stream.workload.tick_us)
        return come if self.stream.last_tick is None else min(come, self.stream.last_tick)
