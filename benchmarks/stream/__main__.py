"""Raise the load until a query no longer keeps up, print the highest load it sustained, and write a machine-readable copy."""

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console

import skytide
from benchmarks.stream.measure import MEASURED_S, TRIGGER, Measured, measure
from benchmarks.stream.peers import (
    Contestant,
    aggregate_of,
    recompute,
    skyline_of,
    skytide_chain,
    spark_aggregate,
    stateful,
    top_hundred,
)
from benchmarks.timing import Disagreement, Goal, announce, show
from skytide.spark import local_session

ROOT = Path(__file__).resolve().parents[2]
PAPER_HZ = 30_000  # the papers' own C++ program, built with -march=native, on the same kind of machine


@dataclass(frozen=True)
class Entry:
    """A contestant, its data, and the loads to try."""

    name: str
    contestant: Contestant
    rates_hz: Sequence[int]
    points: str = "independent"
    family: str = "skyline"


ENTRIES = [
    Entry("skytide, own source", skytide_chain(True, skyline_of), (150_000, 300_000, 450_000, 600_000, 800_000, 1_000_000)),
    Entry("skytide, any DataFrame", skytide_chain(False, skyline_of), (75_000, 150_000, 300_000, 400_000, 500_000)),
    Entry("stateful function", stateful, (10_000, 20_000, 40_000, 80_000, 120_000)),
    Entry("foreachBatch, recomputed", recompute, (100_000, 200_000, 300_000, 450_000)),
    Entry("skytide, own source", skytide_chain(True, skyline_of), (300_000, 600_000, 900_000), "correlated"),
    Entry("skytide, own source", skytide_chain(True, skyline_of), (50_000, 100_000, 150_000), "anticorrelated"),
    Entry("skytide, own source", skytide_chain(True, top_hundred), (75_000, 150_000, 250_000), "independent", "top-100"),
    Entry("skytide, own source", skytide_chain(True, aggregate_of), (300_000, 600_000, 1_200_000), "independent", "aggregate"),
    Entry("skytide, any DataFrame", skytide_chain(False, aggregate_of), (150_000, 300_000, 500_000), "independent", "aggregate"),
    Entry("Spark's own windows", spark_aggregate, (150_000, 300_000, 600_000), "independent", "aggregate"),
]


def main() -> None:
    """Run the entries, and print and save the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stream", description=__doc__)
    parser.add_argument("only", nargs="*", help="numbers of the entries to run, from 0")
    parser.add_argument("--rates", help="tuples per second to try instead of each entry's own, such as 150000,300000")
    parser.add_argument("--trigger", default=TRIGGER, help='the interval of batches, or "auto" for skytide\'s own pace')
    options = parser.parse_args()
    wanted = [int(number) for number in options.only] or list(range(len(ENTRIES)))
    console = Console(width=130, highlight=False)
    os.environ["PYTHONWARNINGS"] = "ignore"  # pandas prints deprecation warnings in the workers of a peer
    spark = local_session("skytide bench", cores=2, **{"spark.driver.memory": "4g"})
    agree(spark, [ENTRIES[number] for number in wanted])
    console.print("Windows of 1 s every 200 ms, d = 8, local[2]: all contestants returned the same windows of one stream.")
    results = []
    for number in wanted:
        entry = ENTRIES[number]
        if options.rates:
            entry = replace(entry, rates_hz=[int(rate) for rate in options.rates.split(",")])
        best, tried = climb(spark, entry, console, options.trigger)
        results.append({**_named(entry), "best": best and asdict(best), "tried": [asdict(each) for each in tried]})
    _report(console, results, options.trigger)
    out = ROOT / "out" / "bench-stream.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(results, indent=2) + "\n")
    spark.stop()


def climb(spark: SparkSession, entry: Entry, console: Console, trigger: str) -> tuple[Measured | None, list[Measured]]:
    """Raise the load until the contestant no longer keeps up, and return the last load it sustained, and all that were tried."""
    best, tried = None, []
    for rate_hz in entry.rates_hz:
        found = measure(spark, entry.contestant, rate_hz, entry.points, trigger=trigger)
        tried.append(found)
        verdict = "kept up" if found.kept_up else f"did not keep up ({found.why})"
        console.print(
            f"{entry.family:9} {entry.points:14} {entry.name:26} {rate_hz:>9,}/s: {verdict}, {found.windows} windows, "
            f"latency {found.latency_mean_s:.2f} s (p99 {found.latency_p99_s:.2f}), {found.cpu_s_per_million:.2f} CPU seconds per million"
        )
        if not found.kept_up:
            break
        best = found
    return best, tried


def agree(spark: SparkSession, entries: Sequence[Entry]) -> None:
    """Let all contestants compute the same short stream, and compare the windows that they have in common."""
    families: dict[str, dict[str, dict[int, Any]]] = {}
    for entry in entries:
        answers = families.setdefault(f"{entry.family} {entry.points}", {})
        with tempfile.TemporaryDirectory() as folder:
            source = skytide.workload(
                rate=2_000, arrivals="constant", points=entry.points, pace="fast", duration="4 s", start=1_700_000_000_000_000
            )
            entry.contestant(spark, source, folder, "availableNow").query.awaitTermination()
            answers[entry.name] = _windows(folder, "x0" if entry.family != "aggregate" else "mean")
    for family, answers in families.items():
        (first, expected), *others = answers.items()
        for name, windows in others:
            common = sorted(set(expected) & set(windows))
            if len(common) < 8 or any(not np.allclose(expected[end], windows[end], rtol=1e-12, atol=0) for end in common):
                raise Disagreement(f"{family}: {name} and {first} differ in the {len(common)} windows of both")


def _windows(folder: str, column: str) -> dict[int, Any]:
    rows = pq.read_table([str(path) for path in Path(folder, "results").rglob("*.parquet") if "_windows" not in str(path)])
    starts = rows["window_start"].cast("int64").to_numpy()
    values = rows[column].to_numpy()
    return {int(start): np.sort(values[starts == start]) for start in np.unique(starts)}


def _within_a_second(tried: dict[str, Any]) -> bool:
    """Return whether windows came out at most a second after they ended, on average."""
    return bool(tried["kept_up"] and tried["latency_mean_s"] <= 1.0)


def _named(entry: Entry) -> dict[str, str]:
    return {"family": entry.family, "points": entry.points, "name": entry.name}


def _report(console: Console, results: list[dict[str, Any]], trigger: str) -> None:
    rows, goals = [], []
    own = {(r["family"], r["points"]): r["best"] for r in results if r["name"] == "skytide, own source"}
    for result in results:
        best = result["best"]
        mine = own.get((result["family"], result["points"]))
        ratio = f"{mine['rate_hz'] / best['rate_hz']:.1f} x" if mine and best else "-"
        quick = max((each["rate_hz"] for each in result["tried"] if _within_a_second(each)), default=None)
        kept = (
            [
                f"{best['rate_hz']:,}",
                ratio,
                f"{best['latency_mean_s']:.2f}",
                f"{best['latency_p99_s']:.2f}",
                f"{best['cpu_s_per_million']:.2f}",
            ]
            if best
            else [f"< {result['tried'][0]['rate_hz']:,}", "-", "-", "-", "-"]
        )
        cells = [f"{quick:,}" if quick else "-", *kept]
        rows.append([f"{result['family']}, {result['points']}", result["name"], *cells])
        if result["name"] == "skytide, own source" and result["family"] == "skyline" and result["points"] == "independent":
            highest_hz = quick or 0
            goals = [
                Goal("tuples per second with windows out within 1 s on average", highest_hz, 150_000),
                Goal("the same", highest_hz, 300_000),
            ]
    title = f"Highest load sustained for {MEASURED_S:.0f} s in real time, trigger {trigger}"
    show(
        console,
        title,
        ["query, data", "contestant", "within 1 s", "tuples/s", "skytide is", "mean s", "p99 s", "CPU s/million"],
        rows,
    )
    console.print(
        f"For orientation: the papers' own C++ program sustains {PAPER_HZ:,} tuples per second on this kind of machine (skyline)."
    )
    announce(console, goals)


if __name__ == "__main__":
    main()
