"""Queries for SQL: table functions such as `skyline(TABLE(hotels), 'price MIN, stars MAX, city DIFF')`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from inspect import Parameter, Signature, signature
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import Row, SparkSession
from pyspark.sql.functions import udtf
from pyspark.sql.types import StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult, PartitioningColumn, UserDefinedTableFunction

from skytide.errors import InvalidInput
from skytide.errors.checks import check_type
from skytide.queries import QUERIES, Query, Queryable, parse_preferences
from skytide.spark.arrow import HELPER, arrow_schema, spark_schema
from skytide.spark.engine.tasks import BUFFER_ROWS

ROW = "__skytide_row"


def register(spark: SparkSession) -> None:
    """Register the queries as SQL table functions in a session.

    `skyline`, `skyband`, `levels`, `k_dominant`, `top_delta` and `top_k` take TABLE(...), the preferences as text, and the
    query's own argument, by name or in order; all take `nulls => 'drop'` or `'worst'`, and skyline takes `distinct => true`. More in
    [skyline.md](skyline.md).

    Parameters
    ----------
    spark
        The session; registering again does no harm.

    Raises
    ------
    InvalidInput
        If it is not a session. A wrong argument of a function is refused when its statement is analysed.

    Examples
    --------
    ```python
    skytide.register(spark)
    spark.sql("SELECT * FROM skyline(TABLE(hotels), 'price MIN, stars MAX, city DIFF')").show()
    spark.sql("SELECT * FROM top_k(TABLE(hotels), 'price MIN', k => 10)").show()
    ```
    """
    check_type("spark", spark, SparkSession, reason="not a Spark session", remedy="pass your session")
    for name in QUERIES:
        spark.udtf.register(name, cast(UserDefinedTableFunction, udtf(_table_function(name))))


class _Declared(Queryable[Query]):
    """Builds queries instead of asking them."""

    def apply(self, query: Query) -> Query:
        return query


def built(name: str, given: list[Any], named: dict[str, Any]) -> Query:
    """Return a query from the arguments of its table function: the preferences as text, then its other arguments, in order."""
    method = getattr(_Declared(), name)
    others = [option for option in signature(method).parameters.values() if option.name not in ("preferences", "by")]
    takes = Signature([Parameter("preferences", Parameter.POSITIONAL_OR_KEYWORD), *(_in_sql(option) for option in others)])
    try:
        arguments = takes.bind(*given, **named).arguments
    except TypeError as error:
        raise InvalidInput(
            value=f"{name}(...)", reason=str(error), remedy=f"give TABLE(...), {', '.join(takes.parameters)}"
        ) from None
    preferences = parse_preferences(arguments.pop("preferences"))
    query: Query = method(by=preferences, **arguments) if name == "top_k" else method(preferences, **arguments)
    return query


def _in_sql(parameter: Parameter) -> Parameter:
    return parameter.replace(kind=Parameter.POSITIONAL_OR_KEYWORD)


@dataclass
class _Plan(AnalyzeResult):
    """What Spark needs to know before it runs, and the query for the instances that run."""

    query: Query | None = None
    compared: dict[str, pa.DataType] = field(default_factory=dict)


def _table_function(name: str) -> type:
    """Return the class of a table function. Spark passes it rows one at a time; they are reduced in batches."""

    class TableFunction:
        @staticmethod
        def analyze(table: AnalyzeArgument, *given: AnalyzeArgument, **named: AnalyzeArgument) -> _Plan:
            if not (table.isTable and isinstance(table.dataType, StructType)):
                raise InvalidInput(
                    value="the first argument", reason="not a table", remedy="write TABLE(hotels) or TABLE(SELECT ...)"
                )
            query = built(name, [argument.value for argument in given], {key: argument.value for key, argument in named.items()})
            schema = arrow_schema(table.dataType)
            query.check(schema)
            for column in schema.names:
                if schema.names.count(column) > 1 or column.lower().startswith(HELPER):
                    raise InvalidInput(
                        value=f"column {column}", reason="it is there twice, or a name that skytide uses", remedy="rename it first"
                    )
            groups = query.groups()
            return _Plan(
                schema=spark_schema(table.dataType, query.schema(schema)),
                withSinglePartition=not groups,
                partitionBy=[PartitioningColumn(f"`{group.replace('`', '``')}`") for group in groups],
                query=query,
                compared={str(what): schema.field(what).type for what in query.expressions()},
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
            columns = {name: pa.array([row[name] for row in self.rows], data_type) for name, data_type in self.compared.items()}
            return pa.table({**columns, ROW: pa.array(range(len(self.rows)), pa.int64())})

    return TableFunction
