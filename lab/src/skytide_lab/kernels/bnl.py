"""Block nested loops (Börzsönyi et al. 2001), the skyline algorithm of textbooks, in Numba."""

import numpy as np
from numpy.typing import NDArray

from skytide.kernels.compiled import compiled


@compiled
def block_nested_loops(points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return for each point whether no other point dominates it. The window never overflows, as it is as large as the input.

    A point that dominated another moves to the front of the window, where it soon dominates the next.
    """
    n, d = points.shape
    window = np.empty(n, np.int64)
    size = 0
    for i in range(n):
        beaten = False
        w = 0
        while w < size and not beaten:
            rival = window[w]
            better = worse = False
            for k in range(d):
                if points[rival, k] < points[i, k]:
                    better = True
                elif points[rival, k] > points[i, k]:
                    worse = True
                if better and worse:
                    break
            if better and not worse:
                beaten = True
                window[w], window[0] = window[0], rival
            elif worse and not better:
                size -= 1
                window[w] = window[size]
            else:
                w += 1
        if not beaten:
            window[size] = i
            size += 1
    mask = np.zeros(n, np.bool_)
    mask[window[:size]] = True
    return mask
