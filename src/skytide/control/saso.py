"""Measures how well a run was scaled: stability, accuracy, settling and overshoot (P2 §2.3, SPEC E8)."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import hypot

from skytide.records import Allocation

STEP_GHZ = 0.1  # frequencies count in steps, as in P2 §5.3.4
KEEPS_UP = 0.95
"""The share of the input that has to be processed in an interval: less is a violation (SPEC E8)."""


@dataclass(frozen=True)
class Step:
    """One control interval: its allocation, and whether the quality of service was violated."""

    allocation: Allocation
    violated: bool
    length_s: float = 1.0
    power_w: float | None = None


@dataclass(frozen=True)
class Saso:
    """The four measures, and the cost."""

    reconfigurations: int
    """Stability."""
    violations: int
    violation_share: float
    """Accuracy: intervals with a violation, and their share."""
    amplitude: float
    """Settling: the mean distance of a reconfiguration."""
    mean_workers: float
    """Overshoot."""
    worker_seconds: float
    mean_power_w: float | None


def saso(steps: Iterable[Step]) -> Saso:
    """Return the measures of a run.

    >>> one, two = Allocation(2), Allocation(5)
    >>> measured = saso([Step(one, False), Step(two, True), Step(two, False), Step(one, False)])
    >>> measured.reconfigurations, measured.violations, measured.amplitude, measured.mean_workers
    (2, 1, 3.0, 3.5)
    """
    played = list(steps)
    moves = [_distance(a.allocation, b.allocation) for a, b in pairwise(played)]
    moves = [move for move in moves if move > 0]
    length_s = sum(step.length_s for step in played)
    violations = sum(step.violated for step in played)
    worker_s = sum(step.allocation.workers * step.length_s for step in played)
    powers = [step.power_w * step.length_s for step in played if step.power_w is not None]
    return Saso(
        reconfigurations=len(moves),
        violations=violations,
        violation_share=violations / max(1, len(played)),
        amplitude=sum(moves) / len(moves) if moves else 0.0,
        mean_workers=worker_s / length_s if length_s else 0.0,
        worker_seconds=worker_s,
        mean_power_w=sum(powers) / length_s if powers and len(powers) == len(played) else None,
    )


def _distance(before: Allocation, after: Allocation) -> float:
    """Return the Euclidean distance of two allocations in workers (or slots of both levels) and steps of the frequency."""
    moves = [_levels(after)[level] - count for level, count in enumerate(_levels(before))]
    if before.frequency_ghz is not None and after.frequency_ghz is not None:
        moves.append((after.frequency_ghz - before.frequency_ghz) / STEP_GHZ)
    return hypot(*moves)


def _levels(allocation: Allocation) -> tuple[float, ...]:
    if allocation.pane_slots is None or allocation.window_slots is None:
        return (float(allocation.workers), 0.0)
    return (float(allocation.pane_slots), float(allocation.window_slots))
