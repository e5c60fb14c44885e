"""Distinct values and quantiles by sketches (Apache DataSketches): small, mergeable, and with known error bounds."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasketches import hll_sketch, hll_union, kll_doubles_sketch, tgt_hll_type

from skytide.errors import InvalidInput
from skytide.errors.checks import check_integer, is_finite
from skytide.errors.limits import MAX_ACCURACY
from skytide.queries.columns import normalised
from skytide.queries.extremes import has_order
from skytide.queries.mergeable import Mergeable
from skytide.queries.sums import MAX_DIGITS

LG_REGISTERS = 12
"""Registers of a sketch for distinct values, as a power of 2. The relative standard error is 1.04 / sqrt(2^12) = 1.6 %, so 19 of 20
results are within 3.3 %. Up to a few hundred values it is exact."""
SIZES = range(8, 65_536)  # the sizes of a sketch that the library accepts
DEFAULT_ACCURACY = 10_000
"""The error of a quantile's rank is at most 1/accuracy, as in Spark, in 99 of 100 cases."""


class Sketch(Mergeable[Any]):
    """A sketch that is written as a function of Spark's: in the table of functions by its name."""

    name: ClassVar[str]
    """What it is called in SQL, and in checkpoints."""
    spark: ClassVar[tuple[str, ...]]
    """The classes of Spark's expressions that mean the same; with DISTINCT, that word comes before."""
    arguments: ClassVar[int] = 0
    """How many arguments follow the column."""

    @classmethod
    def of_arguments(cls, *arguments: object) -> Self:
        """Return the sketch for the arguments that follow the column."""
        return cls(*arguments)


@dataclass(frozen=True)
class Distinct(Sketch):
    """The number of different values (HyperLogLog). The result depends only on the set of values, not on how they were divided.

    Examples
    --------
    >>> distinct = Distinct()
    >>> distinct.finish(distinct.add(distinct.start(), pa.array(["a", "b", "a", ""])))
    3
    """

    name = "count_distinct"
    spark = ("HyperLogLogPlusPlus", "DistinctCount")

    def start(self) -> hll_sketch:
        """Return an empty sketch."""
        return hll_sketch(LG_REGISTERS, tgt_hll_type.HLL_8)

    def add(self, state: hll_sketch, values: pa.Array) -> hll_sketch:
        """Return the sketch with each different value."""
        for value in _hashable(pc.unique(values)):
            state.update(value)
        return state

    def merge(self, state: hll_sketch, other: hll_sketch) -> hll_sketch:
        """Return the sketch of both."""
        return _union(state, other)

    def finish(self, state: hll_sketch) -> int:
        """Return the estimate. It is that of the sketch merged with itself, as without a merge it would depend on the order of values."""
        estimate: float = _union(state, state).get_estimate()
        return round(estimate)

    def kind(self, values: pa.DataType) -> pa.DataType:
        """Return bigint, the type of Spark's `count`."""
        if not has_order(values) or pa.types.is_null(values):
            reason = f"values of type {values} cannot be compared here"
            raise InvalidInput(
                value="count(distinct ...)", reason=reason, remedy="choose a field of it, or cast it to a string first"
            )
        return pa.int64()

    def dump(self, state: hll_sketch) -> bytes:
        """Return the sketch's own bytes."""
        return bytes(state.serialize_compact())

    def load(self, data: bytes) -> hll_sketch:
        """Return the sketch."""
        return hll_sketch.deserialize(data)


@dataclass(frozen=True)
class Quantile(Sketch):
    """The value at a share of all values (KLL): one of them, whose rank is off by at most 1/`accuracy` of their number in 99 of 100 cases.

    With few values it is exact, except for whole numbers beyond 2^53 and decimals of more than 15 digits, which are rounded. With more,
    the sketch is randomised: another run may find a neighbour, within the same bound. NaN is ignored.

    Parameters
    ----------
    share
        The share of values that are not above the result: 0.5 for the median.
    accuracy
        One over the largest error of its rank; a larger one needs a larger sketch.

    Raises
    ------
    InvalidInput
        If the share is not from 0 to 1, or the accuracy out of range.

    Examples
    --------
    >>> median = Quantile(0.5)
    >>> median.finish(median.add(median.start(), pa.array([5, 1, 9])))
    5.0
    """

    share: float
    accuracy: int = DEFAULT_ACCURACY

    name = "percentile_approx"
    spark = ("ApproximatePercentile",)
    arguments = 2

    def __post_init__(self) -> None:
        """Refuse values that are not shares, and accuracies beyond what a sketch can reach."""
        if not is_finite(self.share) or not 0 <= self.share <= 1:
            raise InvalidInput(
                value=f"percentile_approx(..., {self.share})", reason="not a share", remedy="give one from 0.0 to 1.0"
            )
        check_integer("accuracy", self.accuracy, 1, MAX_ACCURACY)

    @classmethod
    def of_arguments(cls, *arguments: object) -> Self:
        """Return the sketch for a share and an accuracy."""
        share, accuracy = arguments
        if not isinstance(share, float):
            remedy = "ask for each by itself, with a name of its own"
            raise InvalidInput(value="percentile_approx(...)", reason="several quantiles at once", remedy=remedy)
        return cls(share, int(str(accuracy)))

    def start(self) -> kll_doubles_sketch:
        """Return an empty sketch."""
        return kll_doubles_sketch(_size_of(self.accuracy))

    def add(self, state: kll_doubles_sketch, values: pa.Array) -> kll_doubles_sketch:
        """Return the sketch with more values."""
        state.update(_as_doubles(values))
        return state

    def merge(self, state: kll_doubles_sketch, other: kll_doubles_sketch) -> kll_doubles_sketch:
        """Return the sketch of both."""
        state.merge(other)
        return state

    def finish(self, state: kll_doubles_sketch) -> float | None:
        """Return the smallest value that is not below the share, or None if there are no values."""
        return None if state.is_empty() else float(state.get_quantile(self.share, True))

    def results(self, states: pa.ChunkedArray, data_type: pa.DataType) -> pa.Array:
        """Return values of the type of the column."""
        values = [self.finish(self.load(state)) for state in states.to_pylist()]
        numbers = pa.array(values, pa.float64())
        if pa.types.is_decimal(data_type):
            return pc.round(numbers, data_type.scale).cast(pa.decimal128(MAX_DIGITS, data_type.scale)).cast(data_type)
        if pa.types.is_floating(data_type):
            return numbers.cast(data_type)
        largest = 2 ** (data_type.bit_width - 1) - 1  # as a double it may be one more
        return pa.array([None if value is None else min(int(value), largest) for value in values], _integer_of(data_type)).cast(
            data_type
        )

    def kind(self, values: pa.DataType) -> pa.DataType:
        """Return the type of the values."""
        if not _is_ordered(values):
            value, remedy = f"percentile_approx(..., {self.share})", "cast the column to a number first"
            raise InvalidInput(value=value, reason=f"values of type {values} have no quantiles", remedy=remedy)
        return values

    def dump(self, state: kll_doubles_sketch) -> bytes:
        """Return the sketch's own bytes."""
        return bytes(state.serialize())

    def load(self, data: bytes) -> kll_doubles_sketch:
        """Return the sketch."""
        return kll_doubles_sketch.deserialize(data)


@cache
def _size_of(accuracy: int) -> int:
    """Return the size of a sketch whose error is at most 1/accuracy."""

    def closeness(size: int) -> float:
        return -float(kll_doubles_sketch.get_normalized_rank_error(size, False))

    return SIZES[bisect_left(SIZES, -1 / accuracy, key=closeness)]


def _union(*sketches: hll_sketch) -> hll_sketch:
    both = hll_union(LG_REGISTERS)
    for sketch in sketches:
        both.update(sketch)
    return both.get_result(tgt_hll_type.HLL_8)


def _hashable(values: pa.Array) -> Iterable[int | float | str]:
    """Return values that a sketch accepts, different ones for different values; a sketch ignores empty texts, so these get a prefix."""
    data_type = values.type
    if pa.types.is_floating(data_type):
        return np.unique(normalised(pa.chunked_array([values])).cast(pa.float64()).to_numpy(), equal_nan=True).tolist()  # type: ignore[no-any-return]
    if pa.types.is_integer(data_type) or pa.types.is_temporal(data_type):
        return values.cast(_integer_of(data_type)).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type):
        return (f"b{value.hex()}" for value in values.to_pylist())
    return (f"s{value}" for value in values.to_pylist())


def _is_ordered(data_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(data_type)
        or pa.types.is_floating(data_type)
        or pa.types.is_decimal(data_type)
        or pa.types.is_temporal(data_type)
    )


def _integer_of(data_type: pa.DataType) -> pa.DataType:
    return pa.int32() if pa.types.is_date32(data_type) or pa.types.is_time32(data_type) else pa.int64()


def _as_doubles(values: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    if not (pa.types.is_decimal(values.type) or pa.types.is_floating(values.type)):
        values = values.cast(_integer_of(values.type)) if pa.types.is_temporal(values.type) else values
    return np.array(
        values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64
    )  # a copy, as the array must be writable
