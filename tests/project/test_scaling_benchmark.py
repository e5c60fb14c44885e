"""The benchmark of auto-scaling: its simulated query, and how it reads Spark's event log."""

import pytest

from benchmarks.scaling.job import rates_hz
from benchmarks.scaling.joining import joins
from skytide.records import Allocation
from skytide_lab.sim.plants.micro_batches import Costs, MicroBatches

COSTS = Costs(row_s=0.002, task_s=0.03, batch_s=0.2, lead_s=4.0, cold_s=2.0)
LENGTH_S = 120


def query(executors: int) -> MicroBatches:
    return MicroBatches(rates_hz(1_500.0, LENGTH_S), COSTS, executors, partitions=6, trigger_s=2.0)


@pytest.mark.parametrize("executors", [4, 5, 6])
def test_every_row_is_served_once_and_every_executor_is_paid_for(executors: int) -> None:
    plant = query(executors)
    seen = [plant.observe(float(now)) for now in range(5, LENGTH_S + 1, 5)]
    served = sum(each.processed_rate_hz * 5 for each in seen if each)
    assert served == pytest.approx(sum(plant.rates_hz), rel=0.05)
    assert plant.executor_s(LENGTH_S) == pytest.approx(executors * LENGTH_S)


def test_more_executors_are_never_later() -> None:
    worst = []
    for executors in range(2, 7):
        plant = query(executors)
        worst.append(max(each.latency_s or 0.0 for now in range(5, LENGTH_S + 1, 5) if (each := plant.observe(float(now)))))
    assert worst == sorted(worst, reverse=True) and worst[0] > worst[-1]


def test_a_requested_executor_comes_after_its_lead_time_and_its_first_task_is_cold() -> None:
    plant = query(2)
    plant.observe(10.0)
    assert plant.request(Allocation(3), 10.0).kind == "asked"
    plant.observe(13.0)
    assert plant.size().workers == 2
    before = plant.observe(20.0)
    assert plant.size().workers == 3
    assert before is not None and before.latency_s is not None and before.latency_s > COSTS.cold_s
    assert plant.request(Allocation(1), 20.0).kind == "done"
    plant.observe(30.0)
    assert plant.size().workers == 1


def test_joins_are_read_from_the_event_log() -> None:
    def task(executor: str, stage: int, began_ms: int, ended_ms: int) -> dict[str, object]:
        info = {"Executor ID": executor, "Launch Time": began_ms, "Finish Time": ended_ms}
        return {"Event": "SparkListenerTaskEnd", "Stage ID": stage, "Task Info": info, "Task Metrics": {"Executor CPU Time": 5e8}}

    stages = [
        {"Event": "SparkListenerStageSubmitted", "Stage Info": {"Stage ID": n, "Stage Name": name}}
        for n, name in enumerate(("start", "collect at"))
    ]
    came = [
        {"Event": "SparkListenerExecutorAdded", "Executor ID": name, "Timestamp": at} for name, at in (("7", 12_000), ("8", 22_000))
    ]
    ran = [task("7", 0, 16_000, 17_000), task("7", 1, 12_100, 15_100), task("8", 0, 22_100, 26_100)]
    batches = [
        {"timestamp": f"1970-01-01T00:00:{at:02}Z", "durationMs": {"triggerExecution": took}}
        for at, took in ((8, 1_000), (12, 1_200), (14, 1_500), (18, 1_100), (22, 4_500))
    ]
    first, second = joins([*stages, *came, *ran], batches, {"7": 10.0, "8": 20.5, "9": 30.0})
    assert (first.came_s, first.ours, first.first_s, first.java_s, first.before_s, first.batch_s) == (2.0, True, 3.0, 0.5, 1.0, 1.5)
    assert (second.came_s, second.ours, second.first_s, second.before_s, second.batch_s) == (1.5, False, 4.0, 1.1, 4.5)
