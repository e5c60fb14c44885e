"""A fleet as people use it, on Spark: a DataFrame, a format, windows, and its status and settings meanwhile."""

import datetime
import gc
import json
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from support import oracle

import skytide
from skytide import InvalidInput, Profile

SCHEMA = "id string, ts timestamp, x double, y double"
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def _records(stream: str, count: int, first: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "id": f"{stream}/{n}",
            "ts": (START + datetime.timedelta(seconds=n)).isoformat(),
            "x": n * 7919 % 101 / 10,
            "y": n * 104_729 % 103 / 10,
        }
        for n in range(first, first + count)
    ]


def _append(folder: Path, stream: str, records: list[dict[str, Any]]) -> None:
    with (folder / f"{stream}.jsonl").open("a") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


@pytest.fixture
def feeds(folder: Path) -> Path:
    for number in range(12):
        _append(folder, f"s{number}", _records(f"s{number}", 40 + 13 * number))
    return folder


def _all(df: DataFrame, tmp_path: Path, name: str = "all") -> list[dict[str, Any]]:
    query = (
        df.writeStream.format("parquet")
        .option("path", str(tmp_path / name))
        .option("checkpointLocation", str(tmp_path / f"{name}.c"))
    )
    query.trigger(availableNow=True).start().awaitTermination()
    return [row.asDict() for row in df.sparkSession.read.parquet(str(tmp_path / name)).collect()]


def test_a_fleet_is_a_dataframe_with_the_name_of_each_stream(spark: SparkSession, feeds: Path, tmp_path: Path) -> None:
    fleet = skytide.fleet(feeds, format="jsonl", schema=SCHEMA)
    df = fleet.load(spark)
    assert df.columns == ["id", "ts", "x", "y", "stream"] and df.isStreaming
    rows = _all(df, tmp_path)
    want = sorted((record["id"], record["x"], f"s{n}") for n in range(12) for record in _records(f"s{n}", 40 + 13 * n))
    assert sorted((row["id"], row["x"], row["stream"]) for row in rows) == want
    status = fleet.status()
    assert status.streams == 12 and status.batches == 1 and status.buffered == 0 and status.invalid == 0
    assert sorted(name for split in fleet.splits() for name in split.streams) == sorted(f"s{n}" for n in range(12))
    _append(feeds, "s3", _records("s3", 5, 1_000))
    _append(feeds, "new", _records("new", 2))
    rows = _all(df, tmp_path)
    assert len(rows) == len(want) + 7 and {row["stream"] for row in rows} >= {"new"}


def test_the_format_does_the_same_and_notes_go_to_the_checkpoint(spark: SparkSession, feeds: Path, tmp_path: Path) -> None:
    skytide.fleet(feeds, schema=SCHEMA).load(spark)
    reader = spark.readStream.format("skytide-fleet").options(path=str(feeds), schema=SCHEMA, splits="3")
    plain = _all(reader.load(), tmp_path, "plain")
    noted = _all(reader.option("notes", str(tmp_path / "noted.c" / "fleet")).load(), tmp_path, "noted")
    assert sorted(row["id"] for row in plain) == sorted(row["id"] for row in noted)
    offset = (tmp_path / "noted.c" / "offsets" / "0").read_text().splitlines()[-1]
    assert len(offset) < 120 and json.loads(offset)["note"].startswith("notes/")
    assert list((tmp_path / "noted.c" / "fleet" / "notes").iterdir())


@pytest.mark.parametrize("splitting", [None, "TB_RR"], ids=["inside the source", "shuffled"])
def test_windows_over_a_fleet_are_the_oracles(spark: SparkSession, feeds: Path, tmp_path: Path, splitting: str | None) -> None:
    with (feeds / "s2.jsonl").open("a") as file:
        file.write('{"id": "broken", "ts": "soon"}\n')
    fleet = skytide.fleet(feeds, schema=SCHEMA)
    asked = skytide.stream(fleet, time="ts").window("30 s", "10 s").skyline(skytide.low("x"), skytide.high("y"))
    run = asked.start("memory", checkpoint=tmp_path / "c", trigger="availableNow", flush=True, splitting=splitting)
    run.await_termination()
    records = [{**record, "stream": f"s{n}"} for n in range(12) for record in _records(f"s{n}", 40 + 13 * n)]
    rows = [{**row, "ts": round(datetime.datetime.fromisoformat(row["ts"]).timestamp() * 1e6)} for row in records]
    want = oracle.windows_of(rows, 30_000_000, 10_000_000, oracle.skyline(("low", "x"), ("high", "y")))
    assert [(row.window_start_us, row.tuples) for row in run.windows()] == [
        (start, window.tuples) for start, window in want.items()
    ]
    found: dict[int, list[dict[str, Any]]] = {}
    for row in oracle.rows_of(run.results()):
        found.setdefault(row["window_start"], []).append({name: row[name] for name in ("id", "ts", "x", "y", "stream")})
    assert {start: oracle.multiset(rows) for start, rows in found.items()} == {
        start: oracle.multiset(window.rows) for start, window in want.items() if window.rows
    }
    assert run.status().invalid == (1 if splitting is None else 0) and run.status().late == 0


def test_a_fleet_goes_on_while_streams_are_suspended_declared_and_resumed(spark: SparkSession, feeds: Path, tmp_path: Path) -> None:
    fleet = skytide.fleet(feeds, schema=SCHEMA, interval="100 ms")
    fleet.suspend("s1", "s2")
    fleet.declare("s3", Profile(max_hz=5_000))
    seen: list[str] = []
    query = (
        fleet.load(spark)
        .writeStream.foreachBatch(lambda batch, _: seen.extend(row.stream for row in batch.select("stream").collect()))
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    try:
        _until(lambda: len(seen) >= sum(40 + 13 * n for n in range(12) if n not in (1, 2)), query)
        assert "s1" not in seen and "s2" not in seen and fleet.status().suspended == 2
        assert sum(split.expected_hz for split in fleet.splits()) >= 5_000 * 0.99
        fleet.resume("s1")
        _until(lambda: seen.count("s1") == 53, query)
        assert "s2" not in seen
        assert fleet.streams().num_rows == 12
    finally:
        query.stop()


def _until(done: Any, query: Any, deadline_s: float = 300.0) -> None:
    end = time.monotonic() + deadline_s
    while not done():
        assert query.isActive, query.exception()
        assert time.monotonic() < end
        query.awaitTermination(0.1)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"place": "/no/such/folder"}, "not a folder"),
    ({"place": ""}, "not the name of a place"),
    ({"place": None}, "not the name of a place"),
    ({"place": "ftp://there"}, "not a supported system"),
    ({"place": "redis://127.0.0.1:1/0"}, "streams is missing"),
    ({"place": "redis://127.0.0.1:1/0", "streams": "a:*"}, "does not answer"),
    ({"place": "kafka://127.0.0.1:1"}, "topics is missing"),
    ({"streams": "a:*"}, "has no streams"),
    ({"format": "xml"}, "not known"),
    ({"format": 7}, "not known"),
    ({"header": True}, "only CSV"),
    ({"starting": "now"}, "not known"),
    ({"splits": 0}, "out of range"),
    ({"splits": "many"}, "out of range"),
    ({"interval": "-1 s"}, "interval"),
    ({"latency": "soon"}, "latency"),
    ({"schema": "x"}, "schema"),
    ({"schema": ""}, "schema"),
    ({"schema": None}, "not columns"),
    ({"schema": "x double, stream string"}, "name of each row's stream"),
    ({"schema": "x array<int>"}, "plain columns"),
    ({"invalid": 7}, "invalid"),
]


@pytest.mark.parametrize(("change", "reason"), BAD, ids=[str(change) for change, _ in BAD])
def test_what_no_fleet_can_be_is_refused(spark: SparkSession, folder: Path, change: dict[str, Any], reason: str) -> None:
    arguments = {"place": str(folder), "schema": "x double, ts timestamp"} | change
    with pytest.raises(InvalidInput, match=reason):
        skytide.fleet(arguments.pop("place"), **arguments).load(spark)


def test_what_cannot_be_asked_of_a_fleet_is_refused(folder: Path) -> None:
    fleet = skytide.fleet(folder, schema=SCHEMA)
    for wrong in (
        fleet.suspend,
        lambda: fleet.suspend(7),
        lambda: fleet.resume(""),
        lambda: fleet.declare("a", 5),
        fleet.streams,
    ):  # type: ignore[arg-type, list-item]
        with pytest.raises(InvalidInput):
            wrong()
    assert fleet.status().streams == 0 and fleet.splits() == []


def test_a_fleet_that_nobody_holds_any_more_is_read_to_its_end(spark: SparkSession, feeds: Path, tmp_path: Path) -> None:
    df = skytide.fleet(feeds, schema=SCHEMA).load(spark)
    gc.collect()
    assert len(_all(df, tmp_path)) == sum(40 + 13 * n for n in range(12))
