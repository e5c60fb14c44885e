"""A bursty stream on Spark with every way to assign its tuples to pane slots: latency, overrunning batches, and equal results."""

import argparse
import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console

import skytide
from benchmarks.stream.measure import run_for
from benchmarks.stream.peers import preferences
from benchmarks.timing import Disagreement, show
from skytide.routing import STRATEGIES
from skytide.spark import local_session

ROOT = Path(__file__).resolve().parents[2]
TRIGGER_MS = 500
WARM_UP_S = 10.0
Windows = dict[int, tuple[int, ...]]
"""The ids of each window, by its end relative to the beginning of the stream."""


def main() -> None:
    """Run all strategies, and print and save the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stream.bursts", description=__doc__)
    parser.add_argument("--rate", type=int, default=500_000)
    parser.add_argument("--points", default="independent")
    parser.add_argument("--window", default="2 s")
    parser.add_argument(
        "--slide",
        default="1 s",
        help="length of the slide, and so of panes: if a pane spans several batches, a batch has only one pane to split",
    )
    parser.add_argument("--dispersion", type=float, default=6_000)
    parser.add_argument("--seconds", type=float, default=25)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    console = Console(width=130, highlight=False)
    spark = local_session("skytide bursts", cores=2, **{"spark.driver.memory": "4g"})
    play(spark, "EVEN", options)  # the first run of a session is slower than the others, and does not count
    seen: dict[str, list[dict[str, float]]] = {}
    windows: dict[str, Windows] = {}
    for _ in range(options.rounds):
        for name in (name for name, strategy in STRATEGIES.items() if strategy.key_routing() is None):
            measured, found = play(spark, name, options)
            seen.setdefault(name, []).append(measured)
            windows.setdefault(name, {}).update(found)
            console.print(f"{name}: " + ", ".join(f"{what} {value:.2f}" for what, value in measured.items()))
    agree(windows)
    rows = []
    for name, rounds in seen.items():
        best = {what: min(each[what] for each in rounds) for what in rounds[0]}
        rows.append([name, *(f"{value:.2f}" for value in best.values())])
    first = next(iter(seen.values()))[0]
    title = f"I = {options.dispersion:,.0f}, {options.rate:,} {options.points} tuples per second, windows of {options.window} every {options.slide}, {options.slots} slots, the best of {options.rounds}"
    show(console, title, ["strategy", *first], rows)
    console.print(f"All returned the same windows ({min(map(len, windows.values()))} were compared).")
    out = ROOT / "out" / "bench-bursts.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(seen, indent=2) + "\n")
    spark.stop()


def play(spark: SparkSession, strategy: str, options: argparse.Namespace) -> tuple[dict[str, float], Windows]:
    """Run one strategy for a while after a warm-up, and return the measurements and the windows."""
    folder = tempfile.mkdtemp(prefix="skytide-bursts-")
    source = skytide.workload(
        rate=options.rate, arrivals="map", dispersion=options.dispersion, points=options.points, delay="100 ms", late_share=0.2
    )
    asked = (
        skytide.stream(source)
        .window(options.window, slide=options.slide, slack=skytide.slacks.FixedSlack("100 ms"))
        .skyline(*preferences(source))
    )
    run = asked.start(
        "parquet",
        path=f"{folder}/out",
        checkpoint=f"{folder}/checkpoint",
        trigger=f"{TRIGGER_MS} ms",
        splitting=strategy,
        pane_slots=options.slots,
    )
    try:
        run_for(run.query, WARM_UP_S)
        skip = run.status().windows_out
        batches, before = run.status().batch, run.seconds().get("pane level", 0.0)
        run_for(run.query, options.seconds)
        latencies = [row.latency_s for row in run.windows()[skip:]]
        progress = [each for each in run.query.recentProgress if each["batchId"] > batches]
        status = run.status()
        first_us = json.loads(progress[-1]["sources"][0]["endOffset"])["start_us"]
    finally:
        run.stop()
    took = [each["durationMs"]["triggerExecution"] for each in progress]
    measured = {
        "mean s": float(np.mean(latencies)),
        "p99 s": float(np.quantile(latencies, 0.99)),
        "overruns": float(np.mean([ms > TRIGGER_MS for ms in took])),
        "batch ms": float(np.mean(took)),
        "pane level ms": 1e3 * (run.seconds()["pane level"] - before) / max(1, status.batch - batches),
        "splitting": status.splitting_factor,
        "late": status.late,
    }
    found = results(Path(folder, "out"), first_us)
    shutil.rmtree(folder, ignore_errors=True)
    return measured, found


def results(path: Path, first_us: int) -> Windows:
    """Return the windows that came out."""
    rows = pq.read_table(
        [str(file) for file in path.rglob("*.parquet") if "_windows" not in str(file.relative_to(path))],
        columns=["window_end", "id"],
    )
    ends, ids = rows["window_end"].cast("int64").to_numpy() - first_us, rows["id"].to_numpy()
    return {int(end): tuple(np.sort(ids[ends == end]).tolist()) for end in np.unique(ends)}


def agree(windows: dict[str, Windows]) -> None:
    """Refuse the figures of contestants whose answers differ."""
    (first, expected), *others = windows.items()
    for name, found in others:
        wrong = [end for end in expected.keys() & found.keys() if expected[end] != found[end]]
        if wrong:
            raise Disagreement(f"{name} and {first} differ in {len(wrong)} windows")


if __name__ == "__main__":
    main()
