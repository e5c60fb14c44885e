"""Checks before Spark does anything: of columns that could not come out again, and of the arguments of a start."""

import os
from datetime import timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import NullType, StructType

from skytide.errors import InvalidInput
from skytide.errors.checks import brief, check_bool, check_integer, check_text, check_type, refused
from skytide.errors.limits import MAX_SLOTS
from skytide.queries import Query
from skytide.routing import strategy_of
from skytide.spark.arrow import HELPER, arrow_schema
from skytide.spark.engine.window_level import BOUNDS
from skytide.spark.sinks.sinks import FILE_FORMATS

BATCH = "batch"  # the column that readers make of the folders of batches, which would hide another of that name


def check_asked(df: Any, query: Any) -> None:
    """Refuse what is not a DataFrame, or not a query."""
    check_type("df", df, DataFrame, reason="not a Spark DataFrame", remedy="pass one, for instance spark.createDataFrame(rows)")
    check_type("query", query, Query, reason="not a query", remedy="derive from skytide.Query, and pass an object of your class")


def check_columns(df: DataFrame, *, taken: tuple[str, ...] = ()) -> None:
    """Refuse columns that could not come out again unchanged; `taken` are names that the results use themselves."""
    seen: dict[str, str] = {}
    cased = df.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    for field in df.schema.fields:
        key = field.name if cased else field.name.lower()
        twin = seen.get(key)
        seen[key] = field.name
        if field.name.lower() in taken or field.name.lower().startswith(HELPER):
            reason, remedy = "the results have a column of that name already", "rename it first"
        elif twin == field.name:
            reason, remedy = "several columns have that name", "rename or drop all but one first"
        elif twin is not None:
            reason, remedy = f"Spark cannot distinguish it from {twin}", "rename one of them first, or set spark.sql.caseSensitive"
        elif not isinstance(field.dataType, NullType) and pa.types.is_null(arrow_schema(StructType([field])).field(0).type):
            reason, remedy = f"its type {field.dataType.simpleString()} has no Arrow form", "cast or drop it first"
        else:
            continue
        raise InvalidInput(value=f"column {brief(field.name)[1:-1]}", reason=reason, remedy=remedy)


def check_streamed(df: DataFrame) -> None:
    """Refuse columns that could not come out next to the bounds of their window."""
    check_columns(df, taken=BOUNDS)


def check_start(
    df: DataFrame,
    query: Query,
    results: pa.Schema,
    *,
    sink: Any,
    late: Any,
    invalid: Any,
    trigger: Any,
    flush: Any,
    name: Any,
    splitting: Any,
    **slots: Any,
) -> None:
    """Refuse arguments of `start` that make no sense, before anything is written."""
    check_type(
        "trigger",
        trigger,
        (str, timedelta),
        reason="not a trigger",
        remedy='pass an interval such as "500 ms", or "auto" or "availableNow"',
    )
    check_bool("flush", flush)
    if splitting is not None and strategy_of(splitting).key_routing() and not query.routed_by():
        reason, remedy = "the query has no keys", 'give it some, as in aggregate("count(*)", keys="symbol"), or choose "RATE"'
        raise InvalidInput(value=f"splitting={strategy_of(splitting).name!r}", reason=reason, remedy=remedy)
    for level, count in slots.items():
        check_slots(level, count)
    if name is not None:
        check_text("name", name, "best_hotels")
        if any(query.name == name for query in df.sparkSession.streams.active):
            raise refused("name", name, "a query of that name runs already", "choose another, or stop that one first")
    path_like = (str, os.PathLike)
    aside = [(argument, isinstance(given, path_like), df.columns) for argument, given in (("late", late), ("invalid", invalid))]
    folders = [("sink", sink == "parquet" or sink in FILE_FORMATS, results.names), *aside]
    for argument, written, columns in folders:
        for column in (column for column in columns if written and column.lower() == BATCH):
            raise InvalidInput(
                value=f"column {column}",
                reason=f"the folder of {argument} keeps its batches in folders of that name, which would hide it",
                remedy="rename it, a column before skytide.stream and a result with AS or in its operator, or pass a function as the sink",
            )


def check_slots(name: str, slots: Any) -> None:
    """Refuse what is not a number of slots; None means that it is not given."""
    if slots is not None:
        check_integer(name, slots, 1, MAX_SLOTS)
