"""Model predictive control: the optimum is exact, the models are the papers', and it decides as a person would."""

import json
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.problems import by_brute_force, cost_of, problems
from support.prose import says

from skytide.control.controllers.mpc import Mpc
from skytide.control.models.objective import Demand, Objective, candidates
from skytide.control.models.operator import power_w, waiting_s
from skytide.control.models.optimiser import Plan, Problem, plan
from skytide.errors import InvalidInput
from skytide.forecasting import LastValue
from skytide.records import Allocation, Decision, Evaluation, Observation


def seen(
    rate_hz: float = 1_000.0,
    workers: int = 2,
    service_s: float | None = 0.001,
    *,
    lead_s: float = 0.0,
    interval_s: float = 1.0,
    demand_hz: float | None = None,
    utilisation: float | None = None,
    ghz: float | None = None,
    **measured: Any,
) -> Evaluation:
    used = rate_hz * (service_s or 0.001) / workers if utilisation is None else utilisation
    now = Observation(0.0, interval_s, Allocation(workers, frequency_ghz=ghz), rate_hz, rate_hz, used, service_s, **measured)
    return Evaluation(now, rate_hz if demand_hz is None else demand_hz, service_s, used, lead_s)


def decided(controller: Mpc, *evaluations: Evaluation) -> Decision:
    logic = controller.build()
    for evaluation in evaluations[:-1]:
        logic.decide(evaluation, now_s=0.0)
    return logic.decide(evaluations[-1], now_s=0.0)


# --- the optimiser ---------------------------------------------------------------------------------------------------------------


@given(problems())
def test_the_optimum_is_found(problem: Problem) -> None:
    best = plan(problem)
    assert best.cost == pytest.approx(by_brute_force(problem))
    assert cost_of(problem, best.path) == pytest.approx(best.cost)


def test_a_greedy_search_is_caught() -> None:
    """What is cheapest now leads to an expensive next step: only looking ahead shows it."""
    problem = Problem(np.array([[1.0, 2.0], [9.0, 1.0]]), np.zeros(2), np.array([[0.0, 9.0], [9.0, 0.0]]))
    greedy, at = 0.0, -1
    for i in range(2):
        costs = problem.step[i] + (problem.first if at < 0 else problem.between[at])
        at, greedy = int(costs.argmin()), greedy + float(costs.min())
    assert plan(problem) == Plan((1, 1), 3.0)
    assert greedy == 10.0 != by_brute_force(problem)


# --- the models ------------------------------------------------------------------------------------------------------------------


def test_models_by_hand() -> None:
    """SPEC E2: W = (rho/(1-rho)) ((ca^2+cs^2)/2) T/n."""
    assert float(waiting_s(0.8, 1.0, 0.0, 0.01)) == pytest.approx(0.8 / 0.2 * 0.5 * 0.01)
    assert np.all(np.diff(waiting_s(np.array([0.1, 0.9, 0.9999, 1.0, 1.5, 3.0]), 1, 1, 0.01)) > 0)
    assert float(power_w(12, 2.0)) == pytest.approx(68.25, abs=0.1)
    assert float(power_w(8, 1.5) / power_w(6, 2.0)) < 1  # the same work with slower cores takes less power


# --- what it decides -------------------------------------------------------------------------------------------------------------


def test_it_gives_what_keeps_up_and_says_why() -> None:
    """2,620 tuples/s of 1 ms are the work of 2.62 workers: with a tenth in reserve 2.9."""
    steady = decided(Mpc.throughput(), seen(2_620))
    assert steady.allocation.workers == 3
    assert says(steady.reason, "2,620 tuples/s", "131 %", "forecast", "2,620 tuples/s in 1 s", "2 workers", "131 %", "2 to 3")
    assert says(decided(Mpc.throughput(), seen(2_620, workers=3)).reason, "3 workers", "87 %", "stays at 3")


@pytest.mark.parametrize("scale", [1, 10, 1_000])
@pytest.mark.parametrize("rate_hz", [0.1, 1_000.0, 1e8])
def test_the_same_weights_do_for_any_size_and_rate(scale: int, rate_hz: float) -> None:
    """From half of what is needed, and from twice of it, it goes to what is needed: 4.5 at 90 %, times the scale."""
    service_s = 4.5 * scale * 0.9 / rate_hz
    for present in (2 * scale, 10 * scale):
        logic = Mpc.throughput().build()
        workers = present
        for _ in range(12):
            workers = logic.decide(seen(rate_hz, workers, service_s), now_s=0.0).allocation.workers
        assert 4.5 * scale <= workers <= 4.5 * scale * 1.12


def test_it_sees_a_rise_coming() -> None:
    rise = [seen(rate, workers=2) for rate in (1_000, 1_210, 1_420, 1_630)]
    assert decided(Mpc.throughput(forecaster=LastValue(), coverage=0.0), *rise).allocation.workers == 2
    assert decided(Mpc.throughput(coverage=0.0), *rise).allocation.workers == 3
    assert "1,840 tuples/s in 1 s (+13 %)" in decided(Mpc.throughput(coverage=0.0), *rise).reason


def test_it_looks_as_far_as_a_new_worker_takes() -> None:
    rise = [seen(rate, workers=2, lead_s=4.0) for rate in (1_100, 1_200, 1_300, 1_400)]
    found = decided(Mpc.throughput(coverage=0.0), *rise)
    assert found.allocation.workers == 3
    assert "up to 1,900 tuples/s in 5 s" in found.reason
    fall = [seen(rate, workers=2, lead_s=4.0) for rate in (2_000, 1_900, 1_800, 1_700)]
    assert decided(Mpc.throughput(coverage=0.0), *fall).allocation.workers == 2  # what is needed until then still counts


def test_it_plans_for_the_upper_end_of_a_rough_stream() -> None:
    rough = [seen(rate, workers=2) for rate in (1_700, 1_300, 1_750, 1_250, 1_700, 1_300, 1_800, 1_200, 1_500)]
    cautious, bold = (decided(Mpc.throughput(coverage=coverage), *rough) for coverage in (0.95, 0.0))
    assert cautious.allocation.workers > bold.allocation.workers


def test_what_waits_has_to_be_served_as_well() -> None:
    assert decided(Mpc.throughput(), seen(1_700)).allocation.workers == 2
    assert decided(Mpc.throughput(), seen(1_700, demand_hz=2_500)).allocation.workers == 3
    behind = seen(1_700, backlog=10_000.0)
    assert decided(Mpc.latency("2 s"), behind).allocation.workers > decided(Mpc.throughput(), behind).allocation.workers


def test_it_keeps_a_latency() -> None:
    """A queue in which tuples wait 50 times as long as Kingman says: the correction finds it, and more workers make it short."""
    slow = seen(1_500, workers=2, service_s=0.001, latency_s=0.076)
    many = [slow] * 8
    assert decided(Mpc.throughput(), *many).allocation.workers == 2
    assert decided(Mpc.latency("1 s"), *many).allocation.workers == 2
    found = decided(Mpc.latency("50 ms"), *many)
    assert found.allocation.workers == 3
    assert "latency 0.076 s; forecast" in found.reason
    assert "2 workers would have a utilisation of 75 % and a latency of 0.076 s (bound 0.05 s)" in found.reason
    first = decided(Mpc.latency("50 ms"), slow)  # what is modelled agrees with what is measured from the first time on
    assert "and a latency of 0.076 s" in first.reason


def test_a_bound_that_no_size_keeps_does_not_take_all_there_is() -> None:
    """A tuple takes a second: 10 ms are out of reach, and a hundred workers would not help."""
    workers = decided(Mpc.latency("10 ms", maximum=100), *[seen(3, workers=5, service_s=1.0, latency_s=1.4)] * 5).allocation.workers
    assert 5 <= workers <= 15


def test_no_size_is_enough() -> None:
    found = decided(Mpc.throughput(maximum=5), seen(9_000, workers=2))
    assert found.allocation.workers == 5
    assert found.reason.endswith("2 to 5, more than any size can serve")
    power = decided(Mpc.throughput(power=True, maximum=5, frequencies_ghz=(1.2, 2.0)), seen(9_000, workers=2, ghz=1.2))
    assert power.allocation == Allocation(5, frequency_ghz=2.0)


def test_power_takes_more_and_slower_cores() -> None:
    """4 workers at 2 GHz are enough; 8 at a lower frequency are too, with fewer watts."""
    four = seen(3_500, workers=4, ghz=2.0, frequencies_ghz=(1.2, 1.4, 1.6, 1.8, 2.0))
    found = decided(Mpc.throughput(power=True, maximum=12, gamma=0.0), four).allocation
    assert found.frequency_ghz is not None
    assert found.workers * found.frequency_ghz * 0.9 >= 3.5 * 2.0
    assert power_w(found.workers, found.frequency_ghz) < 0.8 * power_w(4, 2.0)


MACHINE_GHZ = (0.8, 1.4, 2.0, 2.6, 3.0, 3.5)


def busy_machine(**measured: Any) -> Evaluation:
    """Four workers, all that there are, at 3.5 GHz and used at 90 %."""
    return seen(3_600, workers=4, ghz=3.5, **measured)


def test_the_frequencies_are_those_of_the_machine() -> None:
    """A busy machine at 3.5 GHz stays there, and one with little to do goes down to its slowest."""
    power = Mpc.throughput(power=True, maximum=4, coverage=0.0)
    busy = decided(power, busy_machine(frequencies_ghz=MACHINE_GHZ)).allocation
    assert busy == Allocation(4, frequency_ghz=3.5)
    idle, logic = busy, power.build()
    for _ in range(10):
        service_s = 0.001 * 3.5 / (idle.frequency_ghz or 0.0)
        now = seen(10, idle.workers, service_s, ghz=idle.frequency_ghz, frequencies_ghz=MACHINE_GHZ)
        idle = logic.decide(now, now_s=0.0).allocation
    assert idle.frequency_ghz == 0.8


def test_frequencies_of_another_machine_slow_a_busy_one_down() -> None:
    """A guilty specimen: those of P2's machine."""
    power = Mpc.throughput(power=True, maximum=4, coverage=0.0, frequencies_ghz=(1.2, 1.6, 2.0))
    found = decided(power, busy_machine(frequencies_ghz=MACHINE_GHZ))
    assert found.allocation == Allocation(4, frequency_ghz=2.0) and "more than any size can serve" in found.reason


def test_where_no_frequency_can_be_set_workers_are_chosen_and_it_says_so() -> None:
    found = decided(Mpc.throughput(power=True, maximum=8), seen(2_620, workers=2))
    assert found.allocation == decided(Mpc.throughput(maximum=8), seen(2_620, workers=2)).allocation == Allocation(3)
    assert "no CPU frequency can be set: 2 to 3" in found.reason


def test_without_a_time_for_a_tuple_the_load_says_it() -> None:
    assert decided(Mpc.throughput(), seen(1_000, workers=2, service_s=None, utilisation=1.8)).allocation.workers == 4
    unknown = decided(Mpc.throughput(), seen(1_000, workers=2, service_s=None, utilisation=0.0))
    assert unknown == Decision(Allocation(2), "neither the time per tuple nor a load was measured: stays at 2")
    nothing = decided(Mpc.throughput(), seen(float("nan"), workers=2))
    assert nothing == Decision(Allocation(2), "no input rate was measured: stays at 2")


@pytest.mark.parametrize(("rate_hz", "utilisation"), [(5e-324, 50.0), (1e-300, 1.0), (1e-12, 50.0)])
def test_what_was_measured_wrong_does_no_harm(rate_hz: float, utilisation: float) -> None:
    """Almost no input at a high load would mean that a tuple takes years; then a real rate comes."""
    wrong = seen(rate_hz, workers=3, service_s=None, utilisation=utilisation)
    then = seen(1e6, workers=3, service_s=None, utilisation=0.0, demand_hz=rate_hz)
    for last in (wrong, then, seen(1e6, workers=3, service_s=1e9)):
        assert 1 <= decided(Mpc.throughput(), wrong, last).allocation.workers <= 3_000_000


def test_no_input_is_the_least_work() -> None:
    logic, workers = Mpc.throughput(minimum=2).build(), 9
    for _ in range(10):
        workers = logic.decide(seen(0.0, workers), now_s=0.0).allocation.workers
    assert workers == 2


def test_a_cost_of_changes_calms_it() -> None:
    """The need varies around 100 workers by one or two: not worth a change each time."""
    wobble = [99_000, 100_500, 99_500, 101_000, 99_200, 100_800] * 5

    def changes(controller: Mpc) -> int:
        logic, workers, count = controller.build(), 112, 0
        for rate in wobble:
            wanted = logic.decide(seen(rate, workers), now_s=0.0).allocation.workers
            count, workers = count + (wanted != workers), wanted
        return count

    assert changes(Mpc.throughput(coverage=0.0)) < 0.4 * changes(Mpc.throughput(coverage=0.0, gamma=0.0))


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(1, 1_000), st.floats(0.2, 1.2), st.floats(-0.3, 0.3))
def test_thinning_out_costs_next_to_nothing(present: int, load: float, trend: float) -> None:
    config = Objective(None, False, 100.0, 0.5, 0.4, 0.1, 1, 1_000, (), scaled=True)
    demand = Demand(tuple(min(880.0, present * load * (1 + trend * k)) for k in range(3)), 1.0, 1.0, 1.0, 1.0)
    _, thin = config.problem(Allocation(present), demand)
    with patch("skytide.control.models.objective.ALL", 10_000):
        options, full = config.problem(Allocation(present), demand)
    assert len(options) == 1_000
    assert len(thin.first) < 200  # of 1,000
    assert plan(full).cost <= plan(thin).cost <= plan(full).cost * 1.01


def test_candidates_hold_the_present_the_need_and_the_limits() -> None:
    found = candidates(3_000, [3_456], 10, 5_000).tolist()
    assert {10, 3_000, 2_999, 3_456, 3_457, 5_000} <= set(found)
    assert found == sorted(set(found))


def test_the_papers_weights_as_they_are() -> None:
    """P2 (11), (13), (15): alpha T_S in ms, beta n, gamma dn^2, for 2 to 3 replicas at a need of 2.4."""
    objective = Objective(None, False, 200.0, 0.5, 0.4, 0.0, 2, 3, (), scaled=False)
    options, problem = objective.problem(Allocation(2), Demand((2_400.0,), 0.001, 1.0, 1.0, 1.0))
    assert [option.workers for option in options] == [2, 3]
    assert problem.step[0].tolist() == pytest.approx([200 * 0.5 + 1.0, 200 / 2.4 + 1.5])
    assert problem.first.tolist() == pytest.approx([0.0, 0.4])


@given(st.lists(st.floats(0, 1e5), min_size=2, max_size=20), st.booleans())
def test_a_snapshot_decides_alike(rates: list[float], latency: bool) -> None:
    controller = Mpc.latency("1 s", maximum=50) if latency else Mpc.throughput(maximum=50)
    whole, part = controller.build(), controller.build()
    for rate in rates:
        part = controller.build(json.loads(json.dumps(part.snapshot())))
        evaluation = seen(rate, latency_s=0.3)
        assert whole.decide(evaluation, now_s=0.0) == part.decide(evaluation, now_s=0.0)


def test_slots_follow_the_workers() -> None:
    now = seen(2_620)
    slots = replace(now, seen=replace(now.seen, allocation=Allocation(2, pane_slots=1, window_slots=1)))
    assert decided(Mpc.throughput(), slots).allocation == Allocation(3, pane_slots=2, window_slots=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"horizon": 0}, "horizon=0: no step would be planned"),
        ({"headroom": 1.0}, "headroom=1.0: not a share of a worker"),
        ({"coverage": 1.0}, "coverage=1.0: not a probability"),
        ({"minimum": 3, "maximum": 2}, "maximum=2: below the minimum of 3"),
        ({"power": True}, "maximum=None: slower cores need more of them"),
        ({"bound_s": 0.0}, "bound_s=0.0: no latency is that low"),
    ],
)
def test_what_cannot_be_planned_with_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Mpc(**options)
    with pytest.raises(InvalidInput, match="bound='soon': not a length of time"):
        Mpc.latency("soon")
