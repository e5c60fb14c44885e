"""Signatures: a point's place among sampled quantiles, all dimensions packed into one 64-bit word.

Each dimension has a field of `bits` code bits and one guard bit above them. With the guard bits of `b` set, one subtraction
compares all fields at once: a guard bit of `(b | guards) - a` survives where the code of `a` is at most that of `b`. Codes never
reverse an order, so a signature that is larger in any field proves that `a` does not dominate `b`; what is left is compared
exactly. This is the mask test of partitioning skyline algorithms (BSkyTree, Hybrid: Chester et al. 2015) with up to
2^`bits` levels per dimension instead of two, in three instructions for eight points on a machine with 512-bit vectors.
"""

import numpy as np
from numpy.typing import NDArray

from skytide.kernels.compiled import compiled

Points = NDArray[np.float64]
Words = NDArray[np.uint64]

MAX_DIMENSIONS = 16  # of a signature; the others are left to the exact comparison
MAX_BITS = 9
SAMPLE = 512
STRIDE = 8

_ONE = np.uint64(1)


def layout(dimensions: int) -> tuple[int, int]:
    """Return how many dimensions a signature covers, and the code bits of each.

    >>> layout(8), layout(16), layout(40)
    ((8, 7), (16, 3), (16, 3))
    """
    covered = min(dimensions, MAX_DIMENSIONS)
    return covered, min(64 // covered - 1, MAX_BITS)


@compiled
def guard_bits(covered: int, bits: int) -> np.uint64:
    """Return the word in which only the guard bits are set."""
    guards = np.uint64(0)
    for k in range(covered):
        guards |= _ONE << np.uint64(k * (bits + 1) + bits)
    return guards


@compiled
def quantiles(points: Points, covered: int, bits: int) -> Points:
    """Return for each dimension the borders between codes: quantiles of an even sample of the points."""
    n = points.shape[0]
    step = max(1, n // SAMPLE)
    size = (n + step - 1) // step
    borders = np.empty((covered, 1 << bits))
    sample = np.empty(size)
    for k in range(covered):
        for i in range(size):
            sample[i] = points[i * step, k]
        _borders(np.sort(sample), borders[k])
    return borders


@compiled
def encode(points: Points, borders: Points, bits: int) -> Words:
    """Return the signatures of `points`.

    A code is the number of borders below a value: first of every eighth border, then of the seven in between. Counting in vectors
    is several times faster than a binary search, whose steps fetch from many places at once.
    """
    n = points.shape[0]
    covered, size = borders.shape
    words = np.zeros(n, np.uint64)
    coarse = np.empty((size + STRIDE - 1) // STRIDE)
    fine = np.empty(len(coarse) * STRIDE)
    for k in range(covered):
        fine[:] = np.inf
        fine[:size] = borders[k]
        coarse[:] = fine[STRIDE - 1 :: STRIDE]
        shift = np.uint64(k * (bits + 1))
        for i in range(n):
            value = points[i, k]
            code = 0
            for j in range(len(coarse)):
                code += coarse[j] < value
            code *= STRIDE
            stretch = fine[code : code + STRIDE]
            within = 0
            for j in range(STRIDE):
                within += stretch[j] < value
            words[i] |= np.uint64(code + within) << shift
    return words


@compiled
def _borders(sample: Points, borders: Points) -> None:
    """Fill `borders` with increasing values, as evenly spread over the sample's different values as they allow."""
    room = borders.shape[0] - 1
    distinct = 1
    for i in range(1, sample.shape[0]):
        if sample[i] > sample[i - 1]:
            sample[distinct] = sample[i]
            distinct += 1
    used = min(room, distinct)
    for j in range(used):
        borders[j] = sample[j * distinct // used]
    for j in range(used, room + 1):
        borders[j] = np.inf
