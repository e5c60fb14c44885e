"""Queries of Spark with state under an auto-scaler: `python -m benchmarks.scaling.stateful`, about five minutes for each kind of query.

Duplicates are dropped, windows aggregated, streams joined, and keys counted by `transformWithState`, on a real standalone cluster, under
a load that rises to what four executors serve and falls again. A task with state waits in proportion to the rows that its operator
returns, as if it called a service for each. What came out in the end is compared with a computation over all files, without Spark.
"""

import argparse
import json
import math
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import Row
from rich.console import Console

import skytide
from benchmarks.scaling.__main__ import CLASSES, archive_classes, settings
from benchmarks.scaling.job import LOW, STEP_S, Meter
from benchmarks.timing import Goal, Limit, announce, show
from skytide.control import Guard, Mpc
from skytide.records import Observation
from skytide.spark.scaling.gateway import SparkCluster
from skytide.spark.session.cluster import LocalCluster

OUT = Path(__file__).resolve().parents[2] / "out"
PEAK, PARTITIONS_EACH = 4, 2  # executors, and partitions of the state for each of them
TRIGGER_S, INTERVAL_S, SCALE_DOWN = 3.0, 6.0, "12 s"
ROW_S, HEAD = 0.004, 0.5  # time of the service per row that comes in, and the share of the time of executors for it at the peak
WARM_UP_S, LENGTH_S, TAIL_S, TOY_S = 30, 180, 60, (40, 10)
FILES = 4  # per second
KEYS, WINDOW_S, LAG, ANY_FIFTH = 20_000, 10, 400, 5
SCHEMA = "number bigint, key bigint, second bigint"
ALLOWED_LATE = 0.1
Result = Counter[tuple[int, ...]]


@dataclass(frozen=True)
class Kind:
    """A kind of query with state."""

    share: float
    """Rows that come out, per row that comes in."""
    query: Callable[[DataFrame], DataFrame]
    """Returns key columns, and as the last one a count."""
    expected: Callable[[pa.Table], Result]
    """The same, of all rows."""
    updates: bool
    """Whether a row replaces the one before with the same key; otherwise counts add up."""


class Count(StatefulProcessor):
    """Counts the rows of a key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Begin with what was counted before."""
        self._count = handle.getValueState("count", "n bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Count, and return the count."""
        total = (self._count.get() or (0,))[0] + sum(1 for _ in rows)
        self._count.update((total,))
        yield Row(key=key[0], n=total)

    def close(self) -> None:
        """Do nothing."""


def unique(rows: DataFrame) -> DataFrame:
    """Return each number once; every fifth comes again."""
    return rows.select(_with_copies("number")).dropDuplicates(["number"]).select("number", F.lit(1).alias("n"))


def windowed(rows: DataFrame) -> DataFrame:
    """Return the count of each key in each window."""
    start = F.window(F.timestamp_seconds("second"), f"{WINDOW_S} seconds")
    counts = rows.groupBy(start.alias("w"), "key").count()
    return counts.select(F.unix_timestamp("w.start").alias("start"), "key", F.col("count").alias("n"))


def joined(rows: DataFrame) -> DataFrame:
    """Return the numbers that come again as the other half of a pair, some time later."""
    left = rows.where("number % 2 = 0").select(F.expr("number div 2").alias("pair"))
    right = rows.where("number % 2 = 1").select(F.expr(f"number div 2 - {LAG}").alias("other"))
    return left.join(right, F.expr("pair = other")).select("pair", F.lit(1).alias("n"))


def counted(rows: DataFrame) -> DataFrame:
    """Return the count of each key so far."""
    return rows.groupBy("key").transformWithState(Count(), "key bigint, n bigint", "Update", "None")


def _with_copies(name: str) -> Any:
    return F.expr(f"{name} - if({name} % {ANY_FIFTH} = 0 and {name} > 0, 1, 0)").alias(name)


def _in_windows(rows: pa.Table) -> Result:
    return Counter((one["second"] - one["second"] % WINDOW_S, one["key"]) for one in rows.to_pylist())


def _pairs(rows: pa.Table) -> Result:
    numbers = set(rows["number"].to_pylist())
    return Counter((n // 2,) for n in numbers if n % 2 == 0 and n + 1 + 2 * LAG in numbers)


KINDS = {
    "dropDuplicates": Kind(
        0.8,
        unique,
        lambda rows: Counter((n,) for n in {n - 1 if n % ANY_FIFTH == 0 and n > 0 else n for n in rows["number"].to_pylist()}),
        updates=False,
    ),
    "aggregation": Kind(1.0, windowed, _in_windows, updates=True),
    "join": Kind(0.5, joined, _pairs, updates=False),
    "transformWithState": Kind(1.0, counted, lambda rows: Counter((key,) for key in rows["key"].to_pylist()), updates=True),
}


def asking(row_s: float) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what tasks do: wait for as long as a service takes for their rows."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(batch.num_rows * row_s)
            yield batch

    return run


def loads_hz(peak_hz: float, length_s: int, tail_s: int) -> list[float]:
    """Return a load that rises slowly after the warm-up, and falls again, second by second."""
    hill = [math.sin(math.pi * (at // STEP_S * STEP_S) / length_s) ** 2 for at in range(length_s)]
    return [peak_hz * (LOW + (1 - LOW) * height) for height in [0.0] * WARM_UP_S + hill + [0.0] * tail_s]


def rows_of(numbers: range, second: int) -> pa.Table:
    """Return rows with these numbers, which come in the same second."""
    return pa.table({"number": numbers, "key": [number * 7_919 % KEYS for number in numbers], "second": [second] * len(numbers)})


class Feeder:
    """Writes files of rows, at rates that are given second by second."""

    def __init__(self, folder: Path, each_s: Sequence[float]) -> None:
        """Begin at once."""
        self.folder, self._each_s, self._fed = folder, each_s, 0
        folder.mkdir()
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether all rows are written."""
        return not self._thread.is_alive()

    def rows(self) -> pa.Table:
        """Return all rows that were written."""
        return pq.read_table(sorted(self.folder.glob("*.parquet")))

    def _feed(self) -> None:
        began_s, owed = time.monotonic(), 0.0
        for second, rate_hz in enumerate(self._each_s):
            owed += rate_hz
            for part in range(FILES):
                last = self._fed + int(owed) // (FILES - part)
                owed -= last - self._fed
                draft = self.folder / f".{second}-{part}"
                pq.write_table(rows_of(range(self._fed, last), second), draft)
                draft.rename(self.folder / f"{second:05}-{part}.parquet")
                self._fed = last
            time.sleep(max(0.0, began_s + second + 1 - time.monotonic()))


def collected(into: Result, updates: bool) -> Callable[[DataFrame, int], None]:
    """Return a sink that adds up counts, or keeps the latest."""

    def take(batch: DataFrame, number: int) -> None:
        for *key, count in zip(*(column.to_pylist() for column in batch.toArrow().columns), strict=True):
            into[tuple(key)] = count if updates else into[tuple(key)] + count

    return take


def turns(sizes: Sequence[int]) -> int:
    """Return how often sizes change their direction.

    >>> turns([1, 1, 2, 4, 4, 3, 1]), turns([1, 2, 1, 2]), turns([2, 2])
    (1, 2, 0)
    """
    ups = [two > one for one, two in pairwise(sizes) if one != two]
    return sum(one != two for one, two in pairwise(ups))


def least_share(seen: Sequence[Observation]) -> float | None:
    """Return the load of the executor that did least, over the mean of all, where there were several: half of the looks have less."""
    loads = [[load for _, load in one.loads] for one in seen if len(one.loads) > 1 and one.allocation.workers == len(one.loads)]
    shares = [min(each) / (sum(each) / len(each)) for each in loads if sum(each) > 0]
    return median(shares) if shares else None


def run(spark: SparkSession, name: str, folder: Path, peak: int, lengths_s: tuple[int, int], console: Console) -> dict[str, Any]:
    """Scale a query of a kind, and return what happened."""
    kind, cluster, into = KINDS[name], SparkCluster(spark), Counter[tuple[int, ...]]()
    alone(cluster)
    feeder = Feeder(folder / "rows", loads_hz(peak * HEAD / ROW_S, *lengths_s))
    rows = spark.readStream.schema(SCHEMA).parquet(str(feeder.folder))
    results = kind.query(rows)
    asked = results.mapInArrow(asking(ROW_S / kind.share), results.schema)
    writer = asked.writeStream.outputMode("update" if kind.updates else "append").foreachBatch(collected(into, kind.updates))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(processingTime=f"{TRIGGER_S:g} seconds").start()
    query.awaitTermination(WARM_UP_S)  # type: ignore[arg-type]
    guard, warm = Guard(scale_down_after=SCALE_DOWN), datetime.now(UTC).isoformat()
    scaler = skytide.autoscale(
        query,
        Mpc.throughput(),
        (1, peak),
        interval=f"{INTERVAL_S:g} s",
        guard=guard,
        on_event=lambda event: console.print(str(event)),
    )
    meter = Meter(cluster)
    while not feeder.is_done and query.isActive:
        query.awaitTermination(1)
    meter.stop()
    seen = scaler.history()
    scaler.stop()
    batches = [json.loads(one.json) for one in query.recentProgress]
    query.processAllAvailable()
    query.stop()
    expected = kind.expected(feeder.rows())
    took_s = [one["durationMs"]["triggerExecution"] / 1e3 for one in batches if one["timestamp"] > warm]
    sizes, reload_s = [one.allocation.workers for one in seen], [one.reload_s for one in seen if one.reload_s]
    return {
        "kind": name, "rows": feeder.rows().num_rows, "results": len(expected), "same": into == expected, "executor_s": meter.executor_s,
        "max_executors": meter.max_executors, "sizes": sizes, "changes": sum(one != two for one, two in pairwise(sizes)), "turns": turns(sizes),
        "batches": len(took_s), "late": sum(one > TRIGGER_S for one in took_s), "worst_s": max(took_s, default=0.0),
        "state_rows": max((one.state_rows or 0 for one in seen), default=0), "state_mb": max((one.state_bytes or 0 for one in seen), default=0) / 1e6,
        "reload_s": reload_s[-1] if reload_s else 0.0, "tasks": max((one.batch.tasks or 0 for one in seen if one.batch), default=0),
        "least": least_share(seen), "batch_rows": [(one["numInputRows"], one["durationMs"]) for one in batches], "utilisations": [one.utilisation for one in seen], "reasons": [str(one.decided.reason) for one in scaler.cycles()], "events": list(map(str, scaler.events())),
    }  # fmt: skip


def alone(cluster: SparkCluster) -> None:
    """Leave one executor."""
    cluster.request(1)
    for one in [executor for executor in cluster.executors() if executor.active][1:]:
        cluster.decommission(one.id)


def main() -> None:
    """Run all kinds, or some, and compare and save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling.stateful", description=__doc__)
    parser.add_argument("kinds", nargs="*", default=[], help=f"some of {', '.join(KINDS)} (default: all)")
    parser.add_argument("--toy", action="store_true", help="two executors for half a minute, only to see that everything runs")
    parser.add_argument("--locality-wait", help="a setting of Spark that the auto-scaler then leaves alone, such as 3s")
    options = parser.parse_args()
    if unknown := set(options.kinds) - set(KINDS):
        parser.error(f"no such kinds: {', '.join(unknown)}")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    OUT.mkdir(exist_ok=True)
    peak, lengths_s = (2, TOY_S) if options.toy else (PEAK, (LENGTH_S, TAIL_S))
    if not CLASSES.exists() and not options.toy:
        archive_classes()
    console, found = Console(width=160, highlight=False), []
    with LocalCluster(peak, hosts=peak, classes=CLASSES if CLASSES.exists() else None) as cluster:
        builder = SparkSession.builder.appName("stateful")
        chosen = {**cluster.settings(), **settings("mpc", peak), **state_settings(peak * PARTITIONS_EACH)}
        chosen |= {"spark.locality.wait": options.locality_wait} if options.locality_wait else {}
        for key, value in chosen.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        spark.sparkContext._jsc.sc().executorAllocationManager().get().stop()
        for name in options.kinds or KINDS:
            with tempfile.TemporaryDirectory() as folder:
                found.append(run(spark, name, Path(folder), peak, lengths_s, console))
        spark.stop()
    report(console, found, peak)
    (OUT / "bench-stateful.json").write_text(json.dumps(found, indent=1) + "\n")


def state_settings(partitions: int) -> dict[str, str]:
    """Return how Spark keeps state."""
    stores = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    return {
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.files.minPartitionNum": "1",
        "spark.sql.streaming.stateStore.providerClass": stores,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.ui.showConsoleProgress": "false",
    }


def report(console: Console, found: Sequence[dict[str, Any]], peak: int) -> None:
    """Print what happened, and what should have."""
    names = [
        "query",
        "rows",
        "executor s",
        "most",
        "changes",
        "turns",
        "late batches",
        "worst s",
        "state rows",
        "MB",
        "reload s",
        "tasks",
        "least busy",
    ]
    table = [
        [
            one["kind"], f"{one['rows']:,}", f"{one['executor_s']:,.0f}", str(one["max_executors"]), str(one["changes"]), str(one["turns"]),
            f"{one['late']} of {one['batches']}", f"{one['worst_s']:.1f}", f"{one['state_rows']:,.0f}", f"{one['state_mb']:.1f}",
            f"{one['reload_s']:.1f}", str(one["tasks"]), "" if one["least"] is None else f"{one['least']:.0%}",
        ]
        for one in found
    ]  # fmt: skip
    show(console, f"queries with state, 1 to {peak} executors", names, table)
    late = max(one["late"] / max(1, one["batches"]) for one in found)
    announce(
        console,
        [
            Goal("kinds of queries with the results that are expected", sum(one["same"] for one in found), len(found)),
            Goal("most executors, of the kind that came to the fewest", min(one["max_executors"] for one in found), peak),
            Limit("changes of direction after the warm-up", max(one["turns"] for one in found), 1),
            Limit("share of batches that took longer than the trigger", late, ALLOWED_LATE),
        ],
    )


if __name__ == "__main__":
    main()
