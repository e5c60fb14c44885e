"""Whose tasks took how long: Spark's record of jobs and stages, read a little at a time, and what can be set for a query that runs."""

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from skytide.spark.compat import active_queries, move_to_pool, pool_weight, scheduling_mode, set_weight
from skytide.spark.scaling.priorities import checked
from skytide.spark.scaling.tasks import FRESH_S, NEWEST, StageRun, TaskTimes, work_of

DEADLINE_S = 120


class Record:
    """Spark's record of jobs with one stage each; it counts what is read of it."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.stages: list[dict[str, Any]] = []
        self.asked: list[int] = []
        self.now_s = 0.0

    def add(self, run: str, batch: int, *, busy_ms: int = 100, status: str = "SUCCEEDED", stage: int | None = None) -> None:
        number = len(self.jobs)
        stage = number if stage is None else stage
        self.jobs.append(
            {"jobId": number, "jobGroup": run, "description": f"x\nbatch = {batch}", "stageIds": [stage], "status": status}
        )
        if stage == number:
            self.stages.append({
                "stageId": stage, "attemptId": 0, "status": "ACTIVE" if status == "RUNNING" else "COMPLETE", "numTasks": 2,
                "submissionTime": "2026-01-01T00:00:00.000GMT", "completionTime": "2026-01-01T00:00:01.000GMT", "executorRunTime": busy_ms,
            })  # fmt: skip

    def end(self, number: int) -> None:
        self.jobs[number]["status"], self.stages[number]["status"] = "SUCCEEDED", "COMPLETE"

    def read(self, count: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        self.asked.append(count)
        return self.jobs[::-1][:count], self.stages[::-1][:count]

    def clock(self) -> float:
        self.now_s += 2 * FRESH_S
        return self.now_s


def busy(stages: list[StageRun]) -> dict[str, float]:
    found = dict[str, float]()
    for stage in stages:
        found[stage.run] = round(found.get(stage.run, 0.0) + stage.busy_s, 6)
    return found


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=3 * NEWEST), min_size=1, max_size=4))
def test_each_task_counts_once_and_for_its_own_query_however_often_is_looked(looks: list[list[str]]) -> None:
    record = Record()
    times = TaskTimes(record.read, record.clock)
    for runs in looks:
        for run in runs:
            record.add(run, 0)
        times.refresh()
    expected = {run: 0.1 * sum(runs.count(run) for runs in looks) for run in "abc"}
    assert busy(times.refresh()) == pytest.approx({run: s for run, s in expected.items() if s})


def test_what_runs_is_read_once_it_has_ended() -> None:
    record = Record()
    times = TaskTimes(record.read, record.clock)
    record.add("a", 1, status="RUNNING")
    for _ in range(NEWEST):
        record.add("b", 1)
    assert "a" not in busy(times.refresh())
    record.end(0)
    assert busy(times.refresh())["a"] == 0.1
    for _ in range(10 * NEWEST):
        record.add("b", 1)
    times.refresh()
    record.asked.clear()
    times.refresh()
    assert record.asked == [NEWEST], "all that is new is among the newest"


def test_one_that_never_ends_does_not_make_every_look_longer() -> None:
    record = Record()
    times = TaskTimes(record.read, record.clock)
    record.add("endless", 1, status="RUNNING")
    for _ in range(50):
        for _ in range(20):
            record.add("b", 1)
        times.refresh()
    assert max(record.asked) <= 4 * NEWEST and record.asked[-1] == NEWEST
    assert busy(times.refresh())["b"] == pytest.approx(100.0)


def test_a_stage_that_failed_counts_and_so_does_its_second_try() -> None:
    record = Record()
    times = TaskTimes(record.read, record.clock)
    record.add("a", 1)
    record.stages[0]["status"] = "FAILED"
    times.refresh(), times.refresh()
    record.stages.append({**record.stages[0], "attemptId": 1, "status": "COMPLETE", "executorRunTime": 300})
    assert busy(times.refresh()) == {"a": 0.4} == busy(times.refresh())


def test_a_stage_that_another_job_uses_again_counts_for_the_first() -> None:
    record = Record()
    record.add("a", 1), record.add("b", 1, stage=0)
    times = TaskTimes(record.read, record.clock)
    assert busy(times.refresh()) == {"a": 0.1}
    record.add("b", 2, stage=0)
    assert busy(times.refresh()) == {"a": 0.1}


def test_several_queries_that_look_one_after_the_other_read_once() -> None:
    record = Record()
    record.add("a", 1)
    times = TaskTimes(record.read, lambda: 5.0)
    assert times.refresh() == times.refresh() and len(record.asked) == 1


@given(st.floats(0, 20), st.floats(0.1, 20), st.floats(0, 20), st.floats(0.1, 20))
def test_others_count_as_far_as_they_were_at_work_meanwhile(own_s: float, own_took_s: float, other_s: float, took_s: float) -> None:
    own = StageRun("a", 7, own_s, own_s, own_s + own_took_s, 1.0, 1)
    other = StageRun("b", 0, other_s, other_s, other_s + took_s, 10.0, 1)
    found = work_of([own, other], "a", 7)
    steps = 2_000
    inside = sum(own_s <= other_s + (step + 0.5) / steps * took_s <= own_s + own_took_s for step in range(steps))
    assert found is not None and found.others_s == pytest.approx(10.0 * inside / steps, abs=0.02)


def test_priorities_are_whole_numbers() -> None:
    assert checked({"a": 2}) == {"a": 2}


def test_spark_says_whose_tasks_they_were_and_moves_a_query_that_runs(spark: SparkSession) -> None:
    pools, began, moved = list[str | None](), threading.Event(), threading.Event()

    def look(rows: Any, number: int) -> None:
        pools.append(spark.sparkContext.getLocalProperty("spark.scheduler.pool"))
        rows.count()
        began.set()
        if pools[-1] == "preferred":
            moved.set()

    rows = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    trigger = {"processingTime": "300 milliseconds"}
    looked = rows.writeStream.foreachBatch(look).queryName("looked").trigger(**trigger).start()
    other = rows.writeStream.format("noop").queryName("other").trigger(**trigger).start()
    try:
        assert scheduling_mode(spark) == "FIFO"
        assert {"looked", "other"} <= {query.name for query in active_queries(spark)}
        for weight in (2, 5):
            set_weight(spark, "preferred", weight)
            assert pool_weight(spark, "preferred") == weight
        assert pool_weight(spark, "nobody's") is None
        assert began.wait(DEADLINE_S)
        assert move_to_pool(looked, "preferred") and moved.wait(DEADLINE_S)
        assert pools[0] is None
        for query in (looked, other):
            while query.lastProgress is None or query.lastProgress.batchId < 2:
                assert not query.awaitTermination(0.1)
            batch = query.lastProgress.batchId
            stages, found = TaskTimes.of(spark), None
            while found is None:
                assert not query.awaitTermination(0.1)
                found = work_of(stages.refresh(), str(query.runId), batch)
            assert found.busy_s > 0 and found.tasks >= 1
    finally:
        looked.stop(), other.stop()
