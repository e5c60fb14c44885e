"""One contract for whatever can be resized: the plants of the simulator, and the actuators of Spark over executors that are made up."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from support.fake_cluster import FakeCluster, executors
from support.traffic import BURSTS, FLAT, SLIDING

from skytide.loop.ports import Actuator
from skytide.records import Allocation
from skytide.routing import TB_RR
from skytide.sim import CoarseStage, known_costs
from skytide.sim.coarse_plant import CoarsePlant
from skytide.sim.elastic import ElasticPlant
from skytide.sim.operator import Operator
from skytide.spark.scaling.slots import LocalSlots, Recommend


class Slots:
    """The slots of a query that is made up."""

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


def contract(plant: Plant) -> None:
    """What is asked for is there after the lead time, more or fewer; and each step is said in words."""
    actuator = plant.actuator
    assert actuator.acts and actuator.lead_s >= 0
    assert actuator.current().workers >= 1
    now_s = 1.0
    plant.pass_time(now_s)
    for workers in (5, 3, 3, 4, 2):
        said = actuator.apply(actuator.current().with_workers(workers), now_s)
        assert said.strip()
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
