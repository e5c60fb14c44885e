"""STDDEV and VARIANCE, of a sample or of a whole population."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from skytide.queries.functions.function import AggregateFunction, Parts, Reduction, refused_type
from skytide.queries.groups import Groups
from skytide.queries.moments import Moments, can_spread, from_columns

if TYPE_CHECKING:
    from skytide.queries.measure import Measure


class Spread(AggregateFunction):
    """How far values are from their mean: the variance, or its root."""

    parts = ("values", "mean", "squares")
    ignores_cast = True

    def __init__(self, name: str, *, root: bool, sample: bool, spark: tuple[str, ...] = ()) -> None:
        """Create the function."""
        self.name, self.spark = name, spark
        self._root, self._sample = root, sample

    def check(self, measure: Measure, values: pa.DataType) -> None:
        """Refuse what has no distances."""
        if not can_spread(values):
            raise refused_type(measure, f"values of type {values} have no distances")

    def of_values(self, values: pa.ChunkedArray | None, times: pa.ChunkedArray | None, groups: Groups) -> Reduction:
        """Merge values."""
        assert values is not None
        return self._reduction(Moments.of(values), groups)

    def of_parts(self, parts: Parts, values: pa.DataType | None, groups: Groups) -> Reduction:
        """Merge moments."""
        return self._reduction(self._moments(parts), groups)

    def result(self, parts: Parts, values: pa.DataType | None, measure: Measure) -> pa.Array | pa.ChunkedArray:
        """Return the variances or standard deviations."""
        return self._moments(parts).results(root=self._root, sample=self._sample)

    def _moments(self, parts: Parts) -> Moments:
        return from_columns(*(parts[name] for name in self.parts))

    def _reduction(self, moments: Moments, groups: Groups) -> Reduction:
        merged = moments.merged(groups)
        columns = (merged.counts, merged.means, merged.squares)
        kept = {name: pa.array(column, pa.float64()) for name, column in zip(self.parts, columns, strict=True)}
        return Reduction(keep=lambda _: kept)
