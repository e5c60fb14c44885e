"""The model of a micro-batch against reality: `python -m benchmarks.scaling.model`.

On a real standalone cluster, a query whose tasks wait for each row, as for a service, runs with 6 to 1 executors and three triggers. What
was measured with one size is what the model knows; utilisation and latency that it predicts for the others are compared with what was
measured there. Java waits, not Python: with six Pythons on two cores, tasks take longer the more executors there are.
"""

import argparse
import json
import os
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console

import skytide
from benchmarks.scaling.__main__ import CLASSES, archive_classes, settings
from benchmarks.timing import Limit, announce, show
from skytide.control import Controller, ControllerLogic, Guard
from skytide.control.models.micro_batch import latency_s, utilisation
from skytide.records import Decision, Evaluation, MicroBatch, Observation
from skytide.spark.scaling.gateway import SparkCluster
from skytide.spark.session.cluster import LocalCluster

OUT = Path(__file__).resolve().parents[2] / "out"
PEAK, RATE_HZ = 6, 400.0
TASKS, ROW_MS = 6, 2
TRIGGERS_S = (2.0, 3.0, 4.0)
KNOWN = 3  # executors from which the model predicts the rest
COLD_LOOKS = 3  # more at the beginning, until Java has compiled what it runs
LOOKS = 3  # intervals with each size, of which the first is not used
INTERVAL_TRIGGERS = 3
ALLOWED = 0.15


@dataclass(frozen=True)
class Stairs(Controller):
    """One size after the other, from all executors to one."""

    peak: int

    def build(self, resume: object = None) -> ControllerLogic:
        """Return the logic."""
        return _Stairs(self.peak)


class _Stairs(ControllerLogic):
    def __init__(self, size: int) -> None:
        self._size, self._looks, self._cold = size, 0, COLD_LOOKS

    def decide(self, seen: Evaluation, *, now_s: float) -> Decision:
        self._looks += seen.seen.allocation.workers == self._size
        if self._looks >= LOOKS + self._cold and self._size > 1:
            self._cold = 0
            self._size, self._looks = self._size - 1, 0
        return Decision(seen.seen.allocation.with_workers(self._size), f"the next is {self._size}")

    def snapshot(self) -> dict[str, Any]:
        return {}


def measured(spark: SparkSession, trigger_s: float, peak: int, rate_hz: float) -> dict[int, list[Observation]]:
    """Return what was observed with each size, without the first look at it."""
    arriving = spark.readStream.format("rate").option("rowsPerSecond", round(rate_hz)).option("numPartitions", TASKS).load()
    answered = arriving.selectExpr("*", f"reflect('java.lang.Thread', 'sleep', {ROW_MS}L) AS answer")
    with tempfile.TemporaryDirectory() as folder:
        writer = answered.writeStream.format("noop").option("checkpointLocation", folder)
        query = writer.trigger(processingTime=f"{int(trigger_s * 1e3)} milliseconds").start()
        scaler = skytide.autoscale(
            query, Stairs(peak), (1, peak), interval=f"{INTERVAL_TRIGGERS * trigger_s:g} s", guard=Guard.bounds(1, peak)
        )
        seen: list[Observation] = []
        while sum(one.allocation.workers == 1 for one in seen) < LOOKS:
            query.awaitTermination(1)
            seen = list(scaler.history())
        scaler.stop()
        query.stop()
    sizes = range(1, peak + 1)
    return {size: [one for one in seen if one.allocation.workers == size and one.batch is not None][1 - LOOKS :] for size in sizes}


def main() -> None:
    """Measure, predict, compare, and save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling.model", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a toy size, only to see that everything runs")
    options = parser.parse_args()
    peak, triggers = (2, TRIGGERS_S[:1]) if options.quick else (PEAK, TRIGGERS_S)
    rate_hz, known = (RATE_HZ * peak / PEAK, min(KNOWN, peak))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    OUT.mkdir(exist_ok=True)
    if not CLASSES.exists() and not options.quick:
        archive_classes()
    rows, worst, found = [], 0.0, []
    with LocalCluster(peak, hosts=peak, classes=CLASSES if CLASSES.exists() else None) as cluster:
        builder = SparkSession.builder.appName("model")
        for key, value in {
            **cluster.settings(),
            **settings("model", peak),
            "spark.dynamicAllocation.initialExecutors": str(peak),
        }.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        assert not SparkCluster(spark).local
        spark.sparkContext._jsc.sc().executorAllocationManager().get().stop()
        for trigger_s in triggers:
            seen = measured(spark, trigger_s, peak, rate_hz)
            batch = _middle(seen[known])
            for size, looks in seen.items():
                if not looks:
                    continue
                rates_hz = median(one.arrival_rate_hz for one in looks)
                was = median(one.utilisation for one in looks), median(one.latency_s or 0.0 for one in looks)
                expected = float(utilisation(batch, rates_hz, size)), float(latency_s(batch, rates_hz, size))
                off = [said / is_ - 1 for said, is_ in zip(expected, was, strict=True)]
                if was[0] <= 1:  # what grows without end has no mean
                    worst = max([worst, *map(abs, off)])
                found.append({"trigger_s": trigger_s, "size": size, "measured": was, "predicted": expected, "batch": asdict(batch)})
                figures = [f"{value:.2f}" for pair in zip(was, expected, strict=True) for value in pair]
                rows.append([f"{trigger_s:g} s", str(size), *figures[:2], f"{off[0]:+.0%}", *figures[2:], f"{off[1]:+.0%}"])
        spark.stop()
    names = ["trigger", "executors", "utilisation", "predicted", "off by", "latency s", "predicted", "off by"]
    show(Console(width=140, highlight=False), f"predicted from {known} executors, {rate_hz:g} rows/s", names, rows)
    (OUT / "bench-model.json").write_text(json.dumps(found, indent=1) + "\n")
    announce(Console(highlight=False), [Limit("share by which a prediction is off at most", worst, ALLOWED)])


def _middle(looks: list[Observation]) -> MicroBatch:
    """Return the batch of the look whose work is in the middle."""
    batches = sorted((one.batch for one in looks if one.batch is not None), key=lambda batch: batch.work_s / batch.rows)
    return batches[len(batches) // 2]


if __name__ == "__main__":
    main()
