"""Sinks as people name them: what is written can be read back, by anybody and at any time, and no two queries share a folder."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

import skytide
from skytide import InvalidInput, low
from skytide.slacks import FixedSlack

SECOND_US = 1_000_000
COLUMNS = "ts timestamp, k string, x long"


def rows(first_s: int, last_s: int) -> pa.Table:
    seconds = range(first_s, last_s)
    times = pa.array([second * SECOND_US for second in seconds], pa.timestamp("us", "UTC"))
    return pa.table({"ts": times, "k": ["ab"[second % 2] for second in seconds], "x": [second % 7 for second in seconds]})


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """Return a stream of two files: a minute, and later another one with three tuples of the first."""
    (tmp_path / "in").mkdir()
    pq.write_table(rows(0, 60), tmp_path / "in" / "a.parquet")
    pq.write_table(pa.concat_tables([rows(100, 160), rows(0, 3)]), tmp_path / "in" / "b.parquet")
    os.utime(tmp_path / "in" / "a.parquet", (0, 0))  # Spark reads older files first
    return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))


def windowed(df: DataFrame) -> Any:
    return skytide.stream(df, time="ts").window("10 seconds", slack=FixedSlack("0 s"))


def play(asked: Any, sink: Any, folder: Path, checkpoint: str = "checkpoint", flush: bool = True, **more: Any) -> Any:
    run = asked.start(sink, checkpoint=folder / checkpoint, trigger="availableNow", flush=flush, **more)
    run.await_termination()
    return run


class Numbers:
    """An operator whose result has a chosen name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, key: str) -> None:
        return None

    def process(self, state: None, tuples: pa.Table) -> Any:
        return None, {self.name: [1_000] * tuples.num_rows}


FOLDERS: list[dict[str, Any]] = [{"sink": "json"}, {"sink": "CSV"}, {"sink": "parquet"}, {"sink": "memory", "late": Path("late")}]


@pytest.mark.parametrize("given", FOLDERS, ids=str)
def test_a_column_called_batch_is_refused_where_it_would_be_hidden(
    stream: DataFrame, tmp_path: Path, given: dict[str, Any]
) -> None:
    sink, late = given["sink"], given.get("late")
    places: dict[str, Any] = {"late": tmp_path / late} if late else {"path": tmp_path / "out"}
    named = stream.withColumn("Batch", F.lit(777))
    with pytest.raises(InvalidInput, match="batches in folders of that name, which would hide it; rename it"):
        play(windowed(named).skyline(low("x")), sink, tmp_path, **places)
    if late is None:
        with pytest.raises(InvalidInput, match="column batch"):
            play(skytide.stream(stream, time="ts").keyed("k").apply(Numbers("batch")), sink, tmp_path, **places)
        with pytest.raises(InvalidInput, match="column batch"):
            play(windowed(stream).aggregate("count(*) AS batch"), sink, tmp_path, **places)
    assert not (tmp_path / "checkpoint").exists()


def test_a_column_called_batch_goes_where_nothing_hides_it_and_the_remedy_works(
    spark: SparkSession, stream: DataFrame, tmp_path: Path
) -> None:
    named = stream.withColumn("batch", F.lit(777))
    assert set(play(windowed(named).skyline(low("x")), "memory", tmp_path, "a").results()["batch"].to_pylist()) == {777}
    renamed = named.withColumnRenamed("batch", "lot")
    play(windowed(renamed).skyline(low("x")), "json", tmp_path, "b", path=tmp_path / "out", late=tmp_path / "late")
    for read in (spark.read.json(str(tmp_path / "out")), spark.read.parquet(str(tmp_path / "late"))):
        assert {row.lot for row in read.collect()} == {777} and "batch" in read.columns


def test_names_of_formats_are_the_same_in_any_case(spark: SparkSession, stream: DataFrame, tmp_path: Path) -> None:
    """The sink of windows fails once, after the results were written: an append would have them twice."""
    for number, name in enumerate(("PARQUET", "Json", "org.apache.spark.sql.parquet")):
        failed = []

        def windows(table: DataFrame, number: int, failed: list[int] = failed) -> None:
            failed.append(number)
            if len(failed) == 1:
                raise RuntimeError("down")

        out, asked = tmp_path / f"out{number}", windowed(stream).aggregate("count(*) AS n")
        with pytest.raises(Exception, match="down"):
            play(asked, name, tmp_path, f"c{number}", path=out, windows=windows)
        play(asked, name, tmp_path, f"c{number}", path=out, windows=windows)
        found = (spark.read.json if name == "Json" else spark.read.parquet)(str(out))
        assert found.count() == found.select("window_start").distinct().count() == 12
    assert play(windowed(stream).aggregate("count(*)"), "MEMORY", tmp_path, "memory").results().num_rows == 12


def test_keys_that_differ_in_case(spark: SparkSession, stream: DataFrame, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        both = stream.withColumn("K", F.upper("k"))
        run = play(windowed(both).aggregate("count(*) AS n", keys=("k", "K")), "memory", tmp_path, "a")
        assert {(row["k"], row["K"]) for row in run.results().to_pylist()} == {("a", "A"), ("b", "B")}
        run = play(skytide.stream(both, time="ts").keyed("k", "K").apply(Numbers("n")), "memory", tmp_path, "b", slots=1)
        assert {(row["k"], row["K"], row["n"]) for row in run.results().to_pylist()} == {("a", "A", 1_000), ("b", "B", 1_000)}
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    with pytest.raises(InvalidInput):
        windowed(stream).aggregate("count(*) AS n", keys=("k", "K"))


def test_results_without_windows_are_printed(stream: DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    play(skytide.stream(stream, time="ts").keyed("k").apply(Numbers("n")), "console", tmp_path, slots=1)
    assert "batch 0" in (printed := capsys.readouterr().out) and "1000" in printed


def test_one_folder_twice_is_refused(stream: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "p")
    p = tmp_path / "p"
    twice: list[dict[str, Any]] = [
        {"late": p, "invalid": p},
        {"late": p, "path": p},
        {"late": p / "late", "path": p},
        {"windows": p, "path": p / "results"},
        {"late": "p", "invalid": f"file://{p}/"},
        {"late": p, "invalid": tmp_path / "link"},
        {"late": p, "invalid": tmp_path / "q" / ".." / "p"},
        {"late": tmp_path / "checkpoint" / "late"},
        {"path": tmp_path},
        {"late": p / "_windows", "path": p},
        {"late": p / "_skytide", "path": p},
    ]
    for places in twice:
        sink = "json" if "path" in places and "_" not in str(places.get("late")) else "parquet" if "path" in places else "memory"
        with pytest.raises(InvalidInput, match=r"the same folder as|it lies inside"):
            play(windowed(stream).skyline(low("x")), sink, tmp_path, **places)
    assert not p.exists() and not (tmp_path / "checkpoint").exists()
    play(windowed(stream).skyline(low("x")), "parquet", tmp_path, path=p, late=p / "_late")  # readers of p ignore it


@pytest.mark.parametrize("format", ["json", "parquet"])
def test_a_second_query_does_not_write_into_the_folder_of_a_first(
    spark: SparkSession, stream: DataFrame, tmp_path: Path, format: str
) -> None:
    asked, out = windowed(stream).aggregate("count(*) AS n"), tmp_path / "out"
    play(asked, format, tmp_path, "a", path=out)
    before = spark.read.format(format).load(str(out)).count()
    with pytest.raises(InvalidInput, match="it belongs to another query, with the checkpoint"):
        play(asked, format, tmp_path, "b", path=out)
    assert spark.read.format(format).load(str(out)).count() == before
    (out / "_skytide" / "owner.json").unlink()  # files other than Parquet once had no owner: whoever wrote them continues
    if format == "json":
        with pytest.raises(InvalidInput, match="it is not empty"):
            play(asked, format, tmp_path, "c", path=out)
        play(asked, format, tmp_path, "a", path=out)
        assert (out / "_skytide" / "owner.json").exists()


class Capture(DataSource):
    """A format that notes the options of its writers."""

    @classmethod
    def name(cls) -> str:
        return "capture"

    def writer(self, schema: Any, overwrite: bool) -> "CaptureWriter":
        given = {name.lower(): value for name, value in dict(self.options).items()}
        with open(given["log"], "a") as log:
            log.write(json.dumps({name: given[name] for name in ("txnappid", "txnversion")}) + "\n")
        return CaptureWriter()


class CaptureWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


def test_transactions_carry_the_identity_of_the_checkpoint(
    spark: SparkSession, stream: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.dataSource.register(Capture)
    monkeypatch.chdir(tmp_path)
    asked, log = windowed(stream).aggregate("count(*) AS n"), tmp_path / "log"

    def transactions(**more: Any) -> list[tuple[str, int]]:
        log.unlink(missing_ok=True)
        asked.start("capture", **{"options": {"log": str(log)}, **more}, trigger="availableNow").await_termination()
        notes = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [(note["txnappid"], int(note["txnversion"])) for note in notes]

    first = transactions(checkpoint=tmp_path / "app")
    identity = json.loads((tmp_path / "app" / "skytide" / "checkpoint.json").read_text())["id"]
    assert first == [(identity, 0), (identity, 1)]
    pq.write_table(rows(200, 260), tmp_path / "in" / "c.parquet")
    assert transactions(checkpoint="app") == [(identity, 2)]
    shutil.rmtree(tmp_path / "app")
    assert {name for name, _ in transactions(checkpoint=tmp_path / "app")}.isdisjoint({identity})
    mine = transactions(checkpoint=tmp_path / "other", options={"log": str(log), "txnAppId": "mine"})
    assert mine == [("mine", 0), ("mine", 1), ("mine", 2)]


def test_folders_can_be_read_before_the_first_window(spark: SparkSession, stream: DataFrame, tmp_path: Path) -> None:
    few = tmp_path / "few"
    few.mkdir()
    pq.write_table(rows(0, 2), few / "a.parquet")
    df = spark.readStream.schema(COLUMNS).parquet(str(few))
    places = {"path": tmp_path / "out", "late": tmp_path / "late", "invalid": tmp_path / "invalid"}
    play(windowed(df).aggregate("sum(x) AS total", keys="k"), "parquet", tmp_path, flush=False, **places)
    found = spark.read.parquet(str(tmp_path / "out"))
    assert (
        found.count() == 0
        and dict(found.dtypes)["total"] == "bigint"
        and found.columns[:4] == ["window_start", "window_end", "k", "total"]
    )
    assert spark.read.parquet(str(tmp_path / "out" / "_windows")).dtypes == [
        ("window_start", "timestamp"), ("window_end", "timestamp"), ("tuples", "bigint"), ("kept", "bigint"), ("late", "bigint"),
        ("latency_s", "double"), ("windows", "bigint"), ("batch", "int"),
    ]  # fmt: skip
    run = play(windowed(df).aggregate("sum(x) AS total", keys="k"), "parquet", tmp_path, **places)
    assert spark.read.parquet(str(tmp_path / "out")).count() == 2
    assert spark.read.parquet(str(tmp_path / "out" / "_windows")).count() == run.status().windows_out == 1


TYPES = {
    "interval": "INTERVAL '1 02:03:04' DAY TO SECOND * x",
    "variant": "parse_json('{\"a\":1}')",
    "collated": "k COLLATE UNICODE_CI",
    "intervals": "array(INTERVAL '1' DAY)",
    "inside": "struct(parse_json('1') AS v)",
}


def test_types_that_parquet_lacks_are_read_back(spark: SparkSession, stream: DataFrame, tmp_path: Path) -> None:
    df = stream.selectExpr("*", *(f"{text} AS {name}" for name, text in TYPES.items()))
    play(windowed(df).skyline(low("x")), "parquet", tmp_path, "a", path=tmp_path / "out", late=tmp_path / "late")
    expected = dict(df.dtypes)
    for folder in ("out", "late"):
        read = spark.read.parquet(str(tmp_path / folder))
        assert {name: kind for name, kind in read.dtypes if name in expected} == expected
        assert all(str(row.variant) == '{"a":1}' and row.interval.total_seconds() == 93_784 * row.x for row in read.collect())
    play(windowed(df).aggregate("max(interval) AS longest"), "parquet", tmp_path, "b", path=tmp_path / "longest")
    assert dict(spark.read.parquet(str(tmp_path / "longest")).dtypes)["longest"] == "interval day to second"


def test_options_of_parquet_are_followed_or_refused(stream: DataFrame, tmp_path: Path) -> None:
    asked, out = windowed(stream).aggregate("count(*) AS n"), tmp_path / "out"
    play(asked, "parquet", tmp_path, path=out, options={"Compression": "ZSTD"})
    codecs = {pq.ParquetFile(file).metadata.row_group(0).column(0).compression for file in out.glob("batch=[0-9]*/*.parquet")}
    assert codecs == {"ZSTD"}
    for options, part in (
        ({"compression": "zip"}, "not a codec; choose one of brotli"),
        ({"header": "x"}, 'has the option "compression" only'),
    ):
        with pytest.raises(InvalidInput, match=part):
            play(asked, "parquet", tmp_path, "b", path=tmp_path / "b", options=options)
    for sink in (lambda results, number: None, "memory", "console"):
        for more in ({"options": {"header": "true"}}, {"path": tmp_path / "b"}):
            with pytest.raises(InvalidInput, match="this sink would ignore it; leave"):
                play(asked, sink, tmp_path, "b", **more)
