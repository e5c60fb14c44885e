"""Consistent hashing: keys and nodes are on one ring, so a node that comes or goes moves only its own keys (P1 §4.1)."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from skytide.errors import InvalidInput
from skytide.routing.hashing import Hashes, mixed

Nodes = NDArray[np.int32]
STEP = np.uint64(0xD1B54A32D192ED03)  # not that of sub-keys, which would fall on the points of a node with the same hash as the key
POINTS = 1_024
"""Points of a node on the ring. The shares of nodes differ by about one over the root of this: 3 %."""


@dataclass(frozen=True)
class HashRing:
    """Nodes by number, each at many points of a ring; a key belongs to the node at the next point after its hash.

    >>> ring = HashRing.of(range(3))
    >>> keys = np.arange(5, dtype=np.uint64) << np.uint64(60)
    >>> ring.owners(keys).tolist()
    [2, 1, 0, 1, 2]
    >>> HashRing.of([0, 2]).owners(keys).tolist()
    [2, 0, 0, 0, 2]
    """

    nodes: tuple[int, ...]

    @staticmethod
    def of(nodes: Iterable[int]) -> "HashRing":
        """Return the ring of some nodes, in any order."""
        different = tuple(sorted(set(nodes)))
        if not different:
            raise InvalidInput(value="no nodes", reason="keys must go somewhere", remedy="give at least 1")
        return HashRing(different)

    def owners(self, hashes: Hashes) -> Nodes:
        """Return the node of each key."""
        points, nodes = self._ring
        return nodes[np.searchsorted(points, hashes) % len(points)]

    @cached_property
    def _ring(self) -> tuple[Hashes, Nodes]:
        nodes = np.repeat(np.array(self.nodes, np.uint64), POINTS)
        numbers = np.tile(np.arange(1, POINTS + 1, dtype=np.uint64), len(self.nodes))
        points = mixed(mixed((nodes + np.uint64(1)) * STEP) + numbers * STEP)
        order = np.lexsort((nodes, points))
        return points[order], nodes[order].astype(np.int32)
