"""The pane level inside a source of skytide's own: tuples never cross into the JVM, only reports do.

The source makes the same tuples as "skytide-workload" and hands them to the same task as the pane level on any other DataFrame.
"""

import base64
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.types import StructType

from skytide.spark.binding import spark_schema
from skytide.spark.engine import Plan
from skytide.spark.pane_level import REPORT, PaneTask, Tuples
from skytide.spark.workload_source import Offset, TickRange, WorkloadReader, WorkloadStream

FORMAT = "skytide-panes"


def load_panes(spark: SparkSession, source: WorkloadStream, plan: Plan) -> DataFrame:
    """Return the reports of the pane level over a workload, as a stream."""
    spark.dataSource.register(PaneSource)
    packed = base64.b64encode(cloudpickle.dumps(plan)).decode()  # type: ignore[no-untyped-call]
    return spark.readStream.format(FORMAT).options(**source.options(), plan=packed).load()


class PaneSource(DataSource):
    """The format "skytide-panes"; used by skytide itself."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of a report."""
        return spark_schema(StructType([]), REPORT)

    def streamReader(self, schema: StructType) -> "PaneReader":
        """Return the reader that Spark's driver keeps for the whole query."""
        options = dict(self.options)
        plan = pickle.loads(base64.b64decode(options.pop("plan")))
        return PaneReader(WorkloadStream.from_options(options), plan)


@dataclass(frozen=True)
class PaneRange(InputPartition):
    """The ticks of the workload that a slot of the pane level makes, and what it does with their tuples."""

    slot: int
    pieces: tuple[TickRange, ...]
    task: PaneTask
    batch_first: int
    """The tick of the workload that the batch begins with."""
    batch_last: int


class PaneReader(WorkloadReader):
    """Plays a workload into the pane level, as the record of the batch before says: this is a process of its own."""

    def __init__(self, stream: WorkloadStream, plan: Plan) -> None:
        super().__init__(stream)
        self.plan = plan

    def partitions(self, start: Offset, end: Offset) -> list[PaneRange]:  # type: ignore[override]
        """Cut the ticks of a batch into ranges, each with the task of the pane level."""
        before = self.plan.store.latest_before_source(start["tick"])
        task = self.plan.pane_task(self.plan.rules.run_panes(before))
        first, last = start["tick"], end["tick"]
        workload, start_us = self.stream.workload, end["start_us"]  # as Spark has noted it; a start it may ask for again
        counts = workload.counts(first, last).tolist()
        panes = [task.windows.pane_of(start_us + tick * workload.tick_us) for tick in range(first, last)]
        router = self.plan.rules.router(before)
        chosen = router.strategy.plan(router, list(zip(panes, counts, strict=True)))
        pieces: dict[int, list[TickRange]] = {}
        for slot, ranges in groupby(range(first, last), key=lambda tick: chosen[tick - first]):
            whole = list(ranges)
            pieces.setdefault(slot, []).append(TickRange(workload, start_us, whole[0], whole[-1] + 1))
        return [PaneRange(slot, tuple(made), task, first, last) for slot, made in sorted(pieces.items())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Make the tuples and reduce them at once."""
        assert isinstance(partition, PaneRange)
        yield from partition.task.run(self._tuples(partition), partition.slot, partition.batch_last)

    def _tuples(self, partition: PaneRange) -> Iterator[Tuples]:
        """Make the tuples. How late they are is told by the newest one before them, also if another task makes that."""
        for ticks in partition.pieces:
            newest_us = ticks.workload.newest_us(partition.batch_first, ticks.first, ticks.start_us)
            for batch in super().read(ticks):
                yield newest_us, batch
