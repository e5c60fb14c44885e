"""A run as people look at it: its state, what it prints, and what Spark's own handle has."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import skytide
from skytide.spark.api.run import Run
from skytide.spark.session.java import use_java

DEADLINE_S = 300
COLUMNS = "id bigint, ts timestamp"
OLD_US = 1_400_000_000_000_000 // 60_000_000 * 60_000_000


def minutes(spark: SparkSession, folder: Path, first: int, last: int) -> DataFrame:
    """Return a stream of a tuple a second, in a file that is there whole at once."""
    times = pa.array(range(OLD_US + first * 60_000_000, OLD_US + last * 60_000_000, 1_000_000))
    table = pa.table({"id": range(len(times)), "ts": times.cast(pa.timestamp("us", "UTC"))})
    spark.createDataFrame(table).coalesce(1).write.mode("append").parquet(str(folder))
    return spark.readStream.schema(COLUMNS).parquet(str(folder))


def wait_for(run: Run, state: str, also: Callable[[], bool] = lambda: True) -> None:
    wait_until(run, lambda: run.status().state == state and also())


def wait_until(run: Run, reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not reached():
        assert time.monotonic() < deadline, run.status()
        with contextlib.suppress(StreamingQueryException):
            run.query.awaitTermination(0.05)  # type: ignore[arg-type]


def test_a_run_tells_its_state_and_why_it_failed(spark: SparkSession, tmp_path: Path) -> None:
    busy, go_on = threading.Event(), threading.Event()
    fails = False

    def sink(results: DataFrame, batch_id: int) -> None:
        busy.set()
        assert go_on.wait(DEADLINE_S)
        if fails:
            raise RuntimeError("the table is full")

    df = minutes(spark, tmp_path / "in", 0, 5)
    asked = skytide.stream(df).window("1 minute").aggregate("count(*)")
    run = asked.start(sink, checkpoint=tmp_path / "checkpoint", trigger="100 ms", name="per_minute")
    assert busy.wait(DEADLINE_S)
    assert run.status().state == "starting"
    go_on.set()
    wait_for(run, "idle", lambda: run.status().windows_out == 3)

    assert (run.id, run.runId, run.name, run.isActive) == (str(run.query.id), str(run.query.runId), "per_minute", True)
    assert run.exception() is None
    assert run.lastProgress["id"] == run.recentProgress[-1]["id"] == run.query.id
    assert not run.awaitTermination(0.01)
    printed = str(run)
    assert "query    per_minute: count(*) AS count, windows of 1 min" in printed
    assert "state    idle, after batch 0" in printed
    assert "windows  3 out, the last 2014-05-13 16:55:00 to 16:56:00: 60 tuples, 1 rows" in printed
    assert "behind the clock" not in printed  # a recording of years ago has no backlog
    assert run.status().backlog_s is None
    assert repr(run) == printed
    assert "<td" in run._repr_html_() and "per_minute" in run._repr_html_()

    fails = True
    minutes(spark, tmp_path / "in", 5, 9)
    wait_for(run, "failed")
    assert run.status().failure == "RuntimeError: the table is full"
    assert "failed: RuntimeError: the table is full" in str(run.status())
    assert not run.isActive
    assert "the table is full" in str(run.exception())
    with pytest.raises(StreamingQueryException, match="the table is full"):
        run.await_termination()

    fails = False
    again = asked.start(sink, checkpoint=tmp_path / "checkpoint", trigger="100 ms")
    wait_for(again, "idle", lambda: again.status().windows_out == 8)
    again.stop()
    assert again.status().state == "stopped"


def test_results_go_to_tables_and_any_format(spark: SparkSession, tmp_path: Path) -> None:
    asked = skytide.stream(minutes(spark, tmp_path / "in", 0, 5)).window("1 minute").aggregate("count(*)")
    kept = asked.start(
        "memory", checkpoint=tmp_path / "a", trigger="availableNow", flush=True, name="kept_minutes", late=tmp_path / "late"
    )
    assert spark.table("kept_minutes").columns == ["window_start", "window_end", "count"]
    assert kept.await_termination()
    assert spark.table("kept_minutes").count() == kept.results_df().count() == kept.results().num_rows == 5
    assert [row["tuples"] for row in kept.windows_df().orderBy("window_start").collect()] == [60] * 5
    assert spark.read.parquet(str(tmp_path / "late")).columns == ["id", "ts", "batch"]  # nobody was late
    asked.start("json", path=tmp_path / "json", checkpoint=tmp_path / "b", trigger="availableNow", flush=True).await_termination()
    assert spark.read.json(str(tmp_path / "json")).count() == 5
    asked.toTable("minutes_table", checkpoint=tmp_path / "c", trigger="availableNow", flush=True).await_termination()
    try:
        assert spark.table("minutes_table").count() == 5
    finally:
        spark.sql("DROP TABLE minutes_table")
    with pytest.raises(skytide.InvalidInput, match="sink='nowhere': not a sink, nor a format that this Spark knows"):
        asked.start("nowhere", checkpoint=tmp_path / "d")


PLAIN = """
from pyspark.sql import SparkSession
import skytide
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
try:
    skytide.skyline(spark.range(3), skytide.low("id")).collect()
except skytide.SkytideError as error:
    print(error)
"""


@pytest.mark.slow
def test_workers_of_another_python_are_told(tmp_path: Path) -> None:
    """A plain session, whose workers take a python3 from the PATH that has nothing installed."""
    use_java()
    (tmp_path / "python3").symlink_to(os.path.realpath(sys.executable))
    kept = {name: value for name, value in os.environ.items() if name not in ("PYSPARK_PYTHON", "VIRTUAL_ENV")}
    env = {**kept, "PATH": f"{tmp_path}:{os.environ['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}
    ran = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, text=True, timeout=DEADLINE_S, env=env, check=False)
    assert "Spark's Python workers run 'python3', and" in ran.stdout, ran.stderr
    assert "pyarrow" in ran.stdout
    assert f"set PYSPARK_PYTHON={sys.executable}" in ran.stdout


def test_a_query_that_is_stopped_within_a_batch_has_not_failed(spark: SparkSession, tmp_path: Path) -> None:
    """The sink's job is interrupted. What came out later is what would have come out then."""
    began, out = tmp_path / "began", []

    def waits(results: DataFrame, batch_id: int) -> None:
        def wait(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            began.touch()
            threading.Event().wait(120)
            yield from numbers

        if not began.exists():
            results.sparkSession.range(1).mapInArrow(wait, "id long").collect()
        out.extend(results.collect())

    rows = spark.readStream.format("rate").option("rowsPerSecond", 50).load().selectExpr("timestamp AS ts", "value AS x")
    query = skytide.stream(rows, time="ts").window("1 second", slack=skytide.slacks.FixedSlack(0)).skyline(skytide.low("x"))
    run = query.start(waits, checkpoint=tmp_path / "state", trigger="200 ms")
    wait_until(run, began.exists)
    run.query.stop()
    assert run.exception() is None and run.query.exception() is None and not out
    again = query.start(waits, checkpoint=tmp_path / "state", trigger="200 ms")
    wait_until(again, lambda: len(out) > 2)
    again.stop()
    assert [row.x for row in out] == sorted({row.x for row in out})
