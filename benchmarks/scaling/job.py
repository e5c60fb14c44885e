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
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import skytide
from skytide.control import Guard
from skytide.spark.scaling.gateway import SparkCluster

ROW_S = 0.002  # time of the service per row
HEAD = 0.65  # share of the time of executors for rows at the peak: the rest is for Spark
INTERVAL_S, LOOK_S = 5.0, 0.5
TRIGGER = "2 seconds"
WARM_UP_S = 40
STEP_S = 5
LOW = 0.1  # share of the peak


def hill(peak_hz: float, length_s: float) -> str:
    """Return the steps of a load that rises and falls again, from a tenth of the peak and after a warm-up at that."""
    steps = [f"{WARM_UP_S}:{peak_hz * LOW:.0f}"]
    for at in range(0, int(length_s), STEP_S):
        height = math.sin(math.pi * at / length_s) ** 4
        steps.append(f"{STEP_S}:{peak_hz * (LOW + (1 - LOW) * height):.0f}")
    return ", ".join(steps)


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
    peak_hz = peak * HEAD / ROW_S
    source = skytide.workload(arrivals="steps", steps=hill(peak_hz, length_s), dimensions=2, partitions=peak)
    arriving = source.load(spark)
    rows = arriving.mapInArrow(ask_service, arriving.schema)
    cluster = SparkCluster(spark)
    own = name not in ("static", "dynamic")
    if own:  # Spark's own allocation is only needed to begin with one executor
        spark.sparkContext._jsc.sc().executorAllocationManager().get().stop()
    with tempfile.TemporaryDirectory() as folder:
        writer = rows.writeStream.format("noop").option("checkpointLocation", folder).trigger(processingTime=TRIGGER)
        query = writer.start()
        query.awaitTermination(WARM_UP_S)  # type: ignore[arg-type]
        guard = Guard(scale_down_after="15 s")
        scaler = skytide.autoscale(
            query,
            controller=name if own else "static:1",
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
        "sizes": sizes,
        "rates_hz": [each.arrival_rate_hz for each in seen],
        "latencies_s": [each.latency_s for each in seen],
        "events": events,
    }
    print("RESULT " + json.dumps(result), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
