"""What windows have to say, from NumPy or from a batch of Spark's: neither knows panes, parts or checkpoints."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.state.common import START_US, tuples
from benchmarks.timing import Disagreement

COLUMNS = ("key", "n", "total", "top")


def window_of(folder: Path, start_us: int, columns: tuple[str, ...] = COLUMNS) -> pa.Table:
    """Return the rows of a window in Parquet files, by key."""
    start = pa.scalar(start_us, pa.timestamp("us", "UTC"))
    rows = pq.read_table(folder, filters=[("window_start", "=", start)], columns=list(columns))
    return rows.sort_by("key")


def numbers_between(start_us: int, end_us: int, rate_hz: int, count: int) -> range:
    """Return the numbers of the tuples in a window, of those that there are."""
    first, end = (-(-max(0, at - START_US) * rate_hz // 1_000_000) for at in (start_us, end_us))
    return range(min(first, count), min(end, count))


def in_turn(some: range, keys: int) -> pa.Table:
    """Return the aggregates of the numbers of a window, whose keys come in turn."""
    n = np.arange(some.start, some.stop, dtype=np.int64)
    key, value = n * 514229 % keys, n * 7919 % 1009
    count = np.bincount(key, minlength=keys)
    top = np.full(keys, -1)
    np.maximum.at(top, key, value)
    total = np.bincount(key, weights=value, minlength=keys).astype(np.int64)  # below 2**53, so exact
    table = pa.table({"key": np.arange(keys), "n": count, "total": total, "top": top})
    return table.filter(pa.array(count > 0))


def by_spark(spark: SparkSession, some: range, rate_hz: int, key: str) -> pa.Table:
    """Return the aggregates of the numbers of a window as Spark computes them of rows that do not stream."""
    rows = tuples(spark.range(some.start, some.stop).withColumnRenamed("id", "n"), rate_hz, key)
    measures = (F.count("*").alias("n"), F.sum("v").alias("total"), F.max("v").alias("top"))
    return rows.groupBy("key").agg(*measures).toArrow().sort_by("key")


def check(what: str, found: pa.Table, expected: pa.Table) -> None:
    """Raise Disagreement unless both have the same rows, and there are some."""
    if found.num_rows != expected.num_rows or not found.num_rows:
        raise Disagreement(f"{what}: {found.num_rows:,} rows instead of {expected.num_rows:,}")
    for name in COLUMNS:
        one, other = (np.asarray(table[name].to_numpy()) for table in (found, expected))
        if not np.array_equal(one, other):
            raise Disagreement(f"{what}: {name} differs in {int((one != other).sum()):,} of {len(one):,} rows")
