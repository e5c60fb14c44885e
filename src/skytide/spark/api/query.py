"""A continuous query, ready to start."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from skytide.batch import DRIVER_S, POLL_US, BatchRules, Delivery, InPlace, InSource, InSplits, Sent
from skytide.errors.checks import refused
from skytide.errors.deprecation import warn_renamed
from skytide.lateness import Slack
from skytide.queries import Aggregate, Query, Queryable
from skytide.routing import AUTO, IN_PLACE, Splitting
from skytide.spark.api.binding import bind
from skytide.spark.api.chain import aggregated_frame, asked_over
from skytide.spark.api.checks import check_asked, check_streamed
from skytide.spark.api.launch import launch
from skytide.spark.api.options import (
    Parallelism,
    Sides,
    SplittingName,
    Timing,
    Trigger,
    check_name,
    check_places,
    checked_parallelism,
    one_form,
    sinks_of,
)
from skytide.spark.api.retained import has_state
from skytide.spark.api.run import Run
from skytide.spark.api.windows_of_rows import windows_of_rows
from skytide.spark.arrow import arrow_schema, bounded
from skytide.spark.checkpoint import Place, SparkLogs, Store, checkpoint_place
from skytide.spark.checkpoint.sink_notes import SinkNote, note_sinks
from skytide.spark.engine.engine import Engine
from skytide.spark.engine.jobs import SparkJobs
from skytide.spark.engine.pinning import Pins
from skytide.spark.engine.spec import QuerySpec
from skytide.spark.sinks.base import OnSpark, SideSink, Sink, SinkFunction
from skytide.spark.sinks.table import Table
from skytide.spark.sources.panes import OwnSource, load_panes
from skytide.windows import Windows

_IN_SPEC = frozenset({"helpers", "identity", "query", "slack", "step", "time", "windows"})


def ask(
    df: DataFrame, time: str, windows: Windows, slack: Slack, query: Query, source: OwnSource | None
) -> "ContinuousQuery | DataFrame":
    """Return a query over windows of time, ready to start, or its answers if the rows do not stream."""
    check_asked(df, query)
    check_streamed(df)
    identity = query.identity()  # before anything could change the query
    rows, bound, helpers = bind(df, query)
    spec = QuerySpec(bound, time, arrow_schema(rows.schema), windows, slack, tuple(helpers), identity=identity)
    asked = ContinuousQuery(rows, spec, source)
    return asked if df.isStreaming else asked.windows_of_all_rows()


@dataclass(frozen=True)
class ContinuousQuery(Queryable["ContinuousQuery"]):
    """A query over a stream, ready to start; one that aggregates windows of time can be asked further, window by window."""

    rows: DataFrame
    spec: QuerySpec
    source: OwnSource | None = None

    if not TYPE_CHECKING:  # for a type checker there is what is above, and nothing else

        def __getattr__(self, name: str) -> object:
            """Return what was a field before queries had a `spec`, with a warning."""
            if name not in _IN_SPEC:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            warn_renamed(f"ContinuousQuery.{name}", f"ContinuousQuery.spec.{name}")
            return getattr(self.spec, name)

    def apply(self, query: Query) -> "ContinuousQuery":
        """Ask any query of the aggregates of each window."""
        return replace(self, spec=asked_over(self.rows, self.spec, query))

    def start(
        self,
        sink: Sink | SinkFunction | str,
        *,
        checkpoint: str | os.PathLike[str],
        trigger: Trigger = "500 ms",
        path: str | os.PathLike[str] | None = None,
        options: Mapping[str, str] | None = None,
        late: SideSink | None = None,
        windows: SideSink | None = None,
        invalid: SideSink | None = None,
        sides: Sides | None = None,
        flush: bool = False,
        name: str | None = None,
        splitting: SplittingName | Splitting | None = None,
        pane_slots: int | None = None,
        window_slots: int | None = None,
        slots: int | None = None,
        parallelism: Parallelism | None = None,
    ) -> Run:
        """Start the query, and return its handle.

        Results come out in order, each once, even after a crash, as long as the checkpoint is there. More in [sinks.md](sinks.md).

        Parameters
        ----------
        sink
            Where results go: one of `skytide.sinks` or a subclass of `skytide.sinks.Sink`; a function of (results, sequence) that does the
            same again if called again with the same number; or "parquet" (with `path`), "console", "memory" (SQL knows its results as
            a table called `name`), or any format that Spark can write to, with its `options`.
        checkpoint
            A folder of the query's own, from which a later start continues.
        trigger
            An interval; or "auto": batches begin right after windows have ended; or "availableNow": what is there is read once.
        path, options
            Of a sink that is named by a text.
        late
            Gets the tuples that were dropped: a sink, a function, or the path of a Parquet folder.
        windows
            Gets one row per window; an operator on keys has one for each batch with results.
        invalid
            Gets the tuples that belong to no window: those without a time or with a wrong one, and rows that the query refuses, which
            would otherwise make it fail.
        sides
            The last three as one object.
        flush
            Whether the last windows are closed when everything is read, with the trigger "availableNow".
        name
            What Spark's pages call the query.
        splitting
            How tuples get to the `pane_slots`: "auto", the default, works on them where they are, and sends them to slots where that
            takes less time, as when one partition has most of them; "IN_PLACE" never sends them; "PB_RR", "TB_RR", "RATE", "AS" and
            "AS_PID", as the papers name them, "EVEN", and, for a query with keys, "KEYS", which divides the most frequent ones, always
            do, unless the source is a workload, which makes its tuples in the slots.
        pane_slots
            The tasks of the pane level (default: one per core), with "auto" the most of them.
        window_slots
            The most tasks of the window level at once, used as far as that pays (default: as many as there are cores, also when
            executors come or go). While it is little, its work is done on the driver, in up to 4 threads, or `window_slots` if that is more.
        slots
            The tasks of an operator on keys that work at the same time (default: one per core); for other queries, the same as `pane_slots`.
        parallelism
            The last four as one object.

        Returns
        -------
        Run
            The handle of the query that runs.

        Raises
        ------
        InvalidInput
            If an argument makes no sense, a folder belongs to another query, or the checkpoint does.

        Examples
        --------
        ```python
        run = query.start("parquet", path="/data/best", checkpoint="/data/state")
        run = query.start(skytide.sinks.Parquet("/data/best"), checkpoint="/data/state")  # the same
        ```
        """
        spark = self.rows.sparkSession
        sides = one_form("sides", sides, Sides(late, windows, invalid))
        tasks = one_form("parallelism", parallelism, Parallelism(splitting, pane_slots, window_slots, slots))
        timing, tasks = Timing.of(trigger, flush, self.spec.windows), checked_parallelism(tasks, self.spec)
        check_name(self.rows, name)

        on = OnSpark(spark, bounded(self.rows.schema, self.spec.time), name)
        sinks = sinks_of(sink, path, options, sides, on)
        unread = self.source.folder() if self.source is not None else None
        check_places(sinks, self.spec, checkpoint, unread.files.uri if unread else "", on)
        place, pins = checkpoint_place(spark, checkpoint), Pins(spark)
        store = Store(place.files("skytide"))

        seed, cores = store.key_seed() if self.spec.step else 0, spark.sparkContext.defaultParallelism
        spec = replace(self.spec.seeded(seed), late_wanted=sinks.late is not None, invalid_wanted=sinks.invalid is not None)
        rules = self._rules(
            spec,
            delivery=(delivery := self._delivery(tasks)),
            pane_slots=tasks.pane_slots or (self.source and self.source.partitions) or cores,
            window_slots=tasks.window_slots or cores,
            slots_follow_cores=tasks.window_slots is None,
            driver_pays_s=float("inf") if pins.local else DRIVER_S,
            trigger_s=timing.interval_us and timing.interval_us / 1e6,
            input_has_state=has_state(self.rows),
            key_slots=tasks.slots or cores,
            seed=seed,
        )
        in_source = isinstance(delivery, InSource)
        engine = Engine(spec, rules, store, replace(sinks, unread=unread if in_source else None), SparkLogs(place.files("spark")))
        if unread is not None and not in_source:  # Spark reads the fleet, and its batches have other numbers
            note_sinks(store.files, [SinkNote("unread", "folder", unread.files.uri)])
        rows, trigger_us = self._input(engine, place, timing) if in_source else (self.rows, timing.unaligned_us)
        return launch(
            rows, engine, self._jobs(spark, on.fields, pins), place, trigger_us, name=name, flush=flush, source=self.source
        )

    def to_table(
        self,
        table: str,
        *,
        checkpoint: str | os.PathLike[str],
        format: str | None = None,
        options: Mapping[str, str] | None = None,
        trigger: Trigger = "500 ms",
        late: SideSink | None = None,
        windows: SideSink | None = None,
        invalid: SideSink | None = None,
        sides: Sides | None = None,
        flush: bool = False,
        name: str | None = None,
    ) -> Run:
        """Start the query with a table of Spark's catalog as its sink, and return its handle.

        Parameters
        ----------
        table
            The name of the table, which is created if it does not exist.
        format, options
            Of a table that is created.
        checkpoint, trigger, late, windows, invalid, sides, flush, name
            As in `start`.

        Returns
        -------
        Run
            The handle of the query that runs.

        Raises
        ------
        InvalidInput
            If an argument makes no sense, or the checkpoint belongs to another query.

        Examples
        --------
        ```python
        run = query.to_table("best_hotels", checkpoint="/data/state")
        ```
        """
        sides = one_form("sides", sides, Sides(late, windows, invalid))
        sink = Table(table, format, options)
        return self.start(sink, checkpoint=checkpoint, trigger=trigger, sides=sides, flush=flush, name=name)

    toTable = to_table

    def windows_of_all_rows(self) -> DataFrame:
        """Return the windows of rows that do not stream, in one lazy plan."""
        spec = self.spec
        answers = windows_of_rows(self.rows, spec.time, spec.windows, spec.query).drop(*spec.helpers)
        if not isinstance(spec.query, Aggregate):
            return answers
        return aggregated_frame(answers, lambda query: self.apply(query).windows_of_all_rows())

    def _input(self, engine: Engine, place: Place, timing: Timing) -> tuple[DataFrame, int | None]:
        """Return the reports of the pane level that runs in the source, and how often Spark asks for them."""
        assert self.source is not None
        reader = self.source.reader(self.rows.schema, place.files("fleet"), timing.interval_us)
        reports = load_panes(self.rows.sparkSession, reader, engine.spec, engine.rules, engine.store, timing.pace)
        return reports, POLL_US if timing.pace else timing.interval_us

    def _rules(self, spec: QuerySpec, **chosen: Any) -> BatchRules:
        return spec.rules(**chosen)

    def _jobs(self, spark: SparkSession, fields: StructType, pins: Pins) -> SparkJobs:
        return SparkJobs(spark, fields, pins)

    def _delivery(self, tasks: Parallelism) -> Delivery:
        """Return how tuples reach slots: with expressions, Spark has to compute them first, so a source of our own is like any other."""
        given = tasks.splitting if isinstance(tasks.splitting, Splitting) else AUTO if self.spec.step is None else IN_PLACE
        inside = self.source.delivery(given) if self.source is not None and not self.spec.helpers else None
        delivery = inside or (InPlace() if given.name == IN_PLACE.name else Sent(given))
        if tasks.pane_slots is not None and isinstance(delivery, InPlace | InSplits):
            where = "in place" if isinstance(delivery, InPlace) else "in the splits of the fleet"
            remedy = "leave it out" + (
                ', or choose splitting="auto"' if isinstance(delivery, InPlace) else ", and pass splits=... to skytide.fleet"
            )
            raise refused(
                "pane_slots", tasks.pane_slots, f"tuples are worked on {where}, so their number is that of the tasks", remedy
            )
        return delivery
