"""Rows as tests write them, as Arrow tables with a time that windows understand."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from skytide.errors import InvalidInput
from skytide.errors.checks import refused

Rows: TypeAlias = "pa.Table | pa.RecordBatch | Sequence[Mapping[str, Any]] | Mapping[str, Sequence[Any]] | Any"
"""An Arrow table, a list of dicts, a dict of columns, a pandas DataFrame, or whatever else exports Arrow."""
TIME = pa.timestamp("us", "UTC")
FORMS = "pass an Arrow table, a list of dicts, a dict of columns or a pandas DataFrame"


def table_of(rows: Rows) -> pa.Table:
    """Return rows in any of their forms as a table.

    >>> table_of([{"a": 1}, {"a": 2, "b": "x"}]).equals(table_of({"a": [1, 2], "b": [None, "x"]}))
    True
    """
    try:
        if isinstance(rows, pa.Table):
            return rows
        if isinstance(rows, pa.RecordBatch):
            return pa.Table.from_batches([rows])
        if hasattr(rows, "iloc"):
            return pa.Table.from_pandas(rows, preserve_index=False).replace_schema_metadata(None)
        if isinstance(rows, list | tuple):
            names = dict.fromkeys(name for row in rows for name in row)
            return pa.table({name: [row.get(name) for row in rows] for name in names})
        return pa.table(rows)
    except (pa.ArrowInvalid, pa.ArrowTypeError, AttributeError, TypeError, ValueError) as error:
        raise refused("rows", rows, f"not rows ({error})", FORMS) from error


def examples_of(rows: Rows, *needed: str) -> pa.Table:
    """Return rows that a law is checked with, which have columns, and among them those that are needed."""
    table = table_of(rows)
    if not table.num_columns:
        raise refused("rows", rows, "they have no columns", "give some rows, or an empty Arrow table with columns")
    for name in needed:
        if name not in table.column_names:
            raise refused("keys", name, "there is no such column", f"choose one of {', '.join(table.column_names)}")
    return table


def key_names(keys: str | Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a key, which may be one name."""
    names = (keys,) if isinstance(keys, str) else keys
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise refused("keys", keys, "not the names of columns", 'pass keys="symbol", or several in a list')
    return tuple(names)


def batch_of(rows: Rows, time: str, schema: pa.Schema | None) -> pa.Table:
    """Return rows as a query gets them: with times, and with the columns of a schema, unless they are the first and say what columns there are."""
    table = table_of(rows)
    if not table.num_columns:
        if schema is None:
            raise refused("rows", rows, "they have no columns", "feed some rows first, or pass schema=")
        return schema.empty_table()
    table = _timed(table, time)
    return table if schema is None else _cast(table, schema)


def _timed(table: pa.Table, time: str) -> pa.Table:
    """Return rows with their times as Spark has them, in microseconds; numbers are seconds since 1970."""
    if time not in table.column_names:
        raise refused("time", time, "there is no such column", f"choose one of {', '.join(table.column_names)}")
    column, place = table[time], table.column_names.index(time)
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_null(column.type):
        try:
            column = pc.round(pc.multiply(column.cast(pa.float64()), 1e6)).cast(pa.int64()).cast(TIME)
        except pa.ArrowInvalid as error:
            raise refused(
                "time", time, f"a number in it is no time ({error})", "give seconds since 1970, or None for none"
            ) from error
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz and "UTC"))
    else:
        raise InvalidInput(
            value=f"time={time!r} of type {column.type}",
            reason="windows need a timestamp",
            remedy="give datetimes, or numbers, which are seconds since 1970",
        )
    return table.set_column(place, time, column)


def _cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the columns of a schema; those that are missing are NULL, as Spark reads them."""
    if unknown := [name for name in table.column_names if name not in schema.names]:
        raise InvalidInput(
            value=f"column {unknown[0]}",
            reason="rows of earlier batches, or the schema, do not have it",
            remedy="give all batches the same columns, or pass schema=",
        )
    columns = {
        field.name: table[field.name] if field.name in table.column_names else pa.nulls(table.num_rows, field.type)
        for field in schema
    }
    try:
        return pa.table(columns).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InvalidInput(
            value="rows",
            reason=f"not of the types of the batches before: {error}",
            remedy="give them the same types, or pass schema=",
        ) from error
