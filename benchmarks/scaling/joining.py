"""Why the first batch after a new executor is late: adds executors to a running query one by one, and shows what the first tasks of each took.

Each way runs in a process of its own. Spark's event log tells when an executor came, and how long its first task took, in Java and as a
whole; the rest of that task is the start of its Python.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console

import skytide
from benchmarks.scaling.__main__ import CLASSES, DYNAMIC, archive_classes
from benchmarks.scaling.job import ROW_S, TRIGGER_S, ask_service
from benchmarks.timing import show
from skytide.spark.scaling.gateway import SparkCluster
from skytide.spark.scaling.scaler import LOOK_S
from skytide.spark.scaling.warm import warm_behind
from skytide.spark.session.cluster import LocalCluster
from skytide.spark.session.quick import SPECULATION

ROOT = Path(__file__).resolve().parents[2]
PEAK, START = 6, 2
LOAD = 0.6  # of what the first executors can serve
WARM_UP_S, APART_S = 40.0, 10.0
WAYS = {
    "nothing done": {},
    "a first task of ours": {"warm": True},
    "an archive of classes": {"archive": True},
    "both": {"warm": True, "archive": True},
    "both, and a second try elsewhere": {"warm": True, "archive": True, "again": True},
}


@dataclass(frozen=True)
class Join:
    """What happened when an executor came."""

    came_s: float
    """After it was asked for."""
    ours: bool
    """Whether its first task was ours, not the query's."""
    first_s: float
    """The time of its first task."""
    java_s: float
    """The processor time of Java for that task."""
    before_s: float
    """The longest batch of the last seconds before."""
    batch_s: float
    """The longest batch until some seconds after."""


def main(arguments: Sequence[str]) -> None:
    """Try all ways, or as a process of its own a single one."""
    if arguments:
        print("RESULT " + json.dumps([asdict(each) for each in add_executors(**WAYS[arguments[0]])]), flush=True)
        return
    if not CLASSES.exists():
        archive_classes()
    rows = []
    for name in WAYS:
        command = [sys.executable, "-m", "benchmarks.scaling.joining", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        line = next((line for line in done.stdout.splitlines() if line.startswith("RESULT ")), None)
        if line is None:
            raise SystemExit(f"{name}: {done.stderr[-3000:]}")
        joins = [Join(**each) for each in json.loads(line.removeprefix("RESULT "))]
        timed = ("came_s", "first_s", "java_s", "before_s", "batch_s")
        rows.append(
            [
                name,
                f"{sum(each.ours for each in joins)} of {len(joins)}",
                *(_range(getattr(each, what) for each in joins) for what in timed),
            ]
        )
    names = ["", "first task is ours", "came after s", "first task s", "of it Java's CPU s", "batch before s", "batch with it s"]
    show(Console(width=150, highlight=False), f"{PEAK - START} executors that join one by one: median (largest)", names, rows)


def add_executors(*, warm: bool = False, archive: bool = False, again: bool = False) -> list[Join]:
    """Run a query, add executors to it one by one, and return what happened."""
    with LocalCluster(PEAK, hosts=PEAK, classes=CLASSES if archive else None) as cluster, tempfile.TemporaryDirectory() as folder:
        events = Path(folder, "events")
        events.mkdir()
        builder = SparkSession.builder.appName("joining")
        logged = {"enabled": "true", "dir": events.as_uri(), "compress": "false", "rolling.enabled": "false"}
        started = {
            **cluster.settings(),
            "spark.executorEnv.PYTHONPATH": str(ROOT),
            **(SPECULATION if again else {}),
            **DYNAMIC,
            "spark.dynamicAllocation.initialExecutors": str(START),
        }
        for key, value in {**started, **{f"spark.eventLog.{key}": value for key, value in logged.items()}}.items():
            builder = builder.config(key, value)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        spark = builder.getOrCreate()
        source = skytide.workload(rate=START * LOAD / ROW_S, arrivals="constant", dimensions=2, partitions=PEAK)
        arriving = source.load(spark)
        rows = arriving.mapInArrow(ask_service, arriving.schema)
        spark.sparkContext._jsc.sc().executorAllocationManager().get().stop()
        writer = rows.writeStream.format("noop").option("checkpointLocation", f"{folder}/checkpoint")
        query = writer.trigger(processingTime=f"{TRIGGER_S} seconds").start()
        query.awaitTermination(WARM_UP_S)  # type: ignore[arg-type]
        executors, asked_s = SparkCluster(spark), dict[str, float]()
        known = {each.id for each in executors.executors()}
        for size in range(START + 1, PEAK + 1):
            now_s = time.time()
            executors.request(size)
            while time.time() < now_s + APART_S:
                for each in executors.executors():
                    if each.active and each.id not in known:
                        known.add(each.id)
                        asked_s[each.id] = now_s
                        if warm:
                            warm_behind(spark, each)
                query.awaitTermination(LOOK_S)  # type: ignore[arg-type]
        batches = [json.loads(each.json) for each in query.recentProgress]
        query.stop()
        spark.stop()
        (log,) = (path for path in events.iterdir() if path.is_file())
        return joins([json.loads(line) for line in log.open()], batches, asked_s)


def joins(events: Sequence[Any], batches: Sequence[Any], asked_s: dict[str, float]) -> list[Join]:
    """Return what the event log and the progress of the query tell about executors that were asked for."""
    named = {
        each["Stage Info"]["Stage ID"]: each["Stage Info"]["Stage Name"]
        for each in events
        if each["Event"] == "SparkListenerStageSubmitted"
    }
    came = {each["Executor ID"]: each["Timestamp"] / 1e3 for each in events if each["Event"] == "SparkListenerExecutorAdded"}
    ran = [each for each in events if each["Event"] == "SparkListenerTaskEnd"]
    took = [
        (datetime.fromisoformat(each["timestamp"]).timestamp(), each["durationMs"]["triggerExecution"] / 1e3) for each in batches
    ]
    found = []
    for name, since_s in asked_s.items():
        tasks = [each for each in ran if each["Task Info"]["Executor ID"] == name]
        if not tasks:
            continue
        first = min(tasks, key=lambda each: each["Task Info"]["Launch Time"])
        began_ms, ended_ms = first["Task Info"]["Launch Time"], first["Task Info"]["Finish Time"]
        before = [lasted for start, lasted in took if came[name] - APART_S / 2 < start and start + lasted < came[name]]
        beside = [lasted for start, lasted in took if start + lasted >= came[name] and start < ended_ms / 1e3 + TRIGGER_S]
        found.append(
            Join(
                came_s=came[name] - since_s,
                ours=named[first["Stage ID"]].startswith("collect"),
                first_s=(ended_ms - began_ms) / 1e3,
                java_s=first["Task Metrics"]["Executor CPU Time"] / 1e9,
                before_s=max(before, default=0.0),
                batch_s=max(beside, default=0.0),
            )
        )
    return found


def _range(values: Iterable[float]) -> str:
    seen = sorted(values)
    return f"{median(seen):.1f} ({seen[-1]:.1f})" if seen else "-"


if __name__ == "__main__":
    main(sys.argv[1:])
