"""The jobs of a batch, run by Spark."""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from skytide.batch import Delivery, InSource, PaneReport, Sent, StepReport, WindowReport
from skytide.keyed import SlotReport
from skytide.records import Status
from skytide.spark.arrow import map_in_arrow, spark_schema
from skytide.spark.checkpoint import Files
from skytide.spark.engine.answers import read_results
from skytide.spark.engine.keys import KeyTask
from skytide.spark.engine.panes import REPORT, ROUTED, SLOT, PaneTask, read_reports
from skytide.spark.engine.pinning import Pins
from skytide.spark.engine.sending import with_slots
from skytide.spark.engine.tasks import one_task, tasks
from skytide.spark.engine.windows import in_task

DESCRIPTION = "spark.job.description"
Lot = TypeVar("Lot")
SO_FAR = "\nso far "
"""Where Spark's own description of a batch ends, and ours begins."""


class Jobs(Protocol):
    """How the engine gets work done: its port to Spark."""

    def cores(self) -> int:
        """Return how many tasks can run at the same time now."""

    def panes(self, batch: Any, task: PaneTask, delivery: Delivery) -> PaneReport:
        """Run the pane level over the tuples of a batch, and return its report; `delivery` says how tuples reach slots."""

    def read(self, batch: Any) -> None:
        """Execute a batch, and do nothing with its tuples."""

    def window_task(self, work: Callable[[], WindowReport | StepReport]) -> str:
        """Run a task of the window level, and return its report as a text; several threads may do that at once."""

    def window_tasks(self, lots: Sequence[Lot], work: Callable[[Lot], str]) -> list[str]:
        """Run tasks of the window level side by side, one for each lot of the work, and return their reports."""

    def keys(self, task: KeyTask) -> tuple[SlotReport, ...]:
        """Run the level of keys, one task per slot, and return their reports."""

    def stored(self, store: Files, files: tuple[str, ...], columns: pa.Schema) -> Any:
        """Return the rows of stored files as a sink takes them."""

    def rows(self, table: pa.Table) -> Any:
        """Return a small table as a sink takes it."""


class SparkJobs:
    """Jobs in a Spark session."""

    def __init__(self, spark: SparkSession, fields: StructType, pins: Pins) -> None:
        """Run jobs in a session; `fields` are those whose Spark types are kept, `pins` know where slots ran before."""
        self._spark, self._fields, self._pins = spark, fields, pins

    def on(self, spark: SparkSession) -> "SparkJobs":
        """Return the same jobs in the session of a batch."""
        jobs = copy.copy(self)
        jobs._spark = spark
        return jobs

    def cores(self) -> int:
        """Return the cores of all executors that are there now."""
        return int(self._spark.sparkContext.defaultParallelism)

    def panes(self, batch: DataFrame, task: PaneTask, delivery: Delivery) -> PaneReport:
        """Run the pane level, one task per slot, and return its report."""
        if isinstance(delivery, InSource):
            reports = batch  # the source has run the pane level already
        elif isinstance(delivery, Sent) and (task.by_key(delivery.splitting) or task.instruction.owners):
            reports = self._sent(batch, task, delivery)
        else:

            def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                yield from task.run_partition(batches, _partition())

            reports = map_in_arrow(batch, run, spark_schema(StructType([]), REPORT))
        return read_reports(reports.toArrow())

    def _sent(self, batch: DataFrame, task: PaneTask, delivery: Sent) -> DataFrame:
        """Return the reports of one task per slot, after tasks that send tuples there: by their keys, or inside the JVM as it was planned."""
        slots, splitting, state = task.instruction.slots, delivery.splitting, task.instruction.router
        by_key = task.by_key(splitting) is not None
        owners = None if by_key else task.instruction.owners

        def split(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            router = splitting.build(slots, state)
            router.renumber(slots)
            yield from task.split(batches, router)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from task.run_routed(batches, _partition(), splitting)

        if owners is not None:
            routed, slots = with_slots(batch, owners, task.spec.time, task.spec.windows), owners.slots
        else:
            marks = spark_schema(StructType([]), ROUTED)
            routed = map_in_arrow(batch, split, StructType([*batch.schema.fields, *marks.fields]))
        sent = routed.repartitionById(slots, SLOT)
        return map_in_arrow(sent, run, spark_schema(StructType([]), REPORT))

    def read(self, batch: DataFrame) -> None:
        """Execute a batch inside the JVM: operators with a state commit it then, and watermarks move on."""
        batch.write.format("noop").mode("overwrite").save()

    def window_task(self, work: Callable[[], WindowReport | StepReport]) -> str:
        """Run a job of one task, and return its report."""
        reports = one_task(self._spark, lambda: in_task(work), spark_schema(StructType([]), REPORT)).toArrow()
        return str(reports["report"][0].as_py())

    def window_tasks(self, lots: Sequence[Lot], work: Callable[[Lot], str]) -> list[str]:
        """Run a job with one task for each lot, which prefers the executor where it ran before, and return the reports."""

        def run(slot: int) -> Iterator[pa.RecordBatch]:
            yield pa.RecordBatch.from_arrays([pa.array([work(lots[slot])])], schema=REPORT)

        return self.slot_tasks(len(lots), run)

    def keys(self, task: KeyTask) -> tuple[SlotReport, ...]:
        """Run a job with one task per slot, and return their reports."""
        return tuple(map(SlotReport.from_text, self.slot_tasks(task.slots, task.run)))

    def slot_tasks(self, slots: int, work: Callable[[int], Iterator[pa.RecordBatch]]) -> list[str]:
        """Run one task per slot, and return what they report."""
        numbers = self._pins.numbers(self._spark, slots)
        reports: list[str] = tasks(numbers, work, spark_schema(StructType([]), REPORT)).toArrow()["report"].to_pylist()
        return reports

    def stored(self, store: Files, files: tuple[str, ...], columns: pa.Schema) -> DataFrame:
        """Return a lazy DataFrame that reads the files."""
        return one_task(self._spark, lambda: read_results(store, files, columns), spark_schema(self._fields, columns))

    def rows(self, table: pa.Table) -> DataFrame:
        """Return a DataFrame of the table."""
        bounds = StructType(self._fields.fields[:2])  # otherwise a time without a zone would be taken for local time
        return self._spark.createDataFrame(table, spark_schema(bounds, table.schema))


def describe(spark: SparkSession, status: Status) -> None:
    """Add to Spark's own description of the jobs of a batch, which its pages show, where the query stood before it."""
    context = spark.sparkContext
    sparks = (context.getLocalProperty(DESCRIPTION) or "").partition(SO_FAR)[0]
    late = f", {status.late:,} of {status.tuples:,} tuples late"
    context.setJobDescription(f"{sparks}{SO_FAR}{status.windows_out:,} windows out{late}, {status.open_panes:,} panes open")


def _partition() -> int:
    context = TaskContext.get()
    return context.partitionId() if context else 0
