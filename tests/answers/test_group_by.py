"""Aggregates of groups in the ways people write them: the same query, the same results."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skytide
from skytide import InvalidInput

Ask = Callable[[DataFrame], Any]


@pytest.fixture
def trades(spark: SparkSession) -> DataFrame:
    return spark.range(300).selectExpr(
        "timestamp_millis(1700000000000 + id * 400) AS ts",
        "concat('S', id % 3) AS symbol",
        "id % 2 AS venue",
        "10.0D + id % 7 AS price",
        "1 + id % 5 AS size",
    )


def windows(df: DataFrame) -> Any:
    return skytide.stream(df).window("1 minute", slide="20 s")


def keyed(df: DataFrame, *keys: str) -> Any:
    return skytide.stream(df).keyed(*keys).window("1 minute", slide="20 s")


FORMS: dict[tuple[str, ...], dict[str, Ask]] = {
    keys: {
        "keys=": lambda df, keys=keys: windows(df).aggregate(*measures(), keys=keys),
        "group_by": lambda df, keys=keys: windows(df).group_by(*keys).agg(*measures()),
        "groupBy": lambda df, keys=keys: windows(df).groupBy(*keys).agg(*measures()),
        "keyed": lambda df, keys=keys: keyed(df, *keys).aggregate(*measures()),
    }
    for keys in [("symbol",), ("symbol", "venue")]
}


def measures() -> tuple[Any, ...]:
    """Return aggregates as texts and as Columns, which need a session."""
    return ("count(*)", F.avg("price").alias("mean"), "sum(price * size) / sum(size) AS vwap", "last(price) AS latest")


def sorted_rows(df: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in df.collect())


@pytest.mark.parametrize("keys", FORMS, ids="_".join)
def test_all_forms_have_the_same_results_on_a_table_and_on_a_stream(
    spark: SparkSession, trades: DataFrame, tmp_path: Path, keys: tuple[str, ...]
) -> None:
    plain = trades.groupBy(F.window("ts", "1 minute", "20 seconds"), *keys).agg(
        F.count("*"),
        F.avg("price"),
        F.sum(F.col("price") * F.col("size")) / F.sum("size"),
        F.max_by("price", "ts"),
    )
    expected = [tuple(row) for row in plain.select("window.start", "window.end", *plain.columns[1:]).collect()]
    tables = {name: ask(trades) for name, ask in FORMS[keys].items()}
    for name, table in tables.items():
        assert table.columns == ["window_start", "window_end", *keys, "count", "mean", "vwap", "latest"], name
        assert sorted_rows(table) == sorted(expected), name
    trades.write.parquet(str(tmp_path / "in"))
    source = spark.readStream.schema(trades.schema).parquet(str(tmp_path / "in"))
    for name, ask in FORMS[keys].items():
        places = {"path": str(tmp_path / f"out {name}"), "checkpoint": str(tmp_path / f"state {name}")}
        ask(source).start("parquet", **places, trigger="availableNow", flush=True).await_termination()
        assert sorted_rows(spark.read.parquet(places["path"]).select(*tables[name].columns)) == sorted(expected), name


def test_a_checkpoint_does_not_know_which_of_the_two_was_written(spark: SparkSession) -> None:
    source = spark.readStream.format("rate").load().selectExpr("timestamp AS ts", "value AS symbol", "1.0D AS price", "1 AS size")
    one, other, of_keys = (FORMS[("symbol",)][name](source).spec for name in ("keys=", "group_by", "keyed"))
    assert one.texts() == other.texts() and one.query == other.query
    assert of_keys.step is None and of_keys.query.measures == one.query.measures and of_keys.query.keys == one.query.keys


def test_a_null_is_a_group_but_not_a_key(trades: DataFrame) -> None:
    some = trades.withColumn("symbol", F.when(F.col("symbol") != "S0", F.col("symbol")))
    found = windows(some).group_by("symbol").agg("count(*) AS n")
    assert {row["symbol"] for row in found.collect()} == {None, "S1", "S2"}


def test_groups_can_be_asked_further(trades: DataFrame) -> None:
    best = windows(trades).group_by("symbol").agg("sum(size) AS volume", "avg(price) AS mean").top_k(1, by="volume")
    same = windows(trades).aggregate("sum(size) AS volume", "avg(price) AS mean", keys="symbol").top_k(1, by="volume")
    assert sorted_rows(best) == sorted_rows(same) != []


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda w: w.group_by(), r"group_by\(\): no column is named; name one: group_by\(\"symbol\"\), or use .aggregate"),
        (lambda w: w.group_by(3), "group_by=3: not a text"),
        (lambda w: w.group_by(["symbol"]), r"group_by=\['symbol'\]: not a text"),
        (lambda w: w.group_by("symbol", "symbol").agg("count(*)"), "key symbol: named twice; name each column once"),
        (lambda w: w.group_by("symbol").agg("frobnicate(price)"), "Spark knows no such function; write one of count, sum"),
        (lambda w: w.group_by("symbol", ""), "group_by='': not a text, or an empty one"),
        (lambda w: w.group_by("nobody").agg("count(*)"), "nobody.*; .*symbol"),
        (lambda w: w.group_by("nobody").agg("avg(price + 1) AS mean"), "nobody"),
        (lambda w: w.group_by("symbol").agg(), r"agg\(\): nothing to aggregate; name some: agg\(\"count\(\*\)\"\)"),
        (lambda w: w.group_by("symbol").agg({"price": "avg"}), "not an aggregate; give a text such as"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_job(trades: DataFrame, ask: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ask(windows(trades))
