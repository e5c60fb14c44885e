"""Rows that are sent to slots: a task that Spark repeats, with its rows in another order, sends each row to the same slot."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.engine import COLUMNS, QUERIES, InProcess, Outputs, plan_of, tuples

from skytide.batch import Delivery, PaneReport, Sent
from skytide.lateness import KSlack
from skytide.routing import STRATEGIES, Auto, Costs, Splitting
from skytide.spark.engine.engine import Engine
from skytide.spark.engine.panes import PaneTask
from skytide.windows import Windows

DATA = tuples([[list(range(start, start + 300, 10)), list(range(start, start + 300, 20))] for start in range(0, 2_400, 300)])


class Repeating(InProcess):
    """Jobs whose split tasks run twice, with other borders of batches and rows in another order."""

    def __init__(self) -> None:
        self.slots_used: list[int] = []

    def panes(self, batch: list[pa.Table], task: PaneTask, delivery: Delivery) -> PaneReport:
        assert isinstance(delivery, Sent)
        if not (task.by_key(delivery.splitting) or task.instruction.owners):
            return super().panes(batch, task, delivery)  # the first batch, which is worked on in place
        first, second = (self._routed(parts, task, delivery) for parts in (batch, [shuffled(part) for part in reversed(batch)]))
        assert first == second
        self.slots_used.append(len({slot for _, slot in first}))
        return super().panes(batch, task, delivery)

    def cores(self) -> int:
        return 3

    def _routed(self, batch: list[pa.Table], task: PaneTask, delivery: Sent) -> list[tuple[Any, int]]:
        found: list[tuple[Any, int]] = []
        for part in batch:
            router = delivery.splitting.build(task.instruction.slots, task.instruction.router)
            for rows in task.split(part.to_batches(max_chunksize=1 + part.num_rows // 3), router):
                *columns, slots = rows.columns
                found += zip(zip(*(column.to_pylist() for column in columns), strict=True), slots.to_pylist(), strict=True)
        return sorted(found)


def shuffled(rows: pa.Table) -> pa.Table:
    order = list(range(rows.num_rows))
    random.Random(7).shuffle(order)
    return rows.take(pa.array(order, pa.int64()))


EAGER = Auto(costs=Costs(send_s=0.0, stage_s=0.0))
SENDING = {name: EAGER if name == "auto" else strategy for name, strategy in STRATEGIES.items() if name != "IN_PLACE"}


@pytest.mark.parametrize("nullable", [True, False], ids=["nullable", "NOT NULL"])
@pytest.mark.parametrize("query", [QUERIES[0], QUERIES[4]], ids=["skyline", "keys"])
@pytest.mark.parametrize("splitting", SENDING.values(), ids=SENDING)
def test_a_row_has_one_slot_in_whatever_order_rows_come(tmp_path: Path, splitting: Splitting, query: Any, nullable: bool) -> None:
    columns = pa.schema([field.with_nullable(nullable) for field in COLUMNS])
    plan = plan_of(query, str(tmp_path), Windows(1_000, 200), KSlack(), delivery=Sent(splitting), pane_slots=3).but(columns=columns)
    out, jobs = Outputs(), Repeating()
    engine, data = Engine(*plan, out.sinks), [[part.cast(columns) for part in batch] for batch in DATA]
    for number, batch in enumerate(data):
        engine.run_batch(jobs, batch, number)
    engine.flush(jobs)
    out.check(data, plan)
    assert max(jobs.slots_used) > 1
