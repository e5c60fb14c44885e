"""How many tuples of each stream have come, counted from how far streams reach."""

from collections.abc import Iterable

import numpy as np

from skytide.spark.fleet.feeds.feed import REPLACED, TRUNCATED, Counts, Discovery, Floats, Skipped


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
        """Count the streams of them that are others by now anew, from the next discovery on."""
        self._others.update(loss.stream for loss in skipped if loss.reason in (REPLACED, TRUNCATED))

    def count(self, discovery: Discovery) -> Counts:
        """Return how many tuples of each stream have come until a discovery."""
        if self._names != discovery.states.names:
            before = np.array([self._rows.get(name, -1) for name in discovery.states.names], np.int64)
            counted = before >= 0
            reached, counts = np.zeros(len(before), np.int64), np.zeros(len(before))
            reached[counted], counts[counted] = self._reached[before[counted]], self._counts[before[counted]]
            self._names, self._rows, self._reached, self._counts = discovery.states.names, discovery.states.rows, reached, counts
        self.lost(discovery.skipped)
        anew = [self._rows[name] for name in self._others if name in self._rows]
        self._others.clear()
        grown = np.maximum(discovery.reached - self._reached, 0)
        self._counts = self._counts + grown / discovery.lengths
        self._counts[anew] = 0.0
        away = discovery.states.away > 0  # it shows up to where it was let in
        self._reached = np.where(away, np.maximum(discovery.reached, self._reached), discovery.reached)
        return np.ceil(self._counts).astype(np.int64)
