"""Frequency-aware hashing: frequent keys are divided, and their parts placed as if they were keys (P1 §4.1, SPEC A7).

In each interval the most frequent keys are counted by a sketch. In the next one each of them is divided into sub-keys, in proportion to
its frequency; which sub-key a tuple goes to follows from its content, so that a task of Spark may be repeated, whatever the order of
its tuples is then. Frequencies only decide where work is done: mergeable results are the same
without them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skytide.errors.checks import check_integer, check_number
from skytide.errors.limits import MAX_DIVIDED_KEYS
from skytide.routing.counting import Frequencies
from skytide.routing.hashing import GOLDEN, Codes, Hashes, Keys, mixed
from skytide.routing.ring import HashRing, Nodes

State = dict[str, Any]

SUB_KEYS = 16_384
"""The number of sub-keys that all tuples together would have: divided keys balance n nodes up to about the root of n over this."""


@dataclass(frozen=True)
class FrequencyAware:
    """Divides the `heaviest` keys of each interval; with 0 this is plain consistent hashing.

    >>> routing = FrequencyAware(heaviest=1).build(range(4))
    >>> keys, rows = Keys(np.zeros(1_000, np.int64), np.array([5], np.uint64)), mixed(np.arange(1_000, dtype=np.uint64))
    >>> routing.learn(Frequencies(10, ((4, 10),)), at_s=0.0)
    >>> np.bincount(routing.route(keys, rows), minlength=4).tolist()
    [0, 0, 1000, 0]
    >>> routing.learn(Frequencies(30, ((5, 30),)), at_s=20.0)
    >>> np.bincount(routing.route(keys, rows), minlength=4).tolist()
    [257, 261, 254, 228]
    """

    heaviest: int = 100
    interval_s: float = 10.0

    def __post_init__(self) -> None:
        """Refuse values that are out of range."""
        check_integer("heaviest", self.heaviest, 0, MAX_DIVIDED_KEYS)
        check_number("interval_s", self.interval_s, above=0, meaning="seconds, more than 0")

    @property
    def remembered(self) -> int:
        """Return how many keys are remembered in an interval: more than are divided, as a key may be frequent in only a part of it."""
        return 2 * self.heaviest

    def build(self, nodes: Iterable[int], resume: State | None = None) -> "KeyRouting":
        """Return the routing to some nodes, from a snapshot if there is one."""
        routing = KeyRouting(self, HashRing.of(nodes))
        if resume:
            routing.restore(resume)
        return routing


@dataclass(frozen=True, eq=False)
class Divided:
    """The divided keys by ascending hash, and the number of sub-keys of each."""

    hashes: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    parts: Codes = field(default_factory=lambda: np.zeros(0, np.int64))

    def __len__(self) -> int:
        """Return the number of divided keys."""
        return len(self.hashes)

    def find(self, hashes: Hashes) -> Codes:
        """Return the place of each of some keys, or -1 for keys that are not divided."""
        if not len(self):
            return np.full(len(hashes), -1)
        places = np.minimum(np.searchsorted(self.hashes, hashes), len(self) - 1)
        return np.where(self.hashes[places] == hashes, places, -1)

    def positions(self) -> Hashes:
        """Return the positions of the sub-keys on a ring, key by key; the first one is that of the key itself."""
        numbers = np.arange(self.parts.sum()) - np.repeat(self.starts(), self.parts)
        keys = np.repeat(self.hashes, self.parts)
        return np.where(numbers == 0, keys, mixed(keys + numbers.astype(np.uint64) * GOLDEN))

    def starts(self) -> Codes:
        """Return where the sub-keys of each key begin among all sub-keys."""
        return np.cumsum(self.parts) - self.parts


class KeyRouting:
    """Decides where the tuples of each key go, by what is known of the frequencies of keys."""

    def __init__(self, config: FrequencyAware, ring: HashRing) -> None:
        """Start without any known keys."""
        self.config = config
        self.ring = ring
        self.divided = Divided()
        self.begun = False
        """Whether frequencies are known: until then, the first tuples are the best guess."""
        self._nodes: Nodes | None = None  # the node of each sub-key, computed on demand
        self._seen = Frequencies()
        self._until_s: float | None = None
        self._settled = False  # whether an interval has ended: until then, what is known so far counts

    def route(self, keys: Keys, rows: Hashes) -> Nodes:
        """Return the node of each tuple, by its key; that of a divided key, or while no frequencies are known, by the hash of its row."""
        if not self.begun and self.config.heaviest:
            return self.ring.owners(rows)
        nodes = self.ring.owners(keys.hashes)[keys.codes]
        which = self.divided.find(keys.hashes)
        if (which >= 0).any():
            of_tuples = which[keys.codes]
            places = np.flatnonzero(of_tuples >= 0)
            nodes[places] = self._of_sub_keys(of_tuples[places], rows[places])
        return nodes

    def learn(self, seen: Frequencies, at_s: float) -> None:
        """Take in what others sent up to a time; at the end of an interval, divide its most frequent keys, if it had any."""
        self._seen = self._seen.merged(seen).top(self.config.remembered)
        if self._until_s is None:
            self._until_s = at_s + self.config.interval_s
        over = not self._until_s - self.config.interval_s <= at_s < self._until_s
        if self._seen.tuples and (over or not self._settled):
            self.divide(self._seen)
        if over:
            self._until_s, self._settled, self._seen = at_s + self.config.interval_s, True, Frequencies()

    def divide(self, seen: Frequencies) -> None:
        """Divide the most frequent keys in proportion."""
        heaviest = sorted(seen.counts[: self.config.heaviest])
        hashes = np.array([key for key, _ in heaviest], np.uint64)
        shares = np.array([count for _, count in heaviest], np.float64) / max(seen.tuples, 1)
        parts = np.maximum(np.rint(shares * SUB_KEYS), 1).astype(np.int64)
        self.begun = self.begun or seen.tuples > 0
        self._place(Divided(hashes, parts))

    def resize(self, nodes: Iterable[int]) -> None:
        """Use other nodes from now on; keys stay where they are unless they go to a new node or their node is gone."""
        self.ring, self._nodes = HashRing.of(nodes), None

    def snapshot(self) -> State:
        """Return the state, as plain values."""
        divided = self.divided
        keys = [list(pair) for pair in zip(divided.hashes.tolist(), divided.parts.tolist(), strict=True)]
        seen = self._seen.to_json()
        return {"divided": keys, "begun": self.begun, "seen": seen, "until_s": self._until_s, "settled": self._settled}

    def restore(self, state: State) -> None:
        """Continue from a snapshot."""
        keys = state["divided"]
        hashes = np.array([key for key, *_ in keys], np.uint64)
        self._place(Divided(hashes, np.array([parts for _, parts, *_ in keys], np.int64)))
        self._seen, self.begun = Frequencies.from_json(state["seen"]), state["begun"]
        self._until_s, self._settled = state["until_s"], state["settled"]

    def _place(self, divided: Divided) -> None:
        self.divided, self._nodes = divided, None

    def _of_sub_keys(self, which: NDArray[np.int64], rows: Hashes) -> Nodes:
        """Return the node of each tuple of divided keys."""
        divided = self.divided
        if self._nodes is None:
            self._nodes = self.ring.owners(divided.positions())
        sub_keys = (rows % divided.parts[which].astype(np.uint64)).astype(np.int64)
        return np.asarray(self._nodes[divided.starts()[which] + sub_keys])
