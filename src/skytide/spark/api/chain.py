"""Queries on the aggregates of windows: `.aggregate("sum(size) AS volume", keys="symbol").top_k(3, by="volume")`.

The second query is asked of the aggregates of each window, in the same task: panes are shared, and windows come out once, as always.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NoReturn

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from skytide.errors import InvalidInput
from skytide.queries import QUERIES, Aggregate, Identity, Query, Queryable
from skytide.queries.aggregate import Result
from skytide.queries.over import Over
from skytide.spark.api.aggregates import expression_of
from skytide.spark.api.binding import existing
from skytide.spark.api.checks import check_asked
from skytide.spark.arrow import HELPER, bounded, spark_schema
from skytide.spark.engine.spec import BOUNDS, QuerySpec, result_columns


class AggregatedFrame(Queryable[DataFrame], DataFrame):
    """A DataFrame with the aggregates of each window, which can be asked further, window by window: what type checkers see of it."""


@dataclass(frozen=True)
class _Further(Queryable[DataFrame]):
    ask: Callable[[Query], DataFrame]

    def apply(self, query: Query) -> DataFrame:
        return self.ask(query)


def aggregated_frame(df: DataFrame, ask: Callable[[Query], DataFrame]) -> DataFrame:
    """Return a DataFrame that can be asked further; for Spark it stays the same."""
    further = _Further(ask)
    for name in ("apply", *QUERIES):
        setattr(df, name, getattr(further, name))
    return df


def asked_over(rows: DataFrame, spec: QuerySpec, query: Query) -> QuerySpec:
    """Return a query over the answers of another one; names and expressions refer to its results."""
    check_asked(rows, query)
    check_further(spec, query)
    results = spark_schema(bounded(rows.schema, spec.time), result_columns(spec.query, spec.columns, spec.time_type))
    answer = rows.sparkSession.createDataFrame([], StructType([field for field in results if field.name not in BOUNDS]))
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
    chained = Over(spec.query, query.over(names), tuple(computed))
    chained.check(spec.columns)
    upper = Identity.of(chained.second, repr(query), stricter=chained.second.stricter(), short=query.short())
    return replace(spec, query=chained, identity=spec.known_as.over(upper))


def check_further(spec: QuerySpec, query: Query) -> None:
    """Refuse a further query on anything but the aggregates of windows of time."""
    if spec.step is not None:
        refuse_further(query)
    if not isinstance(spec.query, Aggregate):
        raise InvalidInput(
            value=f"{type(query).__name__} over {type(spec.query).__name__}",
            reason="only the aggregates of windows can be asked further",
            remedy='begin with .aggregate("count(*) AS n", keys=...)',
        )


def refuse_further(query: Query) -> NoReturn:
    """Refuse a further query on what an operator on keys returns."""
    raise InvalidInput(
        value=f"{type(query).__name__} over aggregates",
        reason="each window of rows belongs to one key, so there is nothing to compare it with",
        remedy='use windows of time, such as .window("1 minute")',
    )
