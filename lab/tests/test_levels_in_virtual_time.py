"""The utilisations of both levels, as the engine's decisions see them: in virtual time, with the engine's own machine."""

import pytest

from skytide.routing import AS_PID, EVEN, SlotUse, Splitting, slot_utilisation
from skytide.windows import Windows
from skytide.workloads.workload import Workload
from skytide_lab.sim.micro_batch import BatchCosts, BatchOutcome, run_batches

WINDOWS = Windows(1_000_000, 200_000)
SLOTS, TRIGGER_S = 4, 0.5


def outcome_of(rate_hz: int, tuple_us: float, window_us: float, splitting: Splitting) -> BatchOutcome:
    """Play a constant load for 40 s."""
    costs = BatchCosts("levels", 0.1, tuple_us * 1e-6, 0.01, 0.005, window_us * 1e-6)
    load = Workload(rate=rate_hz, arrivals="constant", dimensions=1, tick_us=20_000)
    return run_batches(load, WINDOWS, costs, splitting, slots=SLOTS, cores=SLOTS, trigger_s=TRIGGER_S, length_s=40.0)


@pytest.mark.parametrize("splitting", [EVEN, AS_PID], ids=lambda one: one.name)
@pytest.mark.parametrize(("tuple_us", "window_us"), [(10.0, 8.0), (20.0, 0.5), (1.0, 12.0)])
def test_a_level_is_above_one_where_batches_do_not_fit(splitting: Splitting, tuple_us: float, window_us: float) -> None:
    for rate_hz in (40_000, 90_000, 140_000):
        outcome = outcome_of(rate_hz, tuple_us, window_us, splitting)
        highest = max(outcome.pane_utilisation, outcome.window_utilisation)
        if outcome.overruns > 0.9:
            assert highest > 1
        if outcome.overruns == 0:
            assert highest <= 1


def test_the_level_with_the_work_is_the_one_that_is_named() -> None:
    panes, windows = outcome_of(180_000, 20.0, 0.5, EVEN), outcome_of(140_000, 1.0, 12.0, EVEN)
    assert panes.overruns > 0.9 and panes.pane_utilisation > 1 > panes.window_utilisation
    assert windows.overruns > 0.9 and windows.window_utilisation > 1 > windows.pane_utilisation


def test_the_utilisation_of_slots_alone_would_not_show_it() -> None:
    """What a slot gets in a batch it also finishes, so by itself it is never above 1, however long batches take."""
    took_s = 1.32 * TRIGGER_S
    uses = [SlotUse(10_000, 10_000, 0.3 * took_s) for _ in range(SLOTS)]
    assert (slot_utilisation(uses, took_s) or 0) < 0.5
    assert outcome_of(140_000, 1.0, 12.0, EVEN).overruns > 0.9
