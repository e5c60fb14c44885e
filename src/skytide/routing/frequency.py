"""Frequency-aware hashing: frequent keys are divided, and their parts placed as if they were keys (P1 §4.1, SPEC A7).

In each interval the most frequent keys are counted by a sketch. In the next one each of them is divided into sub-keys, in proportion to
its frequency; its tuples go to the sub-keys in turn. Frequencies only decide where work is done: mergeable results are the same
without them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skytide.errors.checks import real, whole
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
    >>> keys = Keys(np.zeros(1_000, np.int64), np.array([5], np.uint64))
    >>> np.bincount(routing.route(keys), minlength=4).tolist()
    [0, 0, 1000, 0]
    >>> routing.learn(Frequencies(10, ((5, 10),)), at_s=0.0)
    >>> np.bincount(routing.route(keys), minlength=4).tolist()
    [264, 270, 248, 218]
    """

    heaviest: int = 100
    interval_s: float = 10.0

    def __post_init__(self) -> None:
        """Refuse values that are out of range."""
        whole("heaviest", self.heaviest, 0, MAX_DIVIDED_KEYS)
        real("interval_s", self.interval_s, above=0, meaning="seconds, more than 0")

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
    """The divided keys by ascending hash, the number of sub-keys of each, and which sub-key is next."""

    hashes: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    parts: Codes = field(default_factory=lambda: np.zeros(0, np.int64))
    turns: Codes = field(default_factory=lambda: np.zeros(0, np.int64))

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

    def route(self, keys: Keys) -> Nodes:
        """Return the node of each tuple; the tuples of a divided key go to its sub-keys in turn."""
        nodes = self.ring.owners(keys.hashes)[keys.codes]
        which = self.divided.find(keys.hashes)
        if (which >= 0).any():
            of_tuples = which[keys.codes]
            places = np.flatnonzero(of_tuples >= 0)
            nodes[places] = self._in_turn(of_tuples[places])
        return nodes

    def learn(self, seen: Frequencies, at_s: float) -> None:
        """Take in what others sent up to a time; at the end of an interval, divide its most frequent keys, if it had any."""
        self._continue_turns(seen)
        self._seen = self._seen.beside(seen).top(self.config.remembered)
        if self._until_s is None:
            self._until_s = at_s + self.config.interval_s
        over = not self._until_s - self.config.interval_s <= at_s < self._until_s
        if self._seen.tuples and (over or not self._settled):
            self.divide(self._seen)
        if over:
            self._until_s, self._settled, self._seen = at_s + self.config.interval_s, True, Frequencies()

    def divide(self, seen: Frequencies) -> None:
        """Divide the most frequent keys in proportion; those that were divided before keep their turns."""
        heaviest = sorted(seen.counts[: self.config.heaviest])
        hashes = np.array([key for key, _ in heaviest], np.uint64)
        shares = np.array([count for _, count in heaviest], np.float64) / max(seen.tuples, 1)
        parts = np.maximum(np.rint(shares * SUB_KEYS), 1).astype(np.int64)
        before = self.divided.find(hashes)
        turns = np.where(before >= 0, np.append(self.divided.turns, 0)[before], 0)
        self.begun = self.begun or seen.tuples > 0
        self._place(Divided(hashes, parts, turns % parts))

    def apart(self, share: float) -> "KeyRouting":
        """Return the routing for one of several senders that work at once; its turns begin at a share of the sub-keys, from 0 to 1."""
        mine, known = KeyRouting(self.config, self.ring), self.divided
        mine.begun = self.begun
        mine._place(Divided(known.hashes, known.parts, (known.turns + (known.parts * share).astype(np.int64)) % known.parts))
        return mine

    def resize(self, nodes: Iterable[int]) -> None:
        """Use other nodes from now on; keys stay where they are unless they go to a new node or their node is gone."""
        self.ring, self._nodes = HashRing.of(nodes), None

    def snapshot(self) -> State:
        """Return the state, as plain values."""
        divided = self.divided
        keys = [list(each) for each in zip(divided.hashes.tolist(), divided.parts.tolist(), divided.turns.tolist(), strict=True)]
        seen = self._seen.to_json()
        return {"divided": keys, "begun": self.begun, "seen": seen, "until_s": self._until_s, "settled": self._settled}

    def restore(self, state: State) -> None:
        """Continue from a snapshot."""
        keys = state["divided"]
        hashes = np.array([key for key, _, _ in keys], np.uint64)
        self._place(Divided(hashes, *(np.array([key[at] for key in keys], np.int64) for at in (1, 2))))
        self._seen, self.begun = Frequencies.from_json(state["seen"]), state["begun"]
        self._until_s, self._settled = state["until_s"], state["settled"]

    def _continue_turns(self, sent: Frequencies) -> None:
        """Advance turns by those that others have taken."""
        counts, known = dict(sent.counts), self.divided
        took = np.array([counts.get(key, 0) for key in known.hashes.tolist()], np.int64)
        self.divided = Divided(known.hashes, known.parts, (known.turns + took) % known.parts)

    def _place(self, divided: Divided) -> None:
        self.divided, self._nodes = divided, None

    def _in_turn(self, which: NDArray[np.int64]) -> Nodes:
        """Return the node of each tuple of divided keys, in the order of the tuples."""
        divided = self.divided
        if self._nodes is None:
            self._nodes = self.ring.owners(divided.positions())
        counts = np.bincount(which, minlength=len(divided))
        order = np.argsort(which.astype(np.uint16), kind="stable")  # a radix sort, as there are few divided keys
        sorted_ = which[order]
        ranks = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        places = divided.starts()[sorted_] + (divided.turns[sorted_] + ranks) % divided.parts[sorted_]
        nodes = np.empty(len(which), np.int32)
        nodes[order] = self._nodes[places]
        self.divided = Divided(divided.hashes, divided.parts, (divided.turns + counts) % divided.parts)
        return nodes
