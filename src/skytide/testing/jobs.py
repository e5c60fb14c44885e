"""The jobs of a batch, run in this process instead of by Spark."""

import json
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from skytide.batch import Delivery, PaneReport, Sent, StepReport, WindowReport
from skytide.keyed import SlotReport
from skytide.spark.checkpoint import Files
from skytide.spark.engine.answers import read_results
from skytide.spark.engine.jobs import Lot
from skytide.spark.engine.keys import KeyTask
from skytide.spark.engine.panes import PARTITION, REPORT, ROUTED, SLOT, PaneTask, read_reports

CHUNK_ROWS = 3  # of the batches that tasks get: Spark's are small, too, compared with a partition


class InProcess:
    """Jobs that run right here; a batch is a list of partitions, and sinks get Arrow tables."""

    def cores(self) -> int:
        """Return one: tasks run one after the other."""
        return 1

    def panes(self, batch: list[pa.Table], task: PaneTask, delivery: Delivery) -> PaneReport:
        """Run the pane level, one partition after the other, and return its report."""
        if isinstance(delivery, Sent) and (task.by_key(delivery.splitting) or task.instruction.owners):
            return self._sent(batch, task, delivery)
        partitions = [table.to_batches(max_chunksize=CHUNK_ROWS) for table in batch]
        reports = [report for slot, rows in enumerate(partitions) for report in task.run_partition(rows, slot)]
        return read_reports(pa.Table.from_batches(reports, REPORT))

    def _sent(self, batch: list[pa.Table], task: PaneTask, delivery: Sent) -> PaneReport:
        slots, state = task.instruction.slots, json.loads(json.dumps(task.instruction.router))
        split: list[pa.RecordBatch] = []
        for number, table in enumerate(batch):
            router = delivery.splitting.build(slots, state)
            router.renumber(slots)
            routed = task.split(table.to_batches(max_chunksize=CHUNK_ROWS), router)
            split += [some.append_column(PARTITION, pa.array([number] * some.num_rows, pa.int32())) for some in routed]
        sent = pa.Table.from_batches(split, pa.schema([*batch[0].schema, *ROUTED, (PARTITION, pa.int32())]))
        by_slot = [sent.filter(pc.equal(sent[SLOT], slot)).to_batches(max_chunksize=CHUNK_ROWS) for slot in range(slots)]
        reports = [report for slot, rows in enumerate(by_slot) for report in task.run_routed(rows, slot, delivery.splitting)]
        return read_reports(pa.Table.from_batches(reports))

    def read(self, batch: list[pa.Table]) -> None:
        """Do nothing: operators of Spark with a state, which read on, are not here."""

    def window_task(self, work: Callable[[], WindowReport | StepReport]) -> str:
        """Run a task of the window level, and return its report."""
        return work().to_text()

    def window_tasks(self, lots: Sequence[Lot], work: Callable[[Lot], str]) -> list[str]:
        """Run tasks of the window level, one after the other, and return their reports."""
        return [work(lot) for lot in lots]

    def keys(self, task: KeyTask) -> tuple[SlotReport, ...]:
        """Run the level of keys, one slot after the other, and return their reports."""
        reports = [next(task.run(slot)) for slot in range(task.slots)]
        return tuple(SlotReport.from_text(report["report"][0].as_py()) for report in reports)

    def stored(self, store: Files, files: tuple[str, ...], columns: pa.Schema) -> pa.Table:
        """Return the rows of stored files."""
        return pa.Table.from_batches(list(read_results(store, files, columns)), columns)

    def rows(self, table: pa.Table) -> pa.Table:
        """Return the table."""
        return table
