"""From what a user wrote (names, SQL expressions and Columns) to columns that exist."""

import re
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from skytide.errors import InvalidInput
from skytide.errors.checks import refused
from skytide.queries import Query
from skytide.spark.arrow import HELPER, arrow_schema
from skytide.spark.session.workers import check_workers


def bind(df: DataFrame, query: Query) -> tuple[DataFrame, Query, list[str]]:
    """Return the DataFrame with a helper column for each expression, the query over names, and the helpers' names.

    Raises InvalidInput if something cannot be resolved or compared, without running a job.
    """
    check_workers(df.sparkSession)
    names: dict[str, str] = {}
    helpers: list[str] = []
    for what in query.expressions():
        if str(what) in names:
            continue
        name = existing(df, what)
        if name is None:
            name = f"{HELPER}{len(helpers)}"
            df = _with_expression(df, name, what)
            helpers.append(name)
        names[str(what)] = name
    check_collations(df, names)
    bound = query.over(names)
    bound.check(arrow_schema(df.schema))
    return df, bound, helpers


def existing(df: DataFrame, what: Any) -> str | None:
    """Return the name of the column that is meant, or None if it is an expression."""
    if not isinstance(what, str):
        return None
    if what in df.columns:
        return what
    if df.sparkSession.conf.get("spark.sql.caseSensitive") != "true":
        same = [name for name in df.columns if name.lower() == what.lower()]
        if len(same) == 1:
            return same[0]
    # A single word can only be a misspelt column: the query's check says so, and names the columns that exist.
    return what if re.fullmatch(r"\w+", what) else None


def check_collations(df: DataFrame, names: dict[str, str]) -> None:
    """Refuse strings with a collation, which may be equal though their bytes differ: Arrow knows nothing of collations."""
    for what, name in names.items():
        column_type = df.schema[name].dataType if name in df.columns else None
        if isinstance(column_type, StringType) and column_type.collation != StringType().collation:
            raise InvalidInput(
                value=f"{what} of type {column_type.simpleString()}",
                reason="strings are compared by their bytes here, not by a collation",
                remedy="compare another form of it, such as lower(...), or cast it to STRING COLLATE UTF8_BINARY",
            )


def _with_expression(df: DataFrame, name: str, column: Any) -> DataFrame:
    if not isinstance(column, str | Column):
        raise refused("column", column, "not a column", "give a column's name, an SQL expression or a Column")
    try:
        extended = df.withColumn(name, F.expr(column) if isinstance(column, str) else column)
        _ = extended.schema
    except (AnalysisException, ParseException) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InvalidInput(value=str(column), reason=reason, remedy=f"use columns of {', '.join(df.columns)}") from error
    return extended
