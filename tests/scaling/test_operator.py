"""The elastic operator: nothing is lost, the same seed means the same run, and time passes as requested."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skytide.control.controllers.mpc import Mpc
from skytide.control.controllers.static import Static
from skytide.control.guard import Guard
from skytide.errors import InvalidInput
from skytide.loop.cycle import Loop
from skytide.records import Allocation, Observation, Outcome
from skytide.sim.operator import Operator


def plant(rate_hz: float = 100.0, seconds: int = 100, **options: object) -> Operator:
    chosen = {"service_s": 0.016, "start": Allocation(2), "arrival_cv": 0.0, "service_cv": 0.0, **options}
    return Operator([rate_hz] * seconds, **chosen)  # type: ignore[arg-type]


def observed(operator: Operator, until_s: float) -> Observation:
    operator.advance(until_s)
    found = operator.observe(until_s)
    assert found is not None
    return found


@settings(max_examples=60)
@given(
    st.lists(st.floats(0, 500), min_size=1, max_size=60),
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=12),
    st.sampled_from([0.0, 2.0, 7.5]),
    st.integers(0, 99),
)
def test_nothing_is_lost(rates: list[float], changes: list[tuple[int, int]], delay_s: float, seed: int) -> None:
    operator = Operator(rates, 0.02, start=Allocation(2), lead_s=delay_s, cold_s=delay_s / 2, move_s=1.5, seed=seed)
    at = 0.0
    for workers, length_s in changes:
        at += length_s
        operator.advance(at)
        operator.request(Allocation(workers), at)
        assert operator.arrived == pytest.approx(operator.served + operator.backlog)
        assert operator.size().workers >= 1
    operator.request(Allocation(9), at)
    operator.advance(at + 1_000)
    assert operator.backlog == 0
    assert operator.served == pytest.approx(operator.arrived)


def test_the_same_seed_gives_the_same_run() -> None:
    def run(seed: int) -> list[object]:
        operator = Operator(np.linspace(50, 400, 300), 0.01, start=Allocation(4), lead_s=4, move_s=0.5, seed=seed)
        loop = Loop(operator, Mpc.throughput(), Guard.bounds(1, 12))
        cycles = []
        for at in range(5, 301, 5):
            operator.advance(at)
            cycles.append(loop.cycle(at))
        return cycles

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_utilisation_is_load_over_capacity() -> None:
    for workers, expected in ((2, 0.8), (4, 0.4), (1, 1.6)):
        found = observed(plant(start=Allocation(workers)), 10)
        assert found.utilisation == pytest.approx(expected)
        assert found.service_s == pytest.approx(0.016)
        assert found.loads[0] == ("worker 0", pytest.approx(min(expected, 1.0)))
        assert len(found.loads) == workers


def test_what_is_left_over_waits() -> None:
    """Per second 100 come and 62.5 are served: after 8 s 300 wait, and those served had to wait for half of that on average."""
    operator = plant(start=Allocation(1))
    found = observed(operator, 8)
    assert found.backlog == pytest.approx(300)
    assert found.processed_rate_hz == pytest.approx(62.5)
    assert found.latency_s is not None
    assert found.latency_s > 2
    assert operator.observe(8) is None


def test_workers_come_after_their_lead_time_and_are_paid_for_at_once() -> None:
    operator = plant(lead_s=4.0)
    operator.advance(10)
    assert operator.request(Allocation(5), 10) == Outcome("asked", "requested 3 more, there in 4 s")
    operator.advance(12)
    operator.request(Allocation(5), 12)  # asked for already
    assert operator.size().workers == 2
    operator.advance(14)
    assert operator.size().workers == 2
    operator.advance(15)
    assert operator.size().workers == 5
    assert operator.worker_s == 10 * 2 + 5 * 5
    operator.observe(15)
    assert observed(operator, 16).allocation.workers == 5


def test_an_interval_counts_for_those_that_were_there_for_all_of_it() -> None:
    operator = plant(lead_s=4.0)
    operator.request(Allocation(3), 0)
    assert observed(operator, 10).allocation.workers == 2
    assert observed(operator, 20).allocation.workers == 3


def test_wishes_can_be_called_off() -> None:
    operator = plant(lead_s=5.0)
    operator.request(Allocation(6), 0)
    assert operator.request(Allocation(3), 1) == Outcome("asked", "0 released, 3 cancelled")
    operator.advance(10)
    assert operator.size().workers == 3
    assert operator.request(Allocation(1), 10) == Outcome("done", "2 released")
    assert operator.size().workers == 1


def test_a_change_holds_back_what_moves() -> None:
    """From 2 to 4, half of the keys move: for 2 s half of the tuples wait, and the others do not."""
    still, moving = plant(move_s=0.0), plant(move_s=2.0)
    for operator in (still, moving):
        operator.request(Allocation(4), 0)
        operator.advance(2)
    assert (still.backlog, moving.backlog) == (0, 100)
    moving.advance(3)
    assert moving.backlog == 0
    assert plant(cold_s=3.0, lead_s=4.0).lead_s == 7.0


def test_a_lower_frequency_takes_longer_and_fewer_watts() -> None:
    operator = plant(start=Allocation(3, frequency_ghz=2.0))
    fast = observed(operator, 5)
    operator.request(Allocation(3, frequency_ghz=1.2), 5)
    slow = observed(operator, 10)
    assert slow.service_s == pytest.approx(0.016 * 2 / 1.2)
    assert slow.allocation.frequency_ghz == 1.2
    assert fast.power_w is not None
    assert slow.power_w is not None
    assert slow.power_w < fast.power_w
    assert observed(plant(), 5).power_w is None


def test_the_loop_follows_a_day_with_far_less_than_the_peak() -> None:
    """Up and down over two hours, a tenth to nine tenths of what eight workers serve."""
    rates = 500 + 400 * np.sin(np.arange(7_200) / 7_200 * 4 * np.pi)

    def run(controller: object) -> tuple[float, float]:
        operator = Operator(rates, 0.008, start=Allocation(8), lead_s=6.0, cold_s=3.0, seed=3)
        loop = Loop(operator, controller, Guard(1, 8))  # type: ignore[arg-type]
        violated = 0
        for at in range(10, 7_201, 10):
            operator.advance(at)
            cycle = loop.cycle(at)
            assert cycle.evaluation is not None
            violated += cycle.evaluation.seen.processed_rate_hz < 0.95 * cycle.evaluation.seen.arrival_rate_hz
        return operator.worker_s, violated / 720

    (peak_s, _), (used_s, violated) = run(Static(8)), run(Mpc.throughput())
    assert used_s < 0.7 * peak_s
    assert violated <= 0.01


def test_what_cannot_be_played_is_refused() -> None:
    for rates in ([], [-1.0], [float("nan")]):
        with pytest.raises(InvalidInput, match="rates_hz: not a series of rates"):
            Operator(rates, 0.01)
    with pytest.raises(InvalidInput, match="service_s: not a time per tuple"):
        Operator([1.0], 0.0)
    with pytest.raises(InvalidInput, match="step_s: no time would pass"):
        Operator([1.0], 0.1, step_s=0)
