"""One contract for everything that runs a query and can be resized, and one for what is measured: the plants of the simulator, and those of
Spark with fake executors and slots."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.fake_cluster import FakeCluster, FakeLive, executors
from support.traffic import BURSTS, FLAT, SLIDING

from skytide.control import Controller, Fuzzy, Guard, LocalThresholds, Static
from skytide.control.hosts.manager import Manager
from skytide.loop.cycle import Loop
from skytide.loop.ports import Plant
from skytide.records import Allocation, Observation, Outcome
from skytide.routing import TB_RR
from skytide.sim import CoarseStage, known_costs
from skytide.sim.drive import VirtualPlant, drive
from skytide.sim.plants.coarse import CoarsePlant
from skytide.sim.plants.elastic import ElasticPlant
from skytide.sim.plants.hosts import Day, Fugu, operators
from skytide.sim.plants.operator import Operator
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


@dataclass
class Site:
    """A plant, and how time passes for it."""

    plant: Plant
    pass_time: Callable[[float], Any]


def operator() -> Site:
    plant = Operator([100.0] * 200, 0.01, start=Allocation(2), lead_s=5.0, cold_s=2.0)
    return Site(plant, plant.advance)


def elastic() -> Site:
    plant = ElasticPlant(BURSTS, FLAT, SLIDING)
    return Site(plant, plant.observe)


def coarse() -> Site:
    plant = CoarsePlant(CoarseStage(known_costs("bnl"), TB_RR, 0.1), [100.0] * 200, 1.0, workers=2, lead_s=5.0)
    return Site(plant, plant.observe)


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


SITES = [operator, elastic, coarse, cluster, powered_cluster, slots, slots_of_keys]


def hosts() -> VirtualPlant:
    rates = 250 * (1 + 0.9 * np.sin(np.arange(40))[:, None] * np.ones(4))
    return Fugu(operators(Day("made up", rates), 0), 0.6)


MEASURED: list[Callable[[], VirtualPlant]] = [
    lambda: Operator([100.0] * 40 + [400.0] * 60, 0.01, start=Allocation(2), lead_s=5.0, cold_s=2.0),
    lambda: ElasticPlant(BURSTS, FLAT, SLIDING),
    lambda: CoarsePlant(CoarseStage(known_costs("bnl"), TB_RR, 0.1), [100.0] * 200, 1.0, workers=2, lead_s=5.0),
    hosts,
]
TIMES_S = (5.0, 10.0, 20.0, 25.0, 40.0)


def contract_of_metrics(plant: VirtualPlant) -> None:
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
def test_what_is_measured_adds_up(make: Callable[[], VirtualPlant]) -> None:
    contract_of_metrics(make())


@pytest.mark.parametrize("make", MEASURED, ids=["operator", "elastic", "coarse", "hosts"])
def test_a_plant_is_driven_to_its_end(make: Callable[[], VirtualPlant]) -> None:
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


def contract(site: Site) -> None:
    """What is requested is there after the lead time, more or fewer workers; each outcome is described in words, and its kind is right."""
    plant = site.plant
    assert plant.lead_s >= 0 and plant.what
    assert plant.size().workers >= 1
    now_s = 1.0
    site.pass_time(now_s)
    plant.request(before := plant.size(), now_s)
    assert plant.size() == before
    for workers in (5, 3, 3, 4, 2):
        before = plant.size()
        wanted = before.with_workers(workers)
        outcome = plant.request(wanted, now_s)
        assert outcome.text.strip()
        assert outcome.changed == (wanted != before), f"{before} to {wanted} is {outcome}"
        assert outcome.kind == "done" if workers < before.workers else outcome.kind in ("asked", "done", "kept")
        assert plant.size() == wanted if outcome.kind in ("done", "kept") else plant.size().workers <= workers
        assert not plant.request(wanted, now_s).changed, "asked for again, it changes nothing more"
        plant.keep(wanted)
        now_s += plant.lead_s + 10.0
        site.pass_time(now_s)
        site.pass_time(now_s + 1.0)
        now_s += 1.0
        present = plant.size()
        assert present.workers == workers
        if present.pane_slots is not None and present.window_slots is not None:
            assert present.pane_slots + present.window_slots == workers
    plant.request(plant.size().with_workers(6), now_s)
    fewer = plant.request(Allocation(4), now_s)  # before they came, and without saying how many for which level
    assert fewer.changed and plant.size().workers <= 4
    assert fewer.kind == ("done" if plant.size().workers == 4 else "asked"), f"{plant.size()} is {fewer}"
    now_s += plant.lead_s + 10.0
    site.pass_time(now_s)
    assert plant.size().workers == 4
    plant.request(plant.size().with_workers(2), now_s)
    site.pass_time(now_s + 1.0)
    plant.close()
    assert plant.size().workers == 2, "what is closed leaves the query as it is"


@pytest.mark.parametrize("make", SITES)
def test_what_is_asked_for_is_there_in_the_end(make: Callable[[], Site]) -> None:
    contract(make())


@pytest.mark.parametrize(
    ("paused", "acts", "kind"), [(False, False, "recommended"), (True, True, "paused"), (True, False, "paused")]
)
@pytest.mark.parametrize("make", SITES)
def test_a_recommendation_changes_nothing_and_neither_does_who_is_paused(
    make: Callable[[], Site], paused: bool, acts: bool, kind: str
) -> None:
    site = make()
    loop, before = Loop(site.plant, Static(7), acts=acts), site.plant.size()
    loop.paused = paused
    outcome = loop.cycle(5.0).outcome
    assert (outcome.kind, outcome.changed) == (kind, False)
    site.pass_time(20.0)
    assert site.plant.size() == before


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
