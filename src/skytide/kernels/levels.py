"""Skyline levels: the skyline, the skyline of the remaining points, and so on."""

import numpy as np

from skytide.kernels.compiled import compiled
from skytide.kernels.order import Indices, Points, distinct_rows, topological_order
from skytide.kernels.scan import dominates
from skytide.kernels.signature import Words, encode, guard_bits, layout, quantiles


def skyline_levels(points: Points, up_to: int) -> Indices:
    """Return each point's level, from 1; deeper points than `up_to` get `up_to` + 1.

    >>> skyline_levels(np.array([[1.0, 1.0], [2.0, 1.0], [0.0, 5.0], [3.0, 3.0]]), up_to=9)
    array([1, 2, 1, 3])
    """
    n, d = points.shape
    levels = np.ones(n, dtype=np.int64)
    if n == 0 or d == 0:
        return levels
    order = topological_order(points)
    starts = distinct_rows(points, order)
    rows = np.take(points, order[starts], axis=0)
    covered, bits = layout(d)
    words = encode(rows, quantiles(rows, covered, bits), bits)
    levels_of_rows = _levels(rows, words, covered, bits, min(up_to, len(rows)))
    levels[order] = np.repeat(levels_of_rows, np.diff(starts, append=n))
    return levels


@compiled
def _levels(points: Points, words: Words, covered: int, bits: int, up_to: int) -> Indices:
    """Return each level, found by bisection: a point that is dominated on one level is so on every level above (ENS, Zhang et al. 2015)."""
    n = points.shape[0]
    guards = guard_bits(covered, bits)
    newest = np.full(up_to + 1, -1, np.int64)  # the row of each level that was added last: the most likely to dominate the next
    earlier = np.full(n, -1, np.int64)
    levels = np.empty(n, np.int64)
    deepest = 0
    for i in range(n):
        word = words[i] | guards
        low, high = 0, deepest
        while low < high:
            middle = (low + high) // 2
            row = newest[middle]
            while row >= 0:
                if ((word - words[row]) & guards) == guards and dominates(points[row], points[i]):
                    break
                row = earlier[row]
            if row >= 0:
                low = middle + 1
            else:
                high = middle
        levels[i] = low + 1
        if low < up_to:
            deepest = max(deepest, low + 1)
            earlier[i] = newest[low]
            newest[low] = i
    return levels
