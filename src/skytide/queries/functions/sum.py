"""SUM and AVG, and those that are NULL where the total does not fit its type."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skytide.kernels import EXACT_INTEGER
from skytide.kernels.window_measures import range_counts, range_sums, range_totals
from skytide.queries.functions.function import AggregateFunction, Parts, Ranges, Reduction, is_number, refused_type
from skytide.queries.groups import Groups
from skytide.queries.sums import addends, adds_up, average, carried, overflows, rounded_addends, total, uncarried

if TYPE_CHECKING:
    from skytide.queries.measure import Measure


class Sum(AggregateFunction):
    """The sum of values."""

    name = "sum"
    spark: tuple[str, ...] = ("Sum",)
    parts: tuple[str, ...] = ("sum",)
    place = 0
    keeps_type = True

    def __init__(self, *, tries: bool = False) -> None:
        """Create the function; if it `tries`, it keeps the same parts as the one that fails."""
        self.tries = tries
        if tries:
            self.name, self.spark = f"try_{self.name}", ()  # Spark has one class for both

    @property
    def kept_as(self) -> str:
        """Return the name of the function that fails."""
        return self.name.removeprefix("try_")

    def check(self, measure: Measure, values: pa.DataType) -> None:
        """Refuse what does not add up."""
        if not adds_up(values):
            raise refused_type(measure, f"{values} does not add up")

    def of_values(self, values: pa.ChunkedArray | None, times: pa.ChunkedArray | None, groups: Groups) -> Reduction:
        """Add values."""
        assert values is not None
        value_type = values.type
        return Reduction({"sum": (addends(values), "sum")}, lambda reduced: {"sum": carried(reduced["sum"], value_type)})

    def of_parts(self, parts: Parts, values: pa.DataType | None, groups: Groups) -> Reduction:
        """Add sums."""
        return Reduction(
            {"sum": (uncarried(parts["sum"], values), "sum")}, lambda reduced: {"sum": carried(reduced["sum"], values)}
        )

    def result(self, parts: Parts, values: pa.DataType | None, measure: Measure) -> pa.Array | pa.ChunkedArray:
        """Return the sums in the type of Spark's."""
        return total(uncarried(parts["sum"], values), values, measure)

    def does_ranges(self, values: pa.DataType) -> bool:
        """Return whether the values are numbers of the machine."""
        return is_number(values)

    def of_ranges(self, ranges: Ranges, measure: Measure) -> pa.Array | pa.ChunkedArray:
        """Return the sum of each range."""
        counts = range_counts(ranges.valid, ranges.begins, ranges.ends)
        about = range_sums(ranges.floats, ranges.valid, ranges.begins, ranges.ends)
        if pa.types.is_floating(ranges.values.type):
            return pa.array(about, mask=counts == 0)
        sums = range_totals(ranges.integers, ranges.valid, ranges.begins, ranges.ends)
        overflow = np.abs(about - sums) > 2.0**62  # it wraps around, far away from the right value
        if overflow.any() and not self.tries:
            raise overflows(measure, "it overflows bigint", "cast the column to decimal(38,0) or double")
        return pa.array(sums, mask=(counts == 0) | overflow)


class Average(Sum):
    """The average of values: their sum, and how many there are."""

    name = "avg"
    spark = ("Average",)
    parts = ("count", "sum")

    def of_values(self, values: pa.ChunkedArray | None, times: pa.ChunkedArray | None, groups: Groups) -> Reduction:
        """Count and add values."""
        assert values is not None
        value_type = values.type
        counts = pc.is_valid(values).cast(pa.int64())
        return self._reduction(counts, rounded_addends(values), value_type)

    def of_parts(self, parts: Parts, values: pa.DataType | None, groups: Groups) -> Reduction:
        """Add counts and sums."""
        return self._reduction(parts["count"], uncarried(parts["sum"], values), values)

    @staticmethod
    def _reduction(counts: pa.ChunkedArray, sums: pa.ChunkedArray, values: pa.DataType) -> Reduction:
        return Reduction(
            {"count": (counts, "sum"), "sum": (sums, "sum")},
            lambda reduced: {"count": reduced["count"], "sum": carried(reduced["sum"], values)},
        )

    def result(self, parts: Parts, values: pa.DataType | None, measure: Measure) -> pa.Array | pa.ChunkedArray:
        """Return the averages in the type of Spark's."""
        return average(uncarried(parts["sum"], values), parts["count"].combine_chunks(), values, measure)

    def of_ranges(self, ranges: Ranges, measure: Measure) -> pa.Array | pa.ChunkedArray:
        """Return the average of each range."""
        valid, floats, begins, ends = ranges.valid, ranges.floats, ranges.begins, ranges.ends
        counts = range_counts(valid, begins, ends)
        about = range_sums(floats, valid, begins, ends)
        if pa.types.is_floating(ranges.values.type):
            return pa.array(about / np.maximum(counts, 1), mask=counts == 0)
        sums = range_totals(ranges.integers, valid, begins, ends)
        totals = sums.astype(np.float64)
        large = range_counts(valid & (np.abs(floats) >= EXACT_INTEGER), begins, ends) > 0  # perhaps rounded already, as in Spark
        for window in np.flatnonzero(large | (np.abs(about - sums) > 2.0**62)):
            inside = slice(begins[window], ends[window])
            totals[window] = math.fsum(floats[inside][valid[inside]])
        return pa.array(totals / np.maximum(counts, 1), mask=counts == 0)
