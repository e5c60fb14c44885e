"""A fleet in virtual time: the costs of redirections, the capacity of splits, and a bound on their number."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skytide.admission import STRATEGIES, Admission, Ard, Profile
from skytide.errors import InvalidInput
from skytide_lab.experiments.x13_admission import MEASURES, NAMES, Run, claims, fitted, simulate
from skytide_lab.sim.bin_packing import min_bins
from skytide_lab.sim.fleet import TICK_S, WORKLOADS, FleetTraffic, fleet_traffic, run_fleet


def by_brute_force(sizes: list[int], capacity: int) -> int:
    """Return the smallest number of bins by trying all assignments, for more and more bins."""
    for bins in range(len(sizes) + 1):
        for places in product(range(bins), repeat=len(sizes)):
            if all(sum(size for size, at in zip(sizes, places, strict=True) if at == each) <= capacity for each in range(bins)):
                return bins
    raise AssertionError("each item fits into a bin of its own")


@given(sizes=st.lists(st.integers(1, 12), max_size=6))
def test_no_packing_is_below_the_bound(sizes: list[int]) -> None:
    assert min_bins(sizes, 12) <= by_brute_force(sizes, 12)
    assert min_bins(sizes, 12) >= -(-sum(sizes) // 12)


def test_the_bound_is_tight() -> None:
    """It is the optimum for most small sets, even where the sum of the sizes is far below it, and one bin less for the others."""
    drawn = np.random.default_rng(7).integers(1, 13, (100, 5)).tolist()
    off = [by_brute_force(sizes, 12) - min_bins(sizes, 12) for sizes in drawn]
    assert set(off) <= {0, 1}
    assert sum(off) <= 5
    assert min_bins([7] * 6, 12) == 6  # the sum says 4
    assert min_bins([7, 7, 7, 5, 5, 5], 12) == 3
    assert min_bins([30], 12) == 1
    with pytest.raises(InvalidInput, match="not the size of a bin"):
        min_bins([1], 0)


def steady(*rates_hz: float, seconds: float = 40.0) -> FleetTraffic:
    ticks = round(seconds / TICK_S)
    return FleetTraffic(np.array([[round(rate * TICK_S)] * ticks for rate in rates_hz], np.int64), {})


PLAN = Admission(strategy=Ard(), capacity_hz=1_000, period_s=5.0)


def test_a_redirection_buffers_what_comes_meanwhile() -> None:
    """Both streams start in one split, which is too small: after a period the faster one is redirected, and then nothing changes."""
    outcome = run_fleet(PLAN, steady(700, 400), redirect_s=2.0, warm_up_s=0.0)
    periods = 8
    assert outcome.redirections * periods == pytest.approx(1)
    assert outcome.buffered * periods == pytest.approx(700 * 2)
    # 500 tuples of it had waited before; with the 1,400 its new split takes them in at 1,000 per second.
    assert outcome.delay_s * periods == pytest.approx(2 + 1.9, abs=TICK_S)
    assert outcome.splits == pytest.approx((1 + 7 * 2) / 8)
    assert outcome.optimal == 2


def test_what_a_split_cannot_do_waits() -> None:
    outcome = run_fleet(PLAN, steady(1_200), warm_up_s=0.0)
    assert (outcome.redirections, outcome.splits, outcome.optimal) == (0, 1, 1)
    assert outcome.latency_s == pytest.approx(np.mean([0.2 * 5 * at for at in range(1, 9)]))
    assert outcome.violations == pytest.approx(3 / 8)


def test_without_need_nothing_happens() -> None:
    outcome = run_fleet(PLAN, steady(300, 300), warm_up_s=0.0)
    assert (outcome.redirections, outcome.buffered, outcome.delay_s, outcome.latency_s) == (0, 0, 0, 0)


def test_a_fleet_is_not_judged_by_its_warm_up_alone() -> None:
    for traffic, warm_up_s in ((steady(300), 40.0), (steady(300), 35.1), (steady(300, seconds=4.0), 0.0)):
        with pytest.raises(InvalidInput, match="no period is left of"):
            run_fleet(PLAN, traffic, warm_up_s=warm_up_s)
    assert run_fleet(PLAN, steady(300), warm_up_s=35.0).splits == 1


@pytest.mark.parametrize("workload", WORKLOADS)
def test_workloads_are_what_was_asked_for_and_what_is_declared_is_so(workload: str) -> None:
    traffic = fleet_traffic(workload, 20, 10_000, 300, seed=3)
    again = fleet_traffic(workload, 20, 10_000, 300, seed=3)
    assert np.array_equal(traffic.counts, again.counts)
    assert traffic.counts.sum() / 300 == pytest.approx(10_000, rel=0.25 if workload == "bursty" else 0.05)
    rates = traffic.counts.reshape(20, -1, 25).sum(axis=2) / (25 * TICK_S)
    for name, rate in zip(traffic.names, rates, strict=True):
        profile = traffic.profiles[name]
        assert profile.max_hz is not None
        assert rate.max() < 1.15 * profile.max_hz
        assert rate.max() > 0.8 * profile.max_hz
    with pytest.raises(InvalidInput, match="workload='calm': not known"):
        fleet_traffic("calm", 20, 10_000, 300, seed=3)


@pytest.mark.slow
def test_a_short_version_of_the_experiment_runs() -> None:
    rows = [simulate(Run(workload, strategy, seeds=(0,), seconds=90.0)) for workload in WORKLOADS for strategy in STRATEGIES]
    assert set(NAMES) == set(STRATEGIES)
    for row in rows:
        assert all(row[measure] >= 0 for measure in MEASURES if measure != "above_optimal")
        assert row["splits"] >= 1
    found = claims(rows)
    assert len({claim.paper for claim in found}) == len(found) == 11
    moves = {row["strategy"]: row["redirections"] for row in rows if row["workload"] == "constw"}
    assert max(moves, key=lambda name: moves[name]) == "par"


def test_weights_are_fitted_to_a_history() -> None:
    assert fitted("constw", 90.0).trend <= 0.1  # there is no trend
    assert fitted("tfvar", 180.0).trend >= 0.5


def test_what_was_declared_is_used_by_those_who_say_so() -> None:
    traffic = steady(300, 300, seconds=10)
    wide = replace(traffic, profiles=dict.fromkeys(traffic.names, Profile(max_hz=900)))
    splits = {name: run_fleet(replace(PLAN, strategy=kind()), wide, warm_up_s=0.0).splits for name, kind in STRATEGIES.items()}
    assert splits == {"drfm": 2, "drf": 1, "ari": 1, "ard": 1, "par": 1}
