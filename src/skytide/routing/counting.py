"""Counts the most frequent keys by a sketch, in bounded memory whatever the number of keys (P1 §4.1, §6.4.4)."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from datasketches import frequent_items_error_type, frequent_items_sketch

from skytide.routing.hashing import Keys

COUNTED = 8_192
"""At most this many of the keys that come together are counted: the others are rarer than one tuple in this many."""
LG_COUNTERS = 14


@dataclass(frozen=True)
class Frequencies:
    """How often the most frequent keys occur among some tuples: by the hash of the key, the most frequent first."""

    tuples: int = 0
    counts: tuple[tuple[int, int], ...] = ()

    def merged(self, other: "Frequencies") -> "Frequencies":
        """Return the frequencies of the tuples of both.

        >>> Frequencies(10, ((7, 5), (8, 2))).merged(Frequencies(4, ((8, 4),)))
        Frequencies(tuples=14, counts=((8, 6), (7, 5)))
        """
        total = dict(self.counts)
        for key, count in other.counts:
            total[key] = total.get(key, 0) + count
        return Frequencies(self.tuples + other.tuples, _descending(total.items()))

    def top(self, keys: int) -> "Frequencies":
        """Return the frequencies of the first `keys` keys."""
        return Frequencies(self.tuples, self.counts[:keys])

    def to_json(self) -> list[Any]:
        """Return plain values."""
        return [self.tuples, [list(count) for count in self.counts]]

    @staticmethod
    def from_json(values: list[Any]) -> "Frequencies":
        """Return the frequencies for a result of `to_json`."""
        tuples, counts = values
        return Frequencies(tuples, tuple((key, count) for key, count in counts))

    def packed(self) -> "PackedFrequencies":
        """Return the frequencies as they travel."""
        return PackedFrequencies(self.tuples, base64.b64encode(np.array(self.counts, np.uint64).tobytes()).decode())


class PackedFrequencies(NamedTuple):
    """Frequencies as a text that is read quickly: thousands of tasks may report some hundreds of keys each."""

    tuples: int = 0
    counts: str = ""
    """Hashes and counts in turn, 8 bytes each, in base 64."""


def unpacked(parts: Sequence[PackedFrequencies]) -> Frequencies:
    """Return the frequencies of the tuples of all.

    >>> unpacked([Frequencies(10, ((7, 5), (8, 2))).packed(), Frequencies(4, ((8, 4),)).packed()])
    Frequencies(tuples=14, counts=((8, 6), (7, 5)))
    """
    tuples = sum(part.tuples for part in parts)
    keys, counts = np.frombuffer(b"".join(base64.b64decode(part.counts) for part in parts), np.uint64).reshape(-1, 2).T
    if not len(keys):
        return Frequencies(tuples)
    order = np.argsort(keys)
    keys = keys[order]
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    unique, total = keys[starts], np.add.reduceat(counts[order], starts)
    descending = np.lexsort((unique, -total.astype(np.int64)))
    return Frequencies(tuples, tuple(zip(unique[descending].tolist(), total[descending].tolist(), strict=True)))


class KeyCounter:
    """Counts keys as they come.

    >>> counter = KeyCounter()
    >>> counter.observe(Keys.of_hashes(np.array([7, 8, 7, 7], np.uint64)))
    >>> counter.frequencies()
    Frequencies(tuples=4, counts=((7, 3), (8, 1)))
    """

    def __init__(self) -> None:
        """Start with no tuples."""
        self._sketch = frequent_items_sketch(LG_COUNTERS)
        self._tuples = 0

    def observe(self, keys: Keys) -> None:
        """Count the keys of some tuples."""
        self._tuples += len(keys)
        counts = keys.counts()
        mine = np.arange(len(counts))
        if len(counts) > COUNTED:
            mine = np.flatnonzero(counts > np.partition(counts, -COUNTED)[-COUNTED])
        for key, count in zip(keys.hashes[mine].tolist(), counts[mine].tolist(), strict=True):
            self._sketch.update(key, count)

    def frequencies(self) -> Frequencies:
        """Return the most frequent keys, without those that the sketch cannot distinguish from rare ones."""
        items = self._sketch.get_frequent_items(frequent_items_error_type.NO_FALSE_POSITIVES)
        return Frequencies(self._tuples, _descending((key, count) for key, count, *_ in items))


def _descending(counts: Any) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(counts, key=lambda item: (-item[1], item[0])))
