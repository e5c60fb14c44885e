"""What the parts of the benchmark share: sessions, streams that Spark generates inside Java, and marks of their batches."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console

import skytide
from benchmarks.stream.measure import cpu_s
from benchmarks.timing import Goal, Limit
from skytide.slacks import FixedSlack
from skytide.spark import local_session
from skytide.spark.api.run import Run

START_US = 1_699_999_200_000_000  # a full hour
BACK_TO_BACK = "1 ms"  # the trigger that begins a batch when the one before has ended
LOOK_S = 0.1
ORDERED = FixedSlack(0)
"""Tuples come in order, so no window has to wait."""
MEASURES = ("count(*) AS n", "sum(v) AS total", "max(v) AS top")
ROCKS = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",  # counting takes a lookup for each update
}
"""How Spark's documentation says that large state is kept best."""
MICROS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}  # so that files of both contestants read alike


@dataclass(frozen=True)
class Bench:
    """What a part is given."""

    console: Console
    folder: Path
    """A temporary one."""
    quick: bool = False
    """Whether sizes are small, to see that everything works: the figures mean nothing then."""
    spark_minutes: float = 10.0
    """After which Spark's own windows are stopped."""


@dataclass(frozen=True)
class Found:
    """What a part found out."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    goals: Sequence[Goal | Limit]
    figures: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Mark:
    """A batch that has just ended."""

    batch: int
    at_s: float
    cpu_s: float
    """The processor time of all processes until then."""

    @staticmethod
    def now(batch: int) -> "Mark":
        """Return the mark of a batch that has ended now."""
        return Mark(batch, time.monotonic(), cpu_s())


@contextmanager
def session(name: str, *, memory: str = "4g", cores: int = 2, **settings: str) -> Iterator[SparkSession]:
    """Yield a session, and end it."""
    known = {"spark.driver.memory": memory, "spark.sql.streaming.numRecentProgressUpdates": "20000", **MICROS}
    spark = local_session(f"skytide bench-state {name}", cores=cores, **{**known, **settings})
    try:
        yield spark
    finally:
        spark.stop()


def numbers(spark: SparkSession, per_batch: int, partitions: int = 2) -> DataFrame:
    """Return a stream of the numbers from 0 on in column `n`, so many per batch; Java makes them in next to no time."""
    source = spark.readStream.format("rate-micro-batch")
    options = {"rowsPerBatch": per_batch, "numPartitions": partitions, "startTimestamp": 0, "advanceMillisPerBatch": 1}
    return source.options(**options).load().select(F.col("value").alias("n"))


def tuples(of: DataFrame, rate_hz: int, key: str) -> DataFrame:
    """Return tuples for numbers: a time, so that they come at a rate, a key, and a value."""
    time = f"timestamp_micros({START_US} + n * 1000000 div {rate_hz})"
    return of.selectExpr(f"{time} AS ts", f"{key} AS key", "n * 7919 % 1009 AS v")


def uniform(keys: int) -> str:
    """Return a key that is as frequent as all others."""
    return f"pmod(xxhash64(n), {keys})"


def in_turn(keys: int) -> str:
    """Return one key after the other, scattered: so many consecutive numbers have all of them once."""
    return f"n * 514229 % {keys}"


def zipf(keys: int, exponent: float = 1.1) -> str:
    """Return a key that is the less frequent the higher it is: by the inverse of the distribution, at a hash of the number."""
    share = f"(shiftrightunsigned(xxhash64(n), 11) + 0.5D) / {float(2**53)}D"
    last = float(keys + 1) ** (1 - exponent)
    return f"cast(floor(pow(1D + {share} * {last - 1!r}D, {1 / (1 - exponent)!r}D)) - 1 AS bigint)"


def started(
    rows: DataFrame,
    folder: Path,
    window: str,
    slide: str | None = None,
    *measures: str,
    trigger: str = BACK_TO_BACK,
    **options: Any,
) -> Run:
    """Start skytide's aggregates of the windows of keys, as Parquet files."""
    windowed = skytide.stream(rows, time="ts").window(window, slide=slide, slack=ORDERED)
    asked = windowed.aggregate(*(measures or MEASURES), keys="key")
    return asked.start("parquet", path=folder / "out", checkpoint=folder / "checkpoint", trigger=trigger, **options)


def follow(query: Any, until: int, seconds: float = float("inf")) -> list[Mark]:
    """Wait until a batch has ended, but not longer than some seconds, and return marks, the first of which is now."""
    began_s, marks = time.monotonic(), [Mark.now(_latest(query))]
    while marks[-1].batch < until and time.monotonic() - began_s < seconds:
        if query.awaitTermination(LOOK_S):
            raise RuntimeError("the query ended by itself")
        if (batch := _latest(query)) != marks[-1].batch:
            marks.append(Mark.now(batch))
    return marks


def _latest(query: Any) -> int:
    progress = query.lastProgress
    return progress["batchId"] if progress else -1


def tuples_so_far(query: Any) -> int:
    """Return how many numbers Spark has given out."""
    return int(json.loads(query.lastProgress["sources"][0]["endOffset"])["offset"])


def batches_s(query: Any) -> list[float]:
    """Return the seconds of each batch, as Spark reports them."""
    return [progress["durationMs"]["triggerExecution"] / 1e3 for progress in query.recentProgress if progress["numInputRows"]]


def micros(n: int, rate_hz: int) -> int:
    """Return the time of a tuple."""
    return START_US + n * 1_000_000 // rate_hz
