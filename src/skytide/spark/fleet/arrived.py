"""How many tuples of each stream have come, counted from how far streams reach."""

from collections.abc import Iterable

import numpy as np

from skytide.spark.fleet.feeds.feed import REPLACED, TRUNCATED, Counts, Floats, Look, Skipped


class Arrived:
    """Counts tuples. What is known of their length may change: then only what comes from now on is counted by it.

    The count of a stream begins anew only if another one has come under the same name: it may have more tuples, and one that is not there
    for a while is no other.
    """

    def __init__(self) -> None:
        """Start with no stream."""
        self._rows: dict[str, int] = {}
        self._names: tuple[str, ...] = ()
        self._reached: Counts = np.zeros(0, np.int64)
        self._counts: Floats = np.zeros(0)
        self._others: set[str] = set()

    def lost(self, skipped: Iterable[Skipped]) -> None:
        """Count the streams of them that are others by now anew, from the next look on."""
        self._others.update(each.stream for each in skipped if each.reason in (REPLACED, TRUNCATED))

    def count(self, look: Look) -> Counts:
        """Return how many tuples of each stream have come until a look."""
        if self._names != look.book.names:
            before = np.array([self._rows.get(name, -1) for name in look.book.names], np.int64)
            known = before >= 0
            reached, counts = np.zeros(len(before), np.int64), np.zeros(len(before))
            reached[known], counts[known] = self._reached[before[known]], self._counts[before[known]]
            self._names, self._rows, self._reached, self._counts = look.book.names, look.book.rows, reached, counts
        self.lost(look.skipped)
        anew = [self._rows[name] for name in self._others if name in self._rows]
        self._others.clear()
        grown = np.maximum(look.reached - self._reached, 0)
        self._counts = self._counts + grown / look.lengths
        self._counts[anew] = 0.0
        away = look.book.away > 0  # it shows up to where it was let in
        self._reached = np.where(away, np.maximum(look.reached, self._reached), look.reached)
        return np.ceil(self._counts).astype(np.int64)
