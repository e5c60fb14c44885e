"""A query of micro-batches in virtual time, with a controller: what tests of decisions look at."""

from collections.abc import Sequence
from dataclasses import dataclass

from skytide.control import Controller, Guard
from skytide.loop.cycle import Cycle, Loop
from skytide_lab.sim.plants.micro_batches import Costs, MicroBatches

INTERVAL_S = 10.0


@dataclass
class Played:
    """What happened, interval by interval."""

    sizes: list[int]
    cycles: list[Cycle]

    @property
    def settled(self) -> list[int]:
        """The sizes of the second half."""
        return self.sizes[len(self.sizes) // 2 :]

    @property
    def reason(self) -> str:
        """The latest reason of the controller."""
        return self.cycles[-1].decided.reason


def play(
    controller: Controller,
    rates_hz: Sequence[float],
    *,
    trigger_s: float,
    batch_s: float,
    row_s: float,
    first: int = 2,
    tasks: int = 48,
    maximum: int = 12,
    scale_down_after: str = "60 s",
    lead_s: float = 8.0,
    interval_s: float = INTERVAL_S,
) -> Played:
    """Play a load, second by second, on executors that a controller chooses."""
    costs = Costs(row_s=row_s, task_s=0.0, batch_s=batch_s, lead_s=lead_s, cold_s=0.0)
    query = MicroBatches(rates_hz, costs, executors=first, partitions=tasks, trigger_s=trigger_s)
    loop = Loop(query, controller, Guard(1, maximum, scale_down_after=scale_down_after))
    sizes, cycles, now_s = [], [], 0.0
    while not query.finished:
        now_s += interval_s
        cycles.append(loop.cycle(now_s))
        sizes.append(query.size().workers)
    return Played(sizes, cycles)
