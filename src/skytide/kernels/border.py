"""Checks the input of kernels: a finite float64 matrix in which smaller is better."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skytide.errors import InvalidInput
from skytide.kernels.order import dense_ranks, first_non_finite

Points = NDArray[np.float64]
EXACT_INTEGER = 2**53
"""Beyond it, neighbouring integers may be equal in float64."""


def as_points(values: Any, names: Sequence[str] = ()) -> Points:
    """Return `values` as a C-contiguous float64 matrix in which every comparison has the same result as in the original.

    Integers that float64 cannot hold exactly are replaced by their ranks.

    >>> as_points([[1, 2], [3, 4]])
    array([[1., 2.],
           [3., 4.]])
    >>> as_points([[2**53 + 1], [2**53]])
    array([[1.],
           [0.]])
    """
    array = np.asarray(values)
    if array.ndim != 2:
        raise InvalidInput(
            value=f"points of shape {array.shape}",
            reason="a kernel needs one row per point and one column per dimension",
            remedy="give a two-dimensional array, for instance points.reshape(-1, 1)",
        )
    if array.dtype.kind not in "biuf":
        raise InvalidInput(
            value=f"points of type {array.dtype}",
            reason="only numbers can be compared",
            remedy="give integers, floats or booleans",
        )
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        wide = (array > EXACT_INTEGER) | (array < -EXACT_INTEGER if array.dtype.kind == "i" else False)
        if wide.any():
            return np.ascontiguousarray(np.column_stack([dense_ranks(column) for column in array.T]), dtype=np.float64)
    points = np.ascontiguousarray(array, dtype=np.float64)
    bad = first_non_finite(points)
    if bad >= 0:
        row, column = divmod(bad, points.shape[1])
        name = names[column] if names else column
        raise InvalidInput(
            value=f"{points[row, column]} in row {row} of column {name}",
            reason="values that are not finite cannot be ordered",
            remedy="remove or replace such rows first",
        )
    return points
