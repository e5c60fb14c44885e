"""The jobs of a batch, run by Spark."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from skytide.routing import Router
from skytide.spark import pane_level, window_level
from skytide.spark.binding import spark_schema
from skytide.spark.checkpoint import Files
from skytide.spark.pane_level import PaneTask
from skytide.spark.tasks import one_task


class Jobs(Protocol):
    """How the engine gets work done: its port to Spark."""

    def panes(self, batch: Any, task: PaneTask) -> pa.Table:
        """Run the pane level over the tuples of a batch, and give the reports."""

    def panes_routed(self, batch: Any, task: PaneTask, router: Router) -> pa.Table:
        """The same, with tuples sent to the slots that a router chooses."""

    def window_task(self, work: Callable[[], Iterator[pa.RecordBatch]]) -> pa.Table:
        """Run a task of the window level, and give its report; several threads may do that at once."""

    def stored(self, store: Files, files: tuple[str, ...], columns: pa.Schema) -> Any:
        """Give the rows of stored files as a sink takes them."""

    def rows(self, table: pa.Table) -> Any:
        """Give a small table as a sink takes it."""


class SparkJobs:
    """Jobs in a Spark session; `known` are the fields of the tuples, whose Spark types are kept."""

    def __init__(self, spark: SparkSession, known: StructType, pushed_down: bool) -> None:
        """Run jobs in this session; a source that runs the pane level itself delivers reports in place of tuples."""
        self._spark, self._known, self._pushed_down = spark, known, pushed_down

    def panes(self, batch: DataFrame, task: PaneTask) -> pa.Table:
        """One task for each partition of the batch."""
        if self._pushed_down:
            return batch.toArrow()

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from task.run(((None, batch) for batch in batches), _partition())

        return batch.mapInArrow(run, spark_schema(StructType([]), pane_level.REPORT)).toArrow()

    def panes_routed(self, batch: DataFrame, task: PaneTask, router: Router) -> pa.Table:
        """One task for each partition of the batch, which gives tuples their slots, and then one for each slot."""
        slots, strategy, state = len(router.slots), router.strategy, router.snapshot()
        parts = self._spark.sparkContext.defaultParallelism  # so many split tasks there are, about

        def split(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from task.split(batches, strategy.build(slots, state), _partition(), 1 / parts)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from task.run_routed(batches, _partition())

        marks = spark_schema(StructType([]), pane_level.ROUTED)
        routed = batch.mapInArrow(split, StructType([*batch.schema.fields, *marks.fields]))
        sent = routed.repartitionById(slots, pane_level.SLOT)
        return sent.mapInArrow(run, spark_schema(StructType([]), pane_level.REPORT)).toArrow()

    def window_task(self, work: Callable[[], Iterator[pa.RecordBatch]]) -> pa.Table:
        """A job of one task."""
        return one_task(self._spark, work, spark_schema(StructType([]), window_level.REPORT)).toArrow()

    def stored(self, store: Files, files: tuple[str, ...], columns: pa.Schema) -> DataFrame:
        """A lazy DataFrame that reads the files."""
        return one_task(self._spark, lambda: window_level.read_results(store, files), spark_schema(self._known, columns))

    def rows(self, table: pa.Table) -> DataFrame:
        """A DataFrame of the table."""
        bounds = StructType(self._known.fields[:2])  # otherwise a time without a zone would be taken for local time
        return self._spark.createDataFrame(table, spark_schema(bounds, table.schema))


def _partition() -> int:
    context = TaskContext.get()
    return context.partitionId() if context else 0
