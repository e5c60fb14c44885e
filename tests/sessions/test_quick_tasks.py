"""The settings that make tasks quick: they reach Java behind a user's own, the documents name them, and long rows fit."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import skytide
from skytide import low
from skytide.queries import TopK, high
from skytide.slacks import FixedSlack
from skytide.spark import QUICK_TASKS, SPECULATION
from skytide.spark.engine.tasks import BUFFER_BYTES, GATHERED_ROWS, Reducer, gathered

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["README.md", "docs/cluster.md"])
def test_documents_name_every_setting(page: str) -> None:
    text = (ROOT / page).read_text()
    for name, value in QUICK_TASKS.items():
        assert f"{name}=$jit" in text if name.endswith("JavaOptions") else f"--conf {name}={value}" in text
        assert not name.endswith("JavaOptions") or f'jit="{value}"' in text


def test_the_settings_for_speculation_have_their_old_name_too() -> None:
    with pytest.warns(DeprecationWarning, match="SPECULATION"):
        assert skytide.spark.SECOND_TRIES is SPECULATION
    with pytest.raises(AttributeError, match="THIRD_TRIES"):
        skytide.spark.THIRD_TRIES  # noqa: B018


def test_options_reach_java_and_those_of_a_user_come_later(spark: SparkSession) -> None:
    java = list(spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments())  # type: ignore[union-attr]
    places = [java.index(option) for option in QUICK_TASKS["spark.driver.defaultJavaOptions"].split()]
    assert len(places) == 4
    assert max(places) < java.index("-Xss8m")


def test_small_batches_are_gathered_in_order_and_large_rows_are_not() -> None:
    small = [pa.RecordBatch.from_pydict({"x": list(range(start, start + 1_000))}) for start in range(0, 25_000, 1_000)]
    found = list(gathered(small))
    assert [batch.num_rows for batch in found] == [GATHERED_ROWS, GATHERED_ROWS, 5_000]
    assert pa.Table.from_batches(found)["x"].to_pylist() == list(range(25_000))
    large = [pa.RecordBatch.from_pydict({"x": ["a" * 2**20] * 10}) for _ in range(20)]
    assert max(batch.nbytes for batch in gathered(large)) < 1.3 * BUFFER_BYTES
    assert not list(gathered([]))


def test_few_raw_rows_are_kept_if_they_are_large() -> None:
    before, most = pa.total_allocated_bytes(), 0
    reducer = Reducer(TopK(high("x"), k=1))
    for number in range(60):
        reducer.add(pa.table({"x": [float(number), -1.0, -1.0, -1.0], "text": ["a" * 2**20] * 4}))
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 4 * BUFFER_BYTES
    assert reducer.kept()["x"].to_pylist() == [59.0]


@pytest.mark.long
def test_rows_of_100_kilobytes_fit(spark: SparkSession, tmp_path: Path) -> None:
    """Ten thousand of them in one batch need twice Java's memory."""
    rows = spark.range(7_000).selectExpr("timestamp_millis(1700000000000 + id) ts", "CAST(id AS DOUBLE) x").coalesce(1)
    rows.write.parquet(str(tmp_path / "in"))
    df = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "in"))
    asked = skytide.stream(df.withColumn("text", F.expr("repeat('0123456789', 10000)")))
    run = (
        asked.window("1 minute", slack=FixedSlack("0 s"))
        .skyline(low("x"))
        .start("memory", checkpoint=tmp_path / "checkpoint", trigger="availableNow", flush=True)
    )
    run.await_termination()
    assert [row["x"] for row in run.results().to_pylist()] == [0.0]


@pytest.mark.slow
def test_who_waits_for_a_query_whose_java_ends_by_itself_hears_of_it(tmp_path: Path) -> None:
    program = f"""
import threading
import skytide
from skytide.spark import local_session
spark = local_session("ends early")
run = skytide.stream(spark.readStream.format("rate").load(), time="timestamp").window("1 second").aggregate("count(*)").start(
    "memory", checkpoint={str(tmp_path / "checkpoint")!r})
java = spark.sparkContext._gateway.proc
threading.Thread(target=lambda: spark._jvm.System.exit(52), daemon=True).start()  # as Spark itself does when there is no memory left
run.await_termination()
print("ended in peace")
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "ended in peace" not in done.stdout, done.stderr[-2_000:]


@pytest.mark.long
def test_a_query_whose_java_has_ended_says_that_it_failed(tmp_path: Path) -> None:
    program = f"""
import skytide
from skytide.spark import local_session
spark = local_session("ends early")
run = skytide.stream(spark.readStream.format("rate").load(), time="timestamp").window("1 second").aggregate("count(*)").start(
    "memory", checkpoint={str(tmp_path / "checkpoint")!r})
java = spark.sparkContext._gateway.proc
java.kill()
java.wait()
status = run.status()
print("found", status.state, status.failure)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=300)
    assert "found failed Java has ended" in done.stdout, done.stderr[-2_000:]
