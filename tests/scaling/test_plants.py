"""One contract for everything that runs a query and can be resized: here for Spark, with fake executors and slots, and for what `replay` uses.

The laboratory applies it to the other plants of its simulator.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.fake_cluster import FakeCluster, FakeLive, executors
from support.plants import WITHOUT_EFFECT, Site, contract, contract_of_doing_nothing, contract_of_driving, contract_of_metrics

from skytide.control import Fuzzy
from skytide.records import Allocation, Observation, Outcome
from skytide.sim.operator import Operator
from skytide.spark.scaling.live import QueryPlant
from skytide.spark.scaling.power import Power
from skytide.spark.scaling.slots import SlotPlant


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


def operator() -> Site:
    plant = Operator([100.0] * 200, 0.01, start=Allocation(2), lead_s=5.0, cold_s=2.0)
    return Site(plant, plant.advance)


def cluster() -> Site:
    made = FakeCluster(2)
    plant = executors(made)

    def pass_time(now_s: float) -> None:
        made.settle()
        plant.track(now_s)

    return Site(plant, pass_time)


def powered_cluster() -> Site:
    below = cluster()
    return Site(Power(below.plant, Path("nowhere")), below.pass_time)


def slots() -> Site:
    return Site(SlotPlant(FakeLive(), Slots()), lambda now_s: None)  # type: ignore[arg-type]


def slots_of_keys() -> Site:
    return Site(SlotPlant(FakeLive(), Slots(of_keys=True)), lambda now_s: None)  # type: ignore[arg-type]


SITES = [operator, cluster, powered_cluster, slots, slots_of_keys]


def measured() -> Operator:
    return Operator([100.0] * 40 + [400.0] * 60, 0.01, start=Allocation(2), lead_s=5.0, cold_s=2.0)


def test_what_is_measured_adds_up() -> None:
    contract_of_metrics(measured())


def test_a_plant_is_driven_to_its_end() -> None:
    contract_of_driving(measured(), Fuzzy(maximum=8))


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


@pytest.mark.parametrize("make", SITES)
def test_what_is_asked_for_is_there_in_the_end(make: Callable[[], Site]) -> None:
    contract(make())


@pytest.mark.parametrize(("paused", "acts", "kind"), WITHOUT_EFFECT)
@pytest.mark.parametrize("make", SITES)
def test_a_recommendation_changes_nothing_and_neither_does_who_is_paused(
    make: Callable[[], Site], paused: bool, acts: bool, kind: str
) -> None:
    contract_of_doing_nothing(make(), paused, acts, kind)


def test_what_can_only_be_watched_refuses_to_be_resized() -> None:
    live = FakeLive()
    plant = QueryPlant(live)  # type: ignore[arg-type]
    assert plant.request(Allocation(3), 0.0).kind == "refused"
    seen = plant.observe(10.0)
    assert seen is not None and seen.allocation == plant.size() == Allocation(1)
    plant.close()
    assert live.closed


def test_a_plant_that_does_nothing_breaks_the_contract() -> None:
    with pytest.raises(AssertionError):
        contract(Site(cluster().plant, lambda now_s: None))


@pytest.mark.parametrize("kind", ["kept", "refused", "asked"])
def test_a_plant_that_says_one_thing_and_does_another_breaks_the_contract(kind: Any) -> None:
    class Lying(Operator):
        def request(self, wanted: Allocation, now_s: float) -> Outcome:
            return Outcome(kind, super().request(wanted, now_s).text)

    plant = Lying([100.0] * 200, 0.01, start=Allocation(2), lead_s=5.0)
    with pytest.raises(AssertionError):
        contract(Site(plant, plant.advance))
