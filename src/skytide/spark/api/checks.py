"""Checks before Spark does anything: of what is asked, and of columns that could not come out again."""

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import NullType, StructType

from skytide.errors import InvalidInput
from skytide.errors.checks import brief, check_type
from skytide.queries import Query
from skytide.spark.arrow import HELPER, arrow_schema
from skytide.spark.engine.spec import BOUNDS
from skytide.spark.engine.tasks import copied


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


def check_copied(argument: str, given: object) -> None:
    """Refuse what cannot be copied to workers."""
    try:
        copied(given)
    except Exception as error:
        raise InvalidInput(
            value=f"{argument}({type(given).__name__}(...))",
            reason=f"it cannot be copied to workers: {type(error).__name__}: {error}",
            remedy="create locks, connections, sessions and open files inside its methods, not as attributes",
        ) from error
