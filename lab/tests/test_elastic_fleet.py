"""Streams, splits and nodes along a trend, and keys that move meanwhile: short versions of X15, and queues whose lengths are known."""

from itertools import pairwise

import numpy as np
import pytest

from skytide.admission import Admission, Ard, Drfm, Profile, Sample
from skytide.control.models.sizing import Sizing
from skytide_lab.experiments.x15_elastic_fleet import OURS, PLAIN, placements, play, shares_of
from skytide_lab.sim.elastic_fleet import Assign, Deployment, Machines, Moment, elastic, run_elastic_fleet, static, trend_traffic
from skytide_lab.sim.fleet import TICK_S, FleetTraffic
from skytide_lab.sim.relocation import ByRemainder, Consistent, partial_results, relocated

MACHINES = Machines(capacity_hz=1_000, results_per_tuple=0.0)
EVEN = {n: np.full(n, 1 / n) for n in range(1, 9)}


def steady(rates_hz: list[float], seconds: float) -> FleetTraffic:
    counts = np.repeat(np.rint(np.array(rates_hz) * TICK_S).astype(np.int64)[:, None], round(seconds / TICK_S), axis=1)
    traffic = FleetTraffic(counts, {})
    return FleetTraffic(counts, {name: Profile(max_hz=rate) for name, rate in zip(traffic.names, rates_hz, strict=True)})


def fixed(splits: list[int], processing: int) -> Assign:
    return lambda sample: Deployment(np.array(splits, np.int32), Sizing(processing, 1))


def played(traffic: FleetTraffic, assign: Assign, machines: Machines = MACHINES) -> list[Moment]:
    return run_elastic_fleet(traffic, assign, EVEN.__getitem__, machines, 5.0)


def test_nodes_that_can_do_it_leave_nothing_waiting() -> None:
    assert max(moment.latency_s for moment in played(steady([500, 500], 20), fixed([0, 0], 1))) == 0.0


def test_an_overloaded_split_falls_behind_as_much_as_it_gets_too_much() -> None:
    """Twice what it can read: of each second half a second more is waiting."""
    moments = played(steady([1_000, 1_000], 20), fixed([0, 0], 8))
    assert moments[-1].client_s == pytest.approx(10, abs=2 * TICK_S)
    assert moments[-1].processing_s == 0.0
    assert played(steady([1_000, 1_000], 20), fixed([0, 1], 8))[-1].client_s == 0.0


def test_an_overloaded_node_is_what_results_wait_for() -> None:
    moments = played(steady([1_000, 1_000], 20), fixed([0, 1], 1))
    assert (moments[-1].client_s, moments[-1].processing_s) == (0.0, pytest.approx(20))


def test_a_redirected_stream_waits_at_its_client_and_a_removed_node_finishes_its_queue() -> None:
    def assign(sample: Sample) -> Deployment:
        first = sample.now_s < 10
        return Deployment(np.array([0, 0 if first else 1], np.int32), Sizing(2 if first else 1, 1))

    machines = Machines(capacity_hz=1_000, results_per_tuple=0.0, redirect_s=2.0, choke_s=1.0)
    moments = {round(moment.at_s, 1): moment for moment in played(steady([400, 400], 30), assign, machines)}
    assert moments[10.0].client_s == 0.0
    assert moments[11.0].client_s == pytest.approx(1.0, abs=2 * TICK_S)  # nothing passes at all
    assert moments[12.0].client_s == pytest.approx(2.0, abs=2 * TICK_S)  # one stream is still on its way
    assert moments[12.0].redirected == 1
    assert moments[20.0].client_s == moments[30.0].client_s == 0.0


def test_a_static_cluster_deals_out_the_fastest_first() -> None:
    traffic = steady([900, 500, 400, 100], 5)
    found = static(traffic, 2, MACHINES)(Sample(0.0, traffic.names, *(np.zeros(4, np.int64),) * 2, np.zeros(4, np.bool_)))
    assert found.splits.tolist() == [0, 1, 1, 0]
    assert found.nodes.processing == 2


def test_a_trend_goes_up_and_down_as_asked() -> None:
    traffic = trend_traffic(40, 10_000, 80_000, 100.0, seed=1)
    total = traffic.counts.sum(axis=0) / TICK_S
    assert total[:10].mean() == pytest.approx(11_500, rel=0.1)
    assert total.max() == pytest.approx(78_000, rel=0.05)
    assert total[-10:].mean() == pytest.approx(11_500, rel=0.15)


def test_forecasts_have_nodes_there_before_the_load() -> None:
    machines = Machines(headroom=0.2)
    drfm, ard, fixed_ = (play(strategy, machines, 200.0, seed=0) for strategy in (Drfm(), Ard(), None))

    def mean_s(moments: list[Moment]) -> float:
        return float(np.mean([moment.latency_s for moment in moments if moment.at_s > 30]))

    assert mean_s(fixed_) <= mean_s(drfm) < mean_s(ard)
    assert np.mean([moment.processing for moment in drfm]) < 25
    assert max(moment.processing for moment in drfm) >= 30


def test_nodes_follow_what_is_expected() -> None:
    traffic = steady([400] * 5, 20)
    assign = elastic(Admission(strategy=Ard(), capacity_hz=1_000, period_s=5.0), traffic, MACHINES)
    assert played(traffic, assign)[-1].processing == 3  # 2,000 tuples per second, of which a node does 900


def test_a_change_moves_few_keys_of_ours_and_nearly_all_by_rests() -> None:
    nodes = [*range(4, 33), *range(31, 3, -1)]
    plain, ours = (relocated(placements()[name], nodes) for name in (PLAIN, OURS))
    assert min(plain) > 0.7 > 4 * 0.05 > np.mean(ours)
    for moved, (one, two) in zip(ours, pairwise(nodes), strict=True):
        assert moved == pytest.approx(1 / max(one, two), rel=0.35)  # what must move


def test_partial_results_are_counted_as_a_slow_loop_does() -> None:
    hashes = placements()[PLAIN].hashes[:40]  # type: ignore[attr-defined]
    shares = 1 / np.arange(1, 41)
    nodes, window = [2, 2, 3, 5, 5, 4], 3
    for placement in (ByRemainder(hashes), Consistent(hashes, shares / shares.sum(), 4)):
        by_time = [{(key, node) for key, node in zip(*np.nonzero(placement.present(n, 5)), strict=True)} for n in nodes]
        expected = [len(set().union(*by_time[max(0, end - window) : end])) for end in range(1, len(nodes) + 1)]
        assert partial_results(placement, nodes, window) == expected
        assert expected[0] >= 40


def test_nodes_get_the_shares_of_what_routing_sends_them() -> None:
    ours = placements()[OURS]
    assert isinstance(ours, Consistent)
    shares = shares_of(0, 16)
    assert shares.sum() == pytest.approx(1)
    assert shares.max() < 1.25 / 16 < Consistent(ours.hashes, ours.shares).node_shares(16).max()
    divided = ours.routing.divided
    assert ours.present(16, 16)[:5].all()  # the most frequent keys are everywhere
    assert len(ours.places(16)) == len(ours.hashes) - len(divided) + divided.parts.sum()
