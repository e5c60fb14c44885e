"""Operators on keys on Spark: as a user writes them, against pandas."""

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skytide
from skytide import low
from skytide.errors import InvalidInput

START_US = 1_700_000_000_000_000


def quotes(rows: int, symbols: int = 12, *, seed: int = 0) -> pa.Table:
    """Return quotes of symbols, some of which are much more frequent than others, a few of them out of order."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(0, rows * 1_000, rows)) + START_US
    times -= np.where(rng.random(rows) < 0.05, rng.integers(0, 20_000, rows), 0)
    chance = 1 / np.arange(1, symbols + 1)
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "symbol": np.array([f"S{n}" for n in range(symbols)])[rng.choice(symbols, rows, p=chance / chance.sum())],
            "price": np.round(rng.random(rows) * 100, 2),
            "size": rng.integers(1, 1_000, rows),
        }
    )


def written(table: pa.Table, folder: Path, files: int) -> Path:
    folder.mkdir()
    each = -(-table.num_rows // files)
    for number in range(files):
        pq.write_table(table.slice(number * each, each), folder / f"{number:03}.parquet")
        os.utime(folder / f"{number:03}.parquet", (number, number))  # Spark reads the oldest first
    return folder


def streamed(spark: SparkSession, folder: Path, files: int = 1) -> DataFrame:
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(folder))


def in_order(table: pa.Table) -> pd.DataFrame:
    return table.to_pandas().sort_values(["symbol", "ts", "price", "size"]).reset_index(drop=True)


def windows_of(rows: pd.DataFrame, length: int, slide: int) -> list[dict[str, Any]]:
    """The naive twin: each window of each symbol, by slicing."""
    found = []
    for symbol, mine in rows.groupby("symbol"):
        for start in range(0, len(mine) - length + 1, slide):
            window = mine.iloc[start : start + length]
            found.append(
                {
                    "symbol": symbol,
                    "row_start": start,
                    "row_end": start + length,
                    "window_start": window.ts.iloc[0],
                    "window_end": window.ts.iloc[-1],
                    "volume": window["size"].sum(),
                    "highest": window.price.max(),
                }
            )
    return found


def ask(source: Any) -> Any:
    windows = skytide.stream(source).keyed("symbol").count_window(50, slide=10, slack=skytide.slacks.FixedSlack("30 ms"))
    return windows.aggregate("sum(size) AS volume", "max(price) AS highest")


def test_a_stream_a_table_and_pandas_agree_while_slots_change_and_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    table = quotes(3_000)
    folder = written(table, tmp_path / "in", 6)
    expected = pd.DataFrame(windows_of(in_order(table), 50, 10))
    of_table = ask(spark.read.parquet(str(folder))).toPandas().sort_values(["symbol", "row_start"]).reset_index(drop=True)
    pd.testing.assert_frame_equal(of_table, expected, check_dtype=False)

    later = [shutil.move(folder / f"{n:03}.parquet", tmp_path / f"{n:03}.parquet") for n in (3, 4, 5)]
    places = {"checkpoint": tmp_path / "c", "path": tmp_path / "out"}
    run = ask(streamed(spark, folder)).start("parquet", **places, trigger="availableNow", slots=2)
    run.resize(slots=3)
    run.await_termination()
    assert run.routing().count == 3
    for file in later:
        shutil.move(file, folder)
    run = ask(streamed(spark, folder, 2)).start("parquet", **places, trigger="availableNow", flush=True, slots=1)
    run.await_termination()
    status = run.status()
    assert (status.tuples, status.late, status.slots, run.routing().count) == (3_000, 0, 1, 1)
    assert status.windows_out == len(expected)
    found = spark.read.parquet(str(tmp_path / "out")).drop("batch").toPandas().sort_values(["symbol", "row_start"])
    pd.testing.assert_frame_equal(found.reset_index(drop=True), expected, check_dtype=False)


def test_a_format_of_spark_is_a_sink_with_its_options(spark: SparkSession, tmp_path: Path) -> None:
    folder = written(quotes(400, 3), tmp_path / "in", 2)
    places = {"checkpoint": tmp_path / "c", "path": tmp_path / "out"}
    options = {"header": "true", "sep": ";"}
    ask(streamed(spark, folder)).start(
        "csv", **places, options=options, trigger="availableNow", flush=True, slots=1
    ).await_termination()
    found = spark.read.options(**options).csv(f"{tmp_path}/out/batch=*")
    expected = ask(spark.read.parquet(str(folder)))
    assert found.columns == expected.columns and found.count() == expected.count() > 0


class Spread:
    """The distance of the highest and the lowest price so far."""

    version = 1

    def open(self, key: str) -> Any:
        return np.array([np.inf, -np.inf])

    def process(self, state: Any, rows: pa.Table) -> Any:
        prices = rows["price"].to_numpy()
        low_, high_ = np.minimum.accumulate([state[0], *prices]), np.maximum.accumulate([state[1], *prices])
        return np.array([low_[-1], high_[-1]]), {"price": prices, "spread": high_[1:] - low_[1:]}


class Later(Spread):
    """The same with another version."""

    version = 2


class Upgraded(Later):
    """The same, with an upgrade from the version before."""

    def upgrade(self, state: Any, version: int) -> Any:
        assert version == 1
        return state


Later.__name__ = Upgraded.__name__ = "Spread"  # as an edited class would be


def test_an_operator_of_a_user_s_own_and_its_versions(spark: SparkSession, tmp_path: Path) -> None:
    table = quotes(1_200, 5)
    folder = written(table, tmp_path / "in", 4)
    later = shutil.move(folder / "003.parquet", tmp_path / "003.parquet")

    def start(operator: Any, *, flush: bool) -> Any:
        asked = skytide.stream(streamed(spark, folder)).keyed("symbol").apply(operator, slack=skytide.slacks.FixedSlack("30 ms"))
        options = {"checkpoint": tmp_path / "c", "path": tmp_path / "out", "trigger": "availableNow", "flush": flush}
        run = asked.start("parquet", **options, slots=2)
        run.await_termination()
        return run

    start(Spread(), flush=False)
    shutil.move(later, folder)
    with pytest.raises(InvalidInput, match=r"Spread of version 2: the checkpoint .* has states that its version 1 wrote"):
        start(Later(), flush=True)
    status = start(Upgraded(), flush=True).status()
    assert (status.tuples, status.late) == (1_200, 0)
    found = (
        spark.read.parquet(str(tmp_path / "out")).groupBy("symbol").agg(F.max("spread").alias("spread"), F.count("*").alias("n"))
    )
    assert sum(row["n"] for row in found.collect()) == 1_200
    asked = skytide.stream(spark.read.parquet(str(folder))).keyed("symbol").apply(Spread())
    for symbol, mine in in_order(table).groupby("symbol"):
        spread = asked.where(F.col("symbol") == symbol).agg(F.max("spread")).collect()[0][0]
        assert spread == pytest.approx(mine.price.max() - mine.price.min())


def test_queries_of_the_product_ask_windows_of_keys(spark: SparkSession, tmp_path: Path) -> None:
    table = quotes(600, 4)
    rows, df = in_order(table), spark.createDataFrame(table.to_pandas())
    windows = skytide.stream(df).keyed("symbol").count_window(40, slide=20)
    best = windows.top_k(1, by="price").toPandas()
    for row in best.itertuples():
        mine = rows[rows.symbol == row.symbol].iloc[row.row_start : row.row_end]
        assert row.price == mine.price.max()
    assert len(best) >= len(windows_of(rows, 40, 20))
    front = windows.skyline(low("price") * low("size")).toPandas()
    assert set(zip(front.symbol, front.row_start, strict=True)) == {(w["symbol"], w["row_start"]) for w in windows_of(rows, 40, 20)}
    candles = windows.candlesticks(price="price", volume="size").toPandas()
    assert list(candles.columns[-6:]) == ["open", "high", "low", "close", "volume", "quotes"]
    assert (candles.quotes == 40).all() and (candles.high >= candles.low).all()
    by_time = skytide.stream(df).keyed("symbol").window("200 ms").aggregate("count(*) AS n").toPandas()
    assert by_time.n.sum() == 600


SLACK = skytide.slacks.FixedSlack("30 ms")
ASKED = {
    "all tuples by number": lambda s: s.count_window(100, slide=25, slack=SLACK).aggregate("count(*) AS n", "avg(price) AS mean"),
    "skyline of all by number": lambda s: s.count_window(100, slide=50, slack=SLACK).skyline(low("price") * low("size")),
    "skyline by time": lambda s: (
        s.keyed("symbol").window("400 ms", slide="200 ms", slack=SLACK).skyline(low("price") * low("size"))
    ),
    "top k by number": lambda s: s.keyed("symbol").count_window(40, slide=20, slack=SLACK).top_k(2, by="price"),
    "aggregates by time": lambda s: s.keyed("symbol").window("400 ms", slide="200 ms", slack=SLACK).aggregate("sum(size) AS n"),
    "own, by time": lambda s: s.keyed("symbol").window("400 ms", slack=SLACK).apply(Spread()),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_stream_gives_the_rows_that_a_table_gives(spark: SparkSession, tmp_path: Path, name: str) -> None:
    folder = written(quotes(900, 5), tmp_path / "in", 3)
    run = ASKED[name](skytide.stream(streamed(spark, folder))).start(
        "parquet", path=tmp_path / "out", checkpoint=tmp_path / "c", trigger="availableNow", flush=True, slots=2
    )
    run.await_termination()
    assert (run.status().tuples, run.status().late) == (900, 0)
    expected = ASKED[name](skytide.stream(spark.read.parquet(str(folder)))).toPandas()
    found = spark.read.parquet(str(tmp_path / "out")).drop("batch").toPandas()
    columns = list(expected.columns)
    assert len(expected) > 5
    in_any_order = [each.sort_values(columns).reset_index(drop=True) for each in (found[columns], expected)]
    pd.testing.assert_frame_equal(*in_any_order)


class Trail:
    """The sequence numbers of a window, as a text."""

    def open(self, key: Any) -> None:
        return None

    def process(self, state: None, rows: pa.Table) -> Any:
        return state, {"trail": [" ".join(map(str, rows["seq"].to_pylist()))]}


def test_tuples_of_equal_times_are_in_the_order_that_was_named(spark: SparkSession, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = 240
    table = pa.table(
        {
            "ts": pa.array(START_US + np.arange(rows) // 40 * 1_000_000, pa.timestamp("us", "UTC")),
            "symbol": np.array(["A", "B", "C"])[rng.integers(0, 3, rows)],
            "value": rng.permutation(rows),
            "seq": rng.permutation(rows),
        }
    )
    folder = written(table, tmp_path / "in", 4)
    expected = {
        (symbol, start): " ".join(map(str, mine.seq.iloc[start : start + 10]))
        for symbol, mine in table.to_pandas().sort_values(["ts", "seq"]).groupby("symbol")
        for start in range(0, len(mine) - 9, 5)
    }

    def asked(source: Any) -> Any:
        slack = skytide.slacks.FixedSlack("1 s")
        return skytide.stream(source, order="SEQ").keyed("symbol").count_window(10, slide=5, slack=slack).apply(Trail())

    of_table = asked(spark.read.parquet(str(folder))).toArrow().to_pylist()
    assert {(row["symbol"], row["row_start"]): row["trail"] for row in of_table} == expected
    places = {"path": str(tmp_path / "out"), "checkpoint": tmp_path / "c"}
    asked(streamed(spark, folder)).start("parquet", **places, trigger="availableNow", flush=True, slots=2).await_termination()
    found = spark.read.parquet(str(tmp_path / "out")).toArrow().to_pylist()
    assert {(row["symbol"], row["row_start"]): row["trail"] for row in found} == expected and len(found) == len(expected)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("nothing", "order='nothing': there is no such column; choose one of ts, symbol"),
        ("TS", "order='ts': that is the time of the tuples"),
        (("size", "SIZE"), "order='size': named twice"),
        ("tags", "order='tags': a map<.*> has no order"),
        ("folded", "order='folded' of type .* not by a collation"),
        (7, "order=7: not names of columns"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused_at_once(spark: SparkSession, order: Any, message: str) -> None:
    df = spark.createDataFrame(quotes(10).to_pandas()).withColumn("tags", F.create_map(F.lit("a"), F.lit(1)))
    with pytest.raises(InvalidInput, match=message):
        skytide.stream(df.withColumn("folded", F.collate("symbol", "UTF8_LCASE")), order=order)


def test_windows_of_all_tuples_by_number(spark: SparkSession) -> None:
    df = spark.createDataFrame(quotes(100).to_pandas())
    found = skytide.stream(df).count_window(30, slide=10).aggregate("count(*) AS n").toPandas()
    assert list(found.columns) == ["row_start", "row_end", "window_start", "window_end", "n"]
    assert sorted(found.row_start) == [0, 10, 20, 30, 40, 50, 60, 70]


@pytest.mark.parametrize("windows", [lambda s: s.count_window(10), lambda s: s.window("100 ms")], ids=["by number", "by time"])
def test_tuples_without_a_key_are_refused_or_put_aside(spark: SparkSession, tmp_path: Path, windows: Any) -> None:
    table = quotes(200)
    symbols = pa.array([None if n % 50 == 0 else value for n, value in enumerate(table["symbol"].to_pylist())])
    folder = written(table.set_column(1, "symbol", symbols), tmp_path / "in", 1)
    asked = windows(skytide.stream(streamed(spark, folder)).keyed("symbol")).aggregate("count(*)")
    with pytest.raises(Exception, match="tuples without symbol: a NULL is not a key; filter them out"):
        asked.start("memory", checkpoint=tmp_path / "c", trigger="availableNow").await_termination()
    run = asked.start("memory", checkpoint=tmp_path / "d", trigger="availableNow", invalid=str(tmp_path / "odd"))
    run.await_termination()
    assert run.status().invalid == 4
    assert spark.read.parquet(str(tmp_path / "odd")).count() == 4


class Broken:
    """Fails for one key, as long as it is broken."""

    broken = True

    def open(self, key: str) -> None:
        return None

    def process(self, state: None, rows: pa.Table) -> Any:
        if self.broken and rows.num_rows and rows["symbol"][0].as_py() == "S3":
            raise ZeroDivisionError("no size")
        return None, {"n": [rows.num_rows]}

    def schema(self, rows: pa.Schema) -> pa.Schema:
        return pa.schema([("n", pa.int64())])


def test_an_operator_that_raises_is_named_with_its_key(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.createDataFrame(quotes(200).to_pandas())
    with pytest.raises(Exception, match="process of Broken raised ZeroDivisionError for the key 'S3': no size"):
        skytide.stream(df).keyed("symbol").apply(Broken()).collect()


def test_what_an_operator_that_raised_did_not_take_comes_when_it_is_mended(spark: SparkSession, tmp_path: Path) -> None:
    folder = written(quotes(300), tmp_path / "in", 3)

    def start(operator: Any) -> Any:
        asked = skytide.stream(streamed(spark, folder)).keyed("symbol").apply(operator, slack=SLACK)
        run = asked.start("parquet", path=tmp_path / "out", checkpoint=tmp_path / "c", trigger="availableNow", flush=True, slots=2)
        run.await_termination()
        return run

    with pytest.raises(Exception, match="process of Broken raised ZeroDivisionError for the key 'S3': no size"):
        start(Broken())
    mended = type("Broken", (Broken,), {"broken": False})  # as an edited class would be
    assert start(mended()).status().tuples == 300
    assert spark.read.parquet(str(tmp_path / "out")).agg(F.sum("n")).collect()[0][0] == 300


class Locked(Spread):
    """Holds what cannot be copied."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


@pytest.mark.parametrize("remedy", ["lower(symbol COLLATE UTF8_BINARY)", "CAST(symbol AS STRING COLLATE UTF8_BINARY)"])
def test_keys_with_a_collation_work_in_the_ways_that_the_refusal_names(spark: SparkSession, remedy: str) -> None:
    df = spark.createDataFrame(quotes(40).to_pandas()).withColumn("symbol", F.expr("symbol COLLATE UTF8_LCASE"))
    rows = df.withColumn("symbol", F.expr(remedy))
    assert skytide.stream(rows).keyed("symbol").count_window(1).aggregate("count(*) AS n").count() == 40


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda s: s.keyed(), "no key is named"),
        (lambda s: s.keyed("nobody"), r"there is no such column; choose one of ts, symbol"),
        (lambda s: s.keyed("tags"), "cannot be a key"),
        (lambda s: s.keyed("ts"), "that is the time of the tuples"),
        (lambda s: s.keyed("symbol", "SYMBOL"), "named twice"),
        (lambda s: s.keyed("symbol").count_window(0), "length=0"),
        (lambda s: s.keyed("symbol").count_window(10, slide=11), "rows between windows would be lost"),
        (lambda s: s.keyed("symbol").count_window(10, slack="2 s"), "not a slack"),
        (lambda s: s.keyed("symbol").count_window(10).apply(Spread), "a class, not an object of it"),
        (lambda s: s.keyed("symbol").count_window(10).apply(object()), "not an operator on keys"),
        (lambda s: s.keyed("symbol").count_window(10).aggregate("max(price) AS row_start"), "named twice"),
        (lambda s: s.keyed("symbol").apply(Spread(), slack=1), "not a slack"),
        (lambda s: s.keyed("symbol").apply(Locked()), "it cannot be copied to workers: TypeError: cannot pickle '_thread.lock'"),
        (lambda s: s.keyed("symbol").count_window(2).apply(Locked()), "create locks, .* inside its methods"),
        (lambda s: s.keyed("folded").apply(Spread()), "compared by their bytes here, not by a collation"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(spark: SparkSession, ask: Any, message: str) -> None:
    df = spark.createDataFrame(quotes(10).to_pandas()).withColumn("tags", F.create_map(F.lit("a"), F.lit(1)))
    df = df.withColumn("folded", F.collate("symbol", "UTF8_LCASE"))
    with pytest.raises(InvalidInput, match=message):
        ask(skytide.stream(df))


class Numbered:
    """Numbers the rows of a key."""

    def open(self, key: object) -> bytes:
        return b""

    def process(self, state: bytes, rows: pa.Table) -> tuple[bytes, dict[str, Any]]:
        seen = int.from_bytes(state)
        numbers = np.arange(seen, seen + rows.num_rows)
        return (seen + rows.num_rows).to_bytes(8), {
            "ts": rows["ts"],
            "number": numbers,
            "cents": np.rint(rows["price"].to_numpy() * 100),
        }


def test_the_tick_of_an_operator_changes_when_results_come_out_and_not_what_they_are(spark: SparkSession, tmp_path: Path) -> None:
    """Three seconds of quotes in four batches: with a tick of a second, what is left of a second waits for the next batch."""
    folder, outcomes = written(quotes(3_000), tmp_path / "in", 4), {}
    for tick in ("100 ms", "1 second"):
        asked = (
            skytide.stream(streamed(spark, folder))
            .keyed("symbol")
            .apply(Numbered(), tick=tick, slack=skytide.slacks.FixedSlack("30 ms"))
        )
        places = {"checkpoint": tmp_path / tick / "c", "path": tmp_path / tick / "out"}
        run = asked.start("parquet", **places, trigger="availableNow", slots=2, flush=True)
        run.await_termination()
        assert run.status().late == 0
        rows = spark.read.parquet(str(tmp_path / tick / "out"))
        found = rows.drop("batch").toPandas().sort_values(["symbol", "number"]).reset_index(drop=True)
        outcomes[tick] = found, rows.where("batch = 0").count()
    (fine, early), (coarse, later) = outcomes.values()
    pd.testing.assert_frame_equal(fine, coarse)
    assert len(fine) == 3_000 and later < early
    with pytest.raises(InvalidInput, match="tick"):
        skytide.stream(streamed(spark, folder)).keyed("symbol").apply(Numbered(), tick="soon")
    asked = skytide.stream(streamed(spark, folder)).keyed("symbol").apply(Numbered(), tick="2 seconds")
    with pytest.raises(InvalidInput, match="checkpoint"):
        asked.start("parquet", checkpoint=tmp_path / "100 ms" / "c", path=tmp_path / "100 ms" / "out", trigger="availableNow")
