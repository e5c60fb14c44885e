"""Aggregates of windows that can be asked further: `.aggregate("sum(size) AS volume", keys="symbol").top_k(3, by="volume")`.

The second query is asked of the aggregates of each window, in the same task: panes are shared, and windows come out once, as always.
"""

from dataclasses import replace
from typing import Any, Protocol, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from skytide.errors import InvalidInput
from skytide.queries import Identity, Query
from skytide.queries.aggregate import Result
from skytide.queries.over import Over
from skytide.queries.queryable import Queryable
from skytide.spark.arrow import HELPER, arrow_schema, bounded, spark_schema
from skytide.spark.engine.window_level import BOUNDS, result_columns
from skytide.spark.query.aggregates import expression_of
from skytide.spark.query.binding import existing
from skytide.spark.query.checks import check_asked
from skytide.spark.query.continuous import ContinuousQuery

Continuous = TypeVar("Continuous", bound=ContinuousQuery)


class AggregatedQuery(ContinuousQuery, Queryable[ContinuousQuery]):
    """Aggregates of the windows of a stream, ready to start or to be asked further."""

    def apply(self, query: Query) -> ContinuousQuery:
        """Ask any query of the aggregates of each window."""
        return ContinuousQuery(**fields_of(asked_over(self, query)))

    def windows_of_all_rows(self) -> "AggregatedFrame":
        """Return the windows of rows that do not stream, in one lazy plan."""
        return aggregated_frame(super().windows_of_all_rows(), self)


class _Chain(Protocol):
    def apply(self, query: Query) -> ContinuousQuery: ...


class AggregatedFrame(Queryable[DataFrame], DataFrame):
    """A DataFrame with the aggregates of each window, which can be asked further, window by window."""

    _chain: _Chain

    def apply(self, query: Query) -> DataFrame:
        """Ask any query of the aggregates of each window."""
        return self._chain.apply(query).windows_of_all_rows()


def aggregated_frame(df: DataFrame, chain: _Chain) -> AggregatedFrame:
    """Return a DataFrame as one that can be asked further; for Spark it stays the same."""
    kind: Any = type(AggregatedFrame.__name__, (AggregatedFrame, type(df)), {"__doc__": AggregatedFrame.__doc__})
    found: AggregatedFrame = object.__new__(kind)
    found.__dict__.update(vars(df), _chain=chain)
    return found


def fields_of(query: ContinuousQuery) -> dict[str, Any]:
    """Return the fields of a query, to make one of another class."""
    return {name: getattr(query, name) for name in ContinuousQuery.__dataclass_fields__}


def asked_over(asked: Continuous, query: Query) -> Continuous:
    """Return a query over the answers of another one; names and expressions refer to its results."""
    check_asked(asked.rows, query)
    columns = arrow_schema(asked.rows.schema)
    known = bounded(asked.rows.schema, asked.time)
    results = spark_schema(known, result_columns(asked.query, columns, columns.field(asked.time).type))
    answer = asked.rows.sparkSession.createDataFrame([], StructType([field for field in results if field.name not in BOUNDS]))
    names: dict[str, str] = {}
    computed: list[Result] = []
    for what in query.expressions():
        name = existing(answer, what)
        if name is None:
            if not isinstance(what, str | Column):
                raise InvalidInput(
                    value=str(what), reason="not a column", remedy="give a result's name, an SQL expression or a Column"
                )
            name = f"{HELPER}over{len(computed)}"
            computed.append(Result(name, expression_of(answer, what), str(what)))
        names[str(what)] = name
    chained = Over(asked.query, query.over(names), tuple(computed))
    chained.check(columns)
    before = asked.identity or asked.query.identity()
    upper = Identity.of(chained.second, repr(query), stricter=chained.second.stricter())
    return replace(asked, query=chained, identity=before.over(upper))
