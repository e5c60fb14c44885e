"""The pane level by counts instead of tuples: for days of a stream, and for thousands of slots.

What the router reaches after a while is taken for granted: panes are split as the strategy wants to have them, and evenly. A step costs
microseconds, whatever the number of tuples and slots.
"""

from dataclasses import dataclass

from skytide.routing import Splitting
from skytide.sim.costs import LARGEST, Costs

SETPOINT = 0.9


@dataclass(frozen=True)
class CoarseStep:
    """What a stretch of time was like."""

    utilisation: float
    splitting_factor: float
    kept: float
    """Rows that go to the window level."""
    backlog_s: float
    """How long all slots would work on what is left over."""


class CoarseStage:
    """Slots that share the work of each step evenly, and keep what they do not manage for the next one."""

    def __init__(self, costs: Costs, strategy: Splitting, pane_s: float, cloud: str = "independent") -> None:
        """Start with nothing to do."""
        curve = costs.curves[cloud]
        self._busy, self._kept = curve.busy_by_size, curve.kept_by_size
        self._strategy, self._pane_s = strategy.name, pane_s
        self._left_s = 0.0

    def step(self, tuples: float, slots: int, length_s: float = 1.0) -> CoarseStep:
        """Play a stretch of time in which so many tuples arrive."""
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
        low, high = 1.0, float(slots)  # the fewest parts with which the setpoint is kept
        for _ in range(12):
            middle = (low + high) / 2
            work_s = panes * middle * self._at(self._busy, size / middle)
            low, high = (middle, high) if work_s > SETPOINT * slots * length_s else (low, middle)
        return high

    def _at(self, by_size: list[float], size: float) -> float:
        """Return a value between two whole sizes."""
        whole = min(int(size), LARGEST - 1)
        return by_size[whole] + (size - whole) * (by_size[whole + 1] - by_size[whole])
