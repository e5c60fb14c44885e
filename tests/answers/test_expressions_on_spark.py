"""Expressions inside and over aggregates, as texts and as Columns, against Spark's own: the same values, types and errors."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import ArithmeticException, PythonException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from support.aggregates import Span

import skytide
from skytide import InvalidInput

TEXTS = {
    "vwap": "sum(price * size) / sum(size)",
    "range": "max(price) - min(price)",
    "of_decimals": "sum(cents) * 2 / count(*) + 1.5",
    "product": "sum(cents) * avg(cents)",
    "wide": "sum(huge) * sum(cents)",
    "quotient": "sum(cents) / sum(huge)",
    "rest": "sum(size) % 3",
    "rest_of_floats": "sum(price) % 0.7",
    "rest_of_decimals": "sum(cents) % 1.3",
    "whole": "sum(size) div 3",
    "negative": "-sum(size)",
    "distance": "abs(min(price) - 5)",
    "rounded": "round(avg(price), 1)",
    "rounded_decimals": "round(avg(cents), 1)",
    "tens": "round(sum(size), -1)",
    "root": "sqrt(sum(size))",
    "tried": "try_divide(sum(size), count(price) - 3)",
    "no_zero": "sum(price) / nullif(sum(size), 0)",
    "guarded": "CASE WHEN sum(size) > 0 THEN 100 / sum(size) WHEN sum(size) IS NULL THEN -1 ELSE 0 END",
    "first_there": "coalesce(max(nothing), sum(size), 7)",
    "either": "if(count(*) > 2 AND max(price) < 100 OR min(size) = 0, sum(size), -sum(size))",
    "largest": "greatest(sum(size), count(*), max(nothing))",
    "smallest": "least(min(price), avg(price))",
    "floats": "if(max(odd) >= max(price), 1, 0)",
    "same": "max(odd) = max(odd)",
    "not_less": "NOT (min(odd) <= min(price))",
    "as_double": "CAST(sum(cents) AS double) / 3",
    "as_whole": "CAST(avg(price) AS int) + 1",
    "as_decimal": "CAST(avg(price) AS decimal(10, 3))",
    "inside": "sum(CASE WHEN size > 3 THEN price ELSE 0 END)",
    "length": "max(length(symbol))",
    "filtered": "sum(size) FILTER (WHERE price > 4)",
    "some": "count(*) FILTER (WHERE price > 4)",
    "counted": "count_if(price > 4)",
    "counted_twice": "count_if(price > 4 OR size = 1) FILTER (WHERE size < 3)",
    "none": "count(NULL)",
    "ones": "sum(1)",
    "all": "count(1)",
    "of_texts": "stddev(CAST(substring(symbol, 2) AS double))",
    "all_large": "bool_and(price > 4)",
    "any_large": "bool_or(price > 4)",
    "spread": "stddev(price)",
    "spread_of_all": "stddev_pop(cents) * 2",
    "variance": "variance(size)",
    "variance_of_all": "var_pop(price + size)",
    "kinds": "count(distinct size)",
    "about": "approx_count_distinct(symbol)",
    "median": "percentile_approx(price, 0.5)",
    "upper": "percentile_approx(cents, 0.9, 1000)",
    "of_dates": "percentile_approx(day, 0.5)",
    "share": "count(distinct size) / count(*)",
    "with_key": "sum(size) + g",
    "of_days": "if(max(day) > DATE '2026-01-20' OR min(symbol) = 's0', 1.5BD, NULL)",
}
COLUMNS: dict[str, Callable[[], Column]] = {
    "total": lambda: F.sum("size"),
    "mean_product": lambda: F.avg(F.col("price") * F.col("size")),
    "ratio": lambda: F.sum(F.col("price") * F.col("size")) / F.sum("size"),
    "deviation": lambda: F.stddev("price"),
    "different": lambda: F.count_distinct("size"),
    "half": lambda: F.percentile_approx("price", 0.5),
    "when": lambda: F.when(F.count("*") > 3, F.max("price")).otherwise(F.min("price")),
}
ROUNDED = (
    "of_texts",
    "spread",
    "spread_of_all",
    "variance",
    "variance_of_all",
    "deviation",
    "vwap",
    "ratio",
    "mean_product",
    "no_zero",
)
"""Sums of floats depend on the order in Spark."""


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """Three keys, of which one has NULL only, another has odd floats, over four windows."""
    return spark.sql("""
        SELECT TIMESTAMP '2026-01-01' + make_interval(0, 0, 0, 0, 0, 0, id * 2) AS ts, CAST(id % 4 AS int) AS g, concat('s', id % 5) AS symbol,
               IF(id % 4 = 3, NULL, CAST(id % 7 AS int)) AS size, IF(id % 4 = 3, NULL, (id * 37 % 101) / 8D) AS price,
               CAST(IF(id % 4 = 3, NULL, id * 1.25) AS decimal(10, 2)) AS cents, CAST(id + 1 AS decimal(30, 10)) / 7 AS huge,
               CAST(CASE id % 4 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0.0' ELSE '3.5' END AS double) AS odd, CAST(NULL AS bigint) AS nothing,
               DATE '2026-01-01' + CAST(id AS int) AS day
        FROM range(60)""").repartition(3)


def windowed(df: DataFrame) -> Any:
    return skytide.stream(df).window("1 minute", slide="20 seconds")


def asked() -> list[str | Column]:
    return [*(f"{text} AS {name}" for name, text in TEXTS.items()), *(made().alias(name) for name, made in COLUMNS.items())]


def of_spark(df: DataFrame, *measures: Column) -> DataFrame:
    found = df.groupBy(F.window("ts", "1 minute", "20 seconds"), "g").agg(*measures)
    bounds = [F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end")]
    return found.select(*bounds, *(name for name in found.columns if name != "window"))


def same(ours: Any, theirs: Any, rounded: bool) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=1e-12) if rounded and math.isfinite(theirs) else repr(ours) == repr(theirs)
    return type(ours) is type(theirs) and bool(ours == theirs)


def differences(ours: DataFrame, theirs: DataFrame) -> dict[Any, Any]:
    mine, spark_s = ({tuple(row[:3]): row.asDict() for row in df.collect()} for df in (ours, theirs))
    assert set(mine) == set(spark_s) and len(mine) > 8
    pairs = {(key, name): (value, spark_s[key][name]) for key, row in mine.items() for name, value in row.items()}
    return {at: pair for at, pair in pairs.items() if not same(*pair, rounded=at[1] in ROUNDED)}


def test_values_and_types_are_sparks(rows: DataFrame) -> None:
    ours = windowed(rows).aggregate(*asked(), keys="g")
    theirs = of_spark(rows, *(F.expr(each) if isinstance(each, str) else each for each in asked()))
    assert [(f.name, f.dataType) for f in ours.schema] == [(f.name, f.dataType) for f in theirs.schema]
    assert differences(ours, theirs) == {}


def test_a_stream_gives_the_same_and_an_own_function_runs_in_its_workers(
    spark: SparkSession, rows: DataFrame, tmp_path: Path
) -> None:
    rows.write.parquet(str(tmp_path / "in"))
    streamed = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "in"))
    own = skytide.collect(Span(), "price * 2", name="span")
    query = windowed(streamed).aggregate(*asked(), own, keys="g")
    out = str(tmp_path / "out")
    run = query.start("parquet", path=out, checkpoint=str(tmp_path / "checkpoint"), trigger="availableNow", flush=True)
    assert run.await_termination()
    expected = [
        *(F.expr(each) if isinstance(each, str) else each for each in asked()),
        F.expr("max(price * 2) - min(price * 2) AS span"),
    ]
    assert differences(spark.read.parquet(out).drop("batch"), of_spark(rows, *expected)) == {}
    changed = windowed(streamed).aggregate(*asked(), skytide.collect(Span(), "price * 3", name="span"), keys="g")
    with pytest.raises(InvalidInput, match=r"the checkpoint .* belongs to a query with"):
        changed.start("parquet", path=out, checkpoint=str(tmp_path / "checkpoint"), trigger="availableNow")


@pytest.fixture
def lenient(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.ansi.enabled", "false")
    yield
    spark.conf.set("spark.sql.ansi.enabled", "true")


@pytest.mark.usefixtures("lenient")
def test_without_ansi_mode_there_is_null_where_there_is_no_result(rows: DataFrame) -> None:
    asked = ["sum(size) / (count(*) - count(*)) AS none", "sum(size) * 9223372036854775807 AS wrapped", "sum(cents) % 0 AS rest"]
    ours = windowed(rows).aggregate(*asked, keys="g")
    assert differences(ours, of_spark(rows, *map(F.expr, asked))) == {}


@pytest.mark.parametrize("windows", ["count", "time"])
def test_windows_of_keys_give_the_same(rows: DataFrame, windows: str) -> None:
    keyed = skytide.stream(rows).keyed("g")
    measures = ["sum(price * size) / sum(size) AS vwap", "count(distinct size) AS kinds", "stddev(cents) AS spread", F.max("size")]
    if windows == "time":
        ours = keyed.window("1 minute", slide="20 seconds").aggregate(*measures)
        theirs = of_spark(rows, *(F.expr(each) if isinstance(each, str) else each.alias("max_size") for each in measures))
        assert differences(ours.select(theirs.columns), theirs) == {}
        return
    found = {row["g"]: row for row in keyed.count_window(15).aggregate(*measures).collect()}
    every = {
        row["g"]: row
        for row in rows.groupBy("g").agg(*(F.expr(e) if isinstance(e, str) else e.alias("max_size") for e in measures)).collect()
    }
    assert set(found) == set(every) == {0, 1, 2, 3}  # 15 rows of each: one window
    for g, row in found.items():
        assert all(same(row[name], every[g][name], rounded=True) for name in ("vwap", "kinds", "spread", "max_size"))


def test_names_follow_the_function_and_the_column(rows: DataFrame) -> None:
    ours = windowed(rows).aggregate(F.sum("size"), F.count("*"), F.mean("price"), "stddev(size)", "count(distinct symbol)")
    assert ours.columns[2:] == ["sum_size", "count", "avg_price", "stddev_size", "count_distinct_symbol"]


def test_equal_aggregates_are_kept_once(spark: SparkSession, rows: DataFrame) -> None:
    from skytide.spark.api.aggregates import aggregate_of

    query = aggregate_of(rows, ["sum(size) / count(*) AS a", "sum(size) * 2 AS b", "sum(size)"], ("g",), "ts")
    assert [measure.text for measure in query.measures] == ["sum(size)", "count(*)"]


@pytest.mark.parametrize(
    ("measure", "error"),
    [("sum(size) / (count(*) - count(*)) AS x", "DIVIDE_BY_ZERO"), ("sum(size) * 9223372036854775807 AS x", "OVERFLOW")],
)
def test_what_has_no_result_is_an_error_in_both(rows: DataFrame, measure: str, error: str) -> None:
    with pytest.raises(ArithmeticException, match=error):
        of_spark(rows, F.expr(measure)).collect()
    with pytest.raises(
        PythonException, match=r"of a window: (a division by zero; write try_divide|a value overflows int64; use a try_ function)"
    ):
        windowed(rows).aggregate(measure, keys="g").collect()


@pytest.mark.parametrize(
    ("measure", "reason"),
    [
        ("sum(size) / count(*)", "it has no name; give it one"),
        ("sum(price * size)", "it has no name; give it one"),
        ("sum(prize) AS x, 2", "PARSE_SYNTAX_ERROR"),
        ("sum(prize * 2) AS x", "cannot be resolved"),
        ("price AS x", "no aggregate in it; write one of count, sum"),
        ("1 + 1 AS x", "no aggregate in it"),
        ("median(price)", "exact quantiles would keep every value; write percentile_approx"),
        ("collect_list(price) AS x", "is not known here; use count, sum"),
        ("sum(distinct size) AS x", "is not known here"),
        ("upper(max(symbol)) AS x", "is not known over aggregates"),
        ("count(distinct size, price) AS x", "several columns at once"),
        ("percentile_approx(price, array(0.1, 0.9)) AS x", "several quantiles at once; ask for each by itself"),
        ("percentile_approx(price, 0.5, 100000) AS x", "accuracy=100000"),
        (7, "measures=7: not an aggregate; give a text"),
        ("", "measures='': not an aggregate"),
        (None, "measures=None: not an aggregate"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_any_job(rows: DataFrame, measure: Any, reason: str) -> None:
    with pytest.raises(InvalidInput) as error:
        windowed(rows).aggregate(measure)
    assert reason in str(error.value)
