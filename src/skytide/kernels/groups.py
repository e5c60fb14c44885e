"""Applies a kernel to each group of rows on its own."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from skytide.kernels.order import Indices, Points


def by_group(kernel: Callable[[Points], NDArray[np.generic]], points: Points, groups: Indices) -> NDArray[np.generic]:
    """Return the results of `kernel` (one value per row) applied within each group; `groups` are dense, from 0.

    >>> by_group(lambda rows: rows[:, 0] == rows[:, 0].min(), np.array([[3.0], [1.0], [2.0]]), np.array([0, 1, 0]))
    array([False,  True,  True])
    """
    if len(points) == 0:
        return kernel(points)
    order = np.argsort(groups, kind="stable")
    ends = np.cumsum(np.bincount(groups))
    sorted_points = np.take(points, order, axis=0)
    parts = [kernel(part) for part in np.split(sorted_points, ends[:-1])]
    answer = np.empty(len(points), dtype=parts[0].dtype)
    answer[order] = np.concatenate(parts)
    return answer
