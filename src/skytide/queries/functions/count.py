"""COUNT: of rows, or of the values that are not NULL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from skytide.kernels.window_measures import range_counts
from skytide.queries.functions.function import AggregateFunction, Parts, Ranges, Reduction
from skytide.queries.groups import Groups

if TYPE_CHECKING:
    from skytide.queries.measure import Measure


class Count(AggregateFunction):
    """The number of rows or values."""

    name = "count"
    spark = ("Count",)
    parts = ("count",)
    place = 0
    takes_rows = True

    def of_values(self, values: pa.ChunkedArray | None, times: pa.ChunkedArray | None, groups: Groups) -> Reduction:
        """Count rows, or values."""
        ones = pa.repeat(pa.scalar(1, pa.int64()), groups.rows) if values is None else pc.is_valid(values).cast(pa.int64())
        return Reduction({"count": (ones, "sum")})

    def of_parts(self, parts: Parts, values: pa.DataType | None, groups: Groups) -> Reduction:
        """Add counts."""
        return Reduction({"count": (parts["count"], "sum")})

    def result(self, parts: Parts, values: pa.DataType | None, measure: Measure) -> pa.Array | pa.ChunkedArray:
        """Return the counts."""
        return parts["count"]

    def does_ranges(self, values: pa.DataType) -> bool:
        """Return that values of any type can be counted."""
        return True

    def of_ranges(self, ranges: Ranges, measure: Measure) -> pa.Array | pa.ChunkedArray:
        """Return how many values each range has."""
        return pa.array(range_counts(ranges.valid, ranges.begins, ranges.ends))
