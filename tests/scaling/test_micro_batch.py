"""The model of a micro-batch, the signals that follow from it, and what controllers decide by them."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.batch_world import INTERVAL_S, play

from skytide.control import CONTROLLERS, Controller, Guard, Mpc, Static
from skytide.control.models.micro_batch import (
    duration_s,
    fewest_workers,
    floor_s,
    latency_s,
    left_share,
    level_utilisations,
    utilisation,
)
from skytide.loop.cycle import Loop
from skytide.records import MicroBatch
from skytide_lab.sim.plants.micro_batches import Costs, MicroBatches

ELASTIC = {name: entry() for name, entry in CONTROLLERS.items() if name != "static"}
SECONDS = st.floats(0.0, 5.0)
BATCHES = st.builds(
    MicroBatch,
    rows=st.floats(1, 1e6),
    fixed_s=st.floats(0.0, 3.0),
    work_s=st.floats(0.001, 50.0),
    trigger_s=st.none() | st.floats(0.5, 10.0),
    tasks=st.none() | st.integers(1, 64),
    cores=st.sampled_from((1.0, 2.0, 4.0)),
    spread_s=st.floats(0.0, 1.0),
)


# --- The model -------------------------------------------------------------------------------------------------------------------------


@given(BATCHES, st.integers(1, 40), st.floats(0, 1e5))
def test_more_workers_never_make_anything_worse(batch: MicroBatch, workers: int, rate_hz: float) -> None:
    more = workers + 1
    assert left_share(batch, more) <= left_share(batch, workers)
    assert utilisation(batch, rate_hz, more) <= utilisation(batch, rate_hz, workers)
    assert latency_s(batch, rate_hz, more) <= latency_s(batch, rate_hz, workers) + 1e-9


@given(BATCHES, st.integers(1, 40), st.floats(0, 1e5))
def test_nothing_beats_the_floor_and_workers_without_tasks_do_nothing(batch: MicroBatch, workers: int, rate_hz: float) -> None:
    assert float(latency_s(batch, rate_hz, workers)) >= floor_s(batch, rate_hz) * (1 - 1e-6) - 0.01
    if batch.most_workers is not None and workers >= batch.most_workers:
        assert left_share(batch, workers) == left_share(batch, batch.most_workers)


@given(BATCHES, st.integers(1, 40), st.floats(1, 1e5))
def test_above_one_is_what_does_not_fit_into_the_interval(batch: MicroBatch, workers: int, rate_hz: float) -> None:
    assume(batch.trigger_s is not None and batch.fixed_s < 0.8 * batch.trigger_s)
    used, took_s = float(utilisation(batch, rate_hz, workers)), float(duration_s(batch, rate_hz, workers))
    assume(abs(used - 1) > 1e-6)
    assert (used > 1) == (took_s > (batch.trigger_s or 0))


@given(BATCHES, st.floats(1, 1e4), st.floats(0.1, 20.0))
def test_the_fewest_workers_are_enough_and_one_less_is_not(batch: MicroBatch, rate_hz: float, bound_s: float) -> None:
    def enough(workers: int) -> bool:
        return utilisation(batch, rate_hz, workers) <= 0.9 and latency_s(batch, rate_hz, workers) <= bound_s

    few = fewest_workers(batch, rate_hz, bound_s=bound_s)
    assert enough(few) or few == (batch.most_workers or 1 << 20)
    assert few == 1 or not enough(few - 1)


@given(BATCHES, st.integers(1, 40), st.floats(0, 1e4))
def test_percentiles_rise_and_the_95th_is_above_the_mean(batch: MicroBatch, workers: int, rate_hz: float) -> None:
    low, high, higher = (float(latency_s(batch, rate_hz, workers, share)) for share in (60, 95, 99))
    assert float(latency_s(batch, rate_hz, workers)) <= high <= higher and low <= high


def test_predictions_hold_where_every_task_is_played_one_by_one() -> None:
    """The plant starts each task on the executor that is free first: it shares no code with the model."""
    worst = 0.0
    for trigger_s in (1.0, 2.0, 4.0):
        costs = Costs(row_s=0.002, task_s=0.0, batch_s=0.3, lead_s=1.0, cold_s=0.0)
        seen = [_observed(costs, trigger_s, executors) for executors in range(1, 7)]
        usual = seen[3].batch
        assert usual is not None
        for executors, one in enumerate(seen, 1):
            used = float(utilisation(usual, 1_000, executors))
            assert (used > 1) == (one.utilisation > 1)
            if used < 1:
                worst = max(
                    worst,
                    abs(used / one.utilisation - 1),
                    abs(float(latency_s(usual, 1_000, executors)) / (one.latency_s or 0) - 1),
                )
    assert worst < 0.15


def _observed(costs, trigger_s, executors):  # type: ignore[no-untyped-def]
    query = MicroBatches([1_000.0] * 120, costs, executors=executors, partitions=12, trigger_s=trigger_s)
    query.observe(60.0)
    return query.observe(110.0)


# --- Two levels that share an interval -------------------------------------------------------------------------------------------------


@given(SECONDS, SECONDS, SECONDS, st.floats(0.1, 5.0))
def test_a_level_is_above_one_if_and_only_if_the_batch_does_not_fit(
    panes_s: float, windows_s: float, fixed_s: float, interval_s: float
) -> None:
    took_s = panes_s + windows_s + fixed_s
    assume(panes_s + windows_s > 0 and abs(took_s / interval_s - 1) > 1e-6)
    assert (max(level_utilisations(panes_s, windows_s, took_s, interval_s)) > 1) == (took_s > interval_s)


@given(SECONDS, SECONDS, SECONDS, SECONDS, st.floats(0.1, 5.0))
def test_more_work_in_a_level_never_lowers_its_utilisation(
    panes_s: float, windows_s: float, fixed_s: float, more_s: float, interval_s: float
) -> None:
    before = level_utilisations(panes_s, windows_s, panes_s + windows_s + fixed_s, interval_s)
    took_s = panes_s + windows_s + fixed_s + more_s
    assert level_utilisations(panes_s + more_s, windows_s, took_s, interval_s)[0] >= before[0] - 1e-8
    assert level_utilisations(panes_s, windows_s + more_s, took_s, interval_s)[1] >= before[1] - 1e-8


@given(SECONDS, st.floats(0.1, 5.0))
def test_a_level_with_little_work_is_not_above_one_because_of_the_other(panes_s: float, interval_s: float) -> None:
    windows_s = 0.1 * interval_s * 0.5
    fixed_s = 0.5 * interval_s
    assert level_utilisations(panes_s, windows_s, panes_s + windows_s + fixed_s, interval_s)[1] <= 1


# --- Decisions -------------------------------------------------------------------------------------------------------------------------


def test_a_bound_is_kept_with_the_fewest_workers() -> None:
    """Trigger 1 s, 0.3 s fixed: 2 executors give 1.2 s."""
    played = play(Mpc.latency("2 s"), [1_000.0] * 900, trigger_s=1.0, batch_s=0.3, row_s=0.0007, first=8)
    assert set(played.settled) <= {1, 2} and max(played.settled) == 2


def test_a_bound_that_nothing_can_keep_is_said_and_given_up() -> None:
    """Trigger 5 s, 0.5 s fixed: nothing below 3 s is possible."""
    bounded = play(Mpc.latency("2 s"), [1_000.0] * 900, trigger_s=5.0, batch_s=0.5, row_s=0.0007, tasks=200)
    assert "unreachable: at least 3.0 s with a trigger of 5 s" in bounded.reason
    free = play(Mpc.throughput(), [1_000.0] * 900, trigger_s=5.0, batch_s=0.5, row_s=0.0007, tasks=200)
    assert bounded.settled == free.settled and max(bounded.settled) <= 2


def test_a_bound_that_needs_many_does_not_ratchet() -> None:
    """Trigger 2 s, 0.4 s fixed, work for 3.5 executors: a mean of 2 s needs about a dozen."""
    played = play(Mpc.latency("2 s"), [1_000.0] * 900, trigger_s=2.0, batch_s=0.4, row_s=0.0035, first=4, maximum=40)
    assert min(played.settled) >= 11 and max(played.settled) <= 14
    assert len(set(played.settled[-20:])) == 1


def test_the_95th_percentile_needs_more_and_is_told_beside_the_mean() -> None:
    load = {"trigger_s": 2.0, "batch_s": 0.4, "row_s": 0.0035, "first": 4, "maximum": 40}
    mean = play(Mpc.latency("3 s"), [1_000.0] * 600, **load)  # type: ignore[arg-type]
    most = play(Mpc.latency("3 s", percentile=95), [1_000.0] * 600, **load)  # type: ignore[arg-type]
    assert "95 % within" in mean.reason and "bound 3 s for 95 %" in most.reason
    assert max(most.settled) > max(mean.settled)


def test_no_controller_wants_workers_that_would_have_no_tasks() -> None:
    for name, controller in ELASTIC.items():
        played = play(controller, [3_000.0] * 300, trigger_s=1.0, batch_s=0.2, row_s=0.004, tasks=6, maximum=12)
        assert max(played.sizes) <= 6, name
    assert any("6 tasks at once" in cycle.limited.reason for cycle in played.cycles)


@pytest.mark.parametrize("name", ELASTIC)
def test_an_overload_scales_up_under_every_controller(name: str) -> None:
    played = play(ELASTIC[name], [1_000.0] * 300, trigger_s=1.0, batch_s=0.2, row_s=0.003, first=2)
    assert max(played.sizes) >= 4


@pytest.mark.parametrize("name", ELASTIC)
def test_an_idle_query_goes_to_its_minimum_under_every_controller(name: str) -> None:
    loaded = play(ELASTIC[name], [1_000.0] * 200 + [0.0] * 400, trigger_s=1.0, batch_s=0.2, row_s=0.003, first=4)
    idle = play(ELASTIC[name], [0.0] * 400, trigger_s=1.0, batch_s=0.2, row_s=0.003, first=4)
    assert loaded.sizes[-1] == 1 and idle.sizes[-1] == 1


def test_a_static_size_stays_even_if_idle() -> None:
    assert play(Static(4), [0.0] * 200, trigger_s=1.0, batch_s=0.2, row_s=0.003, first=4).sizes[-1] == 4


@pytest.mark.parametrize("name", ELASTIC)
def test_one_odd_interval_is_no_trend(name: str) -> None:
    """Its rate was a hundred times the usual one: extra workers stay for `scale_down_after` and three intervals at most."""
    usual, odd = _sizes(ELASTIC[name], odd_s=-1.0), _sizes(ELASTIC[name], odd_s=600.0)
    extra = [size for size in odd if size > max(usual)]  # some go up and down for ever, and may be elsewhere after it
    assert INTERVAL_S * len(extra) <= 60 + 3 * INTERVAL_S


def _sizes(controller: Controller, *, odd_s: float) -> list[int]:
    """Return the sizes under a constant load, of which one measurement is wrong."""
    costs = Costs(row_s=0.001, task_s=0.0, batch_s=0.2, lead_s=8.0, cold_s=0.0)
    query = MicroBatches([1_000.0] * 1_800, costs, executors=2, partitions=48, trigger_s=1.0)
    loop = Loop(_Odd(query, odd_s), controller, Guard(1, 12, scale_down_after="60 s"))
    now_s, sizes = 0.0, []
    while not query.finished:
        now_s += INTERVAL_S
        loop.cycle(now_s)
        sizes.append(query.size().workers)
    return sizes


class _Odd:
    """A plant with a measurement that is a hundred times too high, once."""

    def __init__(self, plant: MicroBatches, at_s: float) -> None:
        self._plant, self._at_s = plant, at_s

    def __getattr__(self, name: str):  # type: ignore[no-untyped-def]
        return getattr(self._plant, name)

    def observe(self, now_s: float):  # type: ignore[no-untyped-def]
        seen = self._plant.observe(now_s)
        if seen is None or now_s != self._at_s:
            return seen
        rates = {"arrival_rate_hz": seen.arrival_rate_hz * 100, "processed_rate_hz": seen.processed_rate_hz * 100}
        return replace(seen, utilisation=seen.utilisation * 100, **rates)


@pytest.mark.parametrize("rate_hz", [1_500.0, 6_000.0])
def test_a_step_is_followed_in_one_cycle(rate_hz: float) -> None:
    rates_hz = [500.0] * 300 + [rate_hz] * 300
    played = play(Mpc.throughput(), rates_hz, trigger_s=1.0, batch_s=0.2, row_s=0.0005, first=1, lead_s=0.0)
    sizes = [cycle.limited.allocation.workers for cycle in played.cycles]
    assert sizes[29] == 1 < sizes[30] == 2  # at most twice as many per step
    grown = sizes[30:40]
    assert all(later >= sooner for sooner, later in pairwise(grown)) and grown[-1] >= rate_hz * 0.0005 / 0.8
