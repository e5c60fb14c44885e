"""Queries for SQL: table functions such as `skyline(TABLE(hotels), 'price MIN, stars MAX, city DIFF')`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import Row, SparkSession
from pyspark.sql.functions import udtf
from pyspark.sql.types import StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult, PartitioningColumn, UserDefinedTableFunction

from skytide.errors import InvalidInput
from skytide.errors.checks import kind_of
from skytide.queries import KDominant, Levels, Query, Skyband, Skyline, TopDelta, TopK, parse_preferences
from skytide.spark.binding import HELPER, spark_schema
from skytide.spark.types import arrow_schema

ROW = "__skytide_row"
BUFFER_ROWS = 65_536


def register(spark: SparkSession) -> None:
    """Make the queries known to SQL in this session.

    `skyline`, `skyband`, `levels`, `k_dominant`, `top_delta` and `top_k` take TABLE(...), the preferences as text, and the
    query's own argument, by name or place; all take `nulls => 'drop'` or `'worst'`, and skyline takes `distinct => true`.
    """
    kind_of("spark", spark, SparkSession, reason="not a Spark session", remedy="pass the one you have")
    for name, build in FUNCTIONS.items():
        spark.udtf.register(name, cast(UserDefinedTableFunction, udtf(_table_function(build))))


def _skyline(text: str, distinct: bool = False, nulls: Any = "error") -> Query:
    return Skyline(parse_preferences(text), nulls, distinct)


def _skyband(text: str, k: int, nulls: Any = "error") -> Query:
    return Skyband(parse_preferences(text), nulls, k)


def _levels(text: str, up_to: int | None = None, nulls: Any = "error") -> Query:
    return Levels(parse_preferences(text), nulls, up_to)


def _k_dominant(text: str, k: int, nulls: Any = "error") -> Query:
    return KDominant(parse_preferences(text), nulls, k)


def _top_delta(text: str, delta: int, nulls: Any = "error") -> Query:
    return TopDelta(parse_preferences(text), nulls, delta)


def _top_k(text: str, k: int, nulls: Any = "error") -> Query:
    return TopK(parse_preferences(text), nulls, k)


FUNCTIONS: dict[str, Callable[..., Query]] = {
    "skyline": _skyline,
    "skyband": _skyband,
    "levels": _levels,
    "k_dominant": _k_dominant,
    "top_delta": _top_delta,
    "top_k": _top_k,
}


def _built(build: Callable[..., Query], given: list[Any], named: dict[str, Any]) -> Query:
    """Build a query from the arguments of a table function; others than it has are refused."""
    try:
        signature(build).bind(*given, **named)
    except TypeError as error:
        takes = ", ".join(signature(build).parameters)
        raise InvalidInput(
            value="arguments", reason=str(error), remedy=f"give TABLE(...) and {takes.replace('text', 'text of preferences')}"
        ) from None
    return build(*given, **named)


@dataclass
class _Plan(AnalyzeResult):
    """What Spark needs to know before it runs, and the query for the instances that run."""

    query: Query | None = None
    compared: dict[str, pa.DataType] = field(default_factory=dict)


def _table_function(build: Callable[..., Query]) -> type:
    """Give the class of a table function. Spark hands such a function rows one at a time; they are reduced in batches."""

    class TableFunction:
        @staticmethod
        def analyze(table: AnalyzeArgument, *given: AnalyzeArgument, **named: AnalyzeArgument) -> _Plan:
            if not (table.isTable and isinstance(table.dataType, StructType)):
                raise InvalidInput(
                    value="the first argument", reason="not a table", remedy="write TABLE(hotels) or TABLE(SELECT ...)"
                )
            query = _built(build, [each.value for each in given], {name: each.value for name, each in named.items()})
            schema = arrow_schema(table.dataType)
            query.check(schema)
            for name in schema.names:
                if schema.names.count(name) > 1 or name.lower().startswith(HELPER):
                    raise InvalidInput(value=f"column {name}", reason="given twice, or a name of ours", remedy="rename it first")
            groups = query.groups()
            return _Plan(
                schema=spark_schema(table.dataType, query.schema(schema)),
                withSinglePartition=not groups,
                partitionBy=[PartitioningColumn(f"`{name.replace('`', '``')}`") for name in groups],
                query=query,
                compared={name: schema.field(name).type for name in query.expressions()},
            )

        def __init__(self, plan: _Plan) -> None:
            assert plan.query is not None
            self.query, self.compared = plan.query, plan.compared
            self.rows: list[Row] = []
            self.reduced = 0

        def eval(self, row: Row, *_given: Any, **_named: Any) -> Iterator[Any]:
            self.rows.append(row)
            if len(self.rows) - self.reduced >= max(BUFFER_ROWS, self.reduced):
                self.rows = [self.rows[i] for i in self.query.pane(self._table())[ROW].to_pylist()]
                self.reduced = len(self.rows)
            return iter(())

        def terminate(self) -> Iterator[tuple[Any, ...]]:
            answer = self.query.window(self.query.pane(self._table()))
            added = [answer[name].to_pylist() for name in answer.column_names if name not in (*self.compared, ROW)]
            for i, *values in zip(answer[ROW].to_pylist(), *added, strict=True):
                yield (*self.rows[i], *values)

        def _table(self) -> pa.Table:
            columns = {name: pa.array([row[name] for row in self.rows], kind) for name, kind in self.compared.items()}
            return pa.table({**columns, ROW: pa.array(range(len(self.rows)), pa.int64())})

    return TableFunction
