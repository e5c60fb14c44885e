"""Which slot has which keys: keys fall into groups, groups lie on slots (P2 §2.1, its routing function m)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skytide.errors import InvalidInput
from skytide.errors.checks import brief, is_whole, whole

Hashes = NDArray[np.uint64]
Numbers = NDArray[np.int64]

GROUPS = 256
"""Of keys that share the first 8 bits of their hashes. Each lies on one slot as a whole."""
SHIFT = 56
MAX_HASH = 2**64 - 1


def base_group(key: int) -> int:
    """Return the group that a key is in as long as it has none of its own.

    >>> base_group(0xAB << 56)
    171
    """
    return key >> SHIFT


@dataclass(frozen=True)
class RoutingTable:
    """The slot of each group. Keys that come very often can be groups of their own, numbered after the others.

    >>> table = RoutingTable.even(2)
    >>> hashes = np.array([0, 1 << 56, 7], np.uint64)
    >>> table.groups_of(hashes).tolist(), table.slots_of(hashes).tolist(), table.count
    ([0, 1, 0], [0, 1, 0], 2)
    >>> RoutingTable((*table.slots, 1), own=(7,)).groups_of(hashes).tolist()
    [0, 1, 256]
    """

    slots: tuple[int, ...]
    """Of each group, the base groups first."""
    own: tuple[int, ...] = ()
    """The hashes of the keys that are groups of their own, by the numbers of these groups."""

    def __post_init__(self) -> None:
        """Refuse groups without a slot, and keys that are named twice."""
        if len(self.slots) != GROUPS + len(self.own):
            raise InvalidInput(
                value=f"{len(self.slots)} slots for {GROUPS} groups and {len(self.own)} keys with their own",
                reason="each group has one slot",
                remedy=f"give {GROUPS + len(self.own)} slots",
            )
        if not all(is_whole(slot, 0) for slot in self.slots):
            raise InvalidInput(value=f"slots={brief(self.slots)}", reason="not all are numbers of slots", remedy="count from 0")
        hashes = all(isinstance(key, int) and 0 <= key <= MAX_HASH for key in self.own)
        if not hashes or len(set(self.own)) != len(self.own):
            raise InvalidInput(
                value=f"own={brief(self.own)}", reason="not different hashes of 64 bits", remedy="name each key once, by its hash"
            )

    @staticmethod
    def even(slots: int) -> "RoutingTable":
        """Return the table that deals the groups out to so many slots in turn."""
        whole("slots", slots, 1)
        return RoutingTable(tuple(group % slots for group in range(GROUPS)))

    @property
    def count(self) -> int:
        """How many slots are in use: they are numbered from 0, and the last of them has at least one group."""
        return max(self.slots) + 1

    def groups_of(self, hashes: Hashes) -> Numbers:
        """Return the group of each key."""
        groups = (hashes >> np.uint64(SHIFT)).astype(np.int64)
        if self.own:
            known, numbers = self._own
            places = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
            groups = np.where(known[places] == hashes, numbers[places], groups)
        return groups

    def slots_of(self, hashes: Hashes) -> Numbers:
        """Return the slot of each key."""
        return self._slots[self.groups_of(hashes)]

    def alone(self) -> dict[int, int]:
        """Return the slots that have nothing but one key, and its hash.

        >>> RoutingTable((*[0] * GROUPS, 1), own=(7,)).alone()
        {1: 7}
        """
        return {slot: key for key, slot in zip(self.own, self.slots[GROUPS:], strict=True) if self.slots.count(slot) == 1}

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"slots": list(self.slots), "own": list(self.own)}

    @staticmethod
    def from_json(values: dict[str, Any]) -> "RoutingTable":
        """Return the table that `to_json` wrote."""
        return RoutingTable(tuple(values["slots"]), tuple(values["own"]))

    @cached_property
    def _own(self) -> tuple[Hashes, Numbers]:
        hashes = np.array(self.own, np.uint64)
        order = np.argsort(hashes)
        return hashes[order], order + GROUPS

    @cached_property
    def _slots(self) -> Numbers:
        return np.array(self.slots, np.int64)
