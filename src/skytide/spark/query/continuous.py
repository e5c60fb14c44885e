"""A continuous query, ready to start."""

import os
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from skytide.batch import DRIVER_S, POLL_US, BatchRules, Delivery, InPlace, InSource, Keying, Pace, Sent
from skytide.errors import InvalidInput
from skytide.errors.checks import check_text
from skytide.keyed import KeyedStep, Tagged, TimeWindows
from skytide.lateness import Slack
from skytide.queries import Identity, Query
from skytide.routing import EVEN, TB_RR, Splitting, strategy_of
from skytide.spark.arrow import arrow_schema, bounded, spark_schema
from skytide.spark.checkpoint import SparkNotes, Store, checkpoint_place, place_of
from skytide.spark.checkpoint.sink_notes import SinkNote, note_sinks
from skytide.spark.engine.engine import Engine, Plan
from skytide.spark.engine.jobs import SparkJobs, describe
from skytide.spark.engine.pinning import Pins
from skytide.spark.query.binding import bind
from skytide.spark.query.checks import check_asked, check_start, check_streamed
from skytide.spark.query.folders import check_folders
from skytide.spark.query.retained import has_state, notes_retained
from skytide.spark.query.run import Run
from skytide.spark.query.windows_of_rows import windows_of_rows
from skytide.spark.session.failure import cut_off
from skytide.spark.sinks.folder import claim_all
from skytide.spark.sinks.outlets import Sinks
from skytide.spark.sinks.parquet import ParquetSink
from skytide.spark.sinks.sinks import MemorySink, SideSink, Sink, TableSink, side_sink_of, sink_named, sink_of
from skytide.spark.sources.panes import OwnSource, load_panes
from skytide.windows import Duration, Windows, duration_us

AVAILABLE_NOW, AUTO = "availableNow", "auto"
UNREAD = "the fleet's invalid"


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
    identity = query.identity()  # before anything could change the query
    rows, bound, helpers = bind(df, query)
    found = kind(rows, time, windows, slack, bound, tuple(helpers), source, identity)
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
    identity: Identity | None = None
    """The query as it was written, before expressions became columns."""
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
        spark = self.rows.sparkSession
        sink = sink_named(sink, spark)
        check_start(
            self.rows,
            self.query,
            self.step.results if self.step else self.query.schema(arrow_schema(self.rows.schema)),
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
        aside = {"late": late, "windows": windows, "invalid": invalid}
        given = sink_of(sink, path, spark, options)
        sides = {name: side_sink_of(given, name, spark) for name, given in aside.items()}
        sinks = Sinks(given, late=sides["late"], windows=sides["windows"], invalid=sides["invalid"])
        unread = self.source.folder() if self.source is not None else None
        self._check_folders({"path": path, **aside, UNREAD: unread and unread.files.uri, "checkpoint": checkpoint})
        place = checkpoint_place(spark, checkpoint)
        delivery = self._delivery(splitting)
        if isinstance(delivery, InSource):
            sinks = replace(sinks, unread=unread)
        if pane_slots is None:
            pane_slots = (self.source and self.source.partitions) or spark.sparkContext.defaultParallelism
        pins = Pins(spark)
        store = Store(place.files("skytide"))
        seed = store.key_seed() if self.step else 0
        rules = BatchRules(
            windows=self.windows,
            slack=self.slack,
            delivery=delivery,
            pane_slots=pane_slots,
            window_slots=window_slots,
            can_spread=self.query.skyline_inside() is not None,
            driver_pays_s=float("inf") if pins.local else DRIVER_S,
            trigger_s=interval_us and interval_us / 1e6,
            input_has_state=has_state(self.rows),
            keying=self._keying(spark.sparkContext.defaultParallelism, seed),
        )
        plan = self._plan(store, rules, late is not None, invalid is not None).continued()
        claim_all(sinks.folders, plan.store.identity(), plan.store.checkpoint, plan.store.latest().sequence)
        known = bounded(self.rows.schema, self.time)
        outlet = plan.outlet(sinks)
        if isinstance(given, MemorySink):
            given.begin(spark_schema(known, outlet.results), name)
        for each, columns in outlet.tables():
            if isinstance(each, ParquetSink):
                each.begin(columns, spark_schema(known, columns))
        engine = Engine(plan, sinks, SparkNotes(place.files("spark")))
        if unread is not None and sinks.unread is None:  # Spark reads the fleet, and its batches have other numbers
            note_sinks(store.files, [SinkNote("unread", "folder", unread.files.uri)])
        engine.resize(pane_slots, window_slots)
        rows, trigger_us = self.rows, pace.unaligned_us if pace else interval_us
        if self.source is not None and isinstance(delivery, InSource):
            reader = self.source.reader(self.rows.schema, place.files("fleet"), interval_us)
            rows, trigger_us = load_panes(spark, reader, plan, pace), POLL_US if pace else interval_us

        held = weakref.ref(engine)  # Java keeps this function after the query has ended, and must not keep its rows in memory

        def run_batch(batch: DataFrame, batch_id: int) -> None:
            alive = held()
            assert alive is not None, "a query that runs has an engine"
            describe(batch.sparkSession, alive.status())
            try:
                alive.run_batch(self._jobs(batch.sparkSession, known, pins), batch, batch_id)
            except Exception as error:
                alive.plan.store.release()  # the query ends with this
                if (short := cut_off(error)) is not None:
                    raise short from None
                raise

        writer = rows.writeStream.foreachBatch(run_batch).option("checkpointLocation", place.spark)
        if name:
            writer = writer.queryName(name)
        every = {"availableNow": True} if trigger_us is None else {"processingTime": f"{trigger_us} microseconds"}
        jobs = self._jobs(spark, known, pins)
        try:
            engine.finish_flush(jobs)
            with notes_retained(rows, trigger_us):
                query = writer.trigger(**every).start()
        except BaseException:
            store.release()
            raise
        return Run(query, engine, jobs, flush, self.source)

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
        check_text("table", table, "best_hotels")
        sink = TableSink(table, format, options or {})
        return self.start(
            sink, checkpoint=checkpoint, trigger=trigger, late=late, windows=windows, invalid=invalid, flush=flush, name=name
        )

    def windows_of_all_rows(self) -> DataFrame:
        """Return the windows of rows that do not stream, in one lazy plan."""
        return windows_of_rows(self.rows, self.time, self.windows, self.query).drop(*self.helpers)

    def _check_folders(self, given: Mapping[str, Any]) -> None:
        """Refuse folders that would get in each other's way, before anything is written."""
        spark = self.rows.sparkSession
        named = {argument: folder for argument, folder in given.items() if isinstance(folder, str | os.PathLike)}
        check_folders({argument: place_of(spark, folder, argument).uri for argument, folder in named.items()})

    def _jobs(self, spark: SparkSession, known: StructType, pins: Pins) -> SparkJobs:
        return SparkJobs(spark, known, pins)

    def _delivery(self, splitting: str | Splitting | None) -> Delivery:
        """Return how tuples reach slots: with expressions, Spark has to compute them first; by turns or in equal parts, no shuffle is needed."""
        given = None if splitting is None else strategy_of(splitting)
        inside = self.source.delivery(given) if self.source is not None and not self.helpers else None
        if inside is not None:
            return inside
        strategy = given or TB_RR
        return InPlace() if strategy in (TB_RR, EVEN) else Sent(strategy)

    def _keying(self, slots: int, seed: int) -> Keying | None:
        if self.step is None:
            return None
        windows = self.step.windows
        return Keying(self.slots or slots, windows=windows.windows if isinstance(windows, TimeWindows) else None, seed=seed)

    def _plan(self, store: Store, rules: BatchRules, late_wanted: bool, invalid_wanted: bool) -> Plan:
        return Plan(
            query=replace(self.query, seed=rules.keying.seed) if rules.keying and isinstance(self.query, Tagged) else self.query,
            rules=rules,
            time=self.time,
            columns=arrow_schema(self.rows.schema),
            helpers=self.helpers,
            store=store,
            known_as=self.identity,
            late_wanted=late_wanted,
            invalid_wanted=invalid_wanted,
            step=self.step,
        )
