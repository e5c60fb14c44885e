"""Whether tuples are sent, decided by the engine's own rule in the simulator."""

import pytest

from skytide.batch import BatchRules, Delivery, InPlace, Sent
from skytide.lateness import FixedSlack
from skytide.routing import AUTO, EVEN, TB_RR
from skytide.windows import Windows
from skytide.workloads.workload import Workload
from skytide_lab.sim.micro_batch import BatchCosts, BatchPlant
from skytide_lab.sim.partitions import Partitions

COSTS = BatchCosts("made up", batch_s=0.1, tuple_s=1e-5, task_s=0.005, window_s=0.002, window_tuple_s=0.0)
STREAM = Workload(rate=100_000, arrivals="map", dispersion=4_000, dimensions=1)
CORES = 4


def played(delivery: Delivery, shares: tuple[float, ...], batches: int = 30) -> tuple[float, BatchPlant]:
    """Return the mean time of a batch, without the first ones, in which costs are learned."""
    rules = BatchRules(Windows(1_000_000, 500_000), FixedSlack(0), delivery, pane_slots=CORES, trigger_s=0.5)
    plant = BatchPlant(STREAM, COSTS, rules, CORES, partitions=Partitions(shares))
    took = [plant.run_batch(range(at * 50, at * 50 + 50)) for at in range(batches)]
    return sum(took[5:]) / (batches - 5), plant


@pytest.mark.parametrize("shares", [(1.0,), (0.25,) * 4, (0.7, 0.1, 0.1, 0.1), (0.05,) * 20], ids=["one", "even", "skewed", "many"])
def test_auto_is_as_good_as_the_best_fixed_choice(shares: tuple[float, ...]) -> None:
    fixed = {
        name: played(delivery, shares)[0] for name, delivery in (("here", InPlace()), ("EVEN", Sent(EVEN)), ("TB", Sent(TB_RR)))
    }
    auto, plant = played(Sent(AUTO), shares)
    assert auto <= 1.1 * min(fixed.values()), (fixed, plant.machine.status.pane_plan)
    if len(shares) == 1:
        assert auto * 1.5 <= fixed["here"]
    assert plant.machine.status.pane_plan.startswith("sent to" if shares[0] > 0.5 else "in place: ")


def test_a_window_has_all_tuples_wherever_they_were_worked_on() -> None:
    counts = [played(delivery, (0.6, 0.4))[1].state.clock.tuples for delivery in (InPlace(), Sent(AUTO), Sent(EVEN))]
    assert counts == [int(STREAM.counts(0, 1_500).sum())] * 3
