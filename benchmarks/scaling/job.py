"""One contestant: a query under a load that rises and falls, on a cluster, with executors chosen in one way; prints the costs as JSON.

The query calls a service for each row, as it were: a task waits in proportion to its rows. So more executors serve more rows, even if
they share the cores of one machine.
"""

import json
import math
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import skytide
from skytide.control import Controller, Guard, Mpc, Proportional, UtilisationThresholds, controller_of
from skytide.spark.scaling.gateway import SparkCluster

ROW_S = 0.002  # time of the service per row
HEAD = 0.65  # share of the time of executors for rows at the peak: the rest is for Spark
INTERVAL_S, LOOK_S = 5.0, 0.5
TRIGGER_S = 2
TASKS_EACH = 2  # tasks of a batch per executor at the peak: with one, 4 or 5 of 6 executors would take as long as 3
SCALE_DOWN = "10 s"
WARM_UP_S = 40
STEP_S = 5
LOW = 0.1  # share of the peak
STEADY_BATCHES = 8
TUNED: dict[str, Controller] = {
    "proportional, 25 % spare": Proportional(headroom=0.25),
    "utilisation, 55 to 75 %": UtilisationThresholds(0.75, 0.55),
    "mpc, 50 % spare": Mpc(headroom=0.5),
}


def contestant_of(name: str) -> Controller:
    """Return a controller by its name, with its default options or with those that are chosen here."""
    return TUNED[name] if name in TUNED else controller_of(name)


def peak_rate_hz(peak: int) -> float:
    """Return the load that so many executors serve."""
    return peak * HEAD / ROW_S


def tasks_of(peak: int) -> int:
    """Return the tasks of a batch."""
    return TASKS_EACH * peak


def rates_hz(peak_hz: float, length_s: float) -> list[float]:
    """Return a load that rises and falls again from a tenth of the peak, second by second."""
    starts = [at // STEP_S * STEP_S for at in range(int(length_s))]
    return [peak_hz * (LOW + (1 - LOW) * math.sin(math.pi * at / length_s) ** 4) for at in starts]


def hill(peak_hz: float, length_s: float) -> str:
    """Return the steps of that load, after a warm-up at its beginning."""
    steps = [f"{STEP_S}:{rate_hz:.0f}" for rate_hz in rates_hz(peak_hz, length_s)[::STEP_S]]
    return ", ".join([f"{WARM_UP_S}:{peak_hz * LOW:.0f}", *steps])


def ask_service(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Wait as long as the service takes for the rows of a batch: this is the work of the query, not waiting for an event."""
    for batch in batches:
        time.sleep(batch.num_rows * ROW_S)
        yield batch


class Meter:
    """Measures the time of executors, as whoever pays for them does."""

    def __init__(self, cluster: SparkCluster) -> None:
        """Start to measure."""
        self._cluster, self._stopped = cluster, threading.Event()
        self.executor_s, self.max_executors = 0.0, 0
        self._thread = threading.Thread(target=self._count, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop measuring."""
        self._stopped.set()
        self._thread.join()

    def _count(self) -> None:
        before_s = time.monotonic()
        while not self._stopped.wait(LOOK_S):
            executors = sum(each.active for each in self._cluster.executors())
            now_s = time.monotonic()
            self.executor_s += executors * (now_s - before_s)
            self.max_executors = max(self.max_executors, executors)
            before_s = now_s


def around_rows_s(progress: Sequence[Any], executors: int) -> float:
    """Return the time of a batch besides that of its rows: the median of the latest ones."""
    batches = [json.loads(each.json) for each in progress[-STEADY_BATCHES:]]
    return median(each["durationMs"]["triggerExecution"] / 1e3 - each["numInputRows"] * ROW_S / executors for each in batches)


def main() -> None:
    """Run a contestant, and print its result."""
    asked: dict[str, Any] = json.loads(sys.argv[1])
    peak, length_s, bound_s, name = asked["peak"], asked["length_s"], asked["bound_s"], asked["contestant"]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    for key, value in asked["spark"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    peak_hz = peak_rate_hz(peak)
    source = skytide.workload(arrivals="steps", steps=hill(peak_hz, length_s), dimensions=2, partitions=tasks_of(peak))
    arriving = source.load(spark)
    rows = arriving.mapInArrow(ask_service, arriving.schema)
    cluster = SparkCluster(spark)
    own = name not in ("static", "dynamic")
    if own:  # Spark's own allocation is only needed to begin with one executor
        spark.sparkContext._jsc.sc().executorAllocationManager().get().stop()
    with tempfile.TemporaryDirectory() as folder:
        writer = rows.writeStream.format("noop").option("checkpointLocation", folder).trigger(processingTime=f"{TRIGGER_S} seconds")
        query = writer.start()
        query.awaitTermination(WARM_UP_S)  # type: ignore[arg-type]
        fixed_s = around_rows_s(query.recentProgress, 1 if name != "static" else peak)
        guard = Guard(scale_down_after=SCALE_DOWN)
        scaler = skytide.autoscale(
            query,
            controller=contestant_of(name) if own else "static:1",
            executors=(1, peak),
            interval=f"{INTERVAL_S} s",
            mode="act" if own else "recommend",
            guard=guard,
        )
        meter = Meter(cluster)
        query.awaitTermination(length_s)  # type: ignore[arg-type]
        meter.stop()
        seen = scaler.history()
        if asked.get("record"):
            seen.save(asked["record"])
        events = [str(event) for event in scaler.events()]
        scaler.stop()
        lead_s = scaler.status().lead_s
        failed = sum(each.failed_tasks for each in cluster.executors())
        query.stop()
    late = [each.latency_s is None or each.latency_s > bound_s for each in seen]
    sizes = [each.allocation.workers for each in seen]
    moves = [abs(two - one) for one, two in pairwise(sizes) if one != two]
    result = {
        "contestant": name,
        "executor_s": meter.executor_s,
        "max_executors": meter.max_executors,
        "intervals": len(seen),
        "violations": sum(late),
        "violation_share": sum(late) / max(1, len(late)),
        "latency_s": sum(each.latency_s or 0 for each in seen) / max(1, len(seen)),
        "worst_s": max((each.latency_s or 0 for each in seen), default=0),
        "reconfigurations": len(moves),
        "amplitude": sum(moves) / len(moves) if moves else 0.0,
        "processed": sum(each.processed_rate_hz * each.interval_s for each in seen),
        "failed_tasks": failed,
        "fixed_s": fixed_s,
        "lead_s": lead_s,
        "sizes": sizes,
        "rates_hz": [each.arrival_rate_hz for each in seen],
        "latencies_s": [each.latency_s for each in seen],
        "events": events,
    }
    print("RESULT " + json.dumps(result), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
