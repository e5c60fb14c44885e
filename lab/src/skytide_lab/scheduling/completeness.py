"""Detects when the results of all partitions of a pane are there (P0 §3.1 and Alg. 4, SPEC S11)."""

from dataclasses import dataclass


@dataclass
class _Seen:
    results: int = 0
    partitions: int = 0


class Completeness:
    """Counts the results of each pane until those of all its partitions are there.

    A result tells how many partitions its pane has, or 0 if that was not known yet.

    >>> seen = Completeness()
    >>> seen.on(pane=7, partitions=0), seen.on(pane=7, partitions=3), seen.on(pane=7, partitions=3)
    (False, False, True)
    """

    def __init__(self) -> None:
        """Start with no panes."""
        self._seen: dict[int, _Seen] = {}

    def on(self, pane: int, partitions: int) -> bool:
        """Take in a result, and return whether it completes the pane."""
        seen = self._seen.setdefault(pane, _Seen())
        seen.results += 1
        seen.partitions = max(seen.partitions, partitions)
        if seen.results != seen.partitions:
            return False
        del self._seen[pane]
        return True
