"""Queries over the aggregates of windows, in one chain: against Spark's own windows and ranks, on rows, streams and keys."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import skytide
from skytide import InvalidInput, diff, high, low

MEASURES = ("sum(size) AS volume", "count(*) AS trades", "avg(price) AS mean")
Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def trades(spark: SparkSession) -> DataFrame:
    return spark.sql("""
        SELECT TIMESTAMP '2026-01-01' + make_interval(0, 0, 0, 0, 0, 0, id / 4) AS ts, concat('s', id * id % 11) AS symbol,
               id % 2 = 0 AS venue, id * 7919 % 13 AS size, (id * 104729 % 1000) / 8D AS price
        FROM range(1200)""").repartition(3)


def of_spark(trades: DataFrame) -> DataFrame:
    found = trades.groupBy(F.window("ts", "1 minute", "20 seconds"), "symbol").agg(*map(F.expr, MEASURES))
    bounds = [F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end")]
    return found.select(*bounds, *(name for name in found.columns if name != "window"))


def best(windows: DataFrame, k: int, score: str) -> DataFrame:
    """The k best of each window, and ties."""
    rank = F.rank().over(Window.partitionBy("window_start").orderBy(F.expr(score).desc()))
    return windows.withColumn("rank", rank).where(F.col("rank") <= k).drop("rank")


def skyline(windows: DataFrame) -> DataFrame:
    """No other symbol of the window has more volume at a lower mean."""
    windows.createOrReplaceTempView("windows")
    return windows.sparkSession.sql("""
        SELECT * FROM windows w WHERE NOT EXISTS (SELECT 1 FROM windows o WHERE o.window_start = w.window_start
        AND o.volume >= w.volume AND o.mean <= w.mean AND (o.volume > w.volume OR o.mean < w.mean))""")


CHAINS: dict[str, tuple[Callable[[Any], Any], Callable[[DataFrame], DataFrame]]] = {
    "top_k": (lambda a: a.top_k(3, by="volume"), lambda w: best(w, 3, "volume")),
    "an expression": (lambda a: a.top_k(2, by="volume / trades"), lambda w: best(w, 2, "volume / trades")),
    "a Column": (lambda a: a.top_k(2, by=F.col("volume") * F.col("mean")), lambda w: best(w, 2, "volume * mean")),
    "low": (lambda a: a.top_k(2, by=low("MEAN")), lambda w: best(w, 2, "-mean")),
    "skyline": (lambda a: a.skyline(high("volume"), low("mean")), skyline),
}


def rows_of(df: DataFrame) -> Rows:
    return sorted(tuple(row[name] for name in ("window_start", "window_end", "symbol", "volume", "trades")) for row in df.collect())


@pytest.fixture(scope="module")
def expected(trades: DataFrame) -> dict[str, Rows]:
    windows = of_spark(trades).cache()
    return {name: rows_of(ask(windows)) for name, (_, ask) in CHAINS.items()}


@pytest.mark.parametrize("chain", CHAINS)
def test_rows_that_do_not_stream(trades: DataFrame, expected: dict[str, Rows], chain: str) -> None:
    asked = skytide.stream(trades, streaming=False).window("1 minute", slide="20 seconds").aggregate(*MEASURES, keys="symbol")
    assert isinstance(asked, DataFrame) and asked.where("trades > 0").count() == of_spark(trades).count()
    found = CHAINS[chain][0](asked)
    assert found.columns == ["window_start", "window_end", "symbol", "volume", "trades", "mean"]
    assert rows_of(found) == expected[chain] != []


REMEDIES = {
    "sum(size) / (count(*) - count(*)) AS x": [
        "try_divide(sum(size), count(*) - count(*)) AS x",
        "sum(size) / nullif(count(*) - count(*), 0) AS x",
    ],
    "sum(size) * 9223372036854775807 AS x": ["try_multiply(sum(size), 9223372036854775807) AS x"],
    "sum(size * 600000000000000000 + 5) AS x": ["try_sum(size * 600000000000000000 + 5) AS x"],
}


@pytest.mark.parametrize("failing", REMEDIES)
def test_the_remedy_for_a_window_without_a_result_can_be_followed_on_the_same_checkpoint(
    spark: SparkSession, trades: DataFrame, tmp_path: Path, failing: str
) -> None:
    trades.write.parquet(str(tmp_path / "in"))
    rows = skytide.stream(spark.readStream.schema(trades.schema).parquet(str(tmp_path / "in")), streaming=True)

    def run(measure: str) -> Any:
        asked = rows.window("1 minute").aggregate(measure, "count(*) AS n", keys="symbol")
        started = asked.start("memory", checkpoint=str(tmp_path / "checkpoint"), trigger="availableNow", flush=True)
        started.await_termination()
        return started.results()

    with pytest.raises(Exception, match=r"of a window: .*(by zero|overflows)"):
        run(failing)
    for remedy in REMEDIES[failing]:
        found = run(remedy)
        assert remedy != REMEDIES[failing][0] or (found.num_rows and found["x"].null_count)


@pytest.mark.parametrize("keyed", [False, True])
def test_streams_and_keys_also_after_a_restart(
    spark: SparkSession, trades: DataFrame, expected: dict[str, Rows], tmp_path: Path, keyed: bool
) -> None:
    folder, out, checkpoint = tmp_path / "in", str(tmp_path / "out"), str(tmp_path / "checkpoint")
    trades.where("ts < '2026-01-01 00:02:30'").coalesce(1).sortWithinPartitions("ts").write.parquet(str(folder / "1"))

    def chain(k: int) -> Any:
        rows = skytide.stream(spark.readStream.schema(trades.schema).parquet(str(folder / "*")), streaming=True)
        if keyed:
            return rows.keyed("symbol").window("1 minute", slide="20 seconds").aggregate(*MEASURES).top_k(k, by="volume")
        return rows.window("1 minute", slide="20 seconds").aggregate(*MEASURES, keys="symbol").top_k(k, by="volume")

    run = chain(3).start("parquet", path=out, checkpoint=checkpoint, trigger="availableNow")
    assert run.await_termination()
    first = spark.read.parquet(out).count()
    assert 0 < first < len(expected["top_k"])
    with pytest.raises(InvalidInput, match=r"the checkpoint .* belongs to a query with TopK"):
        chain(2).start("parquet", path=out, checkpoint=checkpoint, trigger="availableNow")
    trades.where("ts >= '2026-01-01 00:02:30'").coalesce(1).sortWithinPartitions("ts").write.parquet(str(folder / "2"))
    run = chain(3).start("parquet", path=out, checkpoint=checkpoint, trigger="availableNow", flush=True)
    assert run.await_termination()
    assert rows_of(spark.read.parquet(out)) == expected["top_k"]


def test_groups_keep_their_own_best(trades: DataFrame) -> None:
    windows = skytide.stream(trades, streaming=False).window("1 minute")
    found = windows.aggregate("sum(size) AS volume", keys=("symbol", "venue")).top_k(1, by=high("volume") * diff("venue")).collect()
    assert {row["venue"] for row in found} == {True, False}
    assert len({(row["window_start"], row["venue"]) for row in found}) == 10


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (lambda a: a.top_k(3, by="volumes"), "did you mean 'volume'?"),
        (lambda a: a.top_k(3, by="size"), "there is no column 'size'"),
        (lambda a: a.top_k(3, by="volume / size"), "cannot be resolved"),
        (lambda a: a.top_k(3, by="upper(symbol)"), "is not known over aggregates"),
        (lambda a: a.top_k(0, by="volume"), "k=0: out of range"),
        (lambda a: a.skyline(low("symbol")), "only numbers, dates, times and booleans are ordered"),
        (lambda a: a.apply("top"), "query='top': not a query"),
    ],
)
def test_what_cannot_be_asked_is_refused(trades: DataFrame, ask: Callable[[Any], Any], reason: str) -> None:
    with pytest.raises(InvalidInput) as error:
        ask(skytide.stream(trades).window("1 minute").aggregate(*MEASURES, keys="symbol"))
    assert reason in str(error.value)


def test_windows_of_so_many_rows_have_nobody_to_compare_with(trades: DataFrame) -> None:
    found = skytide.stream(trades, streaming=False).keyed("symbol").count_window(10).aggregate(*MEASURES)
    assert found.count() > 0
    with pytest.raises(InvalidInput, match=r"TopK over aggregates: .* use windows of time"):
        found.top_k(3, by="volume")


def test_what_streams_is_told_apart(trades: DataFrame) -> None:
    with pytest.raises(InvalidInput, match=r"streaming=True: the rows do not stream; read it with spark\.readStream"):
        skytide.stream(trades, streaming=True)
