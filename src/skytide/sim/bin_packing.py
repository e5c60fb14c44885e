"""How few bins can do: a bound from below, to judge how many were used."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from skytide.errors import InvalidInput

ROUNDING = 1e-9


def fewest_bins(sizes: "Sequence[float] | NDArray[np.float64]", capacity: float) -> int:
    """Return a number of bins below which no packing exists (L2 of Martello and Toth 1990).

    For each size a up to half a bin: items above capacity - a are alone, items above half a bin have one each, and what the smaller
    ones down to a need beyond the room beside those takes further bins. The best a counts. Items larger than a bin count as a full one.

    >>> fewest_bins([6, 6, 6], 10), fewest_bins([5, 5, 4, 3, 3], 10), fewest_bins([], 10)
    (3, 2, 0)
    """
    if not capacity > 0:
        raise InvalidInput(value=f"capacity={capacity!r}", reason="not the size of a bin", remedy="give more than 0")
    items = np.sort(np.minimum(np.asarray(sizes, np.float64) / capacity, 1.0))
    items = items[items > 0]
    best = 0
    small = items[items <= 0.5]
    for least in np.append(0.0, np.unique(small)):
        alone = int(np.count_nonzero(items > 1 - least + ROUNDING))
        above = items[(items > 0.5) & (items <= 1 - least + ROUNDING)]
        beside = len(above) - above.sum()
        more = small[small >= least].sum() - beside
        best = max(best, alone + len(above) + max(0, int(np.ceil(more - ROUNDING))))
    return best
