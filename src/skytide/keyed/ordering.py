"""The order of tuples of a key that have equal times: by columns that a user names, then by the values of all columns."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skytide.errors import InvalidInput
from skytide.errors.checks import check_text, check_type
from skytide.keyed.chunk import Numbers
from skytide.queries.extremes import comparable


def order_names(order: str | Sequence[str]) -> tuple[str, ...]:
    """Return the columns of an order as people write them: one name, or several.

    >>> order_names("seq"), order_names(["partition", "offset"]), order_names(())
    (('seq',), ('partition', 'offset'), ())
    """
    remedy = 'give one or several, such as ("partition", "offset")'
    check_type("order", order, (str, tuple, list), reason="not names of columns", remedy=remedy)
    names = (order,) if isinstance(order, str) else tuple(order)
    for name in names:
        check_text("order", name, "seq")
    return names


def check_order(order: tuple[str, ...], time: str, columns: pa.Schema) -> None:
    """Refuse columns that cannot order tuples of equal times.

    >>> check_order(("ts",), "ts", pa.schema([("ts", pa.int64())]))
    Traceback (most recent call last):
    ...
    skytide.errors.InvalidInput: order='ts': that is the time of the tuples, which orders them already; leave it out
    """
    for place, name in enumerate(order):
        value = f"order={name!r}"
        if name not in columns.names:
            raise InvalidInput(value=value, reason="there is no such column", remedy=f"choose one of {', '.join(columns.names)}")
        if name == time:
            reason = "that is the time of the tuples, which orders them already"
            raise InvalidInput(value=value, reason=reason, remedy="leave it out")
        if name in order[:place]:
            raise InvalidInput(value=value, reason="named twice", remedy="name each column once")
        if not _has_order(columns.field(name).type):
            reason, remedy = f"a {columns.field(name).type} has no order", "choose fields of it, or cast it to a string first"
            raise InvalidInput(value=value, reason=reason, remedy=remedy)


def order_of_ties(rows: pa.Table, runs: Numbers, order: tuple[str, ...]) -> Numbers:
    """Return the order of rows within runs of equal times, which are numbered: by the columns of an order, NULL first and NaN last, then by all values."""
    named: dict[str, pa.ChunkedArray | pa.Array] = {}
    for number, name in enumerate(order):
        named |= {f"o{number} is there": rows[name].is_valid().cast(pa.int8()), f"o{number}": comparable(rows[name])}
    values = {f"c{number}": _in_any_order(rows.column(number)) for number in range(rows.num_columns)}
    table = pa.table({"run": runs, **named, **values})
    return np.asarray(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names]))


def _has_order(data_type: pa.DataType) -> bool:
    """Return whether tuples can be ordered by values of this type."""
    if pa.types.is_null(data_type) or pa.types.is_dictionary(data_type):
        return False
    try:
        values = comparable(pa.chunked_array([pa.nulls(2, data_type)]))  # of no rows, Arrow does not look at the fields of structs
        pc.sort_indices(pa.table({"a": values}), sort_keys=[("a", "ascending")])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return False
    return True


def _in_any_order(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values that can be put in some order, whatever their type."""
    if pa.types.is_nested(column.type) or pa.types.is_null(column.type) or pa.types.is_dictionary(column.type):
        return pa.chunked_array([pa.array([repr(value) for value in column.to_pylist()], pa.string())])
    if pa.types.is_floating(column.type):
        kind = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[column.type.bit_width]
        return pa.chunked_array([chunk.view(kind) for chunk in column.chunks], kind)
    return column
