"""Measures one contestant at one load, in real time."""

import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

import skytide
from benchmarks.stream.peers import Contestant, Latencies

WARM_UP_S = 15.0
MEASURED_S = 30.0
TRIGGER = "500 milliseconds"
CAUGHT_UP_S = 3.0
CATCHES_UP_WITHIN_S = 45.0  # after the warm-up


@dataclass(frozen=True)
class Measured:
    """The performance of a contestant at a load."""

    rate_hz: int
    kept_up: bool
    windows: int
    latency_mean_s: float
    latency_p99_s: float
    cpu_s_per_million: float
    why: str


def measure(
    spark: SparkSession, contestant: Contestant, rate_hz: int, points: str, dimensions: int = 8, trigger: str = TRIGGER
) -> Measured:
    """Return the measurements of a contestant at a rate, after a warm-up."""
    folder = tempfile.mkdtemp(prefix="skytide-bench-")
    source = skytide.workload(rate=rate_hz, arrivals="constant", points=points, dimensions=dimensions)
    started = contestant(spark, source, folder, trigger)
    try:
        run_for(started.query, WARM_UP_S)
        deadline = time.monotonic() + CATCHES_UP_WITHIN_S
        while overdue_s(started.latencies(), time.time()) > CAUGHT_UP_S and time.monotonic() < deadline:
            run_for(started.query, 1.0)  # what came while it started is still worked off
        began, cpu = time.time(), cpu_s()
        run_for(started.query, MEASURED_S)
        ended, used = time.time(), cpu_s() - cpu
        latencies = started.latencies()
    finally:
        started.query.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return judge(latencies, began, ended, rate_hz, used)


def overdue_s(latencies: Latencies, now_s: float) -> float:
    """Return how long ago the newest window that is out has ended."""
    return now_s - max(latencies, default=0) / 1e6


def judge(latencies: Latencies, began: float, ended: float, rate_hz: int, cpu_used_s: float) -> Measured:
    """Return whether windows came out as fast as they ended: none is overdue at the end, and latency does not grow.

    >>> steady = {end * 200_000: 0.5 for end in range(500)}
    >>> judge(steady, began=70.0, ended=100.0, rate_hz=1000, cpu_used_s=3.0).kept_up
    True
    >>> falling_behind = {end * 200_000: end / 50 for end in range(450)}
    >>> judge(falling_behind, began=70.0, ended=100.0, rate_hz=1000, cpu_used_s=3.0).kept_up
    False
    """
    out = sorted((end / 1e6 + latency, end / 1e6, latency) for end, latency in latencies.items())
    inside = [(at, end, latency) for at, end, latency in out if began <= at <= ended]
    values = np.array([latency for _, _, latency in inside])
    overdue = ended - max((end for _, end, _ in inside), default=0.0)
    third = (ended - began) / 3
    early = [latency for at, _, latency in inside if at < began + third]
    late = [latency for at, _, latency in inside if at > ended - third]
    why = ""
    if not len(values) or overdue > CAUGHT_UP_S:
        why = f"last window {overdue:.1f} s overdue" if len(values) else "no window came out"
    elif not early or not late or np.median(late) > 1.5 * np.median(early) + 0.3:
        why = "latency grows"
    return Measured(
        rate_hz=rate_hz,
        kept_up=not why,
        windows=len(values),
        latency_mean_s=float(values.mean()) if len(values) else float("nan"),
        latency_p99_s=float(np.quantile(values, 0.99)) if len(values) else float("nan"),
        cpu_s_per_million=cpu_used_s / (rate_hz * (ended - began) / 1e6),
        why=why,
    )


def cpu_s() -> float:
    """Return the processor time of this process and all that it started: Spark's JVM and its Python workers."""
    return sum(family().values())


def family(root: int | None = None) -> dict[int, float]:
    """Return the processor time of a process, this one or another, and of each of its descendants, with that of children that ended."""
    seen: dict[int, tuple[int, int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            values = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        seen[int(folder.name)] = (int(values[1]), sum(map(int, values[11:15])))
    found = {root or os.getpid()}
    while grown := {pid for pid, (parent, _) in seen.items() if parent in found} - found:
        found |= grown
    return {pid: seen[pid][1] / os.sysconf("SC_CLK_TCK") for pid in found if pid in seen}


def run_for(query: object, seconds: float) -> None:
    if query.awaitTermination(seconds):  # type: ignore[attr-defined]
        raise RuntimeError("the query ended by itself")
