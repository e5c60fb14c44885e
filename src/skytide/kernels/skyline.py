"""The skyline of an array: which points no other point dominates."""

from typing import Any

import numpy as np

from skytide.kernels.border import as_points
from skytide.kernels.compiled import compiled
from skytide.kernels.order import Indices, Points
from skytide.kernels.scan import Mask, beaten, count_dominators, dominates

FEW = 128  # up to this number, points are compared pair by pair
PAYS = 0.7  # a pass pays if it leaves at most this share of the points
HEAD = 8192  # the sample whose skyline sifts a large array
PLANE_HEAD = 1024  # the same for two dimensions, in which skylines are small


def skyline(points: Any) -> Mask:
    """Return for each point whether it belongs to the skyline: smaller is better, duplicates are kept.

    >>> skyline([[1, 4], [2, 2], [3, 3], [2, 2]])
    array([ True,  True, False,  True])
    """
    checked = as_points(points)
    n, d = checked.shape
    if n == 0 or d == 0:
        return np.ones(n, dtype=np.bool_)
    alive = sift(checked)
    if len(alive) <= FEW:
        return _nested_loops(checked, alive)
    rows = np.take(checked, alive, axis=0)
    best = _best_in_plane(rows) if d == 2 else _best_of_many(rows)
    mask = np.zeros(n, dtype=np.bool_)
    mask[alive[best]] = True
    return mask


def _best_of_many(points: Points) -> Mask:
    if len(points) <= 4 * HEAD:
        return np.asarray(count_dominators(points, limit=1) == 0)
    best = _outlast_a_sample(points)
    best[best] = count_dominators(points[best], limit=1) == 0
    return best


def _outlast_a_sample(points: Points) -> Mask:
    """Return which points the skyline of an even sample does not dominate; all, if that skyline is too large to be worth it."""
    head = np.ascontiguousarray(points[:: len(points) // HEAD])
    champions = head[skyline(head)]
    if len(champions) > HEAD // 2:
        return np.ones(len(points), dtype=np.bool_)
    return ~beaten(points, champions)


def _best_in_plane(points: Points) -> Mask:
    best = np.ones(len(points), dtype=np.bool_)
    if len(points) > 4 * PLANE_HEAD:
        head = points[:: len(points) // PLANE_HEAD]
        order = _along(head)
        best = _outlast_stairs(points, head[order[_sweep(head, order)[order]]])
        points = points[best]
    best[best] = _sweep(points, _along(points))
    return best


def _along(points: Points) -> Indices:
    """Return the rows in the order of the first dimension."""
    return np.lexsort((points[:, 1], points[:, 0]))


@compiled
def _sweep(points: Points, order: Indices) -> Mask:
    """Return the skyline, walking along the first dimension: only a point below all earlier ones in the second belongs to the skyline."""
    mask = np.zeros(len(points), np.bool_)
    best = order[0]
    for i in order:
        if points[i, 1] < points[best, 1]:
            best = i
        mask[i] = points[i, 0] == points[best, 0] and points[i, 1] == points[best, 1]
    return mask


@compiled
def _outlast_stairs(points: Points, stairs: Points) -> Mask:
    """Return which points no stair dominates, where stairs are a skyline along the first dimension: the last one that begins before a point is the lowest."""
    mask = np.ones(len(points), np.bool_)
    for i in range(len(points)):
        first, end = 0, len(stairs)
        while first < end:
            middle = (first + end) // 2
            if stairs[middle, 0] <= points[i, 0]:
                first = middle + 1
            else:
                end = middle
        if first:
            x, y = stairs[first - 1, 0], stairs[first - 1, 1]
            mask[i] = points[i, 1] < y or (points[i, 1] == y and points[i, 0] == x)
    return mask


@compiled
def sift(points: Points) -> Indices:
    """Return the rows that a few strong points do not dominate: one cheap pass for each, as long as it pays.

    A strong point is the one of an even sample that dominates the largest share of the sample's bounding box.
    """
    n, d = points.shape
    alive = np.arange(n)
    low = np.empty(d)
    span = np.empty(d)
    pays = n > FEW
    while pays:
        step = max(1, len(alive) // 64)
        low[:] = np.inf
        span[:] = -np.inf
        for i in alive[::step]:
            for k in range(d):
                low[k] = min(low[k], points[i, k])
                span[k] = max(span[k], points[i, k])
        for k in range(d):
            span[k] = span[k] * 0.5 - low[k] * 0.5
        best, largest = alive[0], -1.0
        for i in alive[::step]:
            share = 1.0
            for k in range(d):
                if span[k] > 0:
                    share *= 1.01 - (points[i, k] * 0.5 - low[k] * 0.5) / span[k]
            if share > largest:
                best, largest = i, share
        strong = points[best].copy()
        left = 0
        for i in alive:
            better = 0
            for k in range(d):  # counted without an early exit: vectors are faster than branches
                better += points[i, k] < strong[k]
            if better == 0:
                for k in range(d):
                    if points[i, k] > strong[k]:
                        break
                else:
                    better = 1  # equal to the strong point, which stays
            if better:
                alive[left] = i
                left += 1
        pays = left > FEW and left < PAYS * len(alive)
        alive = alive[:left]
    return alive


@compiled
def _nested_loops(points: Points, rows: Indices) -> Mask:
    """Return the skyline, comparing each row with those that are still unbeaten; a row that beats another moves to the front, as it may beat the next too."""
    best = np.empty(len(rows), np.int64)
    size = 0
    for i in rows:
        beaten = False
        j = 0
        while j < size:
            if dominates(points[best[j]], points[i]):
                best[j], best[0] = best[0], best[j]
                beaten = True
                break
            if dominates(points[i], points[best[j]]):
                size -= 1
                best[j] = best[size]
            else:
                j += 1
        if not beaten:
            best[size] = i
            size += 1
    mask = np.zeros(len(points), np.bool_)
    for j in range(size):
        mask[best[j]] = True
    return mask
