"""How many windows came out within which latency, since the query is watched: a histogram for Prometheus."""

from bisect import bisect_left
from typing import Any

from skytide.watch.snapshots import QuerySnapshot

BOUNDS_S = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 30.0, 60.0, 300.0)


class Latencies:
    """Windows with tuples, by latency."""

    def __init__(self) -> None:
        """Start with no windows."""
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0

    def add(self, before: Any, now: Any) -> None:
        """Count the windows that came out between two snapshots of a query."""
        if not isinstance(now, QuerySnapshot):
            return
        before_us = before.windows[-1].window_end_us if isinstance(before, QuerySnapshot) and before.windows else -1
        for row in now.windows:
            if row.window_end_us > before_us and row.tuples:
                self.counts[bisect_left(BOUNDS_S, row.latency_s)] += 1
                self.sum_s += row.latency_s

    def buckets(self) -> list[tuple[str, float]]:
        """Return the count up to each bound.

        >>> Latencies().buckets()[-1]
        ('+Inf', 0)
        """
        total = 0
        buckets: list[tuple[str, float]] = []
        for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), self.counts, strict=True):
            total += count
            buckets.append((bound, total))
        return buckets
