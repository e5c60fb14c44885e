"""The pane level by counts instead of tuples: for days of a stream, and for thousands of slots.

It assumes what a router reaches after a while: panes are split evenly, into as many parts as the strategy wants. A step takes
microseconds, whatever the number of tuples and slots.
"""

from dataclasses import dataclass

from skytide.routing import Splitting
from skytide_lab.sim.costs import MAX_TUPLES, Costs

SETPOINT = 0.9


@dataclass(frozen=True)
class CoarseStep:
    """The result of a period of time."""

    utilisation: float
    splitting_factor: float
    kept: float
    """Rows that go to the window level."""
    backlog_s: float
    """How long all slots would work on the backlog."""


class CoarseStage:
    """Slots that share the work of each step evenly, and leave what they cannot do to the next one."""

    def __init__(self, costs: Costs, strategy: Splitting, pane_s: float, cloud: str = "independent") -> None:
        """Start with nothing to do."""
        curve = costs.curves[cloud]
        self._busy, self._kept = curve.busy_by_size, curve.kept_by_size
        self._strategy, self._pane_s = strategy.name, pane_s
        self._left_s = 0.0

    def step(self, tuples: float, slots: int, length_s: float = 1.0) -> CoarseStep:
        """Play a period of time in which `tuples` tuples arrive, and return its result."""
        panes = length_s / self._pane_s
        size = tuples / panes
        parts = self._parts(size, slots, panes, length_s)
        work_s = panes * parts * self._at(self._busy, size / parts)
        capacity_s = slots * length_s
        self._left_s = max(0.0, self._left_s + work_s - capacity_s)
        return CoarseStep(work_s / capacity_s, parts, panes * parts * self._at(self._kept, size / parts), self._left_s / slots)

    def _parts(self, size: float, slots: int, panes: float, length_s: float) -> float:
        if self._strategy == "PB_RR":
            return 1.0
        if self._strategy in ("TB_RR", "EVEN"):
            return float(slots)
        low, high = 1.0, float(slots)  # bounds for the smallest number of parts that keeps the setpoint
        for _ in range(12):
            middle = (low + high) / 2
            work_s = panes * middle * self._at(self._busy, size / middle)
            low, high = (middle, high) if work_s > SETPOINT * slots * length_s else (low, middle)
        return high

    def _at(self, by_size: list[float], size: float) -> float:
        """Return the interpolated value at a size."""
        whole = min(int(size), MAX_TUPLES - 1)
        return by_size[whole] + (size - whole) * (by_size[whole + 1] - by_size[whole])
