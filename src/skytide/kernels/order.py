"""Orders in which a dominating point always comes first."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skytide.kernels.compiled import compiled

Points = NDArray[np.float64]
Indices = NDArray[np.int64]

CHUNK = 512
EXPONENT = np.int64(0x7FF0000000000000)


def dense_ranks(values: NDArray[Any]) -> Indices:
    """Return for each value the number of different values below it.

    >>> dense_ranks(np.array([7, 3, 7, 9]))
    array([1, 0, 1, 2])
    """
    return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.int64)


def lexicographic_ranks(columns: list[NDArray[Any]]) -> Indices:
    """Return dense ranks of rows ordered by the first column, ties by the next, and so on.

    >>> lexicographic_ranks([np.array([1, 1, 0]), np.array([5, 4, 9])])
    array([2, 1, 0])
    """
    if len(columns) == 1:
        return dense_ranks(columns[0])
    order = np.lexsort(columns[::-1])
    new = np.zeros(len(order), dtype=np.int64)
    for column in columns:
        new[1:] |= column[order[1:]] != column[order[:-1]]
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.cumsum(new)
    return ranks


def topological_order(points: Points) -> Indices:
    """Return an order of rows in which dominating rows come first and equal rows are neighbours.

    The key is the sum of the columns, each scaled to [0, 1]. Rounding is monotone, so a dominating row never has the larger
    key, but it can have the same one: ties are ordered lexicographically, which no dominated row can win.
    """
    keys = scaled_sums(points)
    order = np.argsort(keys)
    sorted_keys = keys[order]
    equal = sorted_keys[1:] == sorted_keys[:-1]
    if equal.any():
        tied = np.zeros(len(order), dtype=np.bool_)
        tied[1:] = equal
        tied[:-1] |= equal
        members = order[tied]
        rows = points[members]
        order[tied] = members[np.lexsort((*rows.T[::-1], keys[members]))]
    return order


@compiled
def distinct_rows(points: Points, order: Indices) -> Indices:
    """Return the places in `order` at which a row differs from the one before."""
    starts = np.empty(len(order), np.int64)
    starts[0] = 0
    count = 1
    for i in range(1, len(order)):
        for k in range(points.shape[1]):
            if points[order[i], k] != points[order[i - 1], k]:
                starts[count] = i
                count += 1
                break
    return starts[:count]


@compiled
def first_non_finite(points: Points) -> int:
    """Return the flat index of the first NaN or infinity, or -1."""
    bits = points.reshape(points.size).view(np.int64)
    start = 0
    while start + CHUNK <= len(bits):  # chunks of a fixed length are tested in wide vectors
        chunk = bits[start : start + CHUNK]
        bad = False
        for i in range(CHUNK):
            bad |= (chunk[i] & EXPONENT) == EXPONENT
        if bad:
            break
        start += CHUNK
    for i in range(start, len(bits)):
        if (bits[i] & EXPONENT) == EXPONENT:
            return i
    return -1


@compiled
def scaled_sums(points: Points) -> Points:
    n, d = points.shape
    low = points[0] * 0.5
    high = points[0] * 0.5
    for i in range(n):
        for k in range(d):
            half = points[i, k] * 0.5  # halves: the difference of two large numbers stays finite
            low[k] = min(low[k], half)
            high[k] = max(high[k], half)
    scale = np.zeros(d)
    for k in range(d):
        if high[k] > low[k]:
            scale[k] = min(1.0 / (high[k] - low[k]), 1e300)
    sums = np.zeros(n)
    for i in range(n):
        for k in range(d):
            sums[i] += (points[i, k] * 0.5 - low[k]) * scale[k]
    return sums
