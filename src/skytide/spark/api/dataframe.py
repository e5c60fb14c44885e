"""Queries on a plain DataFrame: one lazy plan that Spark distributes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, cleandoc, signature
from typing import Any, Concatenate, ParamSpec

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from skytide.errors import InvalidInput
from skytide.queries import Expression, Query, Queryable
from skytide.queries.query import independent_groups, stands_for_window
from skytide.spark.api.binding import bind
from skytide.spark.api.checks import check_asked, check_columns
from skytide.spark.arrow import arrow_schema, map_in_arrow, spark_schema
from skytide.spark.compat import optimised_plan
from skytide.spark.engine.tasks import answer, keep, share, whole

SMALL_BYTES = 4 * 2**20  # as Spark estimates them: up to that, a second stage costs more than a second core saves
MAX_FILES = 16  # however small they are, each takes time to open
CHEAP = frozenset(("Project", "Filter", "Union"))  # steps of a plan that do not need several tasks for few rows
AT_HAND = frozenset(("LocalRelation", "OneRowRelation", "Range"))  # sources of rows that have no work behind them
FLAT = 2  # compared columns: up to that, a skyline has few rows, and merging them takes less than starting more tasks
MAX_SLOTS = 32  # every slot of a shared merge gets a copy of all kept rows
SLOT = "__skytide_slot"
OWNER = "__skytide_owner"
PARAMETERS = "Parameters\n----------\n"  # how the list of them begins in a docstring
Arguments = ParamSpec("Arguments")


@dataclass(frozen=True)
class _OfRows(Queryable[DataFrame]):
    """All rows of a DataFrame, which queries can be asked of."""

    df: DataFrame

    def apply(self, query: Query) -> DataFrame:
        return apply(self.df, query)


def _of_rows(
    method: Callable[Concatenate[_OfRows, Arguments], DataFrame],
) -> Callable[Concatenate[DataFrame, Arguments], DataFrame]:
    """Return a query as a function of a DataFrame, with the arguments and the documentation of its declaration."""

    @wraps(method)
    def function(df: DataFrame, /, *arguments: Arguments.args, **options: Arguments.kwargs) -> DataFrame:
        return method(_OfRows(df), *arguments, **options)

    declared = signature(method)
    rows = Parameter("df", Parameter.POSITIONAL_ONLY, annotation=DataFrame)
    parameters = [rows, *list(declared.parameters.values())[1:]]
    function.__signature__ = declared.replace(parameters=parameters, return_annotation=DataFrame)  # type: ignore[attr-defined]
    function.__qualname__, function.__module__ = method.__name__, __name__
    described = cleandoc(method.__doc__ or "")
    function.__doc__ = described.replace(PARAMETERS, f"{PARAMETERS}df\n    The rows: a DataFrame that does not stream.\n", 1)
    return function


skyline = _of_rows(_OfRows.skyline)
skyband = _of_rows(_OfRows.skyband)
levels = _of_rows(_OfRows.levels)
k_dominant = _of_rows(_OfRows.k_dominant)
top_delta = _of_rows(_OfRows.top_delta)
top_k = _of_rows(_OfRows.top_k)


def apply(df: DataFrame, query: Query) -> DataFrame:
    """Return the answer to any query, also one of your own, over all rows of a DataFrame, as a lazy DataFrame.

    Each partition keeps what can still matter. The merge is then divided: by `diff` columns where there are some, otherwise each
    slot decides about a share of the kept rows against all of them. One task merges the rows of a query that allows neither, and the
    skyline of two columns. Few rows that are cheap to have are answered in one task altogether. More in [skyline.md](skyline.md).

    Parameters
    ----------
    df
        The rows: a DataFrame that does not stream.
    query
        What is asked: one of skytide's queries, or an object of your own class below `skytide.Query`.

    Returns
    -------
    DataFrame
        Rows of `df`, in no order, with the columns that the query adds. Nothing is computed before an action asks for it.

    Raises
    ------
    InvalidInput
        If the rows stream, the query is none, a column does not exist or cannot be compared, or a name is taken by skytide.

    Examples
    --------
    ```python
    skytide.apply(hotels, Cheapest("price")).show()  # Cheapest(Query) is your own
    ```
    """
    check_asked(df, query)
    if df.isStreaming:
        raise InvalidInput(
            value="a streaming DataFrame",
            reason="its rows never end, so no row is ever the best of all",
            remedy="ask for windows: skytide.stream(df, time=...).window(...)",
        )
    check_columns(df)
    rows, bound, added = bind(df, query)
    given = arrow_schema(rows.schema)
    schema = spark_schema(rows.schema, bound.schema(given))
    if _is_small(rows):
        return map_in_arrow(rows.coalesce(1), answer(bound), schema).drop(*added)
    kept = map_in_arrow(rows, keep(bound), spark_schema(rows.schema, bound.kept_schema(given)))
    slots = min(_parallelism(df), MAX_SLOTS)
    if groups := independent_groups(bound):
        merged = map_in_arrow(kept.repartition(slots, *map(_column, groups)), whole(bound.window), schema)
    elif bound.can_share and stands_for_window(bound, "share") and slots > 1 and not _keeps_few(bound):
        merged = _shared(kept, bound, slots, schema)
        if not bound.share_is_final:
            merged = map_in_arrow(merged.repartition(1), whole(bound.settle), schema)
    else:
        merged = map_in_arrow(kept.repartition(1), whole(bound.window), schema)
    return merged.drop(*added)


def _shared(kept: DataFrame, query: Query, slots: int, schema: StructType) -> DataFrame:
    owner = F.pmod(F.hash(*map(_column, query.expressions())), F.lit(slots))  # equal points have one owner
    copies = kept.withColumn(OWNER, owner).withColumn(SLOT, F.explode(F.sequence(F.lit(0), F.lit(slots - 1))))
    return map_in_arrow(copies.repartitionById(slots, SLOT), share(query, SLOT, OWNER), schema)


def _column(name: Expression) -> Column:
    return F.col(f"`{str(name).replace('`', '``')}`")


def _is_small(df: DataFrame) -> bool:
    """Return whether Spark expects few rows, by the sizes of files, and little work; it does not know the size of all that can be a DataFrame."""
    try:
        # A plan of its own: that of the DataFrame itself would be fixed, and not notice if it is cached later.
        plan = optimised_plan(df.select("*"))
        return int(str(plan.stats().sizeInBytes())) <= SMALL_BYTES and _is_cheap(plan)
    except Exception:  # Spark Connect does not say, nor do sources that are not files
        return False


def _is_cheap(plan: Any) -> bool:
    """Return whether a plan only reads rows and selects some of them: functions in Python, joins and the like keep their tasks.

    Rows come from memory or from few files. What else they come from may have any work behind it, of which Spark's estimate says nothing.
    """
    steps, files = [plan], 0
    while steps:
        step = steps.pop()
        below = [step.children().apply(number) for number in range(step.children().size())]
        name = step.nodeName()
        if name == "LogicalRelation" and not below:
            files += step.relation().location().allFiles().size()  # fails if it has no files, or they are not listed yet
        elif not (name in CHEAP if below else name in AT_HAND or _is_filled_cache(step)):
            return False
        steps += below
    return files <= MAX_FILES


def _is_filled_cache(step: Any) -> bool:
    return step.nodeName() == "InMemoryRelation" and bool(step.cacheBuilder().isCachedColumnBuffersLoaded())


def _keeps_few(query: Query) -> bool:
    return query.skyline_inside() is not None and len(list(query.expressions())) <= FLAT


def _parallelism(df: DataFrame) -> int:
    session = df.sparkSession
    try:
        return int(session.sparkContext.defaultParallelism)
    except Exception:  # Spark Connect has no context: what shuffles use is the next best guess
        return int(session.conf.get("spark.sql.shuffle.partitions") or 1)
