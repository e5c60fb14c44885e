"""A controller on any plant of the simulator, from its beginning to its end."""

from typing import Protocol

from skytide.control.controller import Controller
from skytide.control.guard import Guard
from skytide.loop.cycle import Cycle, Loop
from skytide.loop.ports import Actuator, Metrics


class Plant(Metrics, Actuator, Protocol):
    """Metrics and actuator in one; `observe(now)` lets time pass until now."""

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to play."""


def drive(
    plant: Plant, controller: Controller, guard: Guard | None = None, *, interval_s: float, at_most_s: float = float("inf")
) -> list[Cycle]:
    """Let a controller decide at every interval until the plant is finished, or the time is over; return its cycles."""
    loop, cycles = Loop(plant, plant, controller, guard), list[Cycle]()
    while not plant.finished and len(cycles) * interval_s < at_most_s:
        cycles.append(loop.cycle((len(cycles) + 1) * interval_s))
    return cycles
