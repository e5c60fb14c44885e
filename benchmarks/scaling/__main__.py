"""All controllers, a static peak and Spark's own dynamic allocation, one after the other with the same load on a real cluster."""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.timing import Goal, announce, show
from skytide.control import CONTROLLERS
from skytide.spark.session.cluster import LocalCluster

ROOT = Path(__file__).resolve().parents[2]
CONTESTANTS = ("static", "dynamic", *(name for name in CONTROLLERS if name != "static"), "mpc:3 s")
BOUND_S = 5.0
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
}


def settings(contestant: str, peak: int) -> dict[str, str]:
    """Return the initial settings of a contestant: the peak, or one executor (which needs dynamic allocation on a standalone cluster)."""
    if contestant == "static":
        return {"spark.cores.max": str(peak)}
    return {**DYNAMIC, "spark.dynamicAllocation.maxExecutors": str(peak), "spark.dynamicAllocation.initialExecutors": "1"}


def main() -> None:
    """Run all contestants, and print and save the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("contestants", nargs="*", default=CONTESTANTS)
    parser.add_argument("--peak", type=int, default=6, help="executors that the peak of the load needs (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=360, help="how long each runs (default: %(default)s)")
    options = parser.parse_args()
    console = Console(width=130, highlight=False)
    found = []
    for contestant in options.contestants:
        with LocalCluster(options.peak) as cluster:
            found.append(run(contestant, cluster, options.peak, options.seconds))
        one = found[-1]
        console.print(
            f"{contestant}: {one['executor_s']:,.0f} executor seconds, {one['violations']} of {one['intervals']} intervals later than {BOUND_S:g} s"
        )
    out = ROOT / "out" / "bench-scaling.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(found, indent=1) + "\n")
    report(console, found, options.peak, options.seconds)


def run(contestant: str, cluster: LocalCluster, peak: int, length_s: float) -> dict[str, Any]:
    """Run one contestant in a process of its own, and return its result."""
    recording = ROOT / "out" / f"metrics-{contestant.replace(':', '-').replace(' ', '')}.parquet"
    recording.parent.mkdir(exist_ok=True)
    asked = {
        "contestant": contestant,
        "peak": peak,
        "length_s": length_s,
        "bound_s": BOUND_S,
        "spark": {**cluster.settings(), **settings(contestant, peak)},
        "record": str(recording),
    }
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scaling.job", json.dumps(asked)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            result: dict[str, Any] = json.loads(line.removeprefix("RESULT "))
            return result
    raise SystemExit(f"{contestant} did not finish:\n{done.stderr[-3000:]}")


def report(console: Console, found: list[dict[str, Any]], peak: int, length_s: float) -> None:
    """Print the table, and whether the goal is reached."""
    static_s = next((one["executor_s"] for one in found if one["contestant"] == "static"), peak * length_s)
    rows = [
        [
            one["contestant"],
            f"{one['executor_s']:,.0f}",
            f"{1 - one['executor_s'] / static_s:.0%}",
            f"{one['violation_share']:.1%}",
            f"{one['latency_s']:.1f}",
            f"{one['worst_s']:.1f}",
            str(one["reconfigurations"]),
            f"{one['amplitude']:.1f}",
            str(one["failed_tasks"]),
        ]
        for one in found
    ]
    names = ["", "executor s", "saved", f"later than {BOUND_S:g} s", "mean s", "worst s", "changes", "amplitude", "failed tasks"]
    show(console, f"a hill of {length_s:g} s, whose peak needs {peak} executors, on a standalone cluster", names, rows)
    good = [one for one in found if one["contestant"] in {*CONTROLLERS, "mpc:3 s"} - {"static"} and one["violation_share"] <= 0.01]
    best = max((1 - one["executor_s"] / static_s for one in good), default=0.0)
    announce(console, [Goal("share of executor seconds saved, with violations in at most 1 % of the intervals", best, 0.4)])


if __name__ == "__main__":
    main()
