"""The baselines: rules with two thresholds, the strategy of SPL, and no control at all."""

import json

import pytest

from skytide.control.controller import Controller
from skytide.control.controllers.congestion import Congestion
from skytide.control.controllers.static import Static
from skytide.control.controllers.utilisation import UtilisationThresholds
from skytide.errors import InvalidInput
from skytide.records import Allocation, Decision, Evaluation, Observation


def seen(utilisation: float, workers: int, rate_hz: float | None = None, settled: bool = True) -> Evaluation:
    """Return an evaluation of a stream that needs `utilisation * workers` workers, each of which serves 100 tuples per second."""
    served = min(utilisation, 1.0) * workers * 100 if rate_hz is None else rate_hz
    now = Observation(0.0, 1.0, Allocation(workers), utilisation * workers * 100, served, utilisation, 0.01)
    return Evaluation(now, now.arrival_rate_hz, 0.01, utilisation, 0.0, settled)


@pytest.mark.parametrize(
    ("utilisation", "workers", "wanted", "reason"),
    [
        (1.31, 2, 3, "utilisation 131 %, over 90 %: 2 to 3"),
        (0.85, 2, 2, "utilisation 85 %: stays at 2"),
        (0.5, 2, 1, "utilisation 50 %, under 80 %: 2 to 1"),
        (0.5, 1, 1, "utilisation 50 %: stays at 1"),
        (float("nan"), 4, 4, "no utilisation was measured: stays at 4"),
    ],
)
def test_rules(utilisation: float, workers: int, wanted: int, reason: str) -> None:
    assert UtilisationThresholds().build().decide(seen(utilisation, workers), now_s=0.0) == Decision(Allocation(wanted), reason)


def settles(controller: Controller, load: float, cycles: int, start: int = 1) -> list[int]:
    """Return the numbers of workers over time for a stream that needs `load` workers."""
    logic, workers, used = controller.build(), start, []
    for _ in range(cycles):
        workers = logic.decide(seen(load / workers, workers), now_s=0.0).allocation.workers
        used.append(workers)
    return used


def test_spl_climbs_and_remembers_what_was_congested() -> None:
    """A load of 4.8 workers: up to 5, and not back to 4, which was congested (0.17). From above, it has to try 4 once."""
    assert settles(Congestion(), 4.8, 8) == [2, 3, 4, 5, 5, 5, 5, 5]
    assert settles(Congestion(), 4.8, 8, start=7) == [6, 5, 4, 5, 5, 5, 5, 5]


def test_rules_cannot_settle_where_no_size_lies_between_the_thresholds() -> None:
    """They lack SPL's memory: a load of 1.5 is 75 % of two workers and 150 % of one."""
    assert settles(UtilisationThresholds(), 1.5, 10)[-4:] == [2, 1, 2, 1]
    assert settles(Congestion(), 1.5, 10)[-4:] == [2, 2, 2, 2]


def test_spl_does_not_repeat_what_did_not_help() -> None:
    """Throughput stays at 300 with any number of workers: something else is the bottleneck."""
    logic, workers = Congestion().build(), 3
    used = []
    for _ in range(4):
        decision = logic.decide(seen(2.0, workers, rate_hz=300.0), now_s=0.0)
        workers = min(decision.allocation.workers, 4)
        used.append(workers)
    logic.decide(seen(2.0, 4, rate_hz=300.0), now_s=0.0)
    again = logic.decide(seen(2.0, 3, rate_hz=300.0), now_s=0.0)
    assert used[0] == 4
    assert again == Decision(Allocation(3), "congestion 0.50 over 0.1, but 4 did not help: stays at 3")


def test_spl_gets_out_of_an_overload() -> None:
    """What a size served without congestion was its input, not its capacity: so more load is no reason to stay below it."""
    logic, workers, used = Congestion().build(), 4, []
    for came_hz in [300.0] + [380.0] * 7 + [2_000.0] * 30:
        can_hz = 100.0 * workers
        decision = logic.decide(seen(came_hz / can_hz, workers, rate_hz=min(came_hz, can_hz)), now_s=0.0)
        workers = decision.allocation.workers
        used.append(workers)
    assert used[7] == 4
    assert 18 <= used[-1] <= 20


def test_spl_takes_back_what_did_not_help() -> None:
    """Gedik's comparison with the neighbouring size: one more under congestion served no more, so it goes, and is not tried twice."""
    logic, workers, used = Congestion().build(), 3, []
    for _ in range(6):
        workers = logic.decide(seen(2.0, workers, rate_hz=300.0), now_s=0.0).allocation.workers
        used.append(workers)
    assert used == [4, 3, 3, 3, 3, 3]


def test_spl_forgets_on_change() -> None:
    logic = Congestion().build()
    for load, workers in ((4.8, 4), (4.8, 5)):
        logic.decide(seen(load / workers, workers), now_s=0.0)
    stays = logic.decide(seen(4.8 / 5, 5), now_s=0.0)
    assert stays.reason == "congestion 0.00 within 0.1, but 4 was congested: stays at 5"
    assert logic.decide(seen(4.6 / 5, 5), now_s=0.0).allocation.workers == 5  # within the sensitivity
    assert logic.decide(seen(3.5 / 5, 5), now_s=0.0).allocation.workers == 4


def test_spl_waits_for_what_was_asked_for() -> None:
    assert Congestion().build().decide(seen(2.0, 3, settled=False), now_s=0.0).allocation.workers == 3


def test_spl_remembers_over_a_restart() -> None:
    logic = Congestion().build()
    for load, workers in ((4.8, 4), (4.8, 5)):
        logic.decide(seen(load / workers, workers), now_s=0.0)
    resumed = Congestion().build(json.loads(json.dumps(logic.snapshot())))
    assert resumed.decide(seen(4.8 / 5, 5), now_s=0.0) == logic.decide(seen(4.8 / 5, 5), now_s=0.0)
    assert resumed.decide(seen(4.8 / 5, 5), now_s=0.0).allocation.workers == 5
    assert Congestion().build().decide(seen(4.8 / 5, 5), now_s=0.0).allocation.workers == 4


def test_static_is_static() -> None:
    logic = Static(7).build()
    assert [logic.decide(seen(load, 3), now_s=0.0) for load in (0.1, 9.0)] == [Decision(Allocation(7), "always 7")] * 2


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(InvalidInput, match="every utilisation would be too low or too high"):
        UtilisationThresholds(theta_max=0.5, theta_min=0.6)
    with pytest.raises(InvalidInput, match=r"sensitivity=1.5: not a share"):
        Congestion(sensitivity=1.5)
    with pytest.raises(InvalidInput, match="nothing would be done"):
        Static(0)
