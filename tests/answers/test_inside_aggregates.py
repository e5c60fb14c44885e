"""Lambdas, EXTRACT and Python functions inside aggregates: the same values as in Spark, or refused with a remedy that works."""

from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import skytide
from skytide import InvalidInput
from skytide.spark.api.aggregates import aggregate_of

TEXTS = [
    "sum(aggregate(items, 0D, (a, b) -> a - b))",
    "sum(aggregate(items, 0D, (a, b) -> b - 2 * a, a -> a + x1))",
    "max(size(filter(items, v -> v > 1)))",
    "sum(transform(items, (v, at) -> v * at + x1)[1]) / count(*)",
    "count_if(exists(items, v -> v > x1)) ",
    "max(element_at(transform(nested, p -> aggregate(transform(items, q -> p.a * q), 0D, (q, p) -> q + p)), 1))",
    "sum(x1) FILTER (WHERE forall(items, v -> v < 6))",
    "max(array_sort(items, (l, r) -> CASE WHEN l > r THEN -1 WHEN l < r THEN 1 ELSE 0 END)[0])",
    "max(map_filter(m, (k, v) -> v > 1)['a'])",
    "sum(extract(SECOND FROM ts))",
    "max(extract(DAY FROM ts) + aggregate(items, 0D, (a, b) -> a + b + extract(MINUTE FROM ts)))",
    "sum(extract(MINUTE FROM ts)) FILTER (WHERE extract(SECOND FROM ts) > 10)",
    "sum(registered_twice(x1))",
]


def upper(value: float) -> float:
    return value * 2


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    spark.udf.register("registered_twice", F.udf(upper, "double", useArrow=False))
    return spark.sql("""
        SELECT TIMESTAMP '2026-01-01' + make_interval(0, 0, 0, 0, 0, 0, id) AS ts, CAST(id % 7 AS double) AS x1,
               array(CAST(id % 7 AS double), 3D) AS items, array(named_struct('a', CAST(id % 3 AS double))) AS nested,
               map('a', id % 5) AS m
        FROM range(50)""").coalesce(1)


def values(df: DataFrame, asked: list[Any]) -> tuple[Any, Any]:
    ours = skytide.stream(df).window("1 hour").aggregate(*asked)
    theirs = df.agg(*(F.expr(each) if isinstance(each, str) else each for each in asked))
    return ours.collect()[0][2:], tuple(theirs.collect()[0])


def test_lambdas_and_extract_are_sparks(rows: DataFrame) -> None:
    columns = [
        F.sum(F.aggregate("items", F.lit(0.0), lambda a, b: b - a * 2)).alias("reduced"),
        F.max(F.transform("items", lambda v: v + F.col("x1"))[0]).alias("moved"),
    ]
    ours, theirs = values(rows, [*(f"{text} AS v{number}" for number, text in enumerate(TEXTS)), *columns])
    assert ours == theirs


def test_a_lambda_has_one_identity_however_its_variables_are_called(rows: DataFrame) -> None:
    def identity(asked: str | Column) -> str:
        return repr(aggregate_of(rows, [asked], (), "ts"))

    first = identity("sum(aggregate(items, 0D, (a, b) -> a - b)) AS s")
    assert identity("sum(aggregate(items, 0D, (b, c) -> b - c)) AS s") == first
    assert identity("sum(aggregate(items, 0D, (a, b) -> b - a)) AS s") != first
    columns = [F.sum(F.transform("items", lambda v: v + 1)[0]).alias("s") for _ in range(2)]
    assert identity(columns[0]) == identity(columns[1])


def test_what_spark_itself_cannot_write_in_sql_is_refused_with_a_remedy(rows: DataFrame) -> None:
    rows = rows.withColumn("k", F.format_string("k%d", F.col("x1").cast("int")))
    with pytest.raises(InvalidInput, match=r"cannot be written in SQL.*compute a column first"):
        skytide.stream(rows).window("1 hour").aggregate("count_if(k LIKE ANY ('%1', '%2')) AS n")
    ours, theirs = values(rows.withColumn("y", F.expr("k LIKE ANY ('%1', '%2')")), ["count_if(y) AS n"])
    assert ours == theirs


def test_python_functions_without_a_registered_name_are_refused_with_a_remedy(rows: DataFrame) -> None:
    for function in (
        F.udf(upper, "double", useArrow=False),
        F.udf(lambda value: value * 2, "double", useArrow=False),
    ):  # Spark's own `upper` is another function
        with pytest.raises(
            InvalidInput, match=r'not registered; compute a column first: df.withColumn\("y", ...\), and aggregate y'
        ):
            skytide.stream(rows).window("1 hour").aggregate(F.sum(function("x1")).alias("s"))
        ours, theirs = values(rows.withColumn("y", function("x1")), ["sum(y)"])
        assert ours == theirs == (2 * sum(n % 7 for n in range(50)),)
