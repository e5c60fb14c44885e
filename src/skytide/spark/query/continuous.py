"""A continuous query, ready to start."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from skytide.batch import DRIVER_S, POLL_US, InPlace, InSource, Keying, Pace, Rules, Sent, Way
from skytide.errors import InvalidInput
from skytide.errors.checks import words
from skytide.keyed import KeyedStep, TimeWindows
from skytide.lateness import Slack
from skytide.queries import Query
from skytide.routing import EVEN, TB_RR, Splitting, strategy_of
from skytide.spark.checkpoint import SparkNotes, Store, checkpoint_place
from skytide.spark.engine.engine import Engine, Plan
from skytide.spark.engine.jobs import SparkJobs, describe
from skytide.spark.engine.pinning import Pins
from skytide.spark.query.binding import bind, bounded, spark_schema
from skytide.spark.query.checks import check_asked, check_start, check_streamed
from skytide.spark.query.run import Run
from skytide.spark.query.windows_of_rows import windows_of_rows
from skytide.spark.session.failure import cut_off
from skytide.spark.sinks.outlets import Sinks
from skytide.spark.sinks.parquet import ParquetSink, claim_all
from skytide.spark.sinks.sinks import MemorySink, SideSink, Sink, TableSink, side_sink_of, sink_of
from skytide.spark.sources.panes import OwnSource, load_panes
from skytide.spark.types import arrow_schema
from skytide.windows import Duration, Windows, duration_us

AVAILABLE_NOW, AUTO = "availableNow", "auto"


def asked(
    kind: "type[ContinuousQuery]",
    df: DataFrame,
    time: str,
    windows: Windows,
    slack: Slack,
    query: Query,
    source: OwnSource | None,
) -> "ContinuousQuery | DataFrame":
    """Return a query over windows of time, ready to start, or its answers if the rows do not stream."""
    check_asked(df, query)
    check_streamed(df)
    rows, bound, helpers = bind(df, query)
    found = kind(rows, time, windows, slack, bound, tuple(helpers), source, repr(query))
    return found if df.isStreaming else found.windows_of_all_rows()


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
    step: KeyedStep | None = None
    """What is done with the tuples of each key, if this is an operator on keys."""
    slots: int | None = None

    def start(
        self,
        sink: Sink | str,
        *,
        checkpoint: str | os.PathLike[str],
        trigger: Duration = "500 ms",
        path: str | os.PathLike[str] | None = None,
        options: Mapping[str, str] | None = None,
        late: SideSink | None = None,
        windows: SideSink | None = None,
        invalid: SideSink | None = None,
        flush: bool = False,
        name: str | None = None,
        splitting: str | Splitting | None = None,
        pane_slots: int | None = None,
        window_slots: int = 1,
    ) -> "Run":
        """Start the query, and return its handle; windows come out in order, each once, even after a crash, as long as the checkpoint is there.

        `sink` is a function of (results, batch_id) that does the same again if called again with the same id, or "parquet" (with
        `path`), "console", "memory" (SQL knows its results as a table called `name`), or any format that Spark can write to, with its
        `options`. `late` gets the tuples that were dropped, `windows` one row per window, and `invalid` the tuples that belong to no
        window: those without a time or with a wrong one, and rows that the query refuses, which would otherwise make it fail. Each of
        the three is a function, or the path of a Parquet folder. `trigger` is an interval; or "auto": batches begin right after windows
        have ended; or "availableNow", with which `flush` closes the last windows, too.

        `splitting` says how tuples get to the `pane_slots`, the tasks of the pane level: "PB_RR", "TB_RR", "RATE", "AS" or "AS_PID", as
        the papers name them, "EVEN", or, for a query with keys, "KEYS", which divides the most frequent ones. Without it, tuples are
        processed where they are: in the partitions of the DataFrame, or spread evenly if the source is a workload. The window level has
        up to `window_slots` tasks at once, if that is worth it. On a cluster while it is little, and without one always, its work is done
        on the driver, in up to 4 threads, or `window_slots` if that is more.
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
                value="flush=True", reason="an endless stream has no last window", remedy='use trigger="availableNow"'
            )
        if sink == "parquet" and path and windows is None:
            windows = f"{os.fspath(path)}/_windows"
        pace = Pace(self.windows) if trigger == AUTO else None
        interval_us = None if trigger == AVAILABLE_NOW else pace.interval_us if pace else duration_us(trigger, "trigger")
        spark = self.rows.sparkSession
        aside = {"late": late, "windows": windows, "invalid": invalid}
        given = sink_of(sink, path, spark, options, str(checkpoint))
        sinks = Sinks(given, **{name: side_sink_of(given, name, spark) for name, given in aside.items()})
        place = checkpoint_place(spark, checkpoint)
        way = self._way(splitting)
        if pane_slots is None:
            pane_slots = (self.source and self.source.partitions) or spark.sparkContext.defaultParallelism
        pins = Pins(spark)
        rules = Rules(
            windows=self.windows,
            slack=self.slack,
            way=way,
            pane_slots=pane_slots,
            window_slots=window_slots,
            can_spread=self.query.skyline_inside() is not None,
            driver_pays_s=float("inf") if pins.local else DRIVER_S,
            trigger_s=interval_us and interval_us / 1e6,
            keying=self._keying(spark.sparkContext.defaultParallelism),
        )
        plan = self._plan(Store(place.files("skytide")), rules, late is not None, invalid is not None)
        plan.check_store()
        claim_all(sinks.folders, plan.store.identity(), place.uri)
        known = bounded(self.rows.schema, self.time)
        outlet = plan.outlet(sinks)
        if isinstance(given, MemorySink):
            given.begin(spark_schema(known, outlet.results), name)
        for aside_sink in (sinks.late, sinks.invalid):
            if isinstance(aside_sink, ParquetSink):
                aside_sink.begin(outlet.rows)
        engine = Engine(plan, sinks, SparkNotes(place.files("spark")))
        engine.resize(pane_slots, window_slots)
        rows, trigger_us = self.rows, pace.unaligned_us if pace else interval_us
        if self.source is not None and isinstance(way, InSource):
            reader = self.source.reader(self.rows.schema, place.files("fleet"), interval_us)
            rows, trigger_us = load_panes(spark, reader, plan, pace), POLL_US if pace else interval_us

        def run_batch(batch: DataFrame, batch_id: int) -> None:
            describe(batch.sparkSession, engine.status())
            try:
                engine.run_batch(self._jobs(batch.sparkSession, known, pins), batch, batch_id)
            except Exception as error:
                if (short := cut_off(error)) is not None:
                    raise short from None
                raise

        writer = rows.writeStream.foreachBatch(run_batch).option("checkpointLocation", place.spark)
        if name:
            writer = writer.queryName(name)
        every = {"availableNow": True} if trigger_us is None else {"processingTime": f"{trigger_us} microseconds"}
        jobs = self._jobs(spark, known, pins)
        engine.finish_flush(jobs)
        return Run(writer.trigger(**every).start(), engine, jobs, flush, self.source)

    def toTable(
        self,
        table: str,
        *,
        checkpoint: str | os.PathLike[str],
        format: str | None = None,
        options: Mapping[str, str] | None = None,
        trigger: Duration = "500 ms",
        late: SideSink | None = None,
        windows: SideSink | None = None,
        invalid: SideSink | None = None,
        flush: bool = False,
        name: str | None = None,
    ) -> "Run":
        """Start the query with a table of Spark's catalog as its sink, and return its handle; the other arguments are those of `start`."""
        words("table", table, "best_hotels")
        sink = TableSink(table, format, options or {}, str(checkpoint))
        return self.start(
            sink, checkpoint=checkpoint, trigger=trigger, late=late, windows=windows, invalid=invalid, flush=flush, name=name
        )

    def windows_of_all_rows(self) -> DataFrame:
        """Return the windows of rows that do not stream, in one lazy plan."""
        return windows_of_rows(self.rows, self.time, self.windows, self.query).drop(*self.helpers)

    def _jobs(self, spark: SparkSession, known: StructType, pins: Pins) -> SparkJobs:
        return SparkJobs(spark, known, pins)

    def _way(self, splitting: str | Splitting | None) -> Way:
        """Return how tuples reach slots: with expressions, Spark has to compute them first; by turns or in equal parts, no shuffle is needed."""
        given = None if splitting is None else strategy_of(splitting)
        inside = self.source.way(given) if self.source is not None and not self.helpers else None
        if inside is not None:
            return inside
        strategy = given or TB_RR
        return InPlace() if strategy in (TB_RR, EVEN) else Sent(strategy)

    def _keying(self, slots: int) -> Keying | None:
        if self.step is None:
            return None
        windows = self.step.windows
        return Keying(self.slots or slots, windows=windows.windows if isinstance(windows, TimeWindows) else None)

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
            step=self.step,
        )
