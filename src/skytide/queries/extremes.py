"""Minima and maxima in Spark's order of values: NaN is above all numbers; of equal zeros, -0.0 is the smaller one.

Spark takes the zero that came first. Here the order of rows must not matter.
"""

import math

import pyarrow as pa
import pyarrow.compute as pc

_INTEGERS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}


def has_order(kind: pa.DataType) -> bool:
    """Return whether values of this type have an order here."""
    return not pa.types.is_nested(kind)


def comparable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values of which Arrow finds the same minimum and maximum as Spark; `original` turns them back.

    >>> comparable(pa.chunked_array([[1.5, 2.5]])).to_pylist()
    [1.5, 2.5]
    >>> pc.max(comparable(pa.chunked_array([[math.nan, -0.0, math.inf]]))) == pc.max(comparable(pa.chunked_array([[math.nan]])))
    True
    """
    kind = values.type
    if pa.types.is_duration(kind):
        return values.cast(pa.int64())
    if kind not in _INTEGERS:
        return values
    bits = _viewed(values, _INTEGERS[kind])
    lowest = -(2 ** (kind.bit_width - 1))  # the bits of -0.0
    if pc.min(bits).as_py() != lowest and not math.isnan(pc.sum(values).as_py() or 0.0):
        return values
    # Read as integers, floats from 0.0 up to NaN are in order, and those from -0.0 down in reverse order.
    bits = _viewed(pc.if_else(pc.is_nan(values), pa.scalar(math.nan, kind), values), _INTEGERS[kind])
    return _flipped(bits)


def original(found: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return the original values, of their original type, from results of `comparable`."""
    if pa.types.is_floating(kind) and pa.types.is_integer(found.type):
        return _viewed(_flipped(found), kind)
    return found.cast(kind)


def _flipped(bits: pa.ChunkedArray) -> pa.ChunkedArray:
    highest = pa.scalar(2 ** (bits.type.bit_width - 1) - 1, bits.type)
    return pc.if_else(pc.less(bits, pa.scalar(0, bits.type)), pc.bit_wise_xor(bits, highest), bits)


def _viewed(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([chunk.view(kind) for chunk in values.chunks], kind)
