"""The pane level inside a source of skytide's own: tuples never cross into the JVM, only reports do.

The source makes the same tuples as "skytide-workload" and hands them to the same task as the pane level on any other DataFrame.
"""

import base64
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.types import StructType

from skytide.spark.binding import spark_schema
from skytide.spark.engine import Plan
from skytide.spark.pane_level import REPORT, PaneTask
from skytide.spark.workload_source import Offset, SlotRange, WorkloadReader, WorkloadStream

FORMAT = "skytide-panes"


def load_panes(spark: SparkSession, source: WorkloadStream, plan: Plan, late_wanted: bool) -> DataFrame:
    """Give the reports of the pane level over a workload, as a stream."""
    spark.dataSource.register(PaneSource)
    packed = base64.b64encode(cloudpickle.dumps((plan, late_wanted))).decode()  # type: ignore[no-untyped-call]
    return spark.readStream.format(FORMAT).options(**source.options(), plan=packed).load()


class PaneSource(DataSource):
    """The format "skytide-panes"; used by skytide itself."""

    @classmethod
    def name(cls) -> str:
        """Give the name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Give the columns of a report."""
        return spark_schema(StructType([]), REPORT)

    def streamReader(self, schema: StructType) -> "PaneReader":
        """Give the reader that Spark's driver keeps for the whole query."""
        options = dict(self.options)
        plan, late_wanted = pickle.loads(base64.b64decode(options.pop("plan")))
        return PaneReader(WorkloadStream.from_options(options), plan, late_wanted)


@dataclass(frozen=True)
class PaneRange(InputPartition):
    """The slots that a task makes, and what it does with their tuples."""

    slots: SlotRange
    task: PaneTask
    batch_first: int
    """The slot that the batch begins with."""
    batch_last: int


class PaneReader(WorkloadReader):
    """Plays a workload into the pane level. What a batch starts from is read from the manifests, as this is a process of its own."""

    def __init__(self, stream: WorkloadStream, plan: Plan, late_wanted: bool) -> None:
        super().__init__(stream)
        self.plan, self.late_wanted = plan, late_wanted

    def partitions(self, start: Offset, end: Offset) -> list[PaneRange]:  # type: ignore[override]
        """Cut the slots of a batch into ranges, each with the task of the pane level."""
        before = self.plan.store.latest_before_source(start["slot"])
        task = self.plan.pane_task(before, before.sequence + 1, self.late_wanted)
        return [PaneRange(slots, task, start["slot"], end["slot"]) for slots in super().partitions(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Make the tuples and reduce them at once.

        How late they are is told by the newest tuple before them, also by one that another task makes.
        """
        assert isinstance(partition, PaneRange)
        slots, task = partition.slots, partition.task
        newest_us = slots.workload.newest_us(partition.batch_first, slots.first, slots.start_us)
        if newest_us is not None and (task.newest_us is None or task.newest_us < newest_us):
            task = replace(task, newest_us=newest_us)
        yield from task.run(super().read(slots), partition.batch_last)
