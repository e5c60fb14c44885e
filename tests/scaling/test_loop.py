"""The control cycle between a plant that can be set to anything and a controller that wants anything."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from skytide.control.controller import Controller, ControllerLogic, State
from skytide.control.guard import Guard
from skytide.errors import InvalidInput
from skytide.loop.cycle import Loop
from skytide.loop.evaluate import evaluate
from skytide.loop.ports import Plant as Port
from skytide.records import Allocation, Decision, Evaluation, Observation, Outcome, ScalingEvent

INTERVAL_S = 10.0


@dataclass(frozen=True)
class Wants(Controller):
    """Wants one number of workers after the other, and the last one for ever."""

    workers: tuple[int, ...]

    def build(self, resume: State | None = None) -> "WantsLogic":
        return WantsLogic(self.workers, **(resume or {}))


class WantsLogic(ControllerLogic):
    def __init__(self, workers: tuple[int, ...], asked: int = 0) -> None:
        self.workers, self.asked = workers, asked

    def decide(self, seen: Evaluation, *, now_s: float) -> Decision:
        wanted = self.workers[min(self.asked, len(self.workers) - 1)]
        self.asked += 1
        return Decision(seen.seen.allocation.with_workers(wanted), f"wants {wanted}")

    def snapshot(self) -> State:
        return {"asked": self.asked}


@dataclass
class Plant(Port):
    """Provides the requested workers, up to what it has, and measures what it is set to measure."""

    workers: int = 2
    most: int = 100
    rate_hz: float = 1_000.0
    per_worker_hz: float = 600.0
    useful: int = 100
    blind: bool = False
    lead_s: float = 6.0
    reported: list[str] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)

    def observe(self, now_s: float) -> Observation | None:
        if self.blind:
            return None
        served_hz = min(self.workers, self.useful) * self.per_worker_hz
        return Observation(
            at_s=now_s,
            interval_s=INTERVAL_S,
            allocation=Allocation(self.workers),
            arrival_rate_hz=self.rate_hz,
            processed_rate_hz=min(self.rate_hz, served_hz),
            utilisation=self.rate_hz / served_hz,
            service_s=1 / self.per_worker_hz,
        )

    def size(self) -> Allocation:
        return Allocation(self.workers)

    def request(self, wanted: Allocation, now_s: float) -> Outcome:
        self.asked.append(wanted.workers)
        self.workers = min(wanted.workers, self.most)
        return Outcome("asked", f"asked for {wanted.workers}")

    def keep(self, wanted: Allocation) -> None:
        self.kept.append(wanted.workers)

    def on_event(self, event: ScalingEvent) -> None:
        self.reported.append(event.text)


class Memory:
    def __init__(self) -> None:
        self.state: dict[str, Any] = {}

    def load(self) -> dict[str, Any]:
        return self.state

    def save(self, state: dict[str, Any]) -> None:
        self.state = state


def played(plant: Plant, wants: tuple[int, ...], guard: Guard, cycles: int, *, acts: bool = True) -> list[int]:
    loop = Loop(plant, Wants(wants), guard, on_event=plant.on_event, acts=acts)
    sizes = []
    for cycle in range(cycles):
        loop.cycle(cycle * INTERVAL_S)
        sizes.append(plant.workers)
    return sizes


def test_a_cycle_does_what_the_controller_wants_and_says_why() -> None:
    plant = Plant()
    assert played(plant, (2, 3, 4), Guard.bounds(1, 8), 4) == [2, 3, 4, 4]
    assert plant.reported == ["wants 3. asked for 3", "wants 4. asked for 4"]


def test_minimum_and_maximum_hold_for_whatever_is_wanted() -> None:
    plant = Plant()
    assert played(plant, (50, -3), Guard.bounds(2, 6), 2) == [6, 2]
    assert "within 2 to 6" in plant.reported[0]


def test_a_step_is_at_most_a_factor() -> None:
    plant = Plant()
    assert played(plant, (50,), Guard(maximum=40, notice_no_help=False), 5) == [4, 8, 16, 32, 40]


def test_workers_go_only_when_fewer_were_wanted_long_enough() -> None:
    plant = Plant(workers=8, rate_hz=10)
    sizes = played(plant, (2, 2, 5, 2), Guard(scale_down_after="30 s", step_factor=10), 8)
    assert sizes == [8, 8, 8, 5, 5, 2, 2, 2]  # 5 was wanted at 20 s, and counts until 50 s


def test_nothing_else_changes_either_when_nothing_changes() -> None:
    guard = Guard(maintenance=(("00:00", "24:00"),)).build()
    present = Allocation(4, 1, 3, frequency_ghz=1.2)
    seen = evaluate([Observation(0, 10, present, 100, 100, 0.5)], lead_s=0)
    decided = Decision(Allocation(4, 3, 1, frequency_ghz=2.0), "likes 3 and 1")
    assert guard.limit(decided, seen, requested=present, now_s=0).allocation == present


def test_after_a_change_it_cools_down() -> None:
    plant = Plant()
    assert played(plant, (3, 4, 5), Guard(cool_down="25 s", notice_no_help=False), 5) == [3, 3, 3, 5, 5]


def test_nothing_changes_during_maintenance() -> None:
    plant = Plant()
    assert played(plant, (4,), Guard(maintenance=(("00:00", "00:01"),)), 8) == [2] * 6 + [4, 4]
    around_midnight = Guard(maintenance=(("23:50", "00:01"),))
    assert played(Plant(), (4,), around_midnight, 8) == [2] * 6 + [4, 4]


def test_without_metrics_nothing_changes_and_a_wish_for_fewer_begins_anew() -> None:
    plant = Plant(workers=8, rate_hz=10)
    loop = Loop(plant, Wants((2,)), Guard(scale_down_after="30 s", step_factor=10, stale_after="15 s"))
    sizes = []
    for cycle in range(10):
        plant.blind = cycle in (2, 3)
        made = loop.cycle(cycle * INTERVAL_S)
        sizes.append(plant.workers)
        assert not plant.blind or "no metrics for" in made.limited.reason
    assert sizes == [8] * 7 + [2] * 3


def test_a_look_without_a_new_batch_now_and_then_delays_nothing() -> None:
    plant = Plant(workers=8, rate_hz=10)
    loop = Loop(plant, Wants((2,)), Guard(scale_down_after="60 s", step_factor=10, stale_after="30 s"))
    for cycle in range(8):
        plant.blind = cycle % 2 == 1
        loop.cycle(cycle * INTERVAL_S)
    assert plant.workers == 2


def test_metrics_that_are_old_count_as_missing() -> None:
    plant = Plant()
    loop = Loop(plant, Wants((4,)), Guard(stale_after="60 s"))
    fresh = plant.observe
    plant.observe = lambda now_s: replace(fresh(now_s), at_s=now_s - 61)  # type: ignore[method-assign, type-var]
    assert loop.cycle(100.0).evaluation is None
    assert plant.asked == []


def test_growth_that_did_not_help_is_taken_back_and_not_tried_again_until_the_demand_changes() -> None:
    plant = Plant(rate_hz=2_000, useful=2)
    guard = Guard(scale_down_after=0)
    assert played(plant, (4,), guard, 6) == [4, 4, 2, 2, 2, 2]
    assert "did not help, going back to 2" in plant.reported[-1]
    loop = Loop(plant, Wants((4,)), guard)
    for now_s in (0, 10, 20, 30):
        loop.cycle(now_s)
    assert plant.workers == 2
    plant.rate_hz, plant.useful = 5_000, 100
    loop.cycle(40)
    assert plant.workers == 4


def test_what_did_not_help_is_forgotten_after_a_while() -> None:
    plant = Plant(rate_hz=2_000, useful=2)
    loop = Loop(plant, Wants((4,)), Guard(scale_down_after=0))
    sizes = {}
    for now_s in range(0, 2_400, 10):
        loop.cycle(now_s)
        sizes[now_s] = plant.workers
    assert {now_s for now_s, size in sizes.items() if size == 4} == {0, 10, 1_820, 1_830}


def test_lost_workers_are_not_called_off() -> None:
    plant = Plant(workers=8, rate_hz=4_000)
    loop = Loop(plant, Wants((8, 8, 3)), Guard(maximum=8, scale_down_after=0, notice_no_help=False))
    plant.workers = 4
    loop.cycle(0)
    assert plant.asked == [8]
    plant.workers = 2  # six die
    loop.cycle(10)
    loop.cycle(20)  # from two workers on three would be enough
    assert plant.asked == [8]


def test_growth_that_helped_stays() -> None:
    plant = Plant(rate_hz=5_000)
    assert played(plant, (4, 8), Guard(scale_down_after=0), 4) == [4, 8, 8, 8]


def test_a_cluster_that_gives_fewer_is_waited_for_and_then_taken_as_it_is() -> None:
    plant = Plant(most=3)
    loop = Loop(plant, Wants((5,)), Guard(notice_no_help=False, step_factor=10), on_event=plant.on_event)
    for cycle in range(4):
        loop.cycle(cycle * INTERVAL_S)
    assert plant.asked == [5, 5]  # asked again only after the patience of three lead times was over
    assert "requested 5 workers, got 3" in plant.reported[1]


def test_more_may_be_asked_for_while_workers_are_on_their_way() -> None:
    plant = Plant(most=2)
    played(plant, (3, 3, 6), Guard(notice_no_help=False, step_factor=10), 3)
    assert plant.asked == [3, 6]


def test_workers_on_their_way_count_for_the_next_step() -> None:
    plant = Plant(most=2)  # none comes while we look
    played(plant, (50,), Guard(maximum=40, notice_no_help=False), 3)
    assert plant.asked == [4, 8, 16]


def test_paused_it_watches_and_leaves_everything_alone() -> None:
    plant = Plant()
    loop = Loop(plant, Wants((4,)), Guard.bounds(1, 8))
    loop.paused = True
    made = loop.cycle(0)
    assert (made.limited.reason, made.outcome) == ("wants 4; paused", Outcome("paused"))
    assert (plant.asked, plant.kept) == ([], [])  # what it wanted before is what it is known to want
    loop.paused = False
    assert loop.cycle(10).outcome == Outcome("asked", "asked for 4")
    assert plant.workers == 4


def test_what_was_asked_for_before_a_pause_still_comes() -> None:
    plant = Plant(most=2)
    loop = Loop(plant, Wants((4,)), Guard.bounds(1, 8))
    loop.cycle(0)
    loop.paused = True
    assert loop.cycle(10).limited.allocation == Allocation(4)
    loop.paused = False
    assert loop.cycle(20).outcome.kind == "kept"
    assert (plant.asked, plant.kept) == ([4], [4])


def test_what_is_refused_is_asked_for_again_and_reported_once() -> None:
    class Refusing(Plant):
        def request(self, wanted: Allocation, now_s: float) -> Outcome:
            self.asked.append(wanted.workers)
            return Outcome("refused", "the cluster did not accept it")

    plant = Refusing()
    loop = Loop(plant, Wants((4, 4, 4, 2, 4)), Guard.bounds(1, 8), on_event=plant.on_event)
    cycles = [loop.cycle(cycle * INTERVAL_S) for cycle in range(5)]
    assert [cycle.outcome.kind for cycle in cycles] == ["refused", "refused", "refused", "kept", "refused"]
    assert all(cycle.evaluation and cycle.evaluation.settled for cycle in cycles), "it waits for what will never come"
    assert (plant.asked, len(plant.reported)) == ([4, 4, 4, 4], 2)


def test_what_is_there_and_wanted_is_kept_in_each_cycle_that_sees_something() -> None:
    plant = Plant()
    loop = Loop(plant, Wants((2, 3, 3)), Guard.bounds(1, 8))
    assert [loop.cycle(cycle * INTERVAL_S).outcome.kind for cycle in range(3)] == ["kept", "asked", "kept"]
    assert plant.kept == [2, 3]
    plant.blind = True
    assert loop.cycle(3 * INTERVAL_S).outcome.kind == "kept"
    assert plant.kept == [2, 3]


def test_a_recommendation_is_reported_once_and_again_when_it_changes() -> None:
    plant = Plant()
    assert played(plant, (2, 4, 4, 3, 2, 2), Guard.bounds(1, 8), 6, acts=False) == [2] * 6
    assert plant.reported == [
        "wants 4. recommendation: 4 workers instead of 2 (not applied)",
        "wants 3. recommendation: 3 workers instead of 2 (not applied)",
        "wants 2. recommendation: 2 workers, no change",
    ]
    assert plant.asked == []


def test_a_clock_that_jumps_changes_nothing_in_a_hurry() -> None:
    plant = Plant(workers=8, rate_hz=10)
    loop = Loop(plant, Wants((2,)), Guard(scale_down_after="100 s", step_factor=10))
    for now_s in (0, 10, 20, 9_000, 9_010, 5, 9_020):  # ahead, and back
        loop.cycle(now_s)
        assert plant.workers == 8
    for now_s in (9_060, 9_101):
        loop.cycle(now_s)
    assert plant.workers == 2


def test_what_was_learned_survives_a_restart() -> None:
    store, plant = Memory(), Plant()
    wants, guard = Wants((2, 3, 4)), Guard.bounds(1, 8)
    for now_s in (0.0, 10.0, 20.0):
        Loop(plant, wants, guard, store).cycle(now_s)  # a new loop each time
    assert plant.workers == 4
    other = Loop(plant, Wants((7,)), guard, store)  # another controller begins from nothing
    other.cycle(30)
    assert plant.workers == 7


def test_what_was_saved_by_another_version_is_left_alone_and_so_are_other_controllers() -> None:
    store, plant = Memory(), Plant()
    store.state = {"controllers": {repr(Wants((4,))): {"other": 1}, "Sarsa()": {"table": 1}}, "guard": {"nonsense": 2}}
    Loop(plant, Wants((4,)), Guard.bounds(1, 8), store, plant.on_event).cycle(0)
    assert plant.workers == 4
    assert sum("starting from scratch" in text for text in plant.reported) == 2
    assert store.state["controllers"]["Sarsa()"] == {"table": 1}


def test_a_backlog_is_worked_off() -> None:
    seen = Observation(0, 10, Allocation(2), 1_000, 1_000, 0.8, backlog=120_000)
    assert evaluate([seen], lead_s=5).demand_ratio == pytest.approx(1.6)
    nothing_comes = Observation(10, 10, Allocation(2), 0, 500, 0.0, backlog=120_000)
    before = replace(seen, service_s=0.004)
    assert evaluate([before, nothing_comes], lead_s=5).demand_ratio == pytest.approx(1_000 * 0.004 / 2)


def test_the_time_for_a_tuple_is_that_of_the_latest_observations_at_this_frequency() -> None:
    def at(service_s: float | None, frequency_ghz: float | None = None) -> Observation:
        return Observation(0, 10, Allocation(2, frequency_ghz=frequency_ghz), 1, 1, 1, service_s=service_s)

    assert evaluate([at(9)] * 5 + [at(s) for s in (1, 2, None, 50, 3)], lead_s=0).service_s == 2.5
    assert evaluate([at(1, 1.2), at(2, 2.0)], lead_s=0).service_s == 2
    assert evaluate([at(None)], lead_s=0).service_s is None


@pytest.mark.parametrize(
    "wrong",
    [{"minimum": 0}, {"minimum": 9}, {"step_factor": 1.0}, {"maintenance": (("2", "3"),)}, {"maintenance": (("02:00", "25:00"),)}],
)
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Guard(**wrong)
