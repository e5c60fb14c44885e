"""A run as people look at it: its state, what it prints, and what Spark's own handle has."""

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import skytide
from skytide.spark.run import Run

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
    deadline = time.monotonic() + DEADLINE_S
    while run.status().state != state or not also():
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
    assert "query    per_minute: Aggregate" in printed
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
