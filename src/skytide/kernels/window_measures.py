"""Sums and extremes of many ranges of a column; ranges may overlap and come in any order."""

import numpy as np
from numpy.typing import NDArray

from skytide.kernels.compiled import compiled

Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]


@compiled
def range_counts(valid: Mask, begins: Indices, ends: Indices) -> Indices:
    """Return how many valid values each range has."""
    counts = np.zeros(begins.size, np.int64)
    for window in range(begins.size):
        for row in range(begins[window], ends[window]):
            counts[window] += valid[row]
    return counts


@compiled
def range_sums(values: NDArray[np.float64], valid: Mask, begins: Indices, ends: Indices) -> NDArray[np.float64]:
    """Return the sum of the valid values of each range, added one after the other."""
    sums = np.zeros(begins.size)
    for window in range(begins.size):
        total = 0.0
        for row in range(begins[window], ends[window]):
            if valid[row]:
                total += values[row]
        sums[window] = total
    return sums


@compiled
def range_totals(values: Indices, valid: Mask, begins: Indices, ends: Indices) -> Indices:
    """Return the sum of the valid integers of each range, modulo 2**64."""
    sums = np.zeros(begins.size, np.int64)
    for window in range(begins.size):
        total = np.int64(0)
        for row in range(begins[window], ends[window]):
            if valid[row]:
                total += values[row]
        sums[window] = total
    return sums


@compiled
def range_extremes(values: NDArray[np.float64] | Indices, valid: Mask, begins: Indices, ends: Indices, largest: bool) -> Indices:
    """Return the row with the smallest or the largest valid value of each range, the first if several have it, or -1.

    NaN is larger than all numbers.
    """
    places = np.full(begins.size, -1, np.int64)
    for window in range(begins.size):
        best = -1
        for row in range(begins[window], ends[window]):
            if not valid[row]:
                continue
            if best < 0:
                best = row
            elif largest:
                if values[row] > values[best] or (np.isnan(values[row]) and not np.isnan(values[best])):
                    best = row
            elif values[row] < values[best] or (np.isnan(values[best]) and not np.isnan(values[row])):
                best = row
        places[window] = best
    return places


@compiled
def range_firsts(times: Indices, valid: Mask, begins: Indices, ends: Indices, out_begins: Indices, out_ends: Indices) -> None:
    """Narrow each range to the valid rows that have the time of its first valid row; without a valid row it becomes empty."""
    for window in range(begins.size):
        row = begins[window]
        while row < ends[window] and not valid[row]:
            row += 1
        stop = row
        while stop < ends[window] and times[stop] == times[row]:
            stop += 1
        out_begins[window], out_ends[window] = row, stop


@compiled
def range_lasts(times: Indices, valid: Mask, begins: Indices, ends: Indices, out_begins: Indices, out_ends: Indices) -> None:
    """Narrow each range to the valid rows that have the time of its last valid row."""
    for window in range(begins.size):
        row = ends[window] - 1
        while row >= begins[window] and not valid[row]:
            row -= 1
        start = row
        while start >= begins[window] and times[start] == times[row]:
            start -= 1
        out_begins[window], out_ends[window] = start + 1, row + 1
