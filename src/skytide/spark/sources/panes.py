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

from skytide.batch import Delivery, Pace
from skytide.routing import Router, Splitting
from skytide.spark.arrow import spark_schema
from skytide.spark.checkpoint import Files
from skytide.spark.clock import time_of_day
from skytide.spark.engine.engine import Plan
from skytide.spark.engine.pane_level import REPORT, PaneTask, Tuples
from skytide.spark.sinks.folder import OwnedFolder
from skytide.spark.sources.private import register_private
from skytide.spark.sources.quiet_end import end_quietly

FORMAT = "skytide-panes"
STANDING = ("windows_out", "open_panes", "remembered_rows")

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

    def delivery(self, splitting: Splitting | None) -> Delivery | None:
        """Return how tuples reach slots inside it; None if it cannot split that way."""

    def expected_hz(self) -> float | None:
        """Return how many tuples per second it expects soon; None if it cannot say."""

    def folder(self) -> OwnedFolder | None:
        """Return the folder where it writes what cannot be read, if there is one."""

    def reader(self, columns: StructType, notes: Files, trigger_us: int | None) -> OwnReader:
        """Return its reader, which travels to another process, for a query with a folder for notes and a trigger interval."""


def load_panes(spark: SparkSession, reader: OwnReader, plan: Plan, pace: Pace | None = None) -> DataFrame:
    """Return the reports of the pane level over a source of our own, as a stream; batches begin at a pace, or whenever Spark asks."""
    packed = cloudpickle.dumps((reader, plan, pace))  # type: ignore[no-untyped-call]
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
    return reports.observe("skytide", *now, *(F.max(name).alias(name) for name in STANDING))


class PaneSource(DataSource):
    """The format "skytide-panes"; used by skytide itself."""

    packed = b""
    """The pickled reader, plan and pace: with passwords and keys, if the source or the checkpoint has any."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of a report."""
        end_quietly()
        reports = spark_schema(StructType([]), REPORT)
        return StructType([*reports.fields, *(StructField(name, LongType()) for name in STANDING)])

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
    standing: tuple[int, ...]
    """The values that `STANDING` names, before the batch."""


class PaneReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a source into the pane level, from the record of the batch before: it runs in a process of its own."""

    def __init__(self, source: OwnReader, plan: Plan, pace: Pace | None = None) -> None:
        self.source, self.plan, self.pace = source, plan, pace
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
        before = self.plan.store.latest_before_source(self.source.position(start))
        self._slack_us, self._began_s = self.plan.rules.slack_logic(before).slack_us, time_of_day()
        task = self.plan.pane_task(self.plan.rules.run_panes(before))
        pieces = self.source.panes(start, end, task, self.plan.rules.router(before))
        standing = before.windows_out, len(before.open), before.memory_rows
        return [PaneRange(slot, piece, task, self.source.position(end), standing) for slot, piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read tuples and reduce them; yield the report."""
        assert isinstance(partition, PaneRange)
        for batch in partition.task.run(self.source.tuples(partition.piece, partition.task), partition.slot, partition.source_end):
            standing = [pa.array([value] * batch.num_rows, pa.int64()) for value in partition.standing]
            yield pa.RecordBatch.from_arrays([*batch.columns, *standing], [*batch.schema.names, *STANDING])

    def _is_due(self, start: Offset, pace: Pace) -> bool:
        """Return whether tuples have come that end a window, or, if that is not known, whether the last batch began long enough ago."""
        times_us = self.source.times_us(start)
        if times_us is None:
            return time_of_day() - self._began_s >= pace.interval_us / 1e6
        reached_us, come_us = times_us
        return come_us > pace.next_us(reached_us - self._slack_us) + self._slack_us
