"""Which slot has which keys: keys belong to groups, and groups to slots (P2 §2.1, its routing function m)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skytide.errors import InvalidInput
from skytide.errors.checks import brief, check_integer, is_integer
from skytide.keyed.bits import as_bits

Hashes = NDArray[np.uint64]
Numbers = NDArray[np.int64]

GROUPS = 256
"""The fewest groups of keys: those with the same first 8 bits of their hashes. Each group is on one slot as a whole.

The state of windows is divided in the same way, and its slots have their groups, or parts, by such a table, too.
"""
MAX_GROUPS = 65_536
GROUPS_PER_SLOT = 4
"""A slot has about as many groups at least, so that keys can be spread evenly."""
HASH_BITS = 64
MAX_HASH = 2**HASH_BITS - 1


def groups_for(slots: int) -> int:
    """Return how many base groups a number of slots needs: a power of two, so that groups can be divided.

    >>> groups_for(2), groups_for(64), groups_for(65), groups_for(300), groups_for(10**6)
    (256, 256, 512, 2048, 65536)
    """
    return max(GROUPS, min(MAX_GROUPS, 1 << (GROUPS_PER_SLOT * slots - 1).bit_length()))


def base_group(key: int, groups: int = GROUPS) -> int:
    """Return the group of a key that has none of its own.

    >>> base_group(0xAB << 56), base_group(0xAB << 56, 512)
    (171, 342)
    """
    return key * groups >> HASH_BITS


def base_groups(hashes: Hashes, groups: int = GROUPS) -> Numbers:
    """Return the groups of keys that have none of their own, for a power of two.

    >>> base_groups(np.array([0xAB << 56], np.uint64)).tolist()
    [171]
    """
    return (hashes >> np.uint64(HASH_BITS + 1 - groups.bit_length())).astype(np.int64)


@dataclass(frozen=True)
class RoutingTable:
    """The slot of each group. Very frequent keys can be groups of their own, numbered after the others, the base groups.

    The number of base groups is a power of two. With more slots each is divided into groups of longer beginnings of the hash; they are
    never put together again, as what is remembered of the parts may differ.

    >>> table = RoutingTable.even(2)
    >>> hashes = np.array([0, 1 << 56, 7], np.uint64)
    >>> table.groups_of(hashes).tolist(), table.slots_of(hashes).tolist(), table.count
    ([0, 1, 0], [0, 0, 0], 2)
    >>> RoutingTable((*table.slots, 1), own=(7,)).groups_of(hashes).tolist()
    [0, 1, 256]
    """

    slots: tuple[int, ...]
    """The slot of each group, the base groups first."""
    own: tuple[int, ...] = ()
    """The hashes of the keys that are groups of their own, by the numbers of these groups."""

    def __post_init__(self) -> None:
        """Refuse groups without a slot, and keys that occur twice."""
        if self.base < GROUPS or self.base & (self.base - 1):
            raise InvalidInput(
                value=f"{len(self.slots)} slots for groups, {len(self.own)} of them for keys with groups of their own",
                reason=f"each group has one slot, and the number of the other groups, {self.base}, is no power of two from {GROUPS} on",
                remedy=f"give {GROUPS + len(self.own)} slots",
            )
        if not all(is_integer(slot, 0) for slot in self.slots):
            raise InvalidInput(value=f"slots={brief(self.slots)}", reason="not all are numbers of slots", remedy="count from 0")
        hashes = all(isinstance(key, int) and 0 <= key <= MAX_HASH for key in self.own)
        if not hashes or len(set(self.own)) != len(self.own):
            raise InvalidInput(
                value=f"own={brief(self.own)}", reason="not different hashes of 64 bits", remedy="name each key once, by its hash"
            )

    @staticmethod
    def even(slots: int) -> "RoutingTable":
        """Return the table that gives each slot as many groups, side by side as they are in files.

        >>> RoutingTable.even(3).slots[84:87]
        (0, 0, 1)
        """
        check_integer("slots", slots, 1)
        groups = groups_for(slots)
        return RoutingTable(tuple(group * slots // groups for group in range(groups)))

    @property
    def base(self) -> int:
        """Return the number of base groups."""
        return len(self.slots) - len(self.own)

    def divided(self, groups: int) -> "RoutingTable":
        """Return the table in which each base group is divided so that there are `groups`, if these are more; no key changes its slot.

        >>> RoutingTable((*range(256), 7), own=(1,)).divided(512).slots[-4:]
        (254, 255, 255, 7)
        """
        parts = max(1, groups // self.base)
        slots = tuple(slot for slot in self.slots[: self.base] for _ in range(parts))
        return RoutingTable((*slots, *self.slots[self.base :]), self.own)

    @property
    def count(self) -> int:
        """Return how many slots are in use: they are numbered from 0, and the last has at least one group."""
        return max(self.slots) + 1

    def groups_of(self, hashes: Hashes) -> Numbers:
        """Return the group of each key."""
        groups = base_groups(hashes, self.base)
        if self.own:
            own, numbers = self._own
            places = np.minimum(np.searchsorted(own, hashes), len(own) - 1)
            groups = np.where(own[places] == hashes, numbers[places], groups)
        return groups

    def slots_of(self, hashes: Hashes) -> Numbers:
        """Return the slot of each key."""
        return self._slots[self.groups_of(hashes)]

    def mask(self, slot: int) -> int:
        """Return the groups of a slot, a bit each.

        >>> hex(RoutingTable.even(32).mask(1))
        '0xff00'
        """
        return as_bits(self._slots == slot)

    def alone(self) -> dict[int, int]:
        """Return the slots that have only one key, with its hash.

        >>> RoutingTable((*[0] * GROUPS, 1), own=(7,)).alone()
        {1: 7}
        """
        return {slot: key for key, slot in zip(self.own, self.slots[self.base :], strict=True) if self.slots.count(slot) == 1}

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"slots": list(self.slots), "own": list(self.own)}

    @staticmethod
    def from_json(values: dict[str, Any]) -> "RoutingTable":
        """Return the table for a result of `to_json`."""
        return RoutingTable(tuple(values["slots"]), tuple(values["own"]))

    @cached_property
    def _own(self) -> tuple[Hashes, Numbers]:
        hashes = np.array(self.own, np.uint64)
        order = np.argsort(hashes)
        return hashes[order], order + self.base

    @cached_property
    def _slots(self) -> Numbers:
        return np.array(self.slots, np.int64)
