"""Windows of an hour every minute, of a million keys some of which are very frequent."""

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from pyspark.sql import SparkSession

from benchmarks.state import oracle
from benchmarks.state.common import ROCKS, START_US, Bench, Found, session, zipf
from benchmarks.state.contest import COLUMNS, Stream, skytide_of, spark_of
from benchmarks.timing import Goal, Limit

HOUR_US, MINUTE_US = 3_600_000_000, 60_000_000
MIN_RATIO = 20.0


@dataclass(frozen=True)
class Sizes:
    """How large the stream is: it fills an hour first, then so many minutes are measured."""

    keys: int = 1_000_000
    rate_hz: int = 50_000
    batch_s: int = 20
    measured_minutes: int = 5


QUICK = Sizes(5_000, 200, 120, 4)


def keys(bench: Bench) -> Found:
    """Measure skytide with a full hour of state, and Spark's own sliding windows as far as they get."""
    sizes = QUICK if bench.quick else Sizes()
    stream = Stream(sizes.rate_hz, zipf(sizes.keys), sizes.batch_s, "60 minutes", "1 minute")
    full = 3_600 // sizes.batch_s
    last = full + sizes.measured_minutes * 60 // sizes.batch_s
    with session("keys", memory="6g", **ROCKS) as spark:
        filling, measured = skytide_of(spark, stream, bench.folder / "skytide", full, last)
        began_s = perf_counter()
        check(spark, sizes, bench.folder / "skytide" / "out", count=(last + 1) * stream.per_batch)
        bench.console.print(f"Two windows are what Spark says of them ({perf_counter() - began_s:.0f} s to compare)")
        _, peer = spark_of(spark, stream, bench.folder / "spark", full, last, bench.spark_minutes * 60)
    rows = [filling.row("skytide, the first hour"), measured.row("skytide, a full hour of state"), peer.row("Spark's own windows")]
    ratio = peer.cpu_per_million_s / measured.cpu_per_million_s
    goals = [
        Limit("60 min by 1 min: seconds per second of the stream", measured.load, 1.0),
        Goal("60 min by 1 min: CPU per row of Spark's own windows over skytide's", ratio, MIN_RATIO),
    ]
    title = f"60 min by 1 min, {sizes.keys:,} keys, Zipf 1.1, {sizes.rate_hz:,} rows/s, local[2], batches of {sizes.batch_s} s"
    figures = {name: each.figures() for name, each in (("filling", filling), ("measured", measured), ("spark", peer))}
    return Found(title, COLUMNS, rows, goals, figures)


def check(spark: SparkSession, sizes: Sizes, out: Path, count: int) -> None:
    """Compare the first window, which has one minute, and the last with a full hour that has surely come out."""
    ended_us = (START_US + (count - 1) * 1_000_000 // sizes.rate_hz) // MINUTE_US * MINUTE_US
    for start_us in (START_US + MINUTE_US - HOUR_US, ended_us - 2 * MINUTE_US - HOUR_US):
        some = oracle.numbers_between(start_us, start_us + HOUR_US, sizes.rate_hz, count)
        expected = oracle.by_spark(spark, some, sizes.rate_hz, zipf(sizes.keys))
        oracle.check(f"window {(start_us - START_US) // MINUTE_US} of 60 min by 1 min", oracle.window_of(out, start_us), expected)
