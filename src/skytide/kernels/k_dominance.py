"""k-dominance: better or equal in any k dimensions, better in one of them (Chan et al. 2006)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skytide.kernels.compiled import compiled
from skytide.kernels.order import Indices, Points, dense_ranks, scaled_sums

BLOCK = 256


def smallest_k(points: Points, rivals: Points, *, undominated: bool = False) -> Indices:
    """Return for each point the smallest k at which no rival k-dominates it; it is faster if it is known that no rival dominates a point.

    A rival k-dominates a point if it is better or equal in at least k dimensions and better somewhere: the answer is one
    more than the largest number of such dimensions. A point that a rival dominates gets d + 1.

    >>> trio = np.array([[1.0, 5.0, 5.0], [2.0, 2.0, 2.0], [9.0, 1.0, 9.0]])
    >>> smallest_k(trio, trio)
    array([3, 2, 3])
    """
    n, d = points.shape
    if n == 0 or len(rivals) == 0:
        return np.ones(n, dtype=np.int64)
    rivals = np.take(rivals, np.argsort(scaled_sums(rivals)), axis=0)  # the strongest first: they beat most in many dimensions
    ranks = np.column_stack([dense_ranks(column) for column in np.concatenate([points, rivals]).T])
    kind: type[Any] = np.uint16 if ranks.max() < 2**16 else np.uint32
    narrow = ranks.astype(kind)
    columns = np.full((d, -(-len(rivals) // BLOCK) * BLOCK), np.iinfo(kind).max, kind)
    columns[:, : len(rivals)] = narrow[n:].T
    return _smallest_k(narrow[:n], columns, len(rivals), d - undominated)


@compiled
def _smallest_k(points: NDArray[Any], columns: NDArray[Any], m: int, largest: int) -> Indices:
    """Return the smallest k of each point; a point is done with when a rival beats it in `largest` dimensions, as none beats it in more."""
    n, d = points.shape
    answer = np.empty(n, np.int64)
    no_worse = np.empty(BLOCK, np.uint8)
    better = np.empty(BLOCK, np.uint8)
    for i in range(n):
        most = np.uint8(0)
        for start in range(0, m, BLOCK):
            no_worse[:] = 0
            better[:] = 0
            for k in range(d):
                value = points[i, k]
                column = columns[k, start : start + BLOCK]
                for j in range(BLOCK):
                    no_worse[j] += np.uint8(column[j] <= value)
                    better[j] |= np.uint8(column[j] < value)
            for j in range(BLOCK):
                most = max(most, no_worse[j] * better[j])
            if most == largest:
                break
        answer[i] = most + 1
    return answer
