"""Checks windows as half-open ranges of rows: a kernel would read foreign memory for a range outside of the rows."""

from typing import Any

import numpy as np

from skytide.errors import InvalidInput
from skytide.kernels.order import Indices


def check_ranges(begins: Any, ends: Any, *lengths: int) -> tuple[Indices, Indices]:
    """Return the ranges as arrays; refuse ranges outside of the rows, and columns of different lengths.

    >>> check_ranges([0, 2], [3, 5], 4, 4)
    Traceback (most recent call last):
    ...
    skytide.errors.InvalidInput: rows 2 to 5 of window 1: not a range within 4 rows; give begin <= end, both from 0 to the number of rows
    """
    first, last = np.ascontiguousarray(begins, dtype=np.int64), np.ascontiguousarray(ends, dtype=np.int64)
    if first.shape != last.shape or first.ndim != 1:
        raise InvalidInput(
            value=f"begins of shape {first.shape} and ends of shape {last.shape}",
            reason="each window has one begin and one end",
            remedy="give two arrays of one dimension and of the same length",
        )
    if len(set(lengths)) > 1:
        raise InvalidInput(
            value=f"columns of {', '.join(f'{length:,}' for length in lengths)} rows",
            reason="they belong to the same rows",
            remedy="give columns of the same length",
        )
    bad = np.flatnonzero((first < 0) | (first > last) | (last > lengths[0]))
    if len(bad):
        raise InvalidInput(
            value=f"rows {first[bad[0]]} to {last[bad[0]]} of window {bad[0]}",
            reason=f"not a range within {lengths[0]:,} rows",
            remedy="give begin <= end, both from 0 to the number of rows",
        )
    return first, last
