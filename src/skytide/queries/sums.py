"""Sums and averages as in Spark, from exact parts: only the total decides whether it fits its type.

Spark adds in the type of the result, so whether a partial sum overflows depends on the order of rows. Here integers and decimals are
carried in a wider form, and a total that fits is returned whatever the order was. Sums of floats are rounded, as in Spark.
"""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from skytide.errors import InvalidInput
from skytide.kernels import EXACT_INTEGER

if TYPE_CHECKING:
    from skytide.queries.measure import Measure

MAX_DIGITS, WIDE_DIGITS = 38, 76  # of a decimal in Spark, and of the widest in Arrow
NARROW_DIGITS = 19  # 10**19 values of this many digits have a sum of at most 38 digits
_EXACT = decimal.Context(prec=150, rounding=decimal.ROUND_DOWN)  # enough digits to round half up afterwards


def adds_up(data_type: pa.DataType) -> bool:
    """Return whether values of this type have a sum."""
    return bool(
        pa.types.is_integer(data_type)
        or pa.types.is_floating(data_type)
        or (pa.types.is_decimal(data_type) and data_type.precision <= MAX_DIGITS and data_type.scale >= 0)
    )


def sum_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type of Spark's `sum`.

    >>> sum_type(pa.int8()), sum_type(pa.float32()), sum_type(pa.decimal128(10, 2))
    (DataType(int64), DataType(double), Decimal128Type(decimal128(20, 2)))
    """
    if pa.types.is_decimal(data_type):
        return pa.decimal128(min(data_type.precision + 10, MAX_DIGITS), data_type.scale)
    return pa.int64() if pa.types.is_integer(data_type) else pa.float64()


def average_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type of Spark's `avg`.

    >>> average_type(pa.int64()), average_type(pa.decimal128(36, 10))
    (DataType(double), Decimal128Type(decimal128(38, 14)))
    """
    if pa.types.is_decimal(data_type):
        return pa.decimal128(min(data_type.precision + 4, MAX_DIGITS), min(data_type.scale + 4, MAX_DIGITS))
    return pa.float64()


def addends(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values in a type in which Arrow sums them without overflow: a narrow, fast one if the values allow it."""
    data_type = values.type
    if pa.types.is_floating(data_type):
        return values.cast(pa.float64())
    if pa.types.is_integer(data_type):
        return (
            values
            if data_type.bit_width < 64 or _largest(values) * len(values) < 2**63
            else values.cast(pa.decimal128(MAX_DIGITS, 0))
        )
    wide = values.cast(pa.decimal128(MAX_DIGITS, data_type.scale))
    few_digits = data_type.precision + len(str(len(values))) <= MAX_DIGITS
    if few_digits or _largest(values) * len(values) < decimal.Decimal((0, (1,), MAX_DIGITS - data_type.scale)):
        return wide
    return wide.cast(pa.decimal256(WIDE_DIGITS, data_type.scale))


def rounded_addends(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values that an average sums: Spark converts integers to float64 first, which rounds them beyond 2^53."""
    if pa.types.is_integer(values.type) and values.type.bit_width == 64 and _largest(values) > EXACT_INTEGER:
        return values.cast(pa.float64(), safe=False).cast(pa.decimal128(MAX_DIGITS, 0))
    return addends(values)


def carried(sums: pa.ChunkedArray, data_type: pa.DataType) -> pa.Array:
    """Return sums of values of a type in the form that is kept for parts of a window, in types that Spark knows.

    Sums that may outgrow 38 digits are the bytes of a decimal256.
    """
    whole = sums.combine_chunks()
    if _outgrows(data_type):
        return whole.cast(pa.decimal256(WIDE_DIGITS, data_type.scale)).view(pa.binary(32)).cast(pa.binary())
    return whole.cast(_added_type(data_type))


def uncarried(parts: pa.ChunkedArray, data_type: pa.DataType) -> pa.Array:
    """Return the sums for a result of `carried`, in a type in which Arrow can sum them."""
    whole = parts.combine_chunks()
    return whole.cast(pa.binary(32)).view(_added_type(data_type)) if _outgrows(data_type) else whole


def total(sums: pa.Array, data_type: pa.DataType, measure: Measure) -> pa.Array:
    """Return sums of values of a type in the type of Spark's `sum`; raise InvalidInput if one does not fit, unless the function `tries`."""
    target = sum_type(data_type)
    if pa.types.is_floating(target):
        return sums
    return _fitting(sums, target, measure).cast(target)


def average(sums: pa.Array, counts: pa.Array, data_type: pa.DataType, measure: Measure) -> pa.Array:
    """Return sums divided by counts in the type of Spark's `avg`; no count is 0 where there is a sum.

    Averages of decimals are rounded half up. The sum of integers is rounded once, to float64; Spark rounds each addition beyond 2^53,
    so the last digits of its averages then depend on the order of rows.
    """
    if not pa.types.is_decimal(data_type):
        return pc.divide(_as_floats(sums), pc.if_else(pc.equal(counts, 0), None, counts).cast(pa.float64()))
    target = average_type(data_type)
    sums = _fitting(sums, pa.decimal128(MAX_DIGITS, data_type.scale), measure)
    unit = decimal.Decimal((0, (1,), -target.scale))
    pairs = zip(sums.to_pylist(), counts.to_pylist(), strict=True)
    rounded = [None if s is None else _EXACT.divide(s, n).quantize(unit, decimal.ROUND_HALF_UP, _EXACT) for s, n in pairs]
    averages = pa.array(rounded, pa.decimal256(WIDE_DIGITS, target.scale))
    return _fitting(averages, target, measure).cast(target)


def _outgrows(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(data_type) and data_type.precision > NARROW_DIGITS)


def _added_type(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(data_type):
        return pa.float64()
    if _outgrows(data_type):
        return pa.decimal256(WIDE_DIGITS, data_type.scale)
    return pa.decimal128(MAX_DIGITS, data_type.scale if pa.types.is_decimal(data_type) else 0)


def _largest(values: pa.ChunkedArray) -> Any:
    """Return the largest distance of a value from 0, or 0 if there is no value."""
    ends = [end for end in pc.min_max(values).as_py().values() if end is not None]
    return max(
        (end.copy_abs() if isinstance(end, decimal.Decimal) else abs(end) for end in ends), default=0
    )  # abs() rounds decimals


def _as_floats(sums: pa.Array) -> pa.Array:
    if pa.types.is_floating(sums.type):
        return sums
    if _largest(sums) < 2**63:
        return sums.cast(pa.int64()).cast(pa.float64(), safe=False)
    return pa.array([None if value is None else float(value) for value in sums.to_pylist()], pa.float64())


def _fitting(values: pa.Array, target: pa.DataType, measure: Measure) -> pa.Array:
    """Return the values that fit a type; where one does not, raise InvalidInput, as Spark does in its ANSI mode, or return NULL."""
    if pa.types.is_decimal(target):
        above = decimal.Decimal((0, (1,), target.precision - target.scale))
        below, name = above.copy_negate(), f"decimal({target.precision},{target.scale})"
        narrower = "cast the column to a decimal with fewer digits after the point"
    else:
        above, below, name = decimal.Decimal(2**63), decimal.Decimal(-(2**63) - 1), "bigint"
        narrower = "cast the column to decimal(38,0) or double"
    for value in pc.min_max(values).as_py().values():
        if value is not None and not below < value < above:
            if measure.aggregate.tries:
                return pa.array([v if v is None or below < v < above else None for v in values.to_pylist()], values.type)
            raise overflows(measure, f"{value} overflows {name}", narrower)
    return values


def overflows(measure: Measure, reason: str, narrower: str) -> InvalidInput:
    """Return the error for a total that does not fit the type of its result."""
    return InvalidInput(
        value=f"{measure.text} of a window",
        reason=f"{reason}, the type of the result",
        remedy=f"write try_{measure.text}, which is NULL there; or, in a query of its own, {narrower} before skytide.stream",
    )
