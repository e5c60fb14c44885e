"""Continuous queries as people write them: `stream(df).window(...).skyline(...).start(...)`."""

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import NullType, StructType, TimestampNTZType, TimestampType

from skytide.errors import InvalidInput
from skytide.lateness import KSlack, Slack
from skytide.queries import Aggregate, KDominant, Levels, Measure, Nulls, Query, Skyband, Skyline, TopDelta, TopK, combine, high
from skytide.queries.preferences import Preference
from skytide.records import Status, WindowRow
from skytide.routing import TB_RR, Splitting, strategy_of
from skytide.spark.binding import HELPER, arrow_schema, bind, bounded, spark_schema
from skytide.spark.checkpoint import SparkNotes, Store, checkpoint_place
from skytide.spark.dataframe import count_of
from skytide.spark.engine import Engine, Plan, Sinks
from skytide.spark.jobs import SparkJobs
from skytide.spark.pane_level import by_pane
from skytide.spark.pane_source import load_panes
from skytide.spark.parquet_sink import claim_all
from skytide.spark.sinks import MemorySink, side_sink_of, sink_of
from skytide.spark.tasks import Reducer
from skytide.spark.window_level import BOUNDS, result_columns, with_bounds
from skytide.spark.workload_source import WorkloadStream
from skytide.windows import Windows, duration_us, sliding

WINDOW = "__skytide_window"
AVAILABLE_NOW = "availableNow"


def stream(source: DataFrame | WorkloadStream, *, time: str = "ts") -> "Stream":
    """Start a chain over a DataFrame, streaming or not, or a `workload(...)`; `time` names the column with the time of each tuple."""
    own = source if isinstance(source, WorkloadStream) else None
    df = source.load(_session()) if isinstance(source, WorkloadStream) else source
    if time not in df.columns:
        raise InvalidInput(
            value=f"time={time!r}", reason="there is no such column", remedy=f"choose one of {', '.join(df.columns)}"
        )
    kind = df.schema[time].dataType
    if not isinstance(kind, TimestampType | TimestampNTZType):
        raise InvalidInput(
            value=f"time={time!r} of type {kind.simpleString()}",
            reason="windows need a timestamp",
            remedy=f'cast it first: df.withColumn("{time}", F.timestamp_millis("{time}")), or to_timestamp',
        )
    return Stream(df, time, own)


def _session() -> SparkSession:
    session = SparkSession.getActiveSession()
    if session is None:
        raise InvalidInput(value="no Spark session", reason="a workload runs on Spark too", remedy="start a SparkSession first")
    return session


@dataclass(frozen=True)
class Stream:
    """Tuples with a time."""

    df: DataFrame
    time: str
    source: WorkloadStream | None = None

    def window(self, length: Any, slide: Any = None, slack: Slack | None = None) -> "Windowed":
        """Cut the stream into windows; `slack` says how long to wait for late tuples (the longest delay seen, if not given)."""
        if slack is not None and not isinstance(slack, Slack):
            raise InvalidInput(
                value=f"slack={slack!r}", reason="not a slack", remedy='pass KSlack(), DropRatio(0.01) or FixedSlack("2 s")'
            )
        return Windowed(self.df, self.time, sliding(length, slide), slack or KSlack(), self.source)


@dataclass(frozen=True)
class Windowed:
    """A stream cut into windows. A query on it gives a DataFrame if the rows do not stream, otherwise something to start."""

    df: DataFrame
    time: str
    windows: Windows
    slack: Slack
    source: WorkloadStream | None = None

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
        names = (keys,) if isinstance(keys, str) else tuple(keys)
        if not measures:
            raise InvalidInput(value="aggregate()", reason="nothing to aggregate", remedy='name some: aggregate("count(*)")')
        return self.apply(Aggregate(tuple(map(Measure.parse, measures)), names, self.time))

    def apply(self, query: Query) -> Any:
        """Ask any query, also one of your own."""
        _check_columns(self.df)
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
    source: WorkloadStream | None = None
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
        flush: bool = False,
        name: str | None = None,
        splitting: str | Splitting | None = None,
        pane_slots: int | None = None,
        window_slots: int = 1,
    ) -> "Run":
        """Start; windows come out in order, each once, also after a crash, as long as the checkpoint folder is there.

        `sink` is a function of (results, batch_id) that does the same again if called again with the same id, or "parquet" (with
        `path`), "console" or "memory". `late` gets the tuples that were dropped, `windows` one row a window: a function or the
        path of a Parquet folder each. `trigger` is an interval or "availableNow", with which `flush` also closes the last windows.

        `splitting` says how tuples come to the `pane_slots`, the tasks of the pane level: "PB_RR", "TB_RR", "RATE", "AS" or "AS_PID", as
        the papers name them, or "EVEN". Without it tuples are worked on where they are: in the partitions of the DataFrame, or
        evenly, where the source is a workload. The window level has up to `window_slots` tasks at once, if that is worth it.
        """
        if flush and trigger != AVAILABLE_NOW:
            raise InvalidInput(
                value="flush=True", reason="a stream that goes on has no last window", remedy='use trigger="availableNow"'
            )
        if sink == "parquet" and path and windows is None:
            windows = f"{os.fspath(path)}/_windows"
        spark = self.rows.sparkSession
        interval_us = None if trigger == AVAILABLE_NOW else duration_us(trigger, "trigger")
        sinks = Sinks(sink_of(sink, path, spark), side_sink_of(late, "late", spark), side_sink_of(windows, "windows", spark))
        pushed_down = self.source is not None and not self.helpers  # expressions are Spark's to compute
        strategy = strategy_of(splitting or ("EVEN" if pushed_down else "TB_RR"))
        routes = not pushed_down and strategy.name not in ("TB_RR", "EVEN")  # those two need no shuffle
        if pane_slots is None:
            pane_slots = self.source.partitions if self.source else self.rows.sparkSession.sparkContext.defaultParallelism
        place = checkpoint_place(spark, checkpoint)
        plan = replace(
            self._plan(Store(place.files("skytide"))),
            splitting=strategy if pushed_down or routes else TB_RR,
            pane_slots=pane_slots,
            window_slots=window_slots,
        )
        plan.check_store()
        claim_all((sinks.results, sinks.late, sinks.windows), plan.store.identity(), place.uri)
        engine = Engine(plan, sinks, interval_us and interval_us / 1e6, routes, SparkNotes(place.files("spark")))
        engine.resize(pane_slots, window_slots)
        known = bounded(self.rows.schema, self.time)
        rows = self.rows
        if self.source is not None and pushed_down:
            rows = load_panes(rows.sparkSession, self.source, engine.plan, late_wanted=late is not None)

        def run_batch(batch: DataFrame, batch_id: int) -> None:
            engine.run_batch(SparkJobs(batch.sparkSession, known, pushed_down), batch, batch_id)

        writer = rows.writeStream.foreachBatch(run_batch).option("checkpointLocation", place.spark)
        if name:
            writer = writer.queryName(name)
        every = {"availableNow": True} if interval_us is None else {"processingTime": f"{interval_us} microseconds"}
        jobs = SparkJobs(rows.sparkSession, known, pushed_down)
        engine.finish_flush(jobs)
        return Run(writer.trigger(**every).start(), engine, jobs, flush)

    def windows_of_all_rows(self) -> DataFrame:
        """Give the windows of rows that are all there: each window computed from its panes, in one lazy plan."""
        columns = arrow_schema(self.rows.schema)
        query, windows, time = self.query, self.windows, self.time

        def keep(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            panes: dict[int, Reducer] = {}
            for batch in batches:
                for pane, rows in by_pane(pa.Table.from_batches([batch]).cast(columns), time, windows):
                    panes.setdefault(pane, Reducer(query)).add(rows)
            for pane, reducer in panes.items():
                kept = reducer.kept()
                for window in range(windows.first_of_pane(pane), windows.last_of_pane(pane) + 1):
                    yield from kept.append_column(WINDOW, pa.array([window] * kept.num_rows, pa.int64())).to_batches()

        def answer(kept: pa.Table) -> pa.Table:
            kept, window = kept.cast(kept_columns), kept[WINDOW][0].as_py()
            return with_bounds(query.window(query.merge(kept.drop_columns([WINDOW]))), windows, window, columns.field(time).type)

        kept_columns = query.kept_schema(columns).append(pa.field(WINDOW, pa.int64()))
        own = bounded(self.rows.schema, time)
        kept = self.rows.mapInArrow(keep, spark_schema(own, kept_columns))
        results = result_columns(query, columns, columns.field(time).type)
        return kept.groupBy(WINDOW).applyInArrow(answer, spark_schema(own, results)).drop(*self.helpers)

    def _plan(self, store: Store) -> Plan:
        return Plan(
            query=self.query,
            windows=self.windows,
            slack=self.slack,
            time=self.time,
            columns=arrow_schema(self.rows.schema),
            helpers=self.helpers,
            store=store,
            wording=self.wording,
        )


def _check_columns(df: DataFrame) -> None:
    """Refuse columns that could not come out again beside the bounds of their window."""
    for number, field in enumerate(df.schema.fields):
        if field.name.lower() in BOUNDS or field.name.startswith(HELPER):
            reason, remedy = "the results have a column of that name themselves", "rename it before skytide.stream"
        elif field.name in df.columns[:number]:
            reason, remedy = "several columns have that name", "rename or drop all but one before skytide.stream"
        elif not isinstance(field.dataType, NullType) and pa.types.is_null(arrow_schema(StructType([field])).field(0).type):
            reason, remedy = f"its type {field.dataType.simpleString()} has no Arrow form", "cast or drop it before skytide.stream"
        else:
            continue
        raise InvalidInput(value=f"column {field.name}", reason=reason, remedy=remedy)


class Run:
    """A continuous query that runs."""

    def __init__(self, query: StreamingQuery, engine: Engine, jobs: SparkJobs, flush: bool) -> None:
        """Watch over a started query."""
        self.query = query
        """Spark's own handle."""
        self._engine, self._jobs = engine, jobs
        self._done = threading.Lock()
        self._flushed = not flush

    def status(self) -> Status:
        """How the query is doing."""
        return self._engine.status()

    def windows(self) -> list[WindowRow]:
        """The latest windows that came out, oldest first."""
        return self._engine.recent_windows()

    def resize(self, pane_slots: int | None = None, window_slots: int | None = None) -> None:
        """Change the number of slots of either level, from the next batch on; results do not depend on it."""
        self._engine.resize(pane_slots, window_slots)

    def seconds(self) -> dict[str, float]:
        """Where the time went so far, by step of a batch, and within the tasks of both levels."""
        return dict(self._engine.seconds)

    def results(self) -> pa.Table:
        """All results so far, of a query with the sink "memory"."""
        if not isinstance(self._engine.sinks.results, MemorySink):
            raise InvalidInput(
                value="results()", reason="they went to the sink", remedy='start with sink="memory" to keep them here'
            )
        return self._engine.sinks.results.table()

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the query has ended (or for `timeout` seconds), with the last windows out if it flushes; raise if it failed."""
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
        if self.query.isActive:
            self._flushed = True  # the stream has not ended: its last windows stay open
        while self.query.isActive and self.status().batch == latest and self._in_a_batch():
            self.query.awaitTermination(0.05)  # type: ignore[arg-type]
        self.query.stop()
        self._engine.plan.store.release()

    def _in_a_batch(self) -> bool:
        status = self.query.status
        return bool(status["isTriggerActive"] and status["isDataAvailable"])
