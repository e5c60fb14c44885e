"""Thresholds: when a worker is over or under, for how long, and what number of workers follows."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.prose import says

from skytide.control.controllers.sarsa import Sarsa
from skytide.control.controllers.thresholds import GlobalThresholds, LocalThresholds
from skytide.control.judging import Judge, WorkersByLoad, worker_loads
from skytide.errors import InvalidInput
from skytide.records import Allocation, Evaluation, Observation

KINDS: list[type[WorkersByLoad]] = [LocalThresholds, GlobalThresholds, Sarsa]


def seen(loads: dict[str, float], workers: int | None = None, utilisation: float | None = None) -> Evaluation:
    workers = len(loads) if workers is None else workers
    mean = sum(loads.values()) / max(1, len(loads))
    used = mean if utilisation is None else utilisation
    observation = Observation(0, 10, Allocation(workers), 1_000, 1_000, utilisation=used, loads=tuple(loads.items()))
    return Evaluation(observation, demand_hz=1_000, service_s=None, demand_ratio=used, lead_s=0)


def verdicts(judge: Judge, loads: dict[str, float], now_s: float) -> list[tuple[str, str]]:
    return [(verdict.host, verdict.action) for verdict in judge.judge(loads, now_s=now_s)]


def test_only_violations_in_a_row_count() -> None:
    judge = LocalThresholds().judge()
    found = [
        verdicts(judge, {"1": load, "2": 0.5}, 10.0 * n) for n, load in enumerate([0.9, 0.9, 0.7, 0.9, 0.9, 0.95, 0.2, 0.2, 0.2])
    ]
    assert found == [[], [], [], [], [], [("1", "out")], [], [], [("1", "in")]]


def test_a_host_rests_after_a_change_and_others_do_not() -> None:
    judge = LocalThresholds(intervals=1, grace="30 s").judge()
    judge.acted(["1"], touched=["1"], now_s=100)
    assert verdicts(judge, {"1": 0.9, "2": 0.9}, 110) == [("2", "out")]
    assert verdicts(judge, {"1": 0.9, "2": 0.5}, 129) == []
    assert verdicts(judge, {"1": 0.9, "2": 0.5}, 130) == [("1", "out")]
    judge.acted(["1"], touched=["1"], now_s=1_000)
    assert verdicts(judge, {"1": 0.9}, 5) == [("1", "out")]  # the clock was set back


def test_the_mean_hides_what_hosts_differ_by() -> None:
    loads = {"1": 1.0, "2": 0.4, "3": 0.4}
    assert verdicts(LocalThresholds(intervals=1).judge(), loads, 0) == [("1", "out")]
    assert verdicts(GlobalThresholds(intervals=1).judge(), loads, 0) == []


def test_over_on_average_all_above_the_target_give_away_and_under_the_least_goes() -> None:
    judge = GlobalThresholds(intervals=1).judge()
    assert verdicts(judge, {"1": 1.0, "2": 0.98, "3": 0.55}, 0) == [("1", "out"), ("2", "out")]
    assert verdicts(judge, {"1": 0.3, "2": 0.1, "3": 0.2}, 10) == [("2", "in")]
    judge.acted(["2"], touched=["1"], now_s=10)
    assert verdicts(judge, {"1": 0.3, "3": 0.2}, 20) == []
    assert verdicts(judge, {"1": 0.3, "3": 0.2}, 40) == [("3", "in")]


def test_a_decision_says_why_in_numbers() -> None:
    logic = LocalThresholds().build()
    loads = {"1": 0.62, "2": 0.6, "3": 0.91, "4": 0.6}
    for n in range(2):
        decision = logic.decide(seen(loads), now_s=10.0 * n)
        assert (decision.allocation.workers, decision.reason) == (4, "loads 0.60 to 0.91 call for no change: stays at 4")
    decision = logic.decide(seen(loads), now_s=20)
    assert (decision.allocation.workers, decision.reason) == (5, "load 0.91 of worker 3 over 0.80 for 3 intervals: 4 to 5")


def test_load_comes_down_to_the_target() -> None:
    decision = LocalThresholds(intervals=1).build().decide(seen(dict.fromkeys("1234", 0.9)), now_s=0)
    assert decision.allocation.workers == 6  # 3.6 / 0.6
    assert decision.reason == "load 0.90 of worker 1 over 0.80 for 1 interval (and 3 more): 4 to 6"
    above = LocalThresholds(intervals=1).build().decide(seen(dict.fromkeys("12", 1.0), utilisation=3.0), now_s=0)
    assert above.allocation.workers == 10  # 6 / 0.6: what waits counts


def test_others_take_what_they_have_room_for_first() -> None:
    decision = LocalThresholds(intervals=1).build().decide(seen({"1": 0.95, "2": 0.4, "3": 0.3}), now_s=0)
    assert decision.allocation.workers == 3
    assert decision.reason.endswith("but the others have room for 0.50 up to the target 0.60: stays at 3")
    arriving = LocalThresholds(intervals=1).build().decide(seen({"1": 0.95, "2": 0.9}, workers=4), now_s=0)
    assert arriving.allocation.workers == 4  # two unknown workers have room for 1.2


def test_a_worker_goes_only_when_the_others_can_take_its_load() -> None:
    logic = LocalThresholds(intervals=1).build()
    stays = logic.decide(seen({"1": 0.2, "2": 0.55, "3": 0.55}), now_s=0).reason
    assert says(stays, "0.20", "worker 1", "0.30", "1 interval", "room for 0.10", "stays at 3")
    assert logic.decide(seen({"1": 0.2, "2": 0.4, "3": 0.4}), now_s=10).allocation.workers == 2
    assert LocalThresholds(intervals=1).build().decide(seen({"1": 0.0}), now_s=0).allocation.workers == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_wish_stays_until_it_is_granted_and_then_all_rest(kind: type[WorkersByLoad]) -> None:
    """A guard may delay a change: the grace period begins with the change, not with the wish."""
    logic = kind(grace="30 s").build()
    idle = dict.fromkeys("1234", 0.1)
    wanted = [logic.decide(seen(idle), now_s=10.0 * n).allocation.workers for n in range(8)]
    assert wanted[2:] == [3] * 6
    fewer = dict.fromkeys("123", 0.1)
    assert [logic.decide(seen(fewer), now_s=80 + 10.0 * n).allocation.workers for n in range(3)] == [3, 3, 3]
    assert 2 in [logic.decide(seen(fewer), now_s=110 + 10.0 * n).allocation.workers for n in range(3)]


@pytest.mark.parametrize("kind", KINDS)
def test_without_loads_the_utilisation_counts_for_all(kind: type[WorkersByLoad]) -> None:
    logic = kind().build()
    assert worker_loads(seen({}, workers=3, utilisation=0.9)) == {"1": 0.9, "2": 0.9, "3": 0.9}
    answers = [logic.decide(seen({}, workers=3, utilisation=1.8), now_s=10.0 * n) for n in range(3)]
    assert answers[-1].allocation.workers == 9
    unknown = logic.decide(seen({}, workers=3, utilisation=float("nan")), now_s=40)
    assert (unknown.allocation.workers, unknown.reason) == (3, "neither loads nor utilisation are known: stays at 3")


def test_an_interval_without_loads_does_not_forget_workers() -> None:
    logic = LocalThresholds().build()
    loads = {"7": 0.9, "9": 0.9}
    for n, each in enumerate([loads, {}, loads]):
        decision = logic.decide(seen(each, workers=2, utilisation=0.9), now_s=10.0 * n)
    assert decision.reason.startswith("load 0.90 of worker 7 over 0.80 for 3 intervals")


workers_of = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0, 1.5), max_size=6)


@pytest.mark.parametrize("kind", KINDS)
@given(steps=st.lists(st.tuples(workers_of, st.integers(1, 8), st.floats(0, 4), st.floats(0, 60)), max_size=12))
def test_workers_may_vanish_and_appear(kind: type[WorkersByLoad], steps: list[tuple[dict[str, float], int, float, float]]) -> None:
    """At least one worker, at most one fewer, and as many more as bring the load to the target; a snapshot is all there is."""
    config = kind(grace="20 s")
    logic, resumed, now_s = config.build(), config.build(), 0.0
    for loads, workers, utilisation, later_s in steps:
        now_s += later_s
        each = seen(loads, workers, utilisation)
        decision = logic.decide(each, now_s=now_s)
        resumed = config.build(json.loads(json.dumps(resumed.snapshot())))
        assert resumed.decide(each, now_s=now_s) == decision
        total = sum(worker_loads(each).values())
        assert max(1, workers - 1) <= decision.allocation.workers <= max(workers, len(loads)) + total / config.target + 1


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"lower=0\.7, target=0\.6, upper=0\.8: not loads of a worker in this order"):
        LocalThresholds(lower=0.7)
    for wrong in ({"upper": 1.2}, {"lower": 0.0}, {"lower": 0.59, "upper": 0.61}):
        with pytest.raises(InvalidInput, match="choose 0 < lower < target < upper <= 1"):
            GlobalThresholds(**wrong)
    with pytest.raises(InvalidInput, match="intervals=0"):
        LocalThresholds(intervals=0)
    with pytest.raises(InvalidInput, match="grace=-1"):
        replace(LocalThresholds(), grace=-1)
