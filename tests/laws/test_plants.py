"""One contract for everything that can be resized, and one for what is measured: the plants of the simulator, and the actuators of Spark
with fake executors."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from support.fake_cluster import FakeCluster, executors
from support.traffic import BURSTS, FLAT, SLIDING

from skytide.control import Controller, Fuzzy, Guard, LocalThresholds
from skytide.control.hosts.manager import Manager
from skytide.loop.ports import Actuator
from skytide.records import Allocation, Observation
from skytide.routing import TB_RR
from skytide.sim import CoarseStage, known_costs
from skytide.sim.drive import Plant as SimulatedPlant
from skytide.sim.drive import drive
from skytide.sim.plants.coarse import CoarsePlant
from skytide.sim.plants.elastic import ElasticPlant
from skytide.sim.plants.hosts import Day, Fugu, operators
from skytide.sim.plants.operator import Operator
from skytide.spark.scaling.slots import LocalSlots, Recommend


class Slots:
    """The slots of a fake query."""

    def __init__(self, *, of_keys: bool = False) -> None:
        self.sizes, self.of_keys = (1, 1), of_keys

    def pane_slots(self) -> int:
        return self.sizes[0]

    def window_slots(self) -> int:
        return self.sizes[1]

    def resize(self, pane_slots: int | None, window_slots: int | None) -> None:
        self.sizes = (pane_slots or self.sizes[0], window_slots or self.sizes[1])


@dataclass
class Plant:
    """Something to resize, and how time passes for it."""

    actuator: Actuator
    pass_time: Callable[[float], Any]


def operator() -> Plant:
    plant = Operator([100.0] * 200, 0.01, start=Allocation(2), lead_s=5.0, cold_s=2.0)
    return Plant(plant, plant.advance)


def elastic() -> Plant:
    plant = ElasticPlant(BURSTS, FLAT, SLIDING)
    return Plant(plant, plant.observe)


def coarse() -> Plant:
    plant = CoarsePlant(CoarseStage(known_costs("bnl"), TB_RR, 0.1), [100.0] * 200, 1.0, workers=2, lead_s=5.0)
    return Plant(plant, plant.observe)


def cluster() -> Plant:
    made = FakeCluster(2)
    actuator = executors(made)

    def pass_time(now_s: float) -> None:
        made.settle()
        actuator.tend(now_s)

    return Plant(actuator, pass_time)


def slots() -> Plant:
    return Plant(LocalSlots(Slots(), 0.5), lambda now_s: None)  # type: ignore[arg-type]


def slots_of_keys() -> Plant:
    return Plant(LocalSlots(Slots(of_keys=True), 0.5), lambda now_s: None)  # type: ignore[arg-type]


PLANTS = [operator, elastic, coarse, cluster, slots, slots_of_keys]


def hosts() -> SimulatedPlant:
    rates = 250 * (1 + 0.9 * np.sin(np.arange(40))[:, None] * np.ones(4))
    return Fugu(operators(Day("made up", rates), 0), 0.6)


MEASURED: list[Callable[[], SimulatedPlant]] = [
    lambda: Operator([100.0] * 40 + [400.0] * 60, 0.01, start=Allocation(2), lead_s=5.0, cold_s=2.0),
    lambda: ElasticPlant(BURSTS, FLAT, SLIDING),
    lambda: CoarsePlant(CoarseStage(known_costs("bnl"), TB_RR, 0.1), [100.0] * 200, 1.0, workers=2, lead_s=5.0),
    hosts,
]
TIMES_S = (5.0, 10.0, 20.0, 25.0, 40.0)


def contract_of_metrics(plant: SimulatedPlant) -> None:
    """Time has no gaps, nothing is served that did not come, and no worker is busy for more than all of the time."""
    before_s = came = done = 0.0
    for now_s in TIMES_S:
        seen = plant.observe(now_s)
        if seen is None:
            assert plant.finished, "nothing was measured, and it goes on"
            break
        assert before_s < seen.at_s <= now_s + 1e-9, "time does not go on"
        assert seen.interval_s <= seen.at_s - before_s + 1e-6, "an interval was counted twice"
        assert seen.allocation.workers >= 1 and seen.utilisation >= 0 and seen.backlog >= 0
        assert seen.service_s is None or seen.service_s > 0
        assert seen.latency_s is None or seen.latency_s >= 0
        assert all(-1e-9 <= load <= 1 + 1e-9 for _, load in seen.loads), "busier than always"
        came, done = came + seen.arrival_rate_hz * seen.interval_s, done + seen.processed_rate_hz * seen.interval_s
        assert 0 <= done <= came * (1 + 1e-6) + 1, "served what never came"
        before_s = seen.at_s
    assert came > 0


@pytest.mark.parametrize("make", MEASURED, ids=["operator", "elastic", "coarse", "hosts"])
def test_what_is_measured_adds_up(make: Callable[[], SimulatedPlant]) -> None:
    contract_of_metrics(make())


@pytest.mark.parametrize("make", MEASURED, ids=["operator", "elastic", "coarse", "hosts"])
def test_a_plant_is_driven_to_its_end(make: Callable[[], SimulatedPlant]) -> None:
    plant = make()
    technique: Controller = Manager(LocalThresholds()) if isinstance(plant, Fugu) else Fuzzy(maximum=8)
    cycles = drive(plant, technique, Guard.bounds(1, 10), interval_s=5.0, at_most_s=300.0)
    assert plant.finished
    assert [cycle.at_s for cycle in cycles] == [5.0 * (at + 1) for at in range(len(cycles))]
    assert len({cycle.evaluation.seen.allocation.workers for cycle in cycles if cycle.evaluation}) > 1, "it was never resized"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"processed_rate_hz": 1e9}, "never came"),
        ({"loads": (("1", 1.5),)}, "busier than always"),
        ({"at_s": 0.0}, "does not go on"),
    ],
)
def test_a_plant_that_measures_nonsense_breaks_the_contract(change: dict[str, Any], message: str) -> None:
    class Boasting(Operator):
        def observe(self, now_s: float) -> Observation | None:
            seen = super().observe(now_s)
            return None if seen is None else replace(seen, **change)

    with pytest.raises(AssertionError, match=message):
        contract_of_metrics(Boasting([100.0] * 100, 0.01, start=Allocation(2)))


def contract(plant: Plant) -> None:
    """What is requested is there after the lead time, more or fewer workers; and each step is described in words."""
    actuator = plant.actuator
    assert actuator.acts and actuator.lead_s >= 0
    assert actuator.current().workers >= 1
    now_s = 1.0
    plant.pass_time(now_s)
    for workers in (5, 3, 3, 4, 2):
        message = actuator.apply(actuator.current().with_workers(workers), now_s)
        assert message.strip()
        now_s += actuator.lead_s + 10.0
        plant.pass_time(now_s)
        plant.pass_time(now_s + 1.0)
        now_s += 1.0
        present = actuator.current()
        assert present.workers == workers
        if present.pane_slots is not None and present.window_slots is not None:
            assert present.pane_slots + present.window_slots == workers


@pytest.mark.parametrize("make", PLANTS)
def test_what_is_asked_for_is_there_in_the_end(make: Callable[[], Plant]) -> None:
    contract(make())


@pytest.mark.parametrize("make", PLANTS)
def test_a_recommendation_changes_nothing(make: Callable[[], Plant]) -> None:
    plant = make()
    only_says = Recommend(plant.actuator)
    before = only_says.current()
    assert not only_says.acts
    assert only_says.apply(before.with_workers(7), 1.0).strip()
    plant.pass_time(20.0)
    assert only_says.current() == before


def test_a_plant_that_does_nothing_breaks_the_contract() -> None:
    plant = cluster()
    with pytest.raises(AssertionError):
        contract(Plant(plant.actuator, lambda now_s: None))
