"""What a changing number of nodes does to keys: which of them move, and how many partial results a window then has (P1 §6.4.3)."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from skytide.routing import Frequencies, FrequencyAware, HashRing, KeyRouting

Hashes = NDArray[np.uint64]
Nodes = NDArray[np.int64]
Presence = NDArray[np.bool_]


class Placement(ABC):
    """Where keys are, by the number of nodes. A divided key counts as several."""

    @abstractmethod
    def places(self, nodes: int) -> Nodes:
        """Return the node of each key, or of each sub-key."""

    @abstractmethod
    def present(self, nodes: int, width: int) -> Presence:
        """Return for each key (a row) which of `width` nodes have tuples of it."""


@dataclass(frozen=True, eq=False)
class ByRemainder(Placement):
    """Plain hashing: the remainder of a key's hash, divided by the number of nodes."""

    hashes: Hashes

    def places(self, nodes: int) -> Nodes:
        """Return the remainders."""
        return (self.hashes % np.uint64(nodes)).astype(np.int64)

    def present(self, nodes: int, width: int) -> Presence:
        """Return one node per key."""
        holds = np.zeros((len(self.hashes), width), np.bool_)
        holds[np.arange(len(self.hashes)), self.places(nodes)] = True
        return holds


@dataclass(frozen=True, eq=False)
class Consistent(Placement):
    """Consistent hashing, with the most frequent keys divided; frequencies are known."""

    hashes: Hashes
    shares: NDArray[np.float64]
    """The share of each key in all tuples."""
    heaviest: int = 0
    _million: int = field(default=1_000_000, repr=False)

    @cached_property
    def routing(self) -> KeyRouting:
        """Return the routing, with keys divided by their known frequencies."""
        top = np.argsort(-self.shares, kind="stable")[: self.heaviest]
        counts = zip(self.hashes[top].tolist(), (self.shares[top] * self._million).astype(int).tolist(), strict=True)
        routing = FrequencyAware(heaviest=self.heaviest).build([0])
        routing.divide(Frequencies(self._million, tuple(counts)))
        return routing

    def places(self, nodes: int) -> Nodes:
        """Return the nodes of undivided keys, and of all sub-keys of divided ones."""
        ring, divided = HashRing.of(range(nodes)), self.routing.divided
        whole = self.hashes[divided.find(self.hashes) < 0]
        return np.concatenate([ring.owners(whole), ring.owners(divided.positions())]).astype(np.int64)

    def present(self, nodes: int, width: int) -> Presence:
        """Return the nodes of all sub-keys of each key."""
        ring, divided = HashRing.of(range(nodes)), self.routing.divided
        holds = np.zeros((len(self.hashes), width), np.bool_)
        holds[np.arange(len(self.hashes)), ring.owners(self.hashes)] = True
        rows = np.empty(len(divided), np.int64)
        which = divided.find(self.hashes)
        rows[which[which >= 0]] = np.flatnonzero(which >= 0)
        holds[np.repeat(rows, divided.parts), ring.owners(divided.positions())] = True
        return holds

    def node_shares(self, nodes: int) -> NDArray[np.float64]:
        """Return the share of the tuples that each node gets."""
        ring, divided = HashRing.of(range(nodes)), self.routing.divided
        which = divided.find(self.hashes)
        weights = np.zeros(len(divided))
        weights[which[which >= 0]] = self.shares[which >= 0]
        whole = which < 0
        shares = np.bincount(ring.owners(self.hashes[whole]), self.shares[whole], minlength=nodes)
        return np.asarray(shares, np.float64) + np.bincount(
            ring.owners(divided.positions()), np.repeat(weights / divided.parts, divided.parts), minlength=nodes
        )


def relocated(placement: Placement, nodes: Sequence[int]) -> list[float]:
    """Return the share of keys that moved at each time but the first.

    >>> relocated(ByRemainder(np.arange(6, dtype=np.uint64)), [2, 2, 3])
    [0.0, 0.6666666666666666]
    """
    shares = []
    before = placement.places(nodes[0])
    for last, count in pairwise(nodes):
        now = before if count == last else placement.places(count)
        shares.append(float(np.mean(now != before)))
        before = now
    return shares


def partial_results(placement: Placement, nodes: Sequence[int], window: int) -> list[int]:
    """Return the number of partial results of the window that ends at each time: one per key and node that has tuples of it.

    Every key occurs at every time. A node returns one partial result per key for a whole window (P1 §5.3).

    >>> partial_results(ByRemainder(np.arange(6, dtype=np.uint64)), [2, 2, 3], window=2)
    [6, 6, 10]
    """
    width = max(nodes)
    present = {count: placement.present(count, width) for count in set(nodes)}
    by_sizes: dict[frozenset[int], int] = {}
    counts = []
    for end in range(1, len(nodes) + 1):
        sizes = frozenset(nodes[max(0, end - window) : end])
        if sizes not in by_sizes:
            by_sizes[sizes] = int(np.logical_or.reduce([present[size] for size in sizes]).sum())
        counts.append(by_sizes[sizes])
    return counts
