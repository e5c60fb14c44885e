"""Input with state of its own: a batch that is emitted once more also lets the operators of Spark before us go on."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skytide

STORE = "spark.sql.streaming.stateStore"
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STORES = {
    "files": {},
    "rocks": {f"{STORE}.providerClass": ROCKS},
    "rocks, checkpoints with ids": {f"{STORE}.providerClass": ROCKS, f"{STORE}.checkpointFormatVersion": "2"},
}
START_US = 1_767_225_600_000_000


def put(folder: Path, number: int, first_s: int, last_s: int) -> None:
    """Write a file with a row for each second, two keys in turn."""
    folder.mkdir(exist_ok=True)
    times = pa.array(range(START_US + first_s * 1_000_000, START_US + last_s * 1_000_000, 1_000_000), pa.timestamp("us", "UTC"))
    keys = pa.array([n % 2 for n in range(first_s, last_s)], pa.int64())
    file = folder / f"{number}.parquet"
    pq.write_table(pa.table({"ts": times, "k": keys}), file)
    os.utime(file, (number, number))  # Spark reads the oldest file first


def rows(spark: SparkSession, folder: Path) -> DataFrame:
    read = spark.readStream.schema("ts timestamp, k bigint").option("maxFilesPerTrigger", 1).parquet(str(folder))
    return read.withWatermark("ts", "20 seconds")


def deduplicated(spark: SparkSession, folder: Path) -> DataFrame:
    return rows(spark, folder).dropDuplicatesWithinWatermark(["ts"])


def aggregated(spark: SparkSession, folder: Path) -> DataFrame:
    counts = rows(spark, folder).groupBy(F.window("ts", "2 seconds"), "k").count()
    return counts.select(F.col("window.start").alias("ts"), "k", "count")


def joined(spark: SparkSession, folder: Path) -> DataFrame:
    other = rows(spark, folder).select(F.col("ts").alias("at"), F.col("k").alias("key"))
    return rows(spark, folder).join(other, F.expr("k = key AND at BETWEEN ts - INTERVAL 4 SECONDS AND ts")).select("ts", "k")


@pytest.fixture
def store(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    settings = {**STORES[request.param], "spark.sql.shuffle.partitions": "2"}
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield request.param
    for name, was in before.items():
        spark.conf.unset(name) if was is None else spark.conf.set(name, was)


def windows_of(
    df: DataFrame, checkpoint: Path, failing: set[int], then: Callable[[int], object] = lambda batch_id: None
) -> list[tuple[object, ...]]:
    """Return all windows of a query that is started again whenever its sink has failed: at its first try for some batches; `then` happens next."""
    out: dict[int, list[tuple[object, ...]]] = {}
    left = set(failing)

    def sink(results: DataFrame, batch_id: int) -> None:
        if batch_id in left:
            left.remove(batch_id)
            then(batch_id)
            raise RuntimeError("the database is down")
        out[batch_id] = sorted((row.window_start, row.n, row.keys) for row in results.collect())

    asked = (
        skytide.stream(df).window("10 seconds", slack=skytide.slacks.FixedSlack("5 s")).aggregate("count(*) AS n", "sum(k) AS keys")
    )
    for _ in range(len(failing) + 1):
        try:
            asked.start(sink, checkpoint=checkpoint, trigger="availableNow", flush=True).await_termination()
        except StreamingQueryException as error:
            assert "the database is down" in str(error)
    assert not left
    return [window for number in sorted(out) for window in out[number]]


@pytest.mark.parametrize(
    ("store", "stateful"),
    [
        ("files", deduplicated),
        ("rocks, checkpoints with ids", aggregated),
        *(
            pytest.param(*other, marks=pytest.mark.long)
            for other in [
                ("files", joined),
                ("rocks", aggregated),
                ("rocks, checkpoints with ids", deduplicated),
                ("rocks, checkpoints with ids", joined),
            ]
        ),
    ],
    indirect=["store"],
)
def test_input_with_a_state_goes_on_after_its_sink_failed(
    spark: SparkSession, tmp_path: Path, stateful: Callable[[SparkSession, Path], DataFrame], store: str
) -> None:
    """Files overlap, so a state that was lost, or had a batch twice, would show."""
    for number, (first_s, last_s) in enumerate([(0, 40), (20, 70), (50, 110), (90, 150)]):
        put(tmp_path / "in", number, first_s, last_s)
    df = stateful(spark, tmp_path / "in")
    undisturbed = windows_of(df, tmp_path / "undisturbed", set())
    assert len(undisturbed) > 8
    assert windows_of(df, tmp_path / "failing", {1, 2}) == undisturbed


def test_input_without_a_state_is_not_needed_once_it_was_read(spark: SparkSession, tmp_path: Path) -> None:
    """What was decided comes out, and nobody reads for nothing."""
    for folder in ("kept", "damaged"):
        for number in range(3):
            put(tmp_path / folder, number, number * 40, number * 40 + 40)
    undisturbed = windows_of(rows(spark, tmp_path / "kept"), tmp_path / "undisturbed", set())
    damaged = windows_of(
        rows(spark, tmp_path / "damaged"),
        tmp_path / "failing",
        {1},
        lambda batch_id: (tmp_path / "damaged" / f"{batch_id}.parquet").write_bytes(b"damaged"),
    )
    assert damaged == undisturbed
    assert len(damaged) == 12
