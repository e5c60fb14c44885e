"""Both levels in virtual time under the common loop: nothing is lost while slots come and go, and slots follow a step of the rate."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lab_support.traffic import BURSTS, CHEAP_WINDOWS, FLAT, GAPS, SLIDING

from skytide.control.controllers.fuzzy import Fuzzy
from skytide.control.guard import Guard
from skytide.errors import InvalidInput
from skytide.loop.cycle import Cycle, Loop
from skytide.records import Allocation, Outcome
from skytide.routing import AS_PID, PB_RR, TB_RR, Splitting
from skytide.workloads.workload import Workload
from skytide_lab.sim import CoarseStage, Costs, Traffic, traffic
from skytide_lab.sim.plants.coarse import CoarsePlant
from skytide_lab.sim.plants.elastic import ElasticPlant, run_elastic


def check_complete(plant: ElasticPlant, came: Traffic, given_up: int) -> None:
    """Assert that every tuple is in one result, that every window came out once, and that they did so in order."""
    assert plant.finished
    assert sum(result.tuples for result in plant.panes.results) + given_up == came.tuples - came.late
    panes, level = came.first_arrival_s, plant.windows
    assert level is not None
    expected = range(SLIDING.first_of_pane(min(panes)), SLIDING.last_of_pane(max(panes)) + 1)
    assert sorted(level.stage.out_s) == list(expected)
    assert len(level.released_s) == len(expected)
    assert all(one <= two for one, two in pairwise(level.released_s))
    assert all(at_s >= level.stage.out_s[window] for window, at_s in zip(expected, level.released_s, strict=True))
    for slot in {done.slot for done in level.stage.done}:
        mine = sorted((done.begin_s, done.end_s) for done in level.stage.done if done.slot == slot)
        assert all(one[1] <= two[0] + 1e-9 for one, two in pairwise(mine)), "a slot does one task at a time"


def play(
    came: Traffic, sizes: Sequence[tuple[int, int]], strategy: Splitting = AS_PID, costs: Costs = FLAT
) -> tuple[ElasticPlant, int]:
    """Resize both levels a few times per second, and return the tuples of partitions that were given up meanwhile."""
    plant = ElasticPlant(came, costs, SLIDING, strategy=strategy)
    given_up, number = 0, 0
    while not plant.finished and number < 4_000:
        number += 1
        plant.observe(number * 0.25)
        panes, windows = sizes[number % len(sizes)]
        before = {pane: sum(known.sent.values()) for pane, known in plant.panes.router.open.items()}
        plant.request(Allocation(panes + windows, panes, windows), number * 0.25)
        given_up += sum(n - sum(plant.panes.router.open[pane].sent.values()) for pane, n in before.items())
    return plant, given_up


SIZES = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=12)


@settings(max_examples=15, deadline=None)
@given(SIZES, st.sampled_from([BURSTS, GAPS]), st.sampled_from([AS_PID, PB_RR, TB_RR]))
def test_nothing_is_lost_while_both_levels_are_resized(sizes: list[tuple[int, int]], came: Traffic, strategy: Splitting) -> None:
    plant, given_up = play(came, sizes, strategy)
    check_complete(plant, came, given_up)


def test_a_slot_that_was_removed_finishes_its_task_before_it_works_again() -> None:
    """Tasks are longer than the time between two changes of the size."""
    plant, given_up = play(GAPS, [(1, 4), (1, 1)], costs=replace(FLAT, pair_s=5e-5))
    assert plant.windows
    assert max(done.end_s - done.begin_s for done in plant.windows.stage.done) > 0.25
    check_complete(plant, GAPS, given_up)


def test_a_plant_that_loses_something_is_caught() -> None:
    plant, given_up = play(BURSTS, [(3, 3), (1, 1)])
    check_complete(plant, BURSTS, given_up)
    with pytest.raises(AssertionError):
        check_complete(plant, replace(BURSTS, tuples=BURSTS.tuples + 1), given_up)
    assert plant.windows
    plant.windows.released_s[3] = plant.windows.released_s[5] + 1
    with pytest.raises(AssertionError):
        check_complete(plant, BURSTS, given_up)


def test_the_levels_are_as_large_as_was_asked_for() -> None:
    plant = ElasticPlant(BURSTS, FLAT, SLIDING)
    assert plant.size() == Allocation(2, 1, 1)
    plant.observe(1.0)
    assert plant.request(Allocation(7, 3, 4), 1.0) == Outcome("done", "2 to 7 threads")
    assert plant.size() == Allocation(7, 3, 4)
    assert plant.observe(2.0).allocation == Allocation(7, 3, 4)


def test_the_same_stream_gives_the_same_run() -> None:
    one, two = (run_elastic(ElasticPlant(BURSTS, FLAT, SLIDING), Fuzzy(maximum=20), BURSTS.length_s, interval_s=0.5) for _ in "ab")
    assert one == two
    assert len(one) >= 12


def steps() -> Traffic:
    return traffic(Workload(arrivals="steps", steps="15:10000, 15:50000, 15:10000", tick_us=10_000), SLIDING, 45.0)


def levels(cycles: Sequence[Cycle], begin_s: float, end_s: float) -> float:
    seen = [cycle.evaluation.seen for cycle in cycles if cycle.evaluation and begin_s < cycle.at_s <= end_s]
    return sum(each.allocation.pane_slots or each.allocation.workers for each in seen) / len(seen)


def test_slots_follow_a_step_of_the_rate() -> None:
    """50 us per tuple: 10,000 per second are the work of half a slot, 50,000 that of two and a half."""
    came = steps()
    plant = ElasticPlant(came, CHEAP_WINDOWS, SLIDING)
    cycles = run_elastic(plant, Fuzzy(maximum=20), came.length_s, interval_s=1.0, threads=20)
    before, during, after = levels(cycles, 8, 15), levels(cycles, 22, 30), levels(cycles, 38, 45)
    assert before <= 2 and after <= 2
    assert during >= 2.5
    assert plant.finished
    assert all(cycle.limited.allocation.workers <= 20 for cycle in cycles)


def test_a_fixed_size_would_have_fallen_behind() -> None:
    """The guilty specimen: without a controller the same step leaves a backlog."""
    came = steps()
    plants = [ElasticPlant(came, CHEAP_WINDOWS, SLIDING) for _ in range(2)]
    loop = Loop(plants[1], Fuzzy(), guard=Guard.bounds(2, 20))
    for second in range(1, 30):
        plants[0].observe(float(second))
        loop.cycle(float(second))
    fixed, elastic = (plant.observe(30.0).backlog for plant in plants)
    assert fixed > 100_000
    assert elastic < 20_000


def test_utilisation_is_what_came_over_what_could_be_served() -> None:
    came = traffic(Workload(rate=20_000, arrivals="constant", tick_us=10_000), SLIDING, 6.0)
    plant = ElasticPlant(came, FLAT, SLIDING, strategy=TB_RR, slots=(2, 8))
    plant.observe(2.0)
    seen = plant.observe(4.0)
    assert seen.pane_utilisation == pytest.approx(0.5, rel=0.05)
    assert seen.splitting_factor == 2
    assert [slot for slot, _ in seen.loads] == ["pane slot 0", "pane slot 1", *(f"window slot {n}" for n in range(8))]
    assert all(0 <= load <= 1 + 1e-9 for _, load in seen.loads)
    assert seen.latency_s is not None and seen.latency_s > 0
    assert seen.service_s is not None and seen.service_s > 50e-6


def test_the_utilisation_of_an_interval_is_the_plain_mean_of_its_samples() -> None:
    """However many tuples came in each: this is how P0's controller and P3's scheduler read it."""
    plant = ElasticPlant(BURSTS, FLAT, SLIDING, strategy=TB_RR, slots=(2, 8), period_s=0.25)
    seen = plant.observe(4.0)
    samples = [sample.utilisation for sample in plant.panes.samples if sample.utilisation is not None]
    assert len({sample.tuples for sample in plant.panes.samples}) > 3
    assert seen.pane_utilisation == pytest.approx(sum(samples) / len(samples))


def test_a_window_level_that_is_too_small_shows_it() -> None:
    seen = [ElasticPlant(BURSTS, replace(FLAT, pair_s=1e-5), SLIDING, slots=(4, slots)).observe(5.0) for slots in (1, 40)]
    assert (seen[0].window_utilisation or 0) > 1 > (seen[1].window_utilisation or 0)


def test_other_programs_make_work_longer() -> None:
    came = traffic(Workload(rate=10_000, arrivals="constant", tick_us=10_000), SLIDING, 4.0)
    calm, loaded = (ElasticPlant(came, FLAT, None, strategy=TB_RR, slowdown=lambda _, by=by: by).observe(4.0) for by in (1.0, 1.5))  # type: ignore[misc]
    assert calm.pane_utilisation is not None and loaded.pane_utilisation is not None
    assert loaded.pane_utilisation == pytest.approx(1.5 * calm.pane_utilisation, rel=0.05)
    assert calm.window_utilisation is None


def test_a_load_that_comes_later_is_felt_later() -> None:
    came = traffic(Workload(rate=10_000, arrivals="constant", tick_us=10_000), SLIDING, 4.0)
    plant = ElasticPlant(came, FLAT, None, strategy=TB_RR, slowdown=lambda at_s: 1.0 if at_s < 2 else 1.8)
    first, second = plant.observe(2.0), plant.observe(4.0)
    assert (second.pane_utilisation or 0) == pytest.approx(1.8 * (first.pane_utilisation or 0), rel=0.05)


def coarse(rates: list[float], workers: int = 1, lead_s: float = 2.0) -> CoarsePlant:
    return CoarsePlant(CoarseStage(FLAT, TB_RR, 0.1), rates, 1.0, workers=workers, lead_s=lead_s)


def test_by_counts_what_is_not_served_waits() -> None:
    """A worker serves 20,000 tuples per second."""
    plant = coarse([30_000.0] * 4 + [0.0] * 4)
    seen = plant.observe(4.0)
    assert seen is not None
    assert seen.utilisation == pytest.approx(1.5, rel=0.01)
    assert seen.backlog == pytest.approx(40_000, rel=0.01)
    assert seen.processed_rate_hz == pytest.approx(20_000, rel=0.01)
    later = plant.observe(8.0)
    assert later is not None
    assert (later.backlog, later.processed_rate_hz) == (pytest.approx(0, abs=1), pytest.approx(10_000, rel=0.01))
    assert plant.observe(9.0) is None


def test_by_counts_workers_come_late_and_are_paid_from_the_start() -> None:
    plant = coarse([1_000.0] * 20)
    plant.observe(2.0)
    plant.request(Allocation(3), 2.0)
    assert plant.size() == Allocation(1)
    plant.observe(4.0)
    assert plant.worker_s == 2 + 2 * 3
    plant.request(Allocation(5), 4.0)  # on top of those that are on their way
    assert plant.observe(5.0) is not None
    assert plant.size() == Allocation(3)
    plant.observe(8.0)
    assert plant.size() == Allocation(5)
    assert plant.request(Allocation(2), 8.0) == Outcome("done", "3 go")
    assert plant.size() == Allocation(2)


def test_by_counts_what_is_called_off_does_not_come() -> None:
    plant = coarse([1_000.0] * 20, workers=2)
    plant.observe(1.0)
    plant.request(Allocation(9), 1.0)
    plant.request(Allocation(4), 1.0)
    plant.observe(10.0)
    assert plant.size() == Allocation(4)
    plant.request(Allocation(9), 10.0)
    plant.request(Allocation(4), 10.0)
    plant.observe(20.0)
    assert plant.size() == Allocation(4)


def test_a_plant_without_time_is_refused() -> None:
    with pytest.raises(InvalidInput, match="0 rates: no time would pass"):
        coarse([])
