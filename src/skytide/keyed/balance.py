"""Assigns groups to slots so that no slot has too much load, with as few moves as possible (SPEC E3).

Which groups have to move is a problem without a fast exact solution. Steps that reduce the excess by as much as possible per moved
group find a good one; where few groups have any load, all assignments are searched afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Slots = NDArray[np.int64]

GONE = -1
"""Instead of a slot: the group was on one that no longer exists."""
SAME = 1e-9
SEARCHED_GROUPS = 24
SEARCHED_NODES = 20_000  # limit of the search: some tens of milliseconds
RELIEVED_PAIRS = 30_000_000  # limit of the steps, in pairs of groups that are compared: a few seconds
FREE = 0.25  # cost of moving a group that has moved already, relative to one that has not


@dataclass(frozen=True)
class Asked:
    """The balance to reach: the load a slot may have at most, and the load that new slots should have at least."""

    slots: int
    max_load: float
    min_load: float = 0.0
    added: tuple[int, ...] = ()

    def excess(self, used: Floats) -> float:
        """Return how much load is too much on slots, or missing on new ones."""
        over = np.maximum(used - self.max_load, 0.0).sum()
        return float(over + np.maximum(self.min_load - used[list(self.added)], 0.0).sum())

    def reached(self, used: Floats) -> bool:
        """Return whether the balance is reached."""
        return self.excess(used) <= SAME * max(self.max_load, 1e-300) * self.slots


def used_of(loads: Floats, at: Slots, slots: int) -> Floats:
    """Return the load of each slot."""
    return np.asarray(np.bincount(at, loads, minlength=slots), np.float64)


def assign(loads: Floats, before: Slots, asked: Asked) -> Slots:
    """Return a slot for each group with few moves: with the balance asked for, or as near to it as was found.

    >>> assign(np.array([3.0, 2.0, 1.0, 2.0]), np.array([0, 0, 0, 1]), Asked(slots=2, max_load=4.0)).tolist()
    [0, 1, 0, 1]
    """
    slots = _searched(loads, before, asked, stepwise(loads, before, asked))
    used = used_of(loads, slots, asked.slots)
    if not asked.added or asked.reached(used):
        return slots
    plain = Asked(asked.slots, asked.max_load)  # new slots cannot all be filled: then at least no slot has too much
    other = assign(loads, before, plain)
    better = plain.excess(used_of(loads, other, asked.slots)) < plain.excess(used) - SAME * asked.max_load
    return other if better else slots


def _searched(loads: Floats, before: Slots, asked: Asked, slots: Slots) -> Slots:
    """Search all assignments if few groups have load, and return the best slots known then."""
    loaded = np.flatnonzero(loads > 0)
    if len(loaded) > SEARCHED_GROUPS:
        return slots
    within = asked.reached(used_of(loads, slots, asked.slots))
    moves = int((slots != before)[loaded].sum()) if within else len(loaded) + 1
    better = _Search(loads[loaded].tolist(), before[loaded].tolist(), asked, moves).run()
    if better is not None:
        slots[loaded] = better
    return slots


def stepwise(loads: Floats, before: Slots, asked: Asked) -> Slots:
    """Return slots for all groups, found step by step."""
    at = _placed(loads, before, asked.slots)
    _fill(loads, at, asked)
    _relieve(loads, before, at, asked)
    _undo(loads, before, at, asked)
    return at


def _placed(loads: Floats, before: Slots, slots: int) -> Slots:
    """Return slots for all groups: those without one go to the least loaded slots, the heaviest first; without load, where the fewest are."""
    at = before.copy()
    lost = np.flatnonzero(at == GONE)
    rest = at != GONE
    used, groups = used_of(loads[rest], at[rest], slots), np.bincount(at[rest], minlength=slots)
    for group in sorted(lost.tolist(), key=lambda candidate: (-loads[candidate], candidate)):
        order = (groups, used) if loads[group] == 0 else (used, groups)
        slot = int(np.lexsort((np.arange(slots), order[1], order[0]))[0])
        at[group] = slot
        used[slot] += loads[group]
        groups[slot] += 1
    return at


def _fill(loads: Floats, at: Slots, asked: Asked) -> None:
    """Move groups to new slots, from the most loaded slots first: the lightest that is enough, or else the heaviest."""
    waiting = set(asked.added)
    while waiting:
        used = used_of(loads, at, asked.slots)
        slot = min(waiting, key=lambda candidate: (used[candidate], candidate))
        missing = asked.min_load - used[slot]
        if missing <= SAME * asked.max_load:
            return
        group = _to_bring(loads, at, used, slot, missing, asked)
        if group is None:
            waiting.discard(slot)
        else:
            at[group] = slot


def _to_bring(loads: Floats, at: Slots, used: Floats, slot: int, missing: float, asked: Asked) -> int | None:
    left = used[at] - loads  # on the slot that the group would leave
    can = (at != slot) & (loads > 0) & (loads <= (asked.max_load - used[slot]) * (1 + SAME)) & (left >= asked.min_load * (1 - SAME))
    if not can.any():
        return None
    heaviest = used[at[can]].max()
    groups = np.flatnonzero(can & (used[at] >= heaviest * (1 - SAME)))
    enough = groups[loads[groups] >= missing]
    if len(enough):
        return int(enough[np.argmin(loads[enough])])
    return int(groups[np.argmax(loads[groups])])


def _relieve(loads: Floats, before: Slots, at: Slots, asked: Asked) -> None:
    """Move or swap groups of slots that have too much, as long as the excess falls; the best step per moved group first."""
    stuck: set[int] = set()
    pairs = 0
    while pairs < RELIEVED_PAIRS:
        used = used_of(loads, at, asked.slots)
        over = [slot for slot in np.argsort(-used, kind="stable").tolist() if used[slot] > asked.max_load * (1 + SAME)]
        slot = next((candidate for candidate in over if candidate not in stuck), None)
        if slot is None:
            return
        pairs += max(int((at == slot).sum()), 1) * (len(loads) + asked.slots)
        step = _best_step(loads, before, at, used, slot, asked)
        if step is None:
            stuck.add(slot)
            continue
        stuck.clear()
        for group, to in step:
            at[group] = to


def _best_step(
    loads: Floats, before: Slots, at: Slots, used: Floats, slot: int, asked: Asked
) -> tuple[tuple[int, int], ...] | None:
    """Return the best move from a slot with too much: one group, or a swap of two."""
    mine, theirs = np.flatnonzero((at == slot) & (loads > 0)), np.flatnonzero((at != slot) & (loads > 0))
    moved = (at != before).astype(np.int64)
    targets = np.array([candidate for candidate in range(asked.slots) if candidate != slot], np.int64)
    # one group to each other slot
    to = np.broadcast_to(targets, (len(mine), len(targets)))
    costs = (before[mine, None] != to) - moved[mine, None].astype(np.float64)
    gains = _gains(used, slot, loads[mine, None], to, asked)
    single = _best(gains, costs, loads[mine, None] + 0 * to, used[to])
    # one group for one of another slot
    back = at[theirs]
    to = np.broadcast_to(back, (len(mine), len(theirs)))
    change = loads[mine, None] - loads[theirs]
    costs = (before[mine, None] != to) - moved[mine, None] + (before[theirs] != slot) - moved[theirs] + 0.0
    swap = _best(_gains(used, slot, change, to, asked), costs, np.abs(change), used[to])
    if single is None and swap is None:
        return None
    if swap is None or (single is not None and single[0] >= swap[0]):
        assert single is not None
        return ((int(mine[single[1]]), int(targets[single[2]])),)
    return ((int(mine[swap[1]]), int(back[swap[2]])), (int(theirs[swap[2]]), slot))


def _gains(used: Floats, slot: int, change: Floats, to: Slots, asked: Asked) -> Floats:
    """Return by how much the excess falls if a load of `change` moves from a slot to others."""

    def bad(load: Floats, new: NDArray[np.bool_] | bool) -> Floats:
        return np.asarray(np.maximum(load - asked.max_load, 0.0) + np.where(new, np.maximum(asked.min_load - load, 0.0), 0.0))

    new = np.isin(np.arange(asked.slots), asked.added)
    here = np.full_like(change, used[slot])
    return np.asarray(
        bad(here, new[slot]) - bad(here - change, new[slot]) + bad(used[to], new[to]) - bad(used[to] + change, new[to])
    )


def _best(gains: Floats, costs: Floats, size: Floats, target: Floats) -> tuple[float, int, int] | None:
    """Return the best step: the largest gain per moved group; among equals the smallest load, to the least loaded slot."""
    if not gains.size:
        return None
    worth = gains / np.maximum(costs, FREE)
    best = float(worth.max())
    if best <= SAME * float(target.max(initial=0.0) + size.max()):
        return None
    rows, columns = np.nonzero(worth >= best * (1 - SAME))
    first = np.lexsort((columns, rows, target[rows, columns], size[rows, columns]))[0]
    return best, int(rows[first]), int(columns[first])


def _undo(loads: Floats, before: Slots, at: Slots, asked: Asked) -> None:
    """Move back groups that need not have moved, the heaviest first."""
    moved = np.flatnonzero((at != before) & (before != GONE))
    for group in sorted(moved.tolist(), key=lambda candidate: (-loads[candidate], candidate)):
        used = used_of(loads, at, asked.slots)
        back = at.copy()
        back[group] = before[group]
        if asked.excess(used_of(loads, back, asked.slots)) <= asked.excess(used) + SAME * asked.max_load:
            at[group] = before[group]


class _Search:
    """Searches all assignments of groups to slots, the heaviest first, except those that cannot be better than the best so far."""

    def __init__(self, loads: Sequence[float], before: Sequence[int], asked: Asked, moves: int) -> None:
        self._order = sorted(range(len(loads)), key=lambda group: (-loads[group], group))
        self._loads, self._before, self._asked = loads, before, asked
        self._min_moves = moves
        self._found: list[int] | None = None
        self._at = [GONE] * len(loads)
        self._used = [0.0] * asked.slots
        self._nodes = 0

    def run(self) -> list[int] | None:
        """Return slots with fewer moved groups than known so far, or None."""
        self._go(0, 0)
        return self._found

    def _go(self, depth: int, moves: int) -> None:
        self._nodes += 1
        if moves >= self._min_moves or self._nodes > SEARCHED_NODES:
            return
        if depth == len(self._order):
            if self._asked.reached(np.array(self._used)):
                self._min_moves, self._found = moves, list(self._at)
            return
        group = self._order[depth]
        load, home = self._loads[group], self._before[group]
        tried: set[float] = set()
        for slot in sorted(range(self._asked.slots), key=lambda candidate: (candidate != home, self._used[candidate], candidate)):
            used = self._used[slot]
            if used + load > self._asked.max_load * (1 + SAME) or (slot in self._asked.added and used in tried):
                continue  # new slots with the same load are interchangeable
            if slot in self._asked.added:
                tried.add(used)
            self._used[slot], self._at[group] = used + load, slot
            self._go(depth + 1, moves + (slot != home))
            self._used[slot] = used
