"""Packs streams into splits: which streams leave a full split, where they fit best, and which splits can be given up."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import count

import numpy as np
from numpy.typing import NDArray

from skytide.admission.records import Bools, Floats, Numbers

ROUNDING = 1e-9  # share of a capacity by which sums differ by rounding: no overload
Rows = NDArray[np.intp]


class Splits:
    """The open splits, each with its load; those that accept streams are sorted by their free room."""

    def __init__(self, loads: dict[int, float], accepting: Iterable[int], fill_hz: float, max_splits: int | None = None) -> None:
        """Accept streams up to a load of `fill_hz`, and open splits until there are `max_splits`."""
        self.loads, self._fill, self._max_splits = loads, fill_hz, max_splits
        self._room = sorted((fill_hz - loads[number], number) for number in accepting)
        self._least: list[tuple[float, int]] = []
        self._unused = (number for number in count() if number not in self.loads)

    def place(self, sizes: Sequence[float], homes: Sequence[int]) -> list[int]:
        """Return a split for each stream: where it fits best; else a new split, if one may be opened; else the least loaded one.

        A stream that has a home (-1: none) goes to the least loaded split only if the load there stays below that of its home: when all
        splits are full, a move has to improve something. So streams come to rest.
        """
        room, loads, fill, rounding = self._room, self.loads, self._fill, ROUNDING * self._fill
        places = []
        for size, home in zip(sizes, homes, strict=True):
            at = bisect_left(room, (size - rounding,))
            if at < len(room):
                number = room.pop(at)[1]
                loads[number] += size
                insort(room, (fill - loads[number], number))
            else:
                number = self._squeeze(size, home)
            if number != home:
                self._changed(number)
                if home >= 0:
                    loads[home] -= size
                    self._changed(home)
            places.append(number)
        return places

    def _squeeze(self, size: float, home: int) -> int:
        """Return a split for a stream that fits nowhere."""
        if self._max_splits is None or len(self.loads) < self._max_splits:
            number = next(self._unused)
            self.loads[number] = size
            insort(self._room, (self._fill - size, number))
            return number
        number = self._least_loaded()
        if home >= 0 and not self.loads[number] + size < self.loads[home]:
            return home
        entry = (self._fill - self.loads[number], number)
        at = bisect_left(self._room, entry)
        self.loads[number] += size
        if at < len(self._room) and self._room[at] == entry:
            del self._room[at]
            insort(self._room, (self._fill - self.loads[number], number))
        return number

    def _changed(self, number: int) -> None:
        if self._least:
            heappush(self._least, (self.loads[number], number))

    def _least_loaded(self) -> int:
        if not self._least:
            self._least = [(load, number) for number, load in self.loads.items()]
            heapify(self._least)
        while self.loads[self._least[0][1]] != self._least[0][0]:  # an entry with an outdated load
            heappop(self._least)
        return self._least[0][1]


def leaving(split: Numbers, sizes: Floats, urgency: Floats, movable: Bools, overloaded: Sequence[int], capacity_hz: float) -> Rows:
    """Return the streams that leave overloaded splits: the most urgent first, until the rest fits; a single stream stays.

    Each row of `sizes` is a time at which the rest must fit. A stream that is too large for any split leaves before all others, as they
    need not move if it does.
    """
    full = np.zeros(int(split.max(initial=0)) + 1, np.bool_)
    full[list(overloaded)] = True
    largest, limit = sizes.max(axis=0), capacity_hz * (1 + ROUNDING)
    rows = np.flatnonzero(movable & (largest > 0) & (split >= 0) & full[split])
    order = rows[np.lexsort((-urgency[rows], largest[rows] <= limit, split[rows]))]
    last = np.ones(len(order), np.bool_)
    last[:-1] = split[order][1:] != split[order][:-1]
    group: Rows = np.cumsum(last) - last  # the split of each stream, by its place in their order
    leave = np.zeros(len(order), np.bool_)
    for size in sizes[:, order]:
        sums = np.cumsum(size)
        leave |= sums[last][group] - sums + size > limit  # the load of the split before a stream has left
    return order[leave & ~last]


def given_up(split: Numbers, sizes: Floats, movable: Bools, settled: Iterable[int], fill_hz: float, goal_hz: float) -> Numbers:
    """Return the splits of all streams after the least loaded splits have been emptied.

    A split is emptied if all streams together are then at most `goal_hz` per remaining split, and its own streams fit into those. Each row
    of `sizes` is a time at which both must hold. `settled` are the splits that may be emptied, or filled up to `fill_hz`.
    """
    after, rows = split.copy(), np.flatnonzero(movable)
    numbers = np.unique(split[rows])
    loads = np.array([np.bincount(split[rows], size[rows])[numbers] for size in sizes])
    most, largest = loads.max(axis=0), sizes.max(axis=0)
    may = np.isin(numbers, list(settled))
    total, room = float(sizes[:, rows].sum(axis=1).max()), np.where(may, fill_hz - loads, -np.inf)
    left, whole = len(numbers), may.copy()  # splits that have not changed yet
    while left > 1 and whole.any() and total <= (left - 1) * goal_hz:
        candidates = np.flatnonzero(whole)
        emptied = int(candidates[most[candidates] == most[candidates].min()][-1])
        members = rows[split[rows] == numbers[emptied]]
        members = members[np.argsort(-largest[members], kind="stable")]
        room[:, emptied] = -np.inf
        places = []
        for size in sizes[:, members].T:
            free = (room - size[:, None]).min(axis=0)
            fits = free >= -ROUNDING * fill_hz
            if not fits.any():
                return after
            places.append(int(np.argmin(np.where(fits, free, np.inf))))
            room[:, places[-1]] -= size
        after[members] = numbers[places]
        whole[[emptied, *places]] = False
        left -= 1
    return after
