"""A bursty stream in files, of which one partition has all tuples of a batch, or several have as many each: every way to split panes, in time per batch."""

import argparse
import json
import shutil
import tempfile
import time
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console

import skytide
from benchmarks.stream.bursts import ROOT, Windows, agree, results
from benchmarks.timing import show
from skytide.queries import Preference, Skyline, low
from skytide.routing import STRATEGIES
from skytide.spark import local_session
from skytide.spark.sources.workload import WorkloadStream

BATCH_S = 0.5
SKIPPED = 8
"""Batches at the beginning that do not count: kernels are loaded, and costs are learned."""
START_US = 1_750_000_000_000_000


def main() -> None:
    """Play each stream with all ways to split panes, and print and save the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stream.carried", description=__doc__)
    parser.add_argument("--rate", type=int, default=200_000)
    parser.add_argument("--points", default="anticorrelated")
    parser.add_argument("--dimensions", type=int, default=6)
    parser.add_argument("--dispersion", type=float, default=6_000)
    parser.add_argument("--window", default="1 s")
    parser.add_argument("--slide", default="500 ms")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--wait-us", type=float, default=0.0, help="how long the query waits for each row, as for a service: cores do not count"
    )
    parser.add_argument("--only", nargs="*", help="only these ways, as auto IN_PLACE")
    options = parser.parse_args()
    console = Console(width=140, highlight=False)
    spark = local_session(
        "skytide carried", cores=options.slots, **{"spark.driver.memory": "4g", "spark.sql.files.openCostInBytes": "1g"}
    )
    names = options.only or [name for name, strategy in STRATEGIES.items() if strategy.key_routing() is None]
    saved: dict[str, Any] = {}
    for partitions in options.partitions:
        folder = Path(tempfile.mkdtemp(prefix="skytide-carried-"))
        tuples = write(folder, partitions, options)
        play(
            spark, folder, "IN_PLACE", partitions, options
        )  # the first run of a session is slower than the others, and does not count
        seen: dict[str, list[dict[str, float]]] = {}
        windows: dict[str, Windows] = {}
        for _ in range(options.rounds):
            for name in names:
                measured, windows[name], why = play(spark, folder, name, partitions, options)
                seen.setdefault(name, []).append(measured)
                console.print(f"{name}: " + ", ".join(f"{what} {value:.2f}" for what, value in measured.items()) + f"; {why}")
        agree(windows)
        best = {name: {what: min(each[what] for each in rounds) for what in rounds[0]} for name, rounds in seen.items()}
        title = f"{partitions} partitions a batch, I = {options.dispersion:,.0f}, {tuples:,} {options.points} tuples, {options.slots} slots, the best of {options.rounds}"
        show(
            console,
            title,
            ["strategy", *next(iter(best.values()))],
            [[name, *(f"{value:.2f}" for value in values.values())] for name, values in best.items()],
        )
        console.print(f"All returned the same {len(next(iter(windows.values())))} windows.")
        fixed = min(values["batch ms"] for name, values in best.items() if name != "auto")
        auto, here = best["auto"]["batch ms"], best["IN_PLACE"]["batch ms"]
        console.print(f"auto: {auto / fixed:.2f} times the best fixed choice, in place takes {here / auto:.2f} times as long")
        saved[str(partitions)] = seen
        shutil.rmtree(folder, ignore_errors=True)
    out = ROOT / "out" / "bench-carried.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(saved, indent=2) + "\n")
    spark.stop()


def write(folder: Path, partitions: int, options: argparse.Namespace) -> int:
    """Write the files of the stream, a number for each batch, and return the number of tuples."""
    workload = source(options).workload
    ticks, total = round(BATCH_S * 1e6) // workload.tick_us, 0
    for batch in range(int(options.seconds / BATCH_S)):
        rows = pa.Table.from_batches(workload.tuples(batch * ticks, (batch + 1) * ticks, START_US), workload.schema)
        total += rows.num_rows
        for part in range(partitions):
            mine = rows.take(pa.array(np.arange(part, rows.num_rows, partitions)))
            pq.write_table(mine, folder / f"{batch:05d}-{part}.parquet", row_group_size=max(1, mine.num_rows))
    return total


def source(options: argparse.Namespace) -> WorkloadStream:
    """Return the stream."""
    return skytide.workload(
        rate=options.rate,
        arrivals="map",
        dispersion=options.dispersion,
        points=options.points,
        dimensions=options.dimensions,
        delay="100 ms",
        late_share=0.2,
    )


@dataclass(frozen=True)
class Waiting(Skyline):
    """A skyline that waits for each tuple, as if it asked a service about it."""

    wait_s: float = 0.0

    def pane(self, rows: pa.Table) -> pa.Table:
        """Wait, and return what can still matter."""
        time.sleep(self.wait_s * rows.num_rows)
        return super().pane(rows)


def preference(dimensions: int) -> Preference:
    """Return low values of all columns."""
    return prod((low(f"x{i}") for i in range(1, dimensions)), start=low("x0"))


def play(
    spark: SparkSession, folder: Path, name: str, partitions: int, options: argparse.Namespace
) -> tuple[dict[str, float], Windows, str]:
    """Play the files one batch after the other, and return the measurements, the windows, and what was decided at the end."""
    place = Path(tempfile.mkdtemp(prefix="skytide-carried-"))
    schema = spark.read.parquet(str(folder)).schema
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", partitions).parquet(str(folder))
    slack = skytide.slacks.FixedSlack("100 ms")
    asked = skytide.stream(rows).window(options.window, slide=options.slide, slack=slack)
    slots = {} if name == "IN_PLACE" else {"pane_slots": options.slots}
    query = Waiting(preference(options.dimensions), wait_s=options.wait_us / 1e6)
    run = asked.apply(query).start(
        "parquet",
        path=place / "out",
        checkpoint=place / "checkpoint",
        trigger="availableNow",
        flush=True,
        splitting=name,
        **slots,
    )
    run.await_termination()
    status, progress = run.status(), [each for each in run.query.recentProgress if each["batchId"] >= SKIPPED]
    took = [each["durationMs"]["triggerExecution"] for each in progress]
    spent = [each["durationMs"]["addBatch"] for each in progress]
    measured = {
        "batch ms": float(np.mean(took)),
        "p99 ms": float(np.quantile(took, 0.99)),
        "work ms": float(np.mean(spent)),
        "pane level ms": 1e3 * run.seconds()["pane level"] / max(1, status.batch),
        "window level ms": 1e3 * run.seconds().get("window level", 0.0) / max(1, status.batch),
        "splitting": status.splitting_factor,
    }
    found = results(place / "out", START_US)
    shutil.rmtree(place, ignore_errors=True)
    return measured, found, status.pane_plan


if __name__ == "__main__":
    main()
