"""Variances and standard deviations from mergeable parts: a count, a mean, and the sum of squared distances from it."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skytide.queries.groups import Groups

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """The number of values of each part, their mean, and the sum of their squared distances from it."""

    counts: Floats
    means: Floats
    squares: Floats

    @staticmethod
    def of(values: pa.ChunkedArray) -> "Moments":
        """Return each value as a part of its own; a NULL is an empty part."""
        numbers = np.asarray(values.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy())
        return Moments(np.asarray(values.is_valid().to_numpy(), np.float64), numbers, np.zeros(len(numbers)))

    def merged(self, groups: Groups) -> "Moments":
        """Return one part per group; distances are from the mean of the group, which avoids cancellation (Chan et al. 1979)."""
        with np.errstate(invalid="ignore", over="ignore"):
            counts = groups.added(self.counts)
            # The mean of differences from the first value: sums of large values that are close together would lose digits.
            origin = groups.firsts(self.means, self.counts > 0)
            away = np.where(self.counts > 0, self.means - origin[groups.numbers], 0.0)
            shift = groups.added(self.counts * away) / np.maximum(counts, 1.0)
            apart = np.where(self.counts > 0, away - shift[groups.numbers], 0.0)
            squares = groups.added(self.squares) + groups.added(self.counts * apart * apart)
            return Moments(counts, origin + shift, squares)

    def results(self, *, root: bool, sample: bool) -> pa.Array:
        """Return the variance of each part, or its root, as in Spark: for a sample of one value there is none."""
        none = self.counts <= (1 if sample else 0)
        with np.errstate(invalid="ignore"):
            variance = self.squares / np.where(none, 1.0, self.counts - sample)
            return pa.array(np.sqrt(variance) if root else variance, mask=none)


def can_spread(data_type: pa.DataType) -> bool:
    """Return whether values of this type have a variance."""
    return bool(pa.types.is_integer(data_type) or pa.types.is_floating(data_type) or pa.types.is_decimal(data_type))


def from_columns(counts: pa.ChunkedArray, means: pa.ChunkedArray, squares: pa.ChunkedArray) -> Moments:
    """Return the moments stored in columns."""
    as_floats = (np.asarray(pc.cast(column, pa.float64()).to_numpy()) for column in (counts, means, squares))
    return Moments(*as_floats)
