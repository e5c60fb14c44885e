"""Decides when groups of keys move to other slots, and which: as few as reach the desired balance (SPEC E3; P2 §3.3, §4.1).

P2 computes a new routing function when the loads of replicas differ by more than a threshold, or their number changes. Here the
load of a group, and of the heaviest keys, is an average over batches in which newer batches count more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skytide.errors import InvalidInput
from skytide.errors.checks import check_integer, check_number, is_finite
from skytide.keyed.balance import GONE, Asked, assign, used_of
from skytide.keyed.table import GROUPS, RoutingTable, base_group, groups_for

State = dict[str, Any]
Floats = NDArray[np.float64]

REMEMBERED = 1_024  # number of keys whose loads are averaged
WORTH = 0.05  # share of the mean: where the threshold is out of reach, nothing moves for a smaller gain


@dataclass(frozen=True)
class Rebalancer:
    """Moves groups when the most loaded slot has more than `threshold` times the mean, or when the number of slots changes.

    >>> logic = Rebalancer().build()
    >>> table = RoutingTable.even(2)
    >>> tuples = [40.0, 30.0, 12.0] + [0.0] * 252 + [10.0]
    >>> moves = logic.plan(table, 2, Loads(tuples))
    >>> moves.moved, moves.table.slots[:3]
    ((0,), (1, 0, 0))
    >>> moves.reason
    'slot 0 has 1.78 times the mean load, more than 1.2: 1 of 256 groups moves, the most loaded slot then has 1.09 times the mean'
    """

    threshold: float = 1.2
    """Groups move if a slot has more than this many times the mean load."""
    target: float = 1.05
    """When groups move, no slot has more than this many times the mean afterwards, if that can be reached."""
    own_share: float = 0.5
    """When groups move, a key with more than this share of the mean load of a slot becomes a group of its own."""
    smoothing: float = 0.3
    """Weight of the latest batch in the averages."""
    max_own: int = 1_024
    """How many keys may have groups of their own. They keep them, so that the numbers of groups never change."""

    def __post_init__(self) -> None:
        """Refuse values that are out of range."""
        check_number("threshold", self.threshold, above=1, meaning="a number above 1")
        check_number("target", self.target, above=1, up_to=self.threshold, meaning="a number above 1, up to the threshold")
        check_number("own_share", self.own_share, above=0, up_to=1, meaning="a share above 0, up to 1")
        check_number("smoothing", self.smoothing, above=0, up_to=1, meaning="a share above 0, up to 1")
        check_integer("max_own", self.max_own, 0)

    def build(self, resume: State | None = None) -> "RebalancerLogic":
        """Return the logic, from a snapshot if there is one."""
        return RebalancerLogic(self, **(resume or {}))


@dataclass(frozen=True)
class Loads:
    """The loads that a batch brought to the groups of a table."""

    of_groups: Sequence[float]
    """The load of each group, in a unit that stays the same, as averages do not tell units apart."""
    heaviest: Sequence[tuple[int, float]] = ()
    """The heaviest keys by hash, and the load of each."""


@dataclass(frozen=True)
class Moves:
    """What to do from the next batch on."""

    table: RoutingTable
    moved: tuple[int, ...]
    """The groups of the new table whose keys were on other slots before."""
    reason: str


@dataclass(frozen=True)
class _Filling:
    """What is too heavy to share a slot (keys, and groups that cannot be divided further), and the mean load of the other slots."""

    keys: tuple[int, ...]
    groups: tuple[int, ...]
    mean: float


@dataclass(frozen=True)
class _MostLoaded:
    """The highest load of a slot, relative to the mean of all slots that no single key or group fills."""

    highest: float
    slot: int


@dataclass
class RebalancerLogic:
    """Averages the loads of base groups and of keys; those of own groups are derived from them."""

    config: Rebalancer
    groups: list[float] = field(default_factory=lambda: [0.0] * GROUPS)
    """The load of each base group with all its keys, including those that are groups of their own."""
    keys: list[list[Any]] = field(default_factory=list)
    """Hash and load of the heaviest keys, the heaviest first."""

    def plan(self, table: RoutingTable, slots: int, loads: Loads | None = None, *, divide: bool = True) -> Moves:
        """Return the table for a number of slots, after taking in the loads of a batch, if given.

        It is the same table if nothing has to move, or has more groups if there are more slots than it can spread keys over, and groups
        may be divided.
        """
        check_integer("slots", slots, 1)
        if loads is not None:
            self.observe(table, loads)
        table = table.divided(max(groups_for(slots) if divide else GROUPS, len(self.groups)))
        self._divide(table.base)
        filling = self._filling(slots)
        if table.count > slots:
            return self._act(table, slots, filling, f"{slots} slots instead of {table.count}")
        now = _most_loaded(table, self._loads_of(table), slots, filling)
        empty = slots - len(set(table.slots))
        if now.highest > self.config.threshold:
            why = f"slot {now.slot} has {now.highest:.2f} times the mean load, more than {self.config.threshold:g}"
        elif empty:
            why = f"{slots} slots, {empty} of them without a group"
        else:
            return Moves(table, (), f"balanced: the most loaded slot has {now.highest:.2f} times the mean")
        moves = self._act(table, slots, filling, why)
        after = _most_loaded(moves.table, self._loads_of(moves.table), slots, filling).highest
        filled = slots - len(set(moves.table.slots)) < empty
        helped = now.highest > self.config.threshold and (after <= self.config.threshold or after <= now.highest - WORTH)
        if filled or helped:
            return moves
        return Moves(table, (), f"{why}: nothing moves, as no move that helps was found")

    def observe(self, table: RoutingTable, loads: Loads) -> None:
        """Take in the loads of a batch; one without any load is ignored."""
        values = _checked(table, loads)
        if not values.sum() > 0:
            return
        self._divide(table.base)
        of_keys = {key: float(values[table.base + number]) for number, key in enumerate(table.own)}
        whole_groups = values[: table.base].copy()
        for key, load in of_keys.items():
            whole_groups[self._group(key)] += load
        heaviest: dict[int, float] = {}
        for key, load in loads.heaviest:
            heaviest[key] = heaviest.get(key, 0.0) + load
        for key, load in heaviest.items():
            group = self._group(key)
            if key not in of_keys and values[group] > 0:
                of_keys[key] = float(min(values[group], load))
        self._average(whole_groups, of_keys, set(table.own))

    def snapshot(self) -> State:
        """Return the state, as plain values."""
        return {"groups": list(self.groups), "keys": [list(key) for key in self.keys]}

    def _group(self, key: int) -> int:
        return base_group(key, len(self.groups))

    def _divide(self, groups: int) -> None:
        """Divide the groups so that there are as many, if these are more: known keys count where they are, the rest is taken to be even."""
        if groups <= len(self.groups):
            return
        parts, others = groups // len(self.groups), np.array(self.groups)
        keys = np.zeros(groups)
        for key, load in self.keys:
            keys[base_group(key, groups)] += load
            others[self._group(key)] -= load
        self.groups = (np.repeat(np.maximum(others, 0.0) / parts, parts) + keys).tolist()

    def _average(self, groups: Floats, keys: dict[int, float], kept: set[int]) -> None:
        """Include the latest batch in the averages; keys that it does not name count as absent."""
        share = self.config.smoothing if sum(self.groups) > 0 else 1.0
        self.groups = [float((1 - share) * old + share * new) for old, new in zip(self.groups, groups, strict=True)]
        loads = dict(self.keys)
        mixed = {key: (1 - share) * loads.get(key, 0.0) + share * keys.get(key, 0.0) for key in {*loads, *keys}}
        ordered = sorted(mixed.items(), key=lambda item: (-item[1], item[0]))
        self.keys = [[key, load] for place, (key, load) in enumerate(ordered) if place < REMEMBERED or key in kept]

    def _loads_of(self, table: RoutingTable) -> Floats:
        """Return the average load of each group of a table; all are equal as long as nothing is known."""
        if not sum(self.groups) > 0:
            return np.concatenate([np.ones(table.base), np.zeros(len(table.own))])
        loads_of_keys = dict(self.keys)
        own = np.array([loads_of_keys.get(key, 0.0) for key in table.own], np.float64)
        homes = np.array([self._group(key) for key in table.own], np.int64)
        rest = np.array(self.groups) - np.bincount(homes, own, minlength=table.base)
        rest[rest < 1e-9 * np.array(self.groups)] = 0.0  # rounding errors of the subtraction
        return np.concatenate([rest, own])

    def _filling(self, slots: int) -> _Filling:
        """Return what fills a whole slot: keys with more than the mean of the other slots, and groups that are too heavy without such keys."""
        remains = np.array(self.groups)
        for key, load in self.keys:
            remains[self._group(key)] -= load
        sizes = [(load, False, key) for key, load in self.keys]
        sizes += [(load / self.config.target, True, group) for group, load in enumerate(remains.tolist())]
        rest, left = sum(self.groups) or float(len(self.groups)), slots
        numbers: dict[bool, list[int]] = {False: [], True: []}
        for size, is_group, number in sorted(sizes, key=lambda item: (-item[0], item[1:])):
            if left == 1 or size <= rest / left:
                break
            numbers[is_group].append(number)
            rest, left = max(0.0, rest - size * (self.config.target if is_group else 1.0)), left - 1
        return _Filling(tuple(numbers[False]), tuple(numbers[True]), rest / left)

    def _act(self, table: RoutingTable, slots: int, filling: _Filling, why: str) -> Moves:
        """Return moves that turn heavy keys into groups, give each key that fills a slot its own, and balance the others."""
        mean = filling.mean
        wanted = self._to_own(table, mean)
        new = wanted[: max(0, self.config.max_own - len(table.own))]
        own = (*table.own, *new)
        before = np.array([*table.slots, *(table.slots[self._group(key)] for key in new)], np.int64)
        wide = RoutingTable(tuple(before.tolist()), own)
        loads = self._loads_of(wide)
        alone = _alone([table.base + own.index(key) for key in filling.keys if key in own], before, slots)
        at = _balanced(loads, np.where(before < slots, before, GONE), slots, alone, self.config.target * mean, self.config.target)
        done = RoutingTable(tuple(at.tolist()), own)
        moved = tuple(np.flatnonzero(at != before).tolist())
        after = _most_loaded(done, loads, slots, filling)
        reasons = [f"{why}: {len(moved)} of {len(before)} groups {'moves' if len(moved) == 1 else 'move'}"]
        reasons.append(f"the most loaded slot then has {after.highest:.2f} times the mean")
        reasons += [
            self._about(key, new, float(loads[table.base + own.index(key)]), mean) for key in new if key not in filling.keys
        ]
        reasons += [
            f"{self._about(own[group - table.base], new, float(loads[group]), mean)}, alone on slot {slot}"
            for slot, group in alone.items()
        ]
        if len(new) < len(wanted):
            reasons.append(f"{len(own)} keys have groups of their own: {len(wanted) - len(new)} more cannot get one")
        return Moves(done, moved, ", ".join(reasons[:2]) + "".join(f"; {reason}" for reason in reasons[2:]))

    def _about(self, key: int, new: Sequence[int], load: float, mean: float) -> str:
        has = "becomes a group of its own" if key in new else "is a group of its own"
        return f"key {key:016x} has {load / mean if mean else float('inf'):.2f} times the mean load of the other slots and {has}"

    def _to_own(self, table: RoutingTable, mean: float) -> list[int]:
        """Return the keys that become groups: those with more than their share, and those whose group is too heavy for a slot."""
        shared = [(key, load) for key, load in self.keys if key not in set(table.own)]
        new = [key for key, load in shared if load > self.config.own_share * mean]
        left = self._loads_of(table)[: table.base]
        for key, load in shared:
            group = self._group(key)
            if key in new:
                left[group] -= load
            elif left[group] > self.config.target * mean and load > 0:
                new.append(key)
                left[group] -= load
        return new


def _checked(table: RoutingTable, loads: Loads) -> Floats:
    """Return the loads of the groups of a table, after checking them."""
    if len(loads.of_groups) != len(table.slots):
        raise InvalidInput(
            value=f"loads of {len(loads.of_groups)} groups",
            reason=f"the table has {len(table.slots)}",
            remedy="give one number for each group of the table",
        )
    if not all(is_finite(float(load)) and load >= 0 for load in loads.of_groups):
        raise InvalidInput(value="loads", reason="not all are finite and at least 0", remedy="give tuples, or busy seconds")
    return np.array(loads.of_groups, np.float64)


def _most_loaded(table: RoutingTable, loads: Floats, slots: int, filling: _Filling) -> _MostLoaded:
    """Return the most loaded slot, ignoring slots that a single key or an indivisible group fills."""
    at = np.array(table.slots, np.int64)
    used, groups = used_of(loads, at, slots), np.bincount(at, minlength=slots)
    for group in (table.base + number for number, key in enumerate(table.own) if key in filling.keys):
        if groups[at[group]] == 1:
            used[at[group]] = 0.0
    for group in filling.groups:
        if used[at[group]] <= loads[group] * (1 + 1e-9):
            used[at[group]] = 0.0
    slot = int(np.argmax(used))
    highest = float(used[slot])
    return _MostLoaded(highest / filling.mean if filling.mean > 0 else (0.0 if highest == 0 else float("inf")), slot)


def _alone(groups: Sequence[int], before: NDArray[np.int64], slots: int) -> dict[int, int]:
    """Return a slot for each group that fills one: where the fewest other groups have to leave."""
    group_of_slot: dict[int, int] = {}
    there = np.bincount(before[before < slots], minlength=slots)
    for group in groups:
        free = [slot for slot in range(slots) if slot not in group_of_slot]
        slot = min(
            free, key=lambda candidate: (there[candidate] - (before[group] == candidate) + (before[group] != candidate), candidate)
        )
        group_of_slot[slot] = group
    return group_of_slot


def _balanced(
    loads: Floats, before: NDArray[np.int64], slots: int, alone: dict[int, int], max_load: float, target: float
) -> NDArray[np.int64]:
    """Return the slot of each group: `alone` as given, and the others balanced on the other slots."""
    shared = np.array([slot for slot in range(slots) if slot not in alone], np.int64)
    number = np.full(
        slots + 1, GONE
    )  # the place of each slot among the shared ones; the last entry is for groups whose slot is gone
    number[shared] = np.arange(len(shared))
    others = np.array([group for group in range(len(loads)) if group not in set(alone.values())], np.int64)
    here = number[before[others]]
    empty = tuple(sorted(set(range(len(shared))) - set(here.tolist())))
    at = np.empty(len(loads), np.int64)
    at[others] = shared[assign(loads[others], here, Asked(len(shared), max_load, max_load * (2 - target) / target, empty))]
    for slot, group in alone.items():
        at[group] = slot
    return at
