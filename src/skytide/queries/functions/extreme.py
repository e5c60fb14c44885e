"""MIN and MAX, and FIRST and LAST by the time of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skytide.kernels import Indices
from skytide.kernels.window_measures import range_extremes, range_firsts, range_lasts
from skytide.queries.extremes import comparable, has_order, original
from skytide.queries.functions.function import AggregateFunction, Parts, Ranges, Reduction, is_number, refused_type
from skytide.queries.groups import Groups

if TYPE_CHECKING:
    from skytide.queries.measure import Measure


class Extreme(AggregateFunction):
    """The smallest or the largest value."""

    place = 1
    returns_values = True

    def __init__(self, name: str, towards: Literal["min", "max"], spark: tuple[str, ...]) -> None:
        """Create the function."""
        self.name, self.towards, self.spark = name, towards, spark
        self.parts = (name,)

    def check(self, measure: Measure, values: pa.DataType) -> None:
        """Refuse what has no order."""
        if not has_order(values):
            remedy = "choose a field of it, or cast it to a string first"
            raise refused_type(measure, f"values of type {values} cannot be compared", remedy)

    def of_values(self, values: pa.ChunkedArray | None, times: pa.ChunkedArray | None, groups: Groups) -> Reduction:
        """Find the extremes of values."""
        assert values is not None
        value_type = values.type
        return Reduction(
            {self.name: (comparable(values), self.towards)}, lambda reduced: {self.name: original(reduced[self.name], value_type)}
        )

    def of_parts(self, parts: Parts, values: pa.DataType | None, groups: Groups) -> Reduction:
        """Find the extremes of extremes."""
        return self.of_values(parts[self.name], None, groups)

    def result(self, parts: Parts, values: pa.DataType | None, measure: Measure) -> pa.Array | pa.ChunkedArray:
        """Return the values."""
        return parts[self.name]

    def does_ranges(self, values: pa.DataType) -> bool:
        """Return whether the values are numbers of the machine, or times."""
        return is_number(values) or bool(pa.types.is_timestamp(values))

    def of_ranges(self, ranges: Ranges, measure: Measure) -> pa.Array | pa.ChunkedArray:
        """Return the extreme of each range."""
        return self._extremes(ranges, ranges.begins, ranges.ends)

    def _extremes(self, ranges: Ranges, begins: Indices, ends: Indices) -> pa.ChunkedArray:
        numbers = ranges.floats if pa.types.is_floating(ranges.values.type) else ranges.integers
        places = range_extremes(numbers, ranges.valid, begins, ends, self.towards == "max")
        return ranges.values.take(pa.array(places, mask=places < 0))


class EndInTime(Extreme):
    """The first or the last value; of several with the same time the smallest or the largest one."""

    by_time = True

    def __init__(self, name: str, towards: Literal["min", "max"], spark: tuple[str, ...]) -> None:
        """Create the function."""
        super().__init__(name, towards, spark)
        self.parts = ("time", name)

    def of_values(self, values: pa.ChunkedArray | None, times: pa.ChunkedArray | None, groups: Groups) -> Reduction:
        """Find the first or last time at which there is a value, and the extreme of the values at that time."""
        assert values is not None and times is not None
        ordered, value_type = comparable(values), values.type
        times = pc.if_else(pc.is_valid(ordered), times, pa.scalar(None, pa.int64()))
        there = pc.if_else(groups.are_ends(times, self.towards), ordered, pa.scalar(None, ordered.type))
        return Reduction(
            {"time": (times, self.towards), self.name: (there, self.towards)},
            lambda reduced: {"time": reduced["time"], self.name: original(reduced[self.name], value_type)},
        )

    def of_parts(self, parts: Parts, values: pa.DataType | None, groups: Groups) -> Reduction:
        """Find the first or last of those that are kept."""
        return self.of_values(parts[self.name], parts["time"], groups)

    def of_ranges(self, ranges: Ranges, measure: Measure) -> pa.Array | pa.ChunkedArray:
        """Return the first or last value of each range."""
        begins, ends = np.empty_like(ranges.begins), np.empty_like(ranges.ends)
        narrow = range_firsts if self.towards == "min" else range_lasts
        narrow(ranges.times, ranges.valid, ranges.begins, ranges.ends, begins, ends)
        return self._extremes(ranges, begins, ends)
