"""The pane level inside a source of skytide's own: only reports cross into the JVM, tuples never do.

The source generates the same tuples as for a DataFrame, and hands them to the same task as the pane level of any other DataFrame.
"""

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import LongType, StructField, StructType

from skytide.batch import BatchRules, Delivery, Pace
from skytide.routing import Router, Splitting
from skytide.spark.arrow import spark_schema
from skytide.spark.checkpoint import Files, Store
from skytide.spark.checkpoint.folder import OwnedFolder
from skytide.spark.clock import time_of_day
from skytide.spark.engine.panes import REPORT, PaneTask, Tuples
from skytide.spark.engine.spec import QuerySpec
from skytide.spark.sources.private import register_private
from skytide.spark.sources.quiet_end import end_quietly

FORMAT = "skytide-panes"
COUNTS = ("windows_out", "open_panes", "remembered_rows")
"""Where the query stood before a batch, as Spark's progress shows it."""

Offset = dict[str, Any]


class OwnReader(Protocol):
    """A reader of a source of our own: the first four methods are for the pane level, the others are Spark's."""

    def panes(self, start: Offset, end: Offset, task: PaneTask, router: Router) -> list[tuple[int, InputPartition]]:
        """Return what each slot reads of a batch."""

    def tuples(self, partition: InputPartition, task: PaneTask) -> Iterator[Tuples]:
        """Yield the tuples of what a slot reads, for its task."""

    def position(self, offset: Offset) -> int:
        """Return a number that grows from batch to batch."""

    def times_us(self, start: Offset) -> tuple[int, int] | None:
        """Return how far in time an offset is, and how far tuples have come by now; None if that is not known."""

    def initialOffset(self) -> Offset: ...
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset: ...
    def reportLatestOffset(self) -> Offset | None: ...
    def prepareForTriggerAvailableNow(self) -> None: ...
    def commit(self, end: Offset) -> None: ...


class OwnSource(Protocol):
    """A source of our own, in which the pane level can run."""

    @property
    def partitions(self) -> int | None:
        """How many slots it has by default; None for as many as Spark has cores."""

    def load(self, spark: SparkSession) -> DataFrame:
        """Return its tuples as a DataFrame."""

    def delivery(self, splitting: Splitting) -> Delivery | None:
        """Return how tuples reach slots inside it; None if it cannot split that way."""

    def expected_hz(self) -> float | None:
        """Return how many tuples per second it expects soon; None if it cannot say."""

    def folder(self) -> OwnedFolder | None:
        """Return the folder where it writes what cannot be read, if there is one."""

    def reader(self, columns: StructType, notes: Files, trigger_us: int | None) -> OwnReader:
        """Return its reader, which travels to another process, for a query with a folder for notes and a trigger interval."""


def load_panes(
    spark: SparkSession, reader: OwnReader, spec: QuerySpec, rules: BatchRules, store: Store, pace: Pace | None = None
) -> DataFrame:
    """Return the reports of the pane level over a source of our own, as a stream; batches begin at a pace, or whenever Spark asks."""
    packed = cloudpickle.dumps((reader, spec, rules, store, pace))  # type: ignore[no-untyped-call]
    return _observed(spark.readStream.format(register_private(spark, PaneSource, packed=packed)).load())


def _observed(reports: DataFrame) -> DataFrame:
    """Return reports that Spark's progress counts in tuples (`observedMetrics` of `lastProgress`): to Spark, its rows are reports."""

    from pyspark.sql import Column
    from pyspark.sql import functions as F

    def of_tasks(field: str) -> Column:
        return F.sum(F.get_json_object("report", f"$.{field}").cast("long"))

    now = [
        of_tasks("arrivals.tuples").alias("tuples"),
        of_tasks("arrivals.late").alias("late"),
        of_tasks("invalid").alias("invalid"),
    ]
    return reports.observe("skytide", *now, *(F.max(name).alias(name) for name in COUNTS))


class PaneSource(DataSource):
    """The format "skytide-panes"; used by skytide itself."""

    packed = b""
    """The pickled arguments of `PaneReader`: with passwords and keys, if the source or the checkpoint has any."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of a report."""
        end_quietly()
        reports = spark_schema(StructType([]), REPORT)
        return StructType([*reports.fields, *(StructField(name, LongType()) for name in COUNTS)])

    def streamReader(self, schema: StructType) -> "PaneReader":
        """Return the reader that Spark's driver keeps for the whole query."""
        end_quietly()
        return PaneReader(*pickle.loads(self.packed))


@dataclass(frozen=True)
class PaneRange(InputPartition):
    """What a slot of the pane level reads, and what it does with its tuples."""

    slot: int
    piece: InputPartition
    task: PaneTask
    source_end: int
    counts: tuple[int, ...]
    """The values that `COUNTS` names."""


class PaneReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a source into the pane level, from the record of the batch before: it runs in a process of its own."""

    def __init__(self, source: OwnReader, spec: QuerySpec, rules: BatchRules, store: Store, pace: Pace | None = None) -> None:
        self.source, self.spec, self.rules, self.store, self.pace = source, spec, rules, store, pace
        self._slack_us, self._began_s = 0, 0.0

    def initialOffset(self) -> Offset:
        """Return where the source begins."""
        return self.source.initialOffset()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return as far as the source has come, once a batch is due."""
        if self.pace is not None and not self._is_due(start, self.pace):
            return start
        return self.source.latestOffset(start, limit)

    def reportLatestOffset(self) -> Offset | None:
        """Return how far the source has come."""
        return self.source.reportLatestOffset()

    def prepareForTriggerAvailableNow(self) -> None:
        """Let the source note what is available now."""
        self.source.prepareForTriggerAvailableNow()

    def commit(self, end: Offset) -> None:
        """Let the source know that a batch is done."""
        self.source.commit(end)

    def partitions(self, start: Offset, end: Offset) -> list[PaneRange]:
        """Return the parts of a batch, each with its task of the pane level."""
        before = self.store.latest_before_source(self.source.position(start))
        self._slack_us, self._began_s = self.rules.slack_logic(before).slack_us, time_of_day()
        task = PaneTask(self.spec, self.store.files, self.rules.run_panes(before))
        pieces = self.source.panes(start, end, task, self.rules.router(before))
        counts = before.windows_out, len(before.open), before.memory_rows
        return [PaneRange(slot, piece, task, self.source.position(end), counts) for slot, piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read tuples and reduce them; yield the report."""
        assert isinstance(partition, PaneRange)
        for batch in partition.task.run(self.source.tuples(partition.piece, partition.task), partition.slot, partition.source_end):
            counts = [pa.array([value] * batch.num_rows, pa.int64()) for value in partition.counts]
            yield pa.RecordBatch.from_arrays([*batch.columns, *counts], [*batch.schema.names, *COUNTS])

    def _is_due(self, start: Offset, pace: Pace) -> bool:
        """Return whether tuples have come that end a window, or, if that is not known, whether the last batch began long enough ago."""
        times_us = self.source.times_us(start)
        if times_us is None:
            return time_of_day() - self._began_s >= pace.interval_us / 1e6
        reached_us, come_us = times_us
        return come_us > pace.next_us(reached_us - self._slack_us) + self._slack_us
