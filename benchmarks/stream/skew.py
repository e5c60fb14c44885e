"""A windowed aggregate whose keys are skewed: how evenly slots are loaded when tuples go by their keys, with and without dividing the frequent ones."""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console

import skytide
from benchmarks.timing import Disagreement, show
from skytide.batch import PaneReport
from skytide.routing.frequency import FrequencyAware
from skytide.routing.panes import ByKey, Splitting
from skytide.spark import local_session
from skytide.spark.engine.jobs import SparkJobs

FILES, ROWS, KEYS = 10, 200_000, 10_000
WARM_FILES = 2
"""Frequencies are learned from what came: the first files are not judged."""
WAYS: dict[str, Splitting | None] = {
    "plain hashing": ByKey(FrequencyAware(heaviest=0)),
    "KEYS, 20 divided": ByKey(FrequencyAware(heaviest=20)),
    "KEYS": ByKey(),
    "where they are": None,
}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stream.skew", description=__doc__)
    parser.add_argument("--exponents", default="0.8,1.1,1.5")
    parser.add_argument("--slots", type=int, default=4)
    options = parser.parse_args()
    console = Console(width=140, highlight=False)
    spark = local_session("skytide skew", cores=2)
    with tempfile.TemporaryDirectory(prefix="skytide-skew-") as folder:
        for exponent in map(float, options.exponents.split(",")):
            place = Path(folder) / str(exponent)
            write(place / "in", exponent)
            measured = {name: play(spark, place, name, way, options.slots) for name, way in WAYS.items()}
            if len({answer for _, answer in measured.values()}) > 1:
                raise Disagreement(f"Zipf {exponent}: the ways gave different windows")
            rows = [[name, *(f"{value:.2f}" for value in found.values())] for name, (found, _) in measured.items()]
            columns = list(next(iter(measured.values()))[0])
            title = f"{KEYS:,} keys by Zipf {exponent}, {ROWS:,} tuples per batch, {options.slots} slots; load of the most loaded slot, median batch; all gave the same windows"
            show(console, title, ["tuples go", *columns], rows)
    spark.stop()


def write(place: Path, exponent: float) -> None:
    """Write the tuples, a second of them per file."""
    place.mkdir(parents=True)
    shares = 1 / np.arange(1, KEYS + 1) ** exponent
    for number in range(FILES):
        random = np.random.default_rng([number, round(exponent * 10)])
        times = (number * 1e6 + np.sort(random.random(ROWS)) * 1e6).astype("datetime64[us]")
        keys = random.choice(KEYS, ROWS, p=shares / shares.sum())
        pq.write_table(pa.table({"ts": times, "key": keys, "x": random.integers(0, 1_000, ROWS)}), place / f"{number:02}.parquet")


def play(spark: SparkSession, place: Path, name: str, way: Splitting | None, slots: int) -> tuple[dict[str, float], Any]:
    """Run one way over all files, and return how slots were loaded, and the windows."""
    reports: list[PaneReport] = []
    real = SparkJobs.panes

    def noted(jobs: SparkJobs, *given: Any) -> PaneReport:
        reports.append(real(jobs, *given))
        return reports[-1]

    SparkJobs.panes = noted  # type: ignore[method-assign]
    try:
        df = (
            spark.readStream.schema("ts timestamp_ntz, key long, x long").option("maxFilesPerTrigger", 1).parquet(str(place / "in"))
        )
        asked = skytide.stream(df, time="ts").window("2 s", slide="1 s", slack=skytide.slacks.FixedSlack("0 s"))
        out = place / name
        run = asked.aggregate("sum(x) AS total", "count(*) AS n", keys="key").start(
            "parquet", path=out / "out", checkpoint=out / "c", trigger="availableNow", splitting=way, pane_slots=slots, flush=True
        )
        run.await_termination()
    finally:
        SparkJobs.panes = real  # type: ignore[method-assign]
    judged = [report for report in reports if report.tasks and sum(part.tuples for part in report.parts)][WARM_FILES:]
    windows = spark.read.parquet(str(out / "out")).selectExpr(
        "count(*)", "sum(total)", "sum(n)", "sum(hash(window_start, key, total, n))"
    )
    progress = [each["durationMs"]["triggerExecution"] for each in run.query.recentProgress if each["numInputRows"]]
    return {
        "tuples: max / mean": _worst(judged, slots, lambda task: sum(part.tuples for part in task.parts)),
        "busy: max / mean": _worst(judged, slots, lambda task: task.busy_s),
        "partial rows (1,000)": float(np.mean([sum(part.piece.rows for part in report.parts) for report in judged])) / 1e3,
        "batch (s)": float(np.median(progress[WARM_FILES:])) / 1e3,
    }, windows.first()


def _worst(reports: list[PaneReport], slots: int, load: Any) -> float:
    """Return the load of the most loaded slot over the mean of all, on average over batches."""
    found = []
    for report in reports:
        loads = np.zeros(slots if max(task.slot for task in report.tasks) < slots else len(report.tasks))
        for at, task in enumerate(report.tasks):
            loads[task.slot if len(loads) == slots else at] += load(task)
        found.append(loads.max() / loads.mean())
    return float(np.mean(found))


if __name__ == "__main__":
    main()
