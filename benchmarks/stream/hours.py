"""Windows of an hour, played fast: what is there of them must not grow from window to window, and each must have what was fed."""

import contextlib
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console

import skytide
from benchmarks.stream.sampling import FLAT, Sample, live_mb, save, sizes
from benchmarks.timing import show
from skytide.spark import local_session
from skytide.spark.checkpoint import Store

HOUR_S, MINUTE_US = 3_600, 60_000_000
START_US = 1_700_000_000_000_000 // (HOUR_S * 1_000_000) * HOUR_S * 1_000_000
RATE_HZ, KEYS, BATCH_S = 100, 1_000, 60
"""A batch for each minute of the stream."""
TASKS = 4
EVERY_S = 2.0
WARM_UP = 2
"""After so many hours all panes of a sliding window have been there once, and the heaps have their size."""


@dataclass(frozen=True)
class Played:
    """What a query of one window is asked to do."""

    name: str
    slide: str
    slide_us: int


QUERIES = (Played("1 hour", "1 hour", 60 * MINUTE_US), Played("1 hour by 1 minute", "1 minute", MINUTE_US))


def play(console: Console, hours: int) -> bool:
    """Play some hours with each query, print tables, and return whether all was flat and right."""
    spark = local_session("skytide soak of hours", **{"spark.driver.memory": "2g"})
    try:
        good = [_play(console, spark, played, hours) for played in QUERIES]
        return all(good)
    finally:
        spark.stop()


def _play(console: Console, spark: SparkSession, played: Played, hours: int) -> bool:
    folder = tempfile.mkdtemp(prefix="skytide-soak-")
    source = skytide.workload(
        rate=RATE_HZ,
        arrivals="poisson",
        dimensions=2,
        tick="1 s",
        pace="fast",
        partitions=TASKS,
        batch=f"{BATCH_S} s",
        duration=f"{hours} hours",
        start=START_US,
    )
    rows = source.load(spark).selectExpr("ts", f"CAST(x0 * {KEYS} AS INT) AS key")
    counts = skytide.stream(rows).window("1 hour", slide=played.slide, slack=skytide.slacks.FixedSlack("5 s"))
    query = counts.group_by("key").agg("count(*) AS n")
    began = time.monotonic()
    run = query.start(
        "parquet", path=f"{folder}/results", checkpoint=f"{folder}/checkpoint", trigger="availableNow", flush=True, window_slots=2
    )
    samples: list[Sample] = []
    try:
        while not run.query.awaitTermination(EVERY_S):  # type: ignore[arg-type]
            at_hour = run.status().batch * BATCH_S // HOUR_S
            samples.append({"hour": at_hour, **sizes(folder), "JVM live MB": live_mb(spark), **state_sizes(folder)})
        run.await_termination()
        right = is_right(pq.read_table(f"{folder}/results"), source.workload, hours, played.slide_us) and not run.status().late
    finally:
        run.query.stop()
        shutil.rmtree(folder, ignore_errors=True)
    seconds = time.monotonic() - began
    console.print(f"{played.name}: {hours} hours in {seconds:,.0f} s; {'all counts are right' if right else 'COUNTS ARE WRONG'}")
    save(samples, f"soak-{played.name.replace(' ', '-')}")
    return not grown(console, played, samples) and right


def state_sizes(folder: str) -> Sample:
    """Return the files that the latest state needs, and the size of its manifest."""
    kept = Store(f"{folder}/checkpoint/skytide")
    with contextlib.suppress(FileNotFoundError):
        manifests = sorted(Path(folder, "checkpoint", "skytide", "manifests").glob("[0-9]*.json"))
        largest = max((path.stat().st_size for path in manifests), default=0)
        return {"state files": float(len(kept.latest().files())), "manifest kB": largest / 1e3}
    return {"state files": 0.0, "manifest kB": 0.0}  # the manifest went while it was looked at


def grown(console: Console, played: Played, samples: list[Sample]) -> list[str]:
    """Print the highest values of each hour, and return what has more in the last hours than in those before."""
    by_hour: dict[float, list[Sample]] = {}
    for sample in samples:
        by_hour.setdefault(sample["hour"], []).append(sample)
    hours = [hour for hour in sorted(by_hour) if hour >= WARM_UP]
    # Checkpoints keep a state of each minute of the last hour, by the clock on the wall: of a query that is played fast, they grow.
    judged = ("driver MB", "workers MB", "JVM live MB", "state files", "manifest kB")
    highest = {name: [max(sample[name] for sample in by_hour[hour]) for hour in hours] for name in judged}
    rows = [[name, *(f"{value:,.1f}" for value in values)] for name, values in highest.items()]
    show(console, f"{played.name}, highest of each hour", ["what", *(f"hour {hour + 1:.0f}" for hour in hours)], rows)
    half = len(hours) // 2
    found = [name for name, values in highest.items() if max(values[half:]) > FLAT * max(values[:half])]
    console.print(f"Not flat: {', '.join(found)}" if found else f"Flat: nothing grew by more than {FLAT - 1:.0%}")
    return found


def is_right(results: pa.Table, workload: Any, hours: int, slide_us: int) -> bool:
    """Return whether each window has as many tuples of each key as were fed: those of its minutes, added up."""
    minutes = np.zeros((hours * 60, KEYS), np.int64)
    for batch in workload.tuples(0, hours * HOUR_S, START_US):
        at = (batch["ts"].cast(pa.int64()).to_numpy() - START_US) // MINUTE_US
        np.add.at(minutes, (at, (batch["x0"].to_numpy() * KEYS).astype(np.int64)), 1)
    until = np.concatenate([np.zeros((1, KEYS), np.int64), minutes.cumsum(axis=0)])
    starts = np.arange(slide_us // MINUTE_US - 60, hours * 60, slide_us // MINUTE_US)
    fed = until[np.minimum(starts + 60, hours * 60)] - until[np.maximum(starts, 0)]
    found = np.zeros_like(fed)
    begins = (pc.cast(results["window_start"], pa.int64()).to_numpy() - START_US) // MINUTE_US
    np.add.at(found, ((begins - starts[0]) * MINUTE_US // slide_us, results["key"].to_numpy()), results["n"].to_numpy())
    return np.array_equal(fed, found) and results.num_rows == np.count_nonzero(fed)
