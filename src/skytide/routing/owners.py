"""Which slots the panes of a batch have: decided once, before any tuple is sent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from skytide.routing.hashing import Codes, Hashes
from skytide.routing.ring import Nodes

Shares = Mapping[int, float]
"""Slots, and how much of a pane each gets, in any unit."""
MOST_PANES = 64
"""So many panes that follow each other have slots of their own; the next ones have those of the first again."""
GRAINS_PER_SLOT, MOST_CELLS = 16, 65_536


@dataclass(frozen=True)
class Owners:
    """The slots of panes, as a table: a row for each pane of some that follow each other, with the slot of each grain of its tuples.

    Any pane has the row that its number has modulo their count, so no pane is without slots. The grain of a tuple is the hash of its row
    modulo the length of the row: whoever sends it, in whatever order, sends it there, and Spark may repeat a task.

    >>> owners = Owners.of({5: {0: 3, 1: 1}, 6: {1: 1}}, grains=4)
    >>> owners.rows, owners.slots_of(np.array([5, 5, 6, 7]), np.array([2, 3, 9, 4], np.uint64)).tolist()
    (((1, 1, 1, 1), (0, 0, 0, 1)), [0, 1, 1, 0])
    """

    rows: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(shares: Mapping[int, Shares], grains: int) -> "Owners":
        """Return the table for the shares of consecutive panes, in so many grains."""
        rows: list[tuple[int, ...]] = [()] * len(shares)
        for pane, given in shares.items():
            slots, ends = np.array(list(given)), np.cumsum(list(given.values()))
            places = np.searchsorted(ends / ends[-1], (np.arange(grains) + 0.5) / grains)
            rows[pane % len(shares)] = tuple(slots[places].tolist())
        return Owners(tuple(rows))

    @property
    def slots(self) -> int:
        """Return how many slots there are, up to the last that any pane has."""
        return 1 + max(slot for row in self.rows for slot in row)

    @property
    def grains(self) -> int:
        """Return into how many grains the tuples of a pane are divided."""
        return len(self.rows[0])

    def pieces(self, pane: int) -> int:
        """Return how many slots a pane has."""
        return len(set(self.rows[pane % len(self.rows)]))

    def slots_of(self, panes: Codes, hashes: Hashes) -> Nodes:
        """Return the slot of each tuple by its pane and the hash of its row."""
        table = np.array(self.rows, np.int32)
        return np.asarray(table[panes % len(table), (hashes % np.uint64(self.grains)).astype(np.int64)])


@dataclass(frozen=True)
class PanePlan:
    """Where the tuples of a batch are worked on, and why."""

    owners: Owners | None
    """The slots to which they are sent; None if they stay where they are."""
    reason: str


def grains_for(slots: int, panes: int) -> int:
    """Return how finely to divide each of some panes among slots, without a table that is too large.

    >>> grains_for(2, 64), grains_for(2_000, 64)
    (32, 1024)
    """
    return max(1, min(GRAINS_PER_SLOT * slots, MOST_CELLS // panes))


def just_enough(panes: Sequence[tuple[int, int]], slots: Sequence[int], spread: float = 0.0) -> dict[int, dict[int, float]]:
    """Return the shares of panes with some tuples each, so that slots are balanced and as few panes as possible are divided.

    A pane is divided if it may be more than the share of a slot; `spread` is how far sizes are from what was expected, as a share of them.
    Larger pieces are placed first, each where there is least so far.

    >>> just_enough([(7, 100), (8, 100)], [0, 1]), just_enough([(7, 300), (8, 100)], [0, 1])
    ({7: {0: 1.0}, 8: {1: 1.0}}, {7: {0: 0.5, 1: 0.5}, 8: {0: 1.0}})
    >>> just_enough([(7, 100), (8, 100)], [0, 1], spread=0.5)
    {7: {0: 0.5, 1: 0.5}, 8: {0: 0.5, 1: 0.5}}
    """
    share = sum(tuples for _, tuples in panes) / len(slots)
    load = dict.fromkeys(slots, 0.0)
    shares: dict[int, dict[int, float]] = {}
    for pane, tuples in sorted(panes, key=lambda each: (-each[1], each[0])):
        wanted = -(-tuples * (1 + spread) // share) if share else 1
        pieces = int(min(len(slots), max(1, wanted)))
        mine = sorted(slots, key=lambda slot: load[slot])[:pieces]
        shares[pane] = dict.fromkeys(mine, 1 / pieces)
        for slot in mine:
            load[slot] += tuples / pieces
    return dict(sorted(shares.items()))
