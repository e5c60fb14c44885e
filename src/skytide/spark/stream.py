"""Continuous queries as people write them: `stream(df).window(...).skyline(...).start(...)`."""

import os
import threading
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import TimestampNTZType, TimestampType

from skytide.batch import InPlace, InSource, Rules, Sent, Way
from skytide.errors import InvalidInput
from skytide.errors.checks import kind_of, real, refused, words
from skytide.lateness import KSlack, Slack
from skytide.queries import Aggregate, KDominant, Levels, Measure, Nulls, Query, Skyband, Skyline, TopDelta, TopK, combine, high
from skytide.queries.preferences import Preference
from skytide.records import Status, WindowRow
from skytide.routing import EVEN, TB_RR, Splitting, strategy_of
from skytide.spark.binding import bind, bounded
from skytide.spark.checkpoint import SparkNotes, Store, checkpoint_place
from skytide.spark.checks import check_asked, check_slots, check_start, check_streamed
from skytide.spark.dataframe import count_of
from skytide.spark.engine import Engine, Plan
from skytide.spark.fleet import Fleet
from skytide.spark.jobs import SparkJobs
from skytide.spark.outlets import Sinks
from skytide.spark.pane_source import OwnSource, load_panes
from skytide.spark.parquet_sink import claim_all
from skytide.spark.sinks import MemorySink, side_sink_of, sink_of
from skytide.spark.types import arrow_schema
from skytide.spark.window_level import BOUNDS
from skytide.spark.windows_of_rows import windows_of_rows
from skytide.spark.workload_source import WorkloadStream
from skytide.windows import Windows, duration_us, sliding

AVAILABLE_NOW = "availableNow"


def stream(source: DataFrame | Fleet | WorkloadStream, *, time: str = "ts") -> "Stream":
    """Start a chain over a DataFrame, streaming or not, a `fleet(...)` or a `workload(...)`; `time` names the column with the time of each tuple."""
    remedy = "pass a DataFrame, skytide.fleet(...) or skytide.workload(...)"
    kind_of("source", source, (DataFrame, Fleet, WorkloadStream), reason="no stream", remedy=remedy)
    own = None if isinstance(source, DataFrame) else source
    df = source if isinstance(source, DataFrame) else source.load(_session())
    if not isinstance(time, str) or time not in df.columns:
        raise refused("time", time, "there is no such column", f"choose one of {', '.join(df.columns)}")
    kind = df.schema[time].dataType
    if not isinstance(kind, TimestampType | TimestampNTZType):
        raise InvalidInput(
            value=f"time={time!r} of type {kind.simpleString()}",
            reason="windows need a timestamp",
            remedy=f'cast it first: df.withColumn("{time}", F.timestamp_millis("{time}")), or to_timestamp',
        )
    return Stream(df, time, own)


def _session() -> SparkSession:
    try:
        return SparkSession.active()  # of this thread, or else the one that all threads share
    except PySparkException:
        raise InvalidInput(
            value="no Spark session", reason="a source of skytide's own runs on Spark too", remedy="start a SparkSession first"
        ) from None


@dataclass(frozen=True)
class Stream:
    """Tuples with a time."""

    df: DataFrame
    time: str
    source: OwnSource | None = None

    def window(self, length: Any, slide: Any = None, slack: Slack | None = None) -> "Windowed":
        """Cut the stream into windows; `slack` says how long to wait for late tuples (the longest delay seen, if not given)."""
        if slack is not None and not isinstance(slack, Slack):
            raise refused("slack", slack, "not a slack", 'pass KSlack(), DropRatio(0.01) or FixedSlack("2 s")')
        return Windowed(self.df, self.time, sliding(length, slide), slack or KSlack(), self.source)


@dataclass(frozen=True)
class Windowed:
    """A stream cut into windows. A query on it gives a DataFrame if the rows do not stream, otherwise something to start."""

    df: DataFrame
    time: str
    windows: Windows
    slack: Slack
    source: OwnSource | None = None

    def skyline(self, *preferences: Preference, distinct: bool = False, nulls: Nulls = "error") -> Any:
        """Ask for the skyline of each window."""
        return self.apply(Skyline(combine(preferences), nulls, distinct))

    def skyband(self, *preferences: Preference | int, k: int | None = None, nulls: Nulls = "error") -> Any:
        """Ask for the rows of each window that fewer than k others dominate."""
        count, rest = count_of("k", k, preferences)
        return self.apply(Skyband(combine(rest), nulls, count))

    def levels(self, *preferences: Preference, up_to: int | None = None, nulls: Nulls = "error") -> Any:
        """Ask for the skyline levels of each window."""
        return self.apply(Levels(combine(preferences), nulls, up_to))

    def k_dominant(self, *preferences: Preference | int, k: int | None = None, nulls: Nulls = "error") -> Any:
        """Ask for the k-dominant skyline of each window."""
        count, rest = count_of("k", k, preferences)
        return self.apply(KDominant(combine(rest), nulls, count))

    def top_delta(self, *preferences: Preference | int, delta: int | None = None, nulls: Nulls = "error") -> Any:
        """Ask for the top-delta dominant rows of each window, each with its k."""
        count, rest = count_of("delta", delta, preferences)
        return self.apply(TopDelta(combine(rest), nulls, count))

    def top_k(self, k: int, *, by: Any, nulls: Nulls = "error") -> Any:
        """Ask for the k best rows of each window by a score, and ties."""
        return self.apply(TopK(by if isinstance(by, Preference) else high(by), nulls, k))

    def aggregate(self, *measures: str, keys: tuple[str, ...] | list[str] | str = ()) -> Any:
        """Ask for aggregates of each window, as SQL writes them: `.aggregate("count(*)", "avg(price) AS mean", keys="symbol")`."""
        kind_of(
            "keys", keys, (str, tuple, list), reason="not names of columns", remedy='give one or several, as ("symbol", "venue")'
        )
        names = (keys,) if isinstance(keys, str) else tuple(keys)
        for key in names:
            words("keys", key, "symbol")
        for measure in measures:
            words("measures", measure, "count(*)")
        if not measures:
            raise InvalidInput(value="aggregate()", reason="nothing to aggregate", remedy='name some: aggregate("count(*)")')
        asked = tuple(map(Measure.parse, measures))
        for named in (measure for measure in asked if measure.name.lower() in BOUNDS):
            reason, remedy = "the results have a column of that name themselves", 'give it another name: "min(ts) AS earliest"'
            raise InvalidInput(value=f"result {named.name}", reason=reason, remedy=remedy)
        return self.apply(Aggregate(asked, names, self.time))

    def apply(self, query: Query) -> Any:
        """Ask any query, also one of your own."""
        check_asked(self.df, query)
        check_streamed(self.df)
        rows, bound, helpers = bind(self.df, query)
        asked = ContinuousQuery(rows, self.time, self.windows, self.slack, bound, tuple(helpers), self.source, repr(query))
        return asked if self.df.isStreaming else asked.windows_of_all_rows()


@dataclass(frozen=True)
class ContinuousQuery:
    """A query over windows of a stream, ready to start."""

    rows: DataFrame
    time: str
    windows: Windows
    slack: Slack
    query: Query
    helpers: tuple[str, ...]
    source: OwnSource | None = None
    wording: str = ""

    def start(
        self,
        sink: Any,
        *,
        checkpoint: str | os.PathLike[str],
        trigger: Any = "500 ms",
        path: str | os.PathLike[str] | None = None,
        late: Any = None,
        windows: Any = None,
        invalid: Any = None,
        flush: bool = False,
        name: str | None = None,
        splitting: str | Splitting | None = None,
        pane_slots: int | None = None,
        window_slots: int = 1,
    ) -> "Run":
        """Start; windows come out in order, each once, also after a crash, as long as the checkpoint folder is there.

        `sink` is a function of (results, batch_id) that does the same again if called again with the same id, or "parquet" (with
        `path`), "console" or "memory". `late` gets the tuples that were dropped, `windows` one row a window: a function or the
        path of a Parquet folder each. `invalid` gets tuples that belong to no window: those without a time or with a wrong one, and
        rows that the query refuses, which would otherwise fail it. `trigger` is an interval or "availableNow", with which `flush` also closes the last windows.

        `splitting` says how tuples come to the `pane_slots`, the tasks of the pane level: "PB_RR", "TB_RR", "RATE", "AS" or "AS_PID", as
        the papers name them, "EVEN", or, for a query with keys, "KEYS", which divides the most frequent ones. Without it tuples are worked on where they are: in the partitions of the DataFrame, or
        evenly, where the source is a workload. The window level has up to `window_slots` tasks at once, if that is worth it.
        """
        kept = arrow_schema(self.rows.schema)
        check_start(
            self.rows,
            self.query,
            self.query.schema(kept),
            sink=sink,
            late=late,
            invalid=invalid,
            trigger=trigger,
            flush=flush,
            name=name,
            splitting=splitting,
            pane_slots=pane_slots,
            window_slots=window_slots,
        )
        if flush and trigger != AVAILABLE_NOW:
            raise InvalidInput(
                value="flush=True", reason="a stream that goes on has no last window", remedy='use trigger="availableNow"'
            )
        if sink == "parquet" and path and windows is None:
            windows = f"{os.fspath(path)}/_windows"
        interval_us = None if trigger == AVAILABLE_NOW else duration_us(trigger, "trigger")
        spark = self.rows.sparkSession
        aside = {"late": late, "windows": windows, "invalid": invalid}
        sinks = Sinks(sink_of(sink, path, spark), **{name: side_sink_of(given, name, spark) for name, given in aside.items()})
        place = checkpoint_place(spark, checkpoint)
        way = self._way(splitting)
        if pane_slots is None:
            pane_slots = (self.source and self.source.partitions) or spark.sparkContext.defaultParallelism
        rules = Rules(
            windows=self.windows,
            slack=self.slack,
            way=way,
            pane_slots=pane_slots,
            window_slots=window_slots,
            can_spread=self.query.skyline_inside() is not None,
            trigger_s=interval_us and interval_us / 1e6,
        )
        plan = self._plan(Store(place.files("skytide")), rules, late is not None, invalid is not None)
        plan.check_store()
        claim_all(sinks.folders, plan.store.identity(), place.uri)
        engine = Engine(plan, sinks, SparkNotes(place.files("spark")))
        engine.resize(pane_slots, window_slots)
        known = bounded(self.rows.schema, self.time)
        rows = self.rows
        if self.source is not None and isinstance(way, InSource):
            reader = self.source.reader(self.rows.schema, place.files("fleet"), interval_us)
            rows = load_panes(spark, reader, plan)

        def run_batch(batch: DataFrame, batch_id: int) -> None:
            engine.run_batch(SparkJobs(batch.sparkSession, known), batch, batch_id)

        writer = rows.writeStream.foreachBatch(run_batch).option("checkpointLocation", place.spark)
        if name:
            writer = writer.queryName(name)
        every = {"availableNow": True} if interval_us is None else {"processingTime": f"{interval_us} microseconds"}
        jobs = SparkJobs(spark, known)
        engine.finish_flush(jobs)
        return Run(writer.trigger(**every).start(), engine, jobs, flush, self.source)

    def windows_of_all_rows(self) -> DataFrame:
        """Give the windows of rows that are all there, in one lazy plan."""
        return windows_of_rows(self.rows, self.time, self.windows, self.query).drop(*self.helpers)

    def _way(self, splitting: str | Splitting | None) -> Way:
        """Return how tuples reach slots: expressions are Spark's to compute, and tuples in turn or in equal parts need no shuffle."""
        given = None if splitting is None else strategy_of(splitting)
        inside = self.source.way(given) if self.source is not None and not self.helpers else None
        if inside is not None:
            return inside
        strategy = given or TB_RR
        return InPlace() if strategy in (TB_RR, EVEN) else Sent(strategy)

    def _plan(self, store: Store, rules: Rules, late_wanted: bool, invalid_wanted: bool) -> Plan:
        return Plan(
            query=self.query,
            rules=rules,
            time=self.time,
            columns=arrow_schema(self.rows.schema),
            helpers=self.helpers,
            store=store,
            wording=self.wording,
            late_wanted=late_wanted,
            invalid_wanted=invalid_wanted,
        )


class Run:
    """A continuous query that runs."""

    def __init__(
        self, query: StreamingQuery, engine: Engine, jobs: SparkJobs, flush: bool, source: OwnSource | None = None
    ) -> None:
        """Watch over a started query."""
        self._source = source
        self.query = query
        """Spark's own handle."""
        self._engine, self._jobs = engine, jobs
        self._done = threading.Lock()
        self._flushed = not flush
        self._stop_query, query.stop = query.stop, self._cut_off  # type: ignore[method-assign]

    def status(self) -> Status:
        """How the query is doing."""
        return self._engine.status()

    def windows(self) -> list[WindowRow]:
        """The latest windows that came out, oldest first."""
        return self._engine.recent_windows()

    def resize(self, pane_slots: int | None = None, window_slots: int | None = None) -> None:
        """Change the number of slots of either level, from the next batch on; results do not depend on it."""
        check_slots("pane_slots", pane_slots)
        check_slots("window_slots", window_slots)
        self._engine.resize(pane_slots, window_slots)

    def seconds(self) -> dict[str, float]:
        """Where the time went so far, by step of a batch, and within the tasks of both levels."""
        return dict(self._engine.seconds)

    def expected_hz(self) -> float | None:
        """What the source expects soon, in tuples a second; None if it cannot tell."""
        return None if self._source is None else self._source.expected_hz()

    def results(self) -> pa.Table:
        """All results so far, of a query with the sink "memory"."""
        if not isinstance(self._engine.sinks.results, MemorySink):
            raise InvalidInput(
                value="results()", reason="they went to the sink", remedy='start with sink="memory" to keep them here'
            )
        return self._engine.sinks.results.table()

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the query has ended (or for `timeout` seconds), with the last windows out if it flushes; raise if it failed."""
        if timeout is not None:
            real("timeout", timeout, above=0, meaning="seconds to wait, more than 0, or None to wait for the end")
        ended = self.query.awaitTermination(timeout)  # type: ignore[arg-type]
        if ended or timeout is None:
            with self._done:
                if not self._flushed:
                    self._engine.flush(self._jobs)
                    self._flushed = True
            self._engine.plan.store.release()
        return not self.query.isActive

    def stop(self) -> None:
        """End the query after what it is doing now; a later start with the same checkpoint goes on from there."""
        latest = self.status().batch
        while self.query.isActive and self.status().batch == latest and self._in_a_batch():
            self.query.awaitTermination(0.05)  # type: ignore[arg-type]
        self.query.stop()

    def _cut_off(self) -> None:
        """Stop Spark's query, whoever asked for it: the stream has not ended, so its last windows stay open."""
        if self.query.isActive:
            self._flushed = True
        self._stop_query()
        self._engine.plan.store.release()

    def _in_a_batch(self) -> bool:
        status = self.query.status
        return bool(status["isTriggerActive"] and status["isDataAvailable"])
