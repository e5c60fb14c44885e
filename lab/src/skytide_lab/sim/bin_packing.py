"""A lower bound on the number of bins, to judge how many were used."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from skytide.errors import InvalidInput

ROUNDING = 1e-9


def min_bins(sizes: "Sequence[float] | NDArray[np.float64]", capacity: float) -> int:
    """Return a lower bound on the number of bins of any packing (L2 of Martello and Toth 1990).

    For each size a of up to half a bin: items above capacity - a need a bin of their own, other items above half a bin one each, and the
    smaller items down to a need further bins for what does not fit next to those. The largest such number is the bound. Items larger than
    a bin count as a full one.

    >>> min_bins([6, 6, 6], 10), min_bins([5, 5, 4, 3, 3], 10), min_bins([], 10)
    (3, 2, 0)
    """
    if not capacity > 0:
        raise InvalidInput(value=f"capacity={capacity!r}", reason="not the size of a bin", remedy="give more than 0")
    items = np.sort(np.minimum(np.asarray(sizes, np.float64) / capacity, 1.0))
    items = items[items > 0]
    sums = np.append(0.0, np.cumsum(items))
    half = np.searchsorted(items, 0.5 + ROUNDING)  # from here on items are above half a bin
    least = np.append(0.0, items[:half])
    alone = np.searchsorted(items, 1 - least + ROUNDING)  # from here on there is no room for an item of this size
    alone = np.maximum(alone, half)
    beside = alone - half - (sums[alone] - sums[half])
    more = sums[half] - sums[np.searchsorted(items, least)] - beside
    bins = len(items) - half + np.maximum(0.0, np.ceil(more - ROUNDING))
    return int(bins.max())
