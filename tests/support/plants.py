"""One contract for everything that runs a query and can be resized, and one for what is measured."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from skytide.control import Controller, Guard, Static
from skytide.loop.cycle import Loop
from skytide.loop.ports import Plant
from skytide.records import Allocation
from skytide.sim.drive import VirtualPlant, drive

TIMES_S = (5.0, 10.0, 20.0, 25.0, 40.0)


@dataclass
class Site:
    """A plant, and how time passes for it."""

    plant: Plant
    pass_time: Callable[[float], Any]


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


def contract_of_driving(plant: VirtualPlant, technique: Controller) -> None:
    """A controller decides at every interval until the end, and the plant was resized."""
    cycles = drive(plant, technique, Guard.bounds(1, 10), interval_s=5.0, at_most_s=300.0)
    assert plant.finished
    assert [cycle.at_s for cycle in cycles] == [5.0 * (at + 1) for at in range(len(cycles))]
    assert len({cycle.evaluation.seen.allocation.workers for cycle in cycles if cycle.evaluation}) > 1, "it was never resized"


WITHOUT_EFFECT = [(False, False, "recommended"), (True, True, "paused"), (True, False, "paused")]
"""Whether a loop is paused, whether it acts, and what its outcome is."""


def contract_of_doing_nothing(site: Site, paused: bool, acts: bool, kind: str) -> None:
    """A recommendation changes nothing, and neither does a loop that is paused."""
    loop, before = Loop(site.plant, Static(7), acts=acts), site.plant.size()
    loop.paused = paused
    outcome = loop.cycle(5.0).outcome
    assert (outcome.kind, outcome.changed) == (kind, False)
    site.pass_time(20.0)
    assert site.plant.size() == before
