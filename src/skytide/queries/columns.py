"""Turns Arrow columns into the matrix that a kernel takes: smaller is better, and every comparison is as in the original values."""

import difflib
import math
import os
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skytide.errors import InvalidInput
from skytide.kernels import EXACT_INTEGER, Indices, Mask, Points, dense_ranks, lexicographic_ranks
from skytide.queries.preferences import Attribute, Chain, Expression

Nulls = Literal["error", "drop", "worst"]
NULLS = ("error", "drop", "worst")


def missing_column(value: str, name: str, rows: pa.Schema) -> InvalidInput:
    """Return the error for a column that does not exist, suggesting the one that may be meant; internal columns are not suggested.

    >>> raise missing_column("low('prize')", "prize", pa.schema([("price", pa.int64()), ("__skytide_0", pa.int64())]))
    Traceback (most recent call last):
    ...
    skytide.errors.InvalidInput: low('prize'): there is no column 'prize'; did you mean 'price'?
    """
    names = [own for own in rows.names if not own.startswith("__skytide_")]
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(names)}"
    return InvalidInput(value=value, reason=f"there is no column {name!r}", remedy=hint)


def named_twice(names: Iterable[str], rows: pa.Schema) -> str | None:
    """Return a name that stands for two results, if there is one; case counts only if the rows themselves have names that differ in case alone.

    >>> named_twice(["k", "K"], pa.schema([("k", pa.int64())])), named_twice(["k", "K"], pa.schema([("k", pa.int64()), ("K", pa.int64())]))
    ('k', None)
    """
    cased = len({name.lower() for name in rows.names}) < len(rows.names)
    compared = [name if cased else name.lower() for name in names]
    return next((name for name in compared if compared.count(name) > 1), None)


def is_ordered(data_type: pa.DataType) -> bool:
    """Return whether values of this type can be preferred low or high."""
    return bool(
        pa.types.is_floating(data_type)
        or pa.types.is_integer(data_type)
        or pa.types.is_decimal(data_type)
        or pa.types.is_temporal(data_type)
        or pa.types.is_boolean(data_type)
    )


def matrix(rows: pa.Table, chains: tuple[Chain, ...]) -> Points:
    """Return a matrix with one row per table row and one column per chain; missing values are the worst of all."""
    points = np.empty((rows.num_rows, len(chains)))
    for place, chain in enumerate(chains):
        if len(chain) == 1:
            points[:, place] = _values(rows, chain[0])
        else:
            points[:, place] = lexicographic_ranks([_values(rows, attribute) for attribute in chain])
    return points


def group_numbers(rows: pa.Table, columns: tuple[Any, ...]) -> Indices:
    """Return for each row the number of its combination of values in some columns, from 0 in order of appearance. NULL is a value here, and NaN.

    >>> group_numbers(pa.table({"a": ["x", "y", "x", None], "b": [1, 1, 2, 1]}), ("a", "b")).tolist()
    [0, 1, 2, 3]
    """
    numbers: Indices = np.zeros(rows.num_rows, dtype=np.int64)
    for place, column in enumerate(columns):
        codes, different = _encoded(rows[column])
        numbers = codes if place == 0 else _encoded(pa.chunked_array([numbers * different + codes]))[0]
    return numbers


def normalised(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values with one NaN and one zero, as in Spark.

    >>> normalised(pa.chunked_array([[-0.0, 1.0]])).to_pylist()
    [0.0, 1.0]
    """
    if not pa.types.is_floating(column.type):
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(math.nan, column.type), pc.add(column, pa.scalar(0.0, column.type)))


def _encoded(column: pa.ChunkedArray) -> tuple[Indices, int]:
    encoded = pc.dictionary_encode(normalised(column).combine_chunks(), null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)


def without_missing(rows: pa.Table, attributes: tuple[Attribute, ...], nulls: Nulls) -> pa.Table:
    """Return the rows after applying the rule for NULL and NaN: refuse them, drop their rows, or keep them (they count as worst)."""
    if nulls == "worst":
        return rows
    for attribute in attributes:
        absent = _missing(rows[attribute.what])
        if not absent.any():
            continue
        if nulls == "error":
            raise InvalidInput(
                value=_where_missing(rows, attribute.what, absent),
                reason=f"{attribute} cannot compare it",
                remedy='pass nulls="drop" to leave such rows out, or nulls="worst" to rank them last',
            )
        rows = rows.filter(pa.array(~absent))
    return rows


def missing(rows: pa.Table, attributes: tuple[Attribute, ...]) -> Mask:
    """Return which rows have NULL or NaN in one of the compared columns."""
    absent = np.zeros(rows.num_rows, dtype=np.bool_)
    for attribute in attributes:
        absent |= _missing(rows[attribute.what])
    return absent


def one_of_equals(rows: pa.Table, points: Points) -> Mask:
    """Return a mask that keeps one row of those with equal points: the smallest by all columns that Arrow can sort."""
    _, number, copies = np.unique(points, axis=0, return_inverse=True, return_counts=True)
    chosen = np.ones(len(points), dtype=np.bool_)
    twins = np.flatnonzero(copies[number] > 1)
    if len(twins):
        few = rows.take(pa.array(twins))
        keys = [_sortable(few[name]) for name in few.column_names]
        order = np.lexsort([key for key in reversed(keys) if key is not None])
        chosen[twins] = False
        chosen[twins[order[np.unique(number[twins][order], return_index=True)[1]]]] = True
    return chosen


def _sortable(column: pa.ChunkedArray) -> Indices | None:
    try:
        return np.asarray(pc.rank(column.combine_chunks(), tiebreaker="dense"), dtype=np.int64)
    except pa.ArrowNotImplementedError:
        return None


def _where_missing(rows: pa.Table, column: Expression, missing: Mask) -> str:
    """Return what is missing where; the row itself, which may be confidential, is shown only if $SKYTIDE_SHOW_ROWS is set."""
    row = int(np.argmax(missing))
    value = "NaN" if rows[column][row].is_valid else "NULL"
    place = f"{value} in column {column}, in {int(missing.sum()):,} of {rows.num_rows:,} rows that were processed together"
    return f"{place}, first in {rows.slice(row, 1).to_pylist()[0]}" if os.environ.get("SKYTIDE_SHOW_ROWS") else place


def _missing(column: pa.ChunkedArray) -> Mask:
    if column.null_count == 0 and not pa.types.is_floating(column.type):
        return np.zeros(len(column), dtype=np.bool_)
    return np.asarray(pc.is_null(column, nan_is_null=pa.types.is_floating(column.type)).to_numpy(), dtype=np.bool_)


def _values(rows: pa.Table, attribute: Attribute) -> NDArray[np.float64]:
    column = rows[attribute.what]
    absent = _missing(column)
    sign = -1.0 if attribute.kind == "high" else 1.0
    if not absent.any():
        plain = _plain(column)
        if plain is not None:
            return sign * plain
        return sign * _ranks(column)
    values = np.empty(len(column))
    present = sign * _ranks(column.filter(pa.array(~absent)))
    values[~absent] = present
    values[absent] = present.max(initial=0) + 1
    return values


def _plain(column: pa.ChunkedArray) -> NDArray[np.float64] | None:
    """Return the column as float64, or None where that could change a comparison or bring in infinities."""
    data_type = column.type
    if pa.types.is_floating(data_type):
        values = np.asarray(column.to_numpy(), dtype=np.float64)
        return values if np.isfinite(values).all() else None
    if pa.types.is_boolean(data_type):
        return np.asarray(column.to_numpy(), dtype=np.float64)
    if pa.types.is_decimal(data_type):
        return None
    whole = _integers(column)
    if whole.size and (int(whole.max()) > EXACT_INTEGER or int(whole.min()) < -EXACT_INTEGER):
        return None
    return whole.astype(np.float64)


def _ranks(column: pa.ChunkedArray) -> NDArray[np.float64]:
    if pa.types.is_decimal(column.type):
        return np.asarray(pc.rank(column.combine_chunks(), tiebreaker="dense"), dtype=np.float64)
    if pa.types.is_floating(column.type) or pa.types.is_boolean(column.type):
        return dense_ranks(column.to_numpy()).astype(np.float64)
    return dense_ranks(_integers(column)).astype(np.float64)


def _integers(column: pa.ChunkedArray) -> NDArray[Any]:
    if pa.types.is_temporal(column.type):
        narrow = pa.types.is_date32(column.type) or pa.types.is_time32(column.type)
        column = column.cast(pa.int32()).cast(pa.int64()) if narrow else column.cast(pa.int64())
    return np.asarray(column.to_numpy())
