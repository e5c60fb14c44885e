"""Workloads as a streaming source, `spark.readStream.format("skytide-workload")`: generated in the tasks, from identity."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from skytide.batch import Delivery, InSource
from skytide.errors.checks import check_choice, is_integer, refused
from skytide.routing import Splitting
from skytide.spark.checkpoint import Files
from skytide.spark.checkpoint.folder import OwnedFolder
from skytide.spark.sources.playback import Playback
from skytide.spark.sources.quiet_end import end_quietly
from skytide.spark.sources.workload_reader import LATEST_US, WorkloadReader
from skytide.windows.duration import Duration, duration_us
from skytide.workloads.workload import ARRIVING, EVENTS, Workload, typed

FORMAT = "skytide-workload"
MAX_DIGITS = 30  # of a time in microseconds


@dataclass(frozen=True, kw_only=True)
class WorkloadStream(Playback):
    """A workload and how it is played, as a source of streams. Made by `workload`."""

    def load(self, spark: SparkSession) -> DataFrame:
        """Return the stream as a DataFrame with columns id, ts, arrival, x0, x1, and so on."""
        register_sources(spark)
        return spark.readStream.format(FORMAT).options(**self.options()).load()

    def delivery(self, splitting: Splitting) -> Delivery | None:
        """Return how tuples reach slots inside the source: it generates them in any slot, before anybody knows their keys."""
        return None if splitting.key_routing() is not None else InSource(splitting)

    def expected_hz(self) -> float | None:
        """Return None: a workload does not say what it expects, as a real stream would not."""
        return None

    def folder(self) -> OwnedFolder | None:
        """Return None: it writes nothing."""
        return None

    def reader(self, columns: StructType, notes: Files, trigger_us: int | None) -> "WorkloadReader":
        """Return the reader; it needs no notes but its offsets."""
        return WorkloadReader(self)

    def options(self) -> dict[str, str]:
        """Return the options of the source.

        >>> workload(rate=1000, delay="300 ms", pace="fast").options()
        {'rate': '1000', 'delays': 'uniform', 'bursts': 'events', 'delay': '300000 us', 'partitions': '2', 'pace': 'fast'}
        """
        options = self.workload.to_json()
        lengths: dict[str, object] = {"batch": self.batch_us, "duration": self.duration_us}
        lengths |= {name: options.pop(f"{name}_us", None) for name in ("delay", "tick", "on", "off")}
        options |= {name: f"{length} us" for name, length in lengths.items() if length is not None}
        if self.workload.delays != "none":
            options["bursts"] = self.workload.bursts
        options |= {"partitions": str(self.partitions), "pace": self.pace}
        return options if self.start_us is None else options | {"start": str(self.start_us)}

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> "WorkloadStream":
        """Return the stream that options of the source describe.

        >>> WorkloadStream.from_options({"rate": "1000", "speed": "3"})
        Traceback (most recent call last):
        ...
        skytide.errors.InvalidInput: option='speed': not known; choose one of rate, arrivals, dispersion, ...
        """
        for name in options:
            check_choice("option", name, OPTIONS)
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
    bursts: str | None = None,
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
    """Return a stream that skytide generates itself, the same one every time, of tuples with `dimensions` columns x0, x1, ...

    Parameters
    ----------
    rate
        Tuples per second.
    arrivals
        How they come: "constant", "poisson", "map" (bursts), "selfsimilar", "walk" (a random walk) or "onoff"; from a number of `streams`
        that are steady ("constw"), rise and fall in opposite pairs ("psfcw", "ptfcw") or together ("sfvar", "tfvar"); in "steps"; or as a
        "replay" of a series.
    dispersion
        The index of dispersion of "map".
    steps
        Seconds and rates of "steps": "10:1000, 5:20000" is ten seconds with 1,000 tuples per second, five with 20,000, and again.
    hurst
        The Hurst parameter of "selfsimilar".
    on, off
        How long tuples come with "onoff", and how long none do, on average.
    series
        A Parquet file with rates or times, for "replay".
    streams
        How many streams together have the rate.
    delay
        How late tuples are: at most with "uniform", on average otherwise.
    delays
        "uniform" (as in the papers, and the default), "exponential", "pareto", or "replay" of a `delay_series`.
    delay_series
        A Parquet file with `ts` and `arrival`.
    late_share
        The share of tuples that are late at all.
    bursts
        Whether `arrivals` describes the "events", to which delays are added to get the time of arrival (as in the papers), or the
        "arrivals" themselves. Without it, that of events, unless delays may be longer than a minute.
    points
        Their values: "independent", "correlated", "anticorrelated" or "drifting" between these.
    dimensions
        How many values a tuple has.
    seed
        Another one makes another stream.
    tick
        The unit in which tuples are generated.
    partitions
        Tasks that generate a batch.
    pace
        "real" time, or "fast": as fast as Spark asks for the next batch.
    batch
        The stream time of a batch; in real time a batch takes all that has come, unless this limits it.
    duration
        When the stream ends; without it, never.
    start
        The time of the first tuple: now, or a given one (ISO, in UTC unless it names a zone; or microseconds since 1970). A query that
        continues from a checkpoint keeps that of its first start.

    Raises
    ------
    InvalidInput
        If a value is not known or out of range, missing, or would be ignored.

    Examples
    --------
    >>> workload(rate=1000, arrivals="map", dispersion=4000, delay="300 ms", late_share=0.2).workload.delay_us
    300000

    More in [start.md](start.md).
    """
    made = Workload(
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
        bursts=ARRIVING if bursts is None else bursts,
        points=points,
        dimensions=dimensions,
        seed=seed,
        tick_us=duration_us(tick, "tick"),
    )
    if bursts is None and made.delays != "none" and made.can_delay_events:
        made = replace(made, bursts=EVENTS)
    return WorkloadStream(
        workload=made,
        partitions=partitions,
        pace=pace,
        batch_us=None if batch is None else duration_us(batch, "batch"),
        duration_us=None if duration is None else duration_us(duration, "duration"),
        start_us=None if start is None else _instant_us(start),
    )


OPTIONS = tuple(name for name in workload.__annotations__ if name != "return")


def _instant_us(start: str | int | datetime) -> int:
    remedy = 'write it as "2026-01-31 12:00:00", or as microseconds since 1970'
    if isinstance(start, str) and start.strip().isdecimal() and len(start) < MAX_DIGITS:
        start = int(start)
    if isinstance(start, int) and is_integer(start, 0, LATEST_US):
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
        """Return the columns; Spark asks when the stream is loaded, so wrong options are refused then."""
        end_quietly()
        columns = WorkloadStream.from_options(self.options).workload.schema
        names = {pa.int64(): "bigint", pa.int32(): "int", pa.float64(): "double"}
        return ", ".join(f"{column.name} {names.get(column.type, 'timestamp')}" for column in columns)

    def streamReader(self, schema: StructType) -> "WorkloadReader":
        """Return the reader that Spark's driver keeps for the whole query; tasks have copies of their own."""
        end_quietly()
        return WorkloadReader(WorkloadStream.from_options(self.options))


def register_sources(spark: SparkSession) -> None:
    """Register skytide's own formats in a session."""
    spark.dataSource.register(WorkloadSource)
