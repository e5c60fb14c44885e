"""Runs a controller on any plant of the simulator, from beginning to end."""

from typing import Protocol

from skytide.control.controller import Controller
from skytide.control.guard import Guard
from skytide.loop.cycle import Cycle, Loop
from skytide.loop.ports import Plant

ROUNDING_S = 1e-9
"""Times that differ by no more are the same."""


class VirtualPlant(Plant, Protocol):
    """A plant in virtual time: `observe(now)` plays up to now."""

    @property
    def finished(self) -> bool:
        """Return whether there is nothing left to play."""


def drive(
    plant: VirtualPlant, controller: Controller, guard: Guard | None = None, *, interval_s: float, at_most_s: float = float("inf")
) -> list[Cycle]:
    """Let a controller decide at every interval until the plant is finished or the time is over, and return the cycles."""
    loop, cycles = Loop(plant, controller, guard), list[Cycle]()
    while not plant.finished and len(cycles) * interval_s < at_most_s:
        cycles.append(loop.cycle((len(cycles) + 1) * interval_s))
    return cycles
