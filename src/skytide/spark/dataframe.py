"""Queries on a plain DataFrame: one lazy plan that Spark distributes."""

from numbers import Integral
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from skytide.errors import InvalidInput
from skytide.queries import KDominant, Levels, Nulls, Query, Skyband, Skyline, TopDelta, TopK, combine, high
from skytide.queries.preferences import Preference
from skytide.spark.binding import bind, map_in_arrow, spark_schema
from skytide.spark.checks import check_asked, check_columns
from skytide.spark.tasks import keep, share, whole
from skytide.spark.types import arrow_schema

MOST_SLOTS = 32  # every slot of a shared merge gets a copy of what was kept
SLOT = "__skytide_slot"
OWNER = "__skytide_owner"


def skyline(df: DataFrame, *preferences: Preference, distinct: bool = False, nulls: Nulls = "error") -> DataFrame:
    """Give the rows of `df` that no other row dominates.

    Preferences (`low`, `high`, `diff`) take a column name, an SQL expression or a Column. `distinct` keeps one row of those that
    are equal in all preferred columns. `nulls` says what happens to rows with NULL or NaN there: an error, "drop", or "worst".
    """
    return apply(df, Skyline(combine(preferences), nulls, distinct))


def skyband(df: DataFrame, *preferences: Preference | int, k: int | None = None, nulls: Nulls = "error") -> DataFrame:
    """Give the rows that fewer than `k` other rows dominate."""
    count, rest = count_of("k", k, preferences)
    return apply(df, Skyband(combine(rest), nulls, count))


def levels(df: DataFrame, *preferences: Preference, up_to: int | None = None, nulls: Nulls = "error") -> DataFrame:
    """Give every row with its `level`: 1 for the skyline, 2 for the skyline of the rest, and so on, to `up_to` if given."""
    return apply(df, Levels(combine(preferences), nulls, up_to))


def k_dominant(df: DataFrame, *preferences: Preference | int, k: int | None = None, nulls: Nulls = "error") -> DataFrame:
    """Give the rows that no other row beats in any `k` of the preferred columns."""
    count, rest = count_of("k", k, preferences)
    return apply(df, KDominant(combine(rest), nulls, count))


def top_delta(df: DataFrame, *preferences: Preference | int, delta: int | None = None, nulls: Nulls = "error") -> DataFrame:
    """Give the k-dominant skyline of the smallest k that holds at least `delta` rows, each row with its own `k`."""
    count, rest = count_of("delta", delta, preferences)
    return apply(df, TopDelta(combine(rest), nulls, count))


def top_k(df: DataFrame, k: int, *, by: Any, nulls: Nulls = "error") -> DataFrame:
    """Give the `k` best rows by a score, and whoever ties with the last; `by` is a preference, or a score where high is best."""
    return apply(df, TopK(by if isinstance(by, Preference) else high(by), nulls, k))


def apply(df: DataFrame, query: Query) -> DataFrame:
    """Ask any query, also one of your own, of all rows of a DataFrame.

    Each partition keeps what can still matter. The merge is then divided: by `diff` columns where there are some, otherwise each
    slot decides about a share of the kept rows against all of them. Only a query that knows neither is merged in one task.
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
    kept = map_in_arrow(rows, keep(bound), spark_schema(rows.schema, bound.kept_schema(given)))
    slots = min(_parallelism(df), MOST_SLOTS)
    if bound.groups():
        merged = map_in_arrow(kept.repartition(slots, *map(_column, bound.groups())), whole(bound.window), schema)
    elif bound.can_share and slots > 1:
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


def _column(name: str) -> Any:
    return F.col(f"`{name.replace('`', '``')}`")


def _parallelism(df: DataFrame) -> int:
    session = df.sparkSession
    try:
        return int(session.sparkContext.defaultParallelism)
    except Exception:  # Spark Connect has no context: what shuffles use is the next best guess
        return int(session.conf.get("spark.sql.shuffle.partitions") or 1)


def count_of(name: str, value: int | None, given: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Take the count by name or as the first argument, as in `skyband(df, 3, low("price"))`."""
    if value is None and given and isinstance(given[0], Integral):
        return given[0], given[1:]
    if value is None:
        raise InvalidInput(value=f"{name} is missing", reason="the query needs a count", remedy=f"pass {name}=3, say")
    return value, given
