"""When the window level is one task and when it is many, and what the status says of it."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from support.engine import QUERIES, Collected, InProcess, plan_of, tuples

from skytide.batch import OnDriver, OneTask, StepReport, WindowReport
from skytide.batch.spreading import DRIVER_S, FIRST_PAIR_S, WORTH_S, Spreader
from skytide.lateness import FixedSlack
from skytide.queries import Query
from skytide.spark.engine import spread
from skytide.spark.engine.engine import Engine
from skytide.spark.engine.windows import WindowTask
from skytide.spark.sinks.roles import Sinks
from skytide.windows import Windows


class Counted(InProcess):
    """Counts window tasks, and notes which ran side by side."""

    def __init__(self) -> None:
        self.tasks = 0
        self.side_by_side: list[int] = []

    def window_task(self, work: Callable[[], WindowReport | StepReport]) -> str:
        self.tasks += 1
        return super().window_task(work)

    def window_tasks(self, cuts: Sequence[tuple[int, int]], work: Callable[[tuple[int, int]], str]) -> list[str]:
        self.side_by_side.append(len(cuts))
        return super().window_tasks(cuts, work)


def engine_of(
    folder: Path, query: Query = QUERIES[0], window_slots: int = 2, pays_s: float = 0.0, driver_s: float = -1.0
) -> Engine:
    rules = {"window_slots": window_slots, "spreading_pays_s": pays_s, "driver_pays_s": driver_s}
    plan = plan_of(query, str(folder), Windows(4, 2), FixedSlack(0), **rules)
    return Engine(*plan, Sinks(Collected()))


def play(engine: Engine, jobs: InProcess, batches: int = 3) -> None:
    data = tuples([[[4 * n, 4 * n + 1], [4 * n + 2, 4 * n + 3]] for n in range(batches)])
    for number, batch in enumerate(data):
        engine.run_batch(jobs, batch, number)


def test_little_work_is_one_task(tmp_path: Path) -> None:
    engine, jobs = engine_of(tmp_path, pays_s=WORTH_S), Counted()
    play(engine, jobs)
    assert re.fullmatch(rf"one task: 0\.\d\d s of work, and spreading pays from {WORTH_S:.2f} s on", engine.status().window_plan)
    assert jobs.tasks == 3


def test_little_work_needs_no_job(tmp_path: Path) -> None:
    engine, jobs = engine_of(tmp_path / "driver", pays_s=WORTH_S, driver_s=DRIVER_S), Counted()
    play(engine, jobs)
    other = engine_of(tmp_path / "task", pays_s=WORTH_S)
    play(other, InProcess())
    assert re.fullmatch(r"on the driver: 0\.\d\d s of work", engine.status().window_plan)
    assert jobs.tasks == 0
    assert engine.sinks.results.rows() == other.sinks.results.rows()


@pytest.mark.parametrize("can_spread", [True, False])
def test_what_became_much_work_leaves_the_driver(can_spread: bool) -> None:
    spreader = Spreader(slots=1, can_spread=can_spread)
    assert isinstance(spreader.decide(10, 90), OnDriver)
    spreader.measured(100 * DRIVER_S, new_rows=10, memory_rows=90)
    assert isinstance(spreader.decide(10, 90), OneTask)


def test_on_the_driver_work_has_the_slots_of_the_moment() -> None:
    spreader = Spreader(slots=3, can_spread=True)
    assert spreader.decide(10, 90) == OnDriver(3, "on the driver: 0.00 s of work")
    spreader.slots = 2
    assert spreader.decide(10, 90) == OnDriver(2, "on the driver: 0.00 s of work")


@pytest.mark.parametrize(("slots", "cores", "threads"), [(1, 8, 4), (5, 8, 5), (9, 8, 8), (3, 2, 2)])
def test_slots_on_the_driver_are_threads_up_to_the_number_of_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slots: int, cores: int, threads: int
) -> None:
    monkeypatch.setattr(spread, "_cores", lambda: cores)
    used: list[int] = []
    run = WindowTask.run

    def noted(task: WindowTask, threads: int = 1) -> WindowReport:
        used.append(threads)
        return run(task, threads)

    monkeypatch.setattr(WindowTask, "run", noted)
    engine = engine_of(tmp_path, window_slots=1, driver_s=float("inf"))
    engine.resize(window_slots=slots)
    play(engine, Counted(), batches=2)
    assert used == [threads, threads]


def test_one_slot_is_one_task(tmp_path: Path) -> None:
    engine = engine_of(tmp_path, window_slots=1)
    play(engine, Counted())
    assert engine.status().window_plan == "one task: there is one slot"


def test_what_is_answered_as_a_whole_is_merged_side_by_side_first(tmp_path: Path) -> None:
    engine, jobs = engine_of(tmp_path, QUERIES[3]), Counted()
    engine.run_batch(jobs, tuples([[[0, 1], [1, 2], [3, 3], [8]]])[0], 0)
    assert engine.status().window_plan.startswith("2 slots, each with its parts: ")
    assert jobs.side_by_side == [2] and jobs.tasks == 1, "two panes become one piece each, side by side; then one task answers"


def test_candidates_are_compared_and_answered_in_parts(tmp_path: Path) -> None:
    engine, jobs = engine_of(tmp_path), Counted()
    play(engine, InProcess(), batches=1)
    data = tuples([[[8, 9], [9, 10], [11, 14]]])[0]  # two closed panes, each in two pieces
    engine.run_batch(jobs, data, 1)
    assert engine.status().window_plan.startswith("2 slots, each with its parts: ")
    assert jobs.side_by_side[-2:] == [2, 2] and jobs.tasks == 0


def test_a_query_over_aggregates_of_groups_is_answered_in_parts_that_one_task_puts_together(tmp_path: Path) -> None:
    engine, jobs = engine_of(tmp_path / "parts", QUERIES[5]), Counted()
    play(engine, jobs)
    assert engine.status().window_plan.startswith("2 slots, each with its parts: ")
    assert jobs.side_by_side == [2, 2, 2] and jobs.tasks == 3
    whole = engine_of(tmp_path / "whole", QUERIES[5], window_slots=1)
    play(whole, InProcess())
    assert [window.kept for window in engine.recent_windows()] == [window.kept for window in whole.recent_windows()]


def test_what_looks_at_a_whole_skyline_is_answered_in_one_task(tmp_path: Path) -> None:
    engine, jobs = engine_of(tmp_path, QUERIES[1]), Counted()
    play(engine, InProcess(), batches=1)
    engine.run_batch(jobs, tuples([[[8, 9], [9, 10], [11, 14]]])[0], 1)
    assert jobs.side_by_side[-2:] == [2, 1] and jobs.tasks == 0


@pytest.mark.parametrize("busy_s, grows", [(10.0, True), (0.0, False)])
def test_what_a_pair_costs_is_learned(busy_s: float, grows: bool) -> None:
    spreader = Spreader(slots=2, can_spread=True)
    spreader.measured(busy_s, new_rows=10, memory_rows=90)
    assert (spreader._unit_s > FIRST_PAIR_S) == grows
    before = spreader._unit_s
    spreader.measured(busy_s, new_rows=0, memory_rows=90)
    assert spreader._unit_s == before
