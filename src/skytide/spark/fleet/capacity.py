"""How much a split can take, as its tasks measure it."""

from collections import deque
from collections.abc import Sequence
from math import ceil

from skytide.spark.fleet.reports import Report

START_HZ = 200_000.0
MIN_HZ = 1_000.0
USED = 0.7
"""The share of the time between two batches in which a split may be busy: what happens around its task takes time, too."""
WEIGHT = 0.5
"""The weight of the latest batch."""
GAPS = 3
"""So many gaps between batches in a row show how rarely they are due."""
MIN_BUSY_S = 0.02
"""Shorter tasks say nothing: most of their time is their start."""


class Capacity:
    """How many tuples per second of its own time a split can take, and the time between two batches."""

    def __init__(self, interval_s: float, longest_s: float, fixed_hz: float | None = None) -> None:
        """Expect a batch every `interval_s`, or every `longest_s` at most if they come more rarely.

        A fixed capacity is not measured.
        """
        self._fixed = fixed_hz is not None
        self._interval_s, self._longest_s = interval_s, max(interval_s, longest_s)
        self._gaps_s: deque[float] = deque(maxlen=GAPS)
        self._asked_s: float | None = None
        self.hz = START_HZ if fixed_hz is None else fixed_hz / USED

    def measured(self, reports: Sequence[Report], now_s: float) -> None:
        """Learn from what tasks have reported since the last call."""
        gap_s = 0.0 if self._asked_s is None else now_s - self._asked_s
        self._asked_s = now_s
        long = [report for report in reports if report.busy_s >= MIN_BUSY_S]
        if long and not self._fixed:
            seen_hz = sum(sum(report.work) for report in long) / sum(report.busy_s for report in long)
            self.hz = max(MIN_HZ, (1 - WEIGHT) * self.hz + WEIGHT * seen_hz)
        busy_s = max((report.busy_s for report in reports), default=0.0)
        self._gaps_s.append(gap_s if busy_s < gap_s / 2 else 0.0)  # if nobody waited for us, batches are due this rarely

    @property
    def interval_s(self) -> float:
        """The time between two batches: a single long gap says nothing."""
        usual_s = min(self._gaps_s) if len(self._gaps_s) == GAPS else 0.0
        return min(max(usual_s, self._interval_s), self._longest_s)

    @property
    def sustained_hz(self) -> float:
        """Tuples per second that a split can take in the long run: plans have to assume this, or it falls behind for good."""
        return self.hz * USED

    @property
    def budget(self) -> int:
        """How many tuples a split takes in a batch."""
        return max(1, ceil(self.sustained_hz * self.interval_s))
