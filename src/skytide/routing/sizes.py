"""Sizes of the partitions of panes: the base of the splitting threshold (SPEC S6)."""

from collections import deque
from collections.abc import Iterable
from math import inf, sqrt


class RecentSizes:
    """The sizes of the partitions that closed most recently.

    >>> recent = RecentSizes(limit=3)
    >>> recent.threshold()
    inf
    >>> recent.add([100, 1, 2, 3])
    >>> round(recent.threshold(), 3)
    2.816
    """

    def __init__(self, limit: int, sizes: Iterable[int] = ()) -> None:
        """Remember at most `limit` sizes."""
        self._sizes: deque[int] = deque(sizes, maxlen=limit)

    def add(self, sizes: Iterable[int]) -> None:
        """Take in the sizes of partitions that closed."""
        self._sizes.extend(sizes)

    def threshold(self) -> float:
        """Return the sum of mean and standard deviation; infinity as long as nothing has closed."""
        n = len(self._sizes)
        if not n:
            return inf
        mean = sum(self._sizes) / n
        return mean + sqrt(max(0.0, sum(size * size for size in self._sizes) / n - mean * mean))

    def mean(self) -> float | None:
        """Return the mean size; None as long as nothing has closed."""
        return sum(self._sizes) / len(self._sizes) if self._sizes else None

    def snapshot(self) -> list[int]:
        """Return the sizes, oldest first."""
        return list(self._sizes)
