"""When the window level is one task and when it is many, and what the status says of it."""

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from support.engine import COLUMNS, QUERIES, Collected, InProcess, tuples

from skytide.lateness import FixedSlack
from skytide.queries import Query
from skytide.spark.checkpoint import Store
from skytide.spark.engine import Engine, Plan, Sinks
from skytide.spark.spread import FIRST_PAIR_S, SLICES_A_SLOT, WORTH_S
from skytide.windows import Windows


class Counted(InProcess):
    """Counts window tasks, and how many ran at once at most."""

    def __init__(self, at_once: int = 1) -> None:
        self.tasks, self._barrier = 0, threading.Barrier(at_once)
        self.met = False

    def window_task(self, work: Callable[[], Iterator[pa.RecordBatch]]) -> pa.Table:
        self.tasks += 1
        if self._barrier.parties > 1 and not self.met:
            try:
                self._barrier.wait(timeout=30)  # nobody gets through before so many tasks are here
                self.met = True
            except threading.BrokenBarrierError:
                pass
        return super().window_task(work)


def engine_of(folder: Path, query: Query = QUERIES[0], window_slots: int = 2) -> Engine:
    plan = Plan(query, Windows(4, 2), FixedSlack(0), "ts", COLUMNS, (), Store(str(folder)), window_slots=window_slots)
    return Engine(plan, Sinks(Collected()))


def play(engine: Engine, jobs: InProcess, batches: int = 3) -> None:
    data = tuples([[[4 * n, 4 * n + 1], [4 * n + 2, 4 * n + 3]] for n in range(batches)])
    for number, batch in enumerate(data):
        engine.run_batch(jobs, batch, number)


def test_little_work_is_one_task(tmp_path: Path) -> None:
    engine, jobs = engine_of(tmp_path), Counted()
    play(engine, jobs)
    assert re.fullmatch(rf"one task: 0\.\d\d s of work, and spreading pays from {WORTH_S:.2f} s on", engine.status().window_plan)
    assert jobs.tasks == 3


def test_one_slot_is_one_task(tmp_path: Path) -> None:
    engine = engine_of(tmp_path, window_slots=1)
    engine._spread.worth_s = 0.0
    play(engine, Counted())
    assert engine.status().window_plan == "one task: there is one slot"


def test_what_has_no_pairs_to_compare_is_one_task(tmp_path: Path) -> None:
    engine = engine_of(tmp_path, QUERIES[3])
    engine._spread.worth_s = 0.0
    play(engine, Counted())
    assert engine.status().window_plan.startswith("one task: this query is answered from its panes")


def test_much_work_is_spread_over_slots_that_work_at_the_same_time(tmp_path: Path) -> None:
    engine, jobs = engine_of(tmp_path), Counted(at_once=2)
    play(engine, InProcess(), batches=1)
    engine._spread.worth_s = 0.0
    data = tuples([[[8, 9], [9, 10], [11, 14]]])[0]  # two closed panes, each in two parts
    engine.run_batch(jobs, data, 1)
    said = engine.status().window_plan
    assert "comparisons on 2 slots" in said
    assert jobs.met
    assert jobs.tasks >= 2 * SLICES_A_SLOT


@pytest.mark.parametrize("busy_s, grows", [(10.0, True), (0.0, False)])
def test_what_a_pair_costs_is_learned(tmp_path: Path, busy_s: float, grows: bool) -> None:
    spread = engine_of(tmp_path)._spread
    spread._measured(busy_s, pairs=1_000)
    assert (spread._pair_s > FIRST_PAIR_S) == grows
    before = spread._pair_s
    spread._measured(busy_s, pairs=0)
    assert spread._pair_s == before
