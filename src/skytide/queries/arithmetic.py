"""Arithmetic, comparisons and casts of Arrow columns as Spark does them.

Integers and floats are computed by Arrow's loops; decimals and rare cases value by value, as there is only one row per key and window here.
"""

import decimal
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

Mode = Literal["ANSI", "LEGACY", "TRY"]
"""What Spark does where there is no result: ANSI: an error; LEGACY: NULL, but integers wrap around, and floats become the nearest; TRY: NULL."""
Function = Callable[[Sequence[pa.Array], pa.DataType, Mode], pa.Array]

_EXACT = decimal.Context(prec=200, rounding=decimal.ROUND_HALF_UP)
_PRODUCT = decimal.Context(prec=39, rounding=decimal.ROUND_HALF_UP)  # like Spark's, with one digit more than a decimal has
_QUOTIENT = decimal.Decimal((0, (1,), -39))


class NoResult(ArithmeticError):
    """There is no result for some values: why, and what to write instead."""

    def __init__(self, reason: str, remedy: str) -> None:
        """Store the reason, and a remedy."""
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy


def _overflow(data_type: pa.DataType) -> NoResult:
    return NoResult(
        f"a value overflows {data_type}",
        "use a try_ function, such as try_multiply, try_cast or try_sum, which returns NULL there; "
        "a wider type, as in CAST(... AS double), needs another checkpoint folder",
    )


def _by_zero(operator: str = "/") -> NoResult:
    remedy = (
        "try_divide(a, b) or a / nullif(b, 0), which return" if operator == "/" else f"a {operator} nullif(b, 0), which returns"
    )
    return NoResult("a division by zero", f"write {remedy} NULL there")


def _row_by_row(work: Callable[..., Any], operands: Sequence[pa.Array], data_type: pa.DataType, mode: Mode) -> pa.Array:
    """Return the results of a function of Python values for each row; NULL if one of its values is NULL."""
    results = []
    for values in zip(*(operand.to_pylist() for operand in operands), strict=True):
        try:
            results.append(None if None in values else work(*values))
        except NoResult:
            if mode == "ANSI":
                raise
            results.append(None)
    return pa.array(results, data_type)


def _fitted(value: decimal.Decimal, data_type: pa.DataType) -> decimal.Decimal:
    rounded = value.quantize(decimal.Decimal((0, (1,), -data_type.scale)), decimal.ROUND_HALF_UP, _EXACT)
    if rounded.adjusted() >= data_type.precision - data_type.scale and rounded != 0:
        raise _overflow(data_type)
    return rounded


def _within(value: int, data_type: pa.DataType, mode: Mode) -> int:
    half: int = 2 ** (data_type.bit_width - 1)
    if mode == "LEGACY":
        return (value + half) % (2 * half) - half
    if not -half <= value < half:
        raise _overflow(data_type)
    return value


def _operation(
    checked: Callable[[pa.Array, pa.Array], pa.Array],
    wrapping: Callable[[pa.Array, pa.Array], pa.Array],
    whole: Callable[[int, int], int],
    of_decimals: Callable[[decimal.Decimal, decimal.Decimal], decimal.Decimal],
) -> Function:
    def operation(operands: Sequence[pa.Array], data_type: pa.DataType, mode: Mode) -> pa.Array:
        left, right = operands
        if pa.types.is_decimal(data_type):
            return _row_by_row(lambda a, b: _fitted(of_decimals(a, b), data_type), operands, data_type, mode)
        if pa.types.is_floating(data_type) or mode == "LEGACY":
            return wrapping(left, right)
        if mode == "TRY":
            return _row_by_row(lambda a, b: _within(whole(a, b), data_type, mode), operands, data_type, mode)
        try:
            return checked(left, right)
        except pa.ArrowInvalid:
            raise _overflow(data_type) from None

    return operation


def _divide(operands: Sequence[pa.Array], data_type: pa.DataType, mode: Mode) -> pa.Array:
    left, right = operands
    nothing = pa.scalar(decimal.Decimal(0) if pa.types.is_decimal(right.type) else 0, right.type)
    zero = pc.and_(pc.equal(right, nothing), pc.is_valid(left))
    if mode == "ANSI" and pc.any(zero).as_py():
        raise _by_zero()
    right = pc.if_else(zero, pa.scalar(None, right.type), right)
    if pa.types.is_decimal(data_type):

        def quotient(a: decimal.Decimal, b: decimal.Decimal) -> decimal.Decimal:
            return _fitted(_EXACT.divide(a, b).quantize(_QUOTIENT, decimal.ROUND_HALF_UP, _EXACT), data_type)

        return _row_by_row(quotient, (left, right), data_type, mode)
    return pc.divide(left, right)


def _whole_quotient(a: Any, b: Any) -> int:
    quotient = abs(int(_EXACT.divide_int(decimal.Decimal(a), decimal.Decimal(b))))
    return quotient if (a < 0) == (b < 0) else -quotient


def _divide_whole(operands: Sequence[pa.Array], data_type: pa.DataType, mode: Mode) -> pa.Array:
    def work(a: Any, b: Any) -> int:
        if b == 0:
            raise _by_zero("div")
        return _within(_whole_quotient(a, b), data_type, mode)

    return _row_by_row(work, operands, data_type, mode)


def _remainder(operands: Sequence[pa.Array], data_type: pa.DataType, mode: Mode) -> pa.Array:
    def work(a: Any, b: Any) -> Any:
        if b == 0:
            raise _by_zero("%")
        if isinstance(a, float):
            return math.fmod(a, b) if math.isfinite(a) and not math.isnan(b) else math.nan
        return _fitted(_EXACT.remainder(a, b), data_type) if isinstance(a, decimal.Decimal) else a - _whole_quotient(a, b) * b

    return _row_by_row(work, operands, data_type, mode)


def _unary(checked: Callable[[pa.Array], pa.Array], wrapping: Callable[[pa.Array], pa.Array]) -> Function:
    def unary(operands: Sequence[pa.Array], data_type: pa.DataType, mode: Mode) -> pa.Array:
        try:
            return (wrapping if mode == "LEGACY" or pa.types.is_floating(data_type) else checked)(operands[0])
        except pa.ArrowInvalid:
            raise _overflow(data_type) from None

    return unary


def _cast(operands: Sequence[pa.Array], data_type: pa.DataType, mode: Mode) -> pa.Array:
    [values] = operands
    given = values.type
    if given == data_type or pa.types.is_null(given):
        return values.cast(data_type)
    if pa.types.is_floating(data_type) and not pa.types.is_decimal(given):
        return values.cast(data_type, safe=False)
    if pa.types.is_floating(data_type):
        return pa.array([None if value is None else float(value) for value in values.to_pylist()], data_type)
    if pa.types.is_decimal(data_type):
        return _row_by_row(lambda value: _fitted(_as_decimal(value, data_type), data_type), operands, data_type, mode)
    return _row_by_row(lambda value: _within(_truncated(value, data_type, mode), data_type, mode), operands, data_type, mode)


def _as_decimal(value: Any, data_type: pa.DataType) -> decimal.Decimal:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _overflow(data_type)
        return decimal.Decimal(repr(value))
    return decimal.Decimal(value)


def _truncated(value: Any, data_type: pa.DataType, mode: Mode) -> int:
    if isinstance(value, float) and mode == "LEGACY":
        most = 2 ** (max(32, data_type.bit_width) - 1)  # as in Java, where bytes and shorts are cut out of an int
        return 0 if math.isnan(value) else int(max(-most, min(most - 1, value)))
    if isinstance(value, float) and not math.isfinite(value):
        raise _overflow(data_type)
    return int(value)


def can_cast(given: pa.DataType, data_type: pa.DataType) -> bool:
    """Return whether a cast between two types is supported here: between numbers, or of the same type."""
    return given == data_type or pa.types.is_null(given) or (is_number(given) and is_number(data_type))


def is_number(data_type: pa.DataType) -> bool:
    """Return whether this is the type of a number."""
    return bool(pa.types.is_integer(data_type) or pa.types.is_floating(data_type) or pa.types.is_decimal(data_type))


def _less(left: pa.Array, right: pa.Array) -> pa.Array:
    """Return which values are less, as in Spark: NaN is above all numbers."""
    if not pa.types.is_floating(left.type):
        return pc.less(left, right)
    return pc.or_(pc.less(left, right), pc.and_(pc.invert(pc.is_nan(left)), pc.is_nan(right)))


def _equal(left: pa.Array, right: pa.Array) -> pa.Array:
    if not pa.types.is_floating(left.type):
        return pc.equal(left, right)
    return pc.or_(pc.equal(left, right), pc.and_(pc.is_nan(left), pc.is_nan(right)))


def _largest(sign: int) -> Function:
    """Return `greatest`, or with a sign of -1 `least`, both of which ignore NULLs."""

    def rank(value: Any) -> tuple[bool, Any]:
        odd = isinstance(value, float) and math.isnan(value)
        return odd, 0.0 if odd else value

    def largest(operands: Sequence[pa.Array], data_type: pa.DataType, mode: Mode) -> pa.Array:
        results = []
        for values in zip(*(operand.to_pylist() for operand in operands), strict=True):
            there = [value for value in values if value is not None]
            results.append((max if sign > 0 else min)(there, key=rank) if there else None)
        return pa.array(results, data_type)

    return largest


def _round(operands: Sequence[pa.Array], data_type: pa.DataType, mode: Mode) -> pa.Array:
    def work(value: Any, digits: int) -> Any:
        unit = decimal.Decimal((0, (1,), -digits))
        if isinstance(value, float):
            if not math.isfinite(value):
                return value
            return (
                float(decimal.Decimal(repr(value)).quantize(unit, decimal.ROUND_HALF_UP, _EXACT)) + 0.0
            )  # a decimal zero has no sign in Spark
        rounded = decimal.Decimal(value).quantize(unit, decimal.ROUND_HALF_UP, _EXACT)
        return _fitted(rounded, data_type) if pa.types.is_decimal(data_type) else _within(int(rounded), data_type, mode)

    return _row_by_row(work, operands, data_type, mode)


EAGER: dict[str, Function] = {
    "add": _operation(pc.add_checked, pc.add, lambda a, b: a + b, _EXACT.add),
    "subtract": _operation(pc.subtract_checked, pc.subtract, lambda a, b: a - b, _EXACT.subtract),
    "multiply": _operation(pc.multiply_checked, pc.multiply, lambda a, b: a * b, _PRODUCT.multiply),
    "divide": _divide,
    "divide_whole": _divide_whole,
    "remainder": _remainder,
    "negate": _unary(pc.negate_checked, pc.negate),
    "abs": _unary(pc.abs_checked, pc.abs),
    "sqrt": lambda operands, data_type, mode: pc.sqrt(operands[0]),
    "round": _round,
    "cast": _cast,
    "greatest": _largest(1),
    "least": _largest(-1),
    "equal": lambda operands, data_type, mode: _equal(*operands),
    "less": lambda operands, data_type, mode: _less(*operands),
    "greater": lambda operands, data_type, mode: _less(operands[1], operands[0]),
    "at_most": lambda operands, data_type, mode: pc.invert(_less(operands[1], operands[0])),
    "at_least": lambda operands, data_type, mode: pc.invert(_less(*operands)),
    "not": lambda operands, data_type, mode: pc.invert(operands[0]),
    "is_null": lambda operands, data_type, mode: pc.is_null(operands[0]),
    "is_not_null": lambda operands, data_type, mode: pc.is_valid(operands[0]),
}
