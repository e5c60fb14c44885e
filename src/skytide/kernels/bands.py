"""The skybands of many ranges of rows, which mostly slide forward: each row is compared once with those that may still matter.

A row that k younger rows dominate is in no range's skyband that holds those, so it can be forgotten; the others are a few, however long a
range is. Each remembers its k youngest older dominators: whoever else dominates it is older still, or was forgotten for k others that do.
"""

import numpy as np

from skytide.kernels.compiled import compiled
from skytide.kernels.order import Indices, Points
from skytide.kernels.ranges import check_ranges

ROOM = 64  # rows that may still matter, before there is a need for more room


def range_bands(points: Points, begins: Indices, ends: Indices, k: int, *, later: bool = False) -> tuple[Indices, Indices, Indices]:
    """Return the rows of each range that fewer than `k` others of it dominate; if `later`, only younger rows count as others.

    Ranges that follow each other with the same rows have one result: returned are the rows of all results, one after the other, how many
    each result has, and its first range.

    >>> places, counts, firsts = range_bands(np.array([[1.0], [2.0], [0.0]]), np.array([0, 0, 1]), np.array([1, 2, 3]), 1)
    >>> places.tolist(), counts.tolist(), firsts.tolist()
    ([0, 2], [1, 1], [0, 2])
    """
    begins, ends = check_ranges(begins, ends, len(points))
    longest = int((ends - begins).max(initial=1))
    return _bands(np.ascontiguousarray(points), begins, ends, max(min(k, longest), 1), later)


@compiled
def _bands(points: Points, begins: Indices, ends: Indices, k: int, later: bool) -> tuple[Indices, Indices, Indices]:
    places = np.empty(ROOM, np.int64)
    counts, firsts = np.empty(len(begins), np.int64), np.empty(len(begins), np.int64)
    filled = previous = results = 0
    line = np.arange(ROOM)  # slots: those of rows that may matter, in order, and then those that are free
    gone = np.empty(ROOM, np.int64)
    row, younger, older = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64), np.empty(ROOM, np.int64)
    blockers = np.empty((ROOM, k), np.int64)  # the last of the `older` dominators, in a ring
    size = read = 0
    for window in range(len(begins)):
        begin, end = begins[window], ends[window]
        if window and (begin < begins[window - 1] or end < ends[window - 1]):  # not forward: from the beginning
            size, read = 0, begin
        read = max(read, begin)
        left = 0
        while left < size and row[line[left]] < begin:
            gone[left] = line[left]
            left += 1
        if left:
            line[: size - left] = line[left:size].copy()
            line[size - left : size] = gone[:left]
            size -= left
        for j in range(read, end):
            if size == len(line):
                more = np.arange(2 * size)
                more[:size] = line
                line, gone = more, np.empty(2 * size, np.int64)
                row, younger, older = _doubled(row), _doubled(younger), _doubled(older)
                wider = np.empty((2 * size, k), np.int64)
                wider[:size] = blockers
                blockers = wider
            new, kept, dropped, blocked_by = line[size], 0, 0, 0
            for x in range(size):
                slot = line[x]
                side = _compare(points[j], points[row[slot]])
                if side < 0:
                    younger[slot] += 1
                    if younger[slot] == k:
                        gone[dropped] = slot
                        dropped += 1
                        continue
                elif side > 0:
                    blockers[new, blocked_by % k] = row[slot]
                    blocked_by += 1
                line[kept] = slot
                kept += 1
            line[kept] = new
            line[kept + 1 : kept + 1 + dropped] = gone[:dropped]
            row[new], younger[new], older[new] = j, 0, blocked_by
            size = kept + 1
        read = max(read, end)
        while len(places) < filled + size:
            places = _doubled(places)
        count = 0
        for x in range(size):
            slot = line[x]
            rank = k - younger[slot]  # so many older dominators inside the range are too many
            if later or older[slot] < rank or blockers[slot, (older[slot] - rank) % k] < begin:
                places[filled + count] = row[slot]
                count += 1
        if results and count == filled - previous and (places[previous:filled] == places[filled : filled + count]).all():
            continue
        counts[results], firsts[results] = count, window
        results += 1
        previous, filled = filled, filled + count
    return places[:filled].copy(), counts[:results].copy(), firsts[:results].copy()


@compiled
def _compare(a: Points, b: Points) -> int:
    """Return -1 if point `a` dominates point `b`, 1 if `b` dominates `a`, and otherwise 0."""
    side = 0
    for k in range(len(a)):
        if a[k] < b[k]:
            if side > 0:
                return 0
            side = -1
        elif a[k] > b[k]:
            if side < 0:
                return 0
            side = 1
    return side


@compiled
def _doubled(numbers: Indices) -> Indices:
    more = np.empty(2 * len(numbers), np.int64)
    more[: len(numbers)] = numbers
    return more
