"""Minima and maxima in Spark's order of values: NaN is above all numbers; of equal zeros, -0.0 is the smaller one.

Spark takes the zero that came first. Here the order of rows must not matter.
"""

import math

import pyarrow as pa
import pyarrow.compute as pc

_INTEGERS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}


def has_order(data_type: pa.DataType) -> bool:
    """Return whether values of this type have an order here."""
    return not pa.types.is_nested(data_type)


def comparable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values of which Arrow finds the same minimum and maximum as Spark; `original` turns them back.

    >>> comparable(pa.chunked_array([[1.5, 2.5]])).to_pylist()
    [1.5, 2.5]
    >>> pc.max(comparable(pa.chunked_array([[math.nan, -0.0, math.inf]]))) == pc.max(comparable(pa.chunked_array([[math.nan]])))
    True
    """
    data_type = values.type
    if pa.types.is_duration(data_type):
        return values.cast(pa.int64())
    if data_type not in _INTEGERS:
        return values
    bits = _viewed(values, _INTEGERS[data_type])
    lowest = -(2 ** (data_type.bit_width - 1))  # the bits of -0.0
    if pc.min(bits).as_py() != lowest and not math.isnan(pc.sum(values).as_py() or 0.0):
        return values
    # Read as integers, floats from 0.0 up to NaN are in order, and those from -0.0 down in reverse order.
    bits = _viewed(pc.if_else(pc.is_nan(values), pa.scalar(math.nan, data_type), values), _INTEGERS[data_type])
    return _flipped(bits)


def original(values: pa.ChunkedArray, data_type: pa.DataType) -> pa.ChunkedArray:
    """Return the original values, of their original type, from results of `comparable`."""
    if pa.types.is_floating(data_type) and pa.types.is_integer(values.type):
        return _viewed(_flipped(values), data_type)
    return values.cast(data_type)


def _flipped(bits: pa.ChunkedArray) -> pa.ChunkedArray:
    highest = pa.scalar(2 ** (bits.type.bit_width - 1) - 1, bits.type)
    return pc.if_else(pc.less(bits, pa.scalar(0, bits.type)), pc.bit_wise_xor(bits, highest), bits)


def _viewed(values: pa.ChunkedArray, data_type: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([chunk.view(data_type) for chunk in values.chunks], data_type)
