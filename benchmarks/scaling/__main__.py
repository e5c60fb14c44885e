"""All controllers, a static peak and Spark's own dynamic allocation, one after the other with the same load on a real cluster, and what the simulator expects of them."""

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

from rich.console import Console

from benchmarks.scaling.job import (
    INTERVAL_S,
    ROW_S,
    SCALE_DOWN,
    TASKS_EACH,
    TRIGGER_S,
    TUNED,
    contestant_of,
    peak_rate_hz,
    rates_hz,
    tasks_of,
)
from benchmarks.timing import Goal, announce, show
from skytide.control import CONTROLLERS, Guard
from skytide.sim.drive import drive
from skytide.spark.session.cluster import LocalCluster
from skytide.spark.session.quick import SPECULATION
from skytide_lab.sim.plants.micro_batches import Costs, MicroBatches

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "out"
CLASSES = OUT / "executor.jsa"
CONTESTANTS = ("static", "dynamic", *(name for name in CONTROLLERS if name != "static"), "mpc:3 s", *TUNED)
BOUND_S = 5.0
ARCHIVE_WITHIN_S = 60.0
APART_S = 100.0  # for two of 360 s: neither starts, nor do its executors, while those of the other start
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
}
Found = dict[str, Any]


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
    parser.add_argument("--runs", type=int, default=1, help="how often each runs (default: %(default)s)")
    parser.add_argument(
        "--together", type=int, default=1, help="how many run at the same time, each on a cluster of its own (default: %(default)s)"
    )
    parser.add_argument("--again", action="store_true", help="show the results of the last time again, with new ones added")
    options = parser.parse_args()
    console = Console(width=200, highlight=False)
    OUT.mkdir(exist_ok=True)
    saved = OUT / f"bench-scaling-{options.seconds:g}s-{options.peak}-executors-{tasks_of(options.peak)}-tasks.json"
    found: list[Found] = json.loads(saved.read_text()) if options.again and saved.exists() else []
    if not CLASSES.exists() and options.runs:
        archive_classes()
    asked = [contestant for _ in range(options.runs) for contestant in options.contestants]
    with ThreadPoolExecutor(options.together) as places:
        pending = []
        for number, contestant in enumerate(asked):
            delay_s = APART_S * number if number < options.together else 0.0
            pending.append(places.submit(on_a_cluster, contestant, number, options.peak, options.seconds, delay_s))
        for done in as_completed(pending):
            try:
                one = done.result()
            except BaseException:
                places.shutdown(wait=False, cancel_futures=True)  # what is done is saved
                raise
            late = f"{one['violations']} of {one['intervals']} intervals later than {BOUND_S:g} s"
            console.print(f"{one['contestant']}: {one['executor_s']:,.0f} executor seconds, {late}")
            found.append(one)
            saved.write_text(json.dumps(found, indent=1) + "\n")
    report(console, found, options.peak, options.seconds)


def on_a_cluster(contestant: str, number: int, peak: int, length_s: float, delay_s: float) -> Found:
    """Run one contestant on a cluster of its own, and return its result."""
    time.sleep(delay_s)
    with LocalCluster(peak, hosts=peak, classes=CLASSES) as cluster:
        return run(contestant, cluster, peak, length_s, number)


def archive_classes() -> None:
    """Let an executor write the file that lets later ones start faster: its classes, ready for use."""
    draft = CLASSES.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    with LocalCluster(1, classes=draft) as cluster:
        run("static", cluster, 1, 2 * INTERVAL_S)
    deadline_s, size = time.monotonic() + ARCHIVE_WITHIN_S, 0
    while not size or draft.stat().st_size > size:  # Java writes it when it ends
        if time.monotonic() > deadline_s:
            raise SystemExit(f"no executor wrote its classes to {draft} within {ARCHIVE_WITHIN_S:g} s")
        size = draft.stat().st_size if draft.exists() else 0
        time.sleep(2.0)
    draft.rename(CLASSES)


def run(contestant: str, cluster: LocalCluster, peak: int, length_s: float, number: int = 0) -> Found:
    """Run one contestant in a process of its own, and return its result."""
    recording = OUT / f"metrics-{re.sub(r'[^a-z0-9]+', '-', contestant)}-{number}.parquet"
    asked = {
        "contestant": contestant,
        "peak": peak,
        "length_s": length_s,
        "bound_s": BOUND_S,
        "spark": {**cluster.settings(), **SPECULATION, **settings(contestant, peak)},
        "record": str(recording),
    }
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scaling.job", json.dumps(asked)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            result: Found = json.loads(line.removeprefix("RESULT "))
            return result
    raise SystemExit(f"{contestant} did not finish:\n{done.stderr[-3000:]}")


def costs_of(found: Sequence[Found], peak: int) -> Costs | None:
    """Return the costs that were measured on the cluster: with all executors, a batch waits for a few of its tasks, with one for all of them."""
    static = [one["fixed_s"] for one in found if one["contestant"] == "static"]
    others = [one for one in found if one["contestant"] not in ("static", "dynamic")]
    if not static or not others or peak == 1:
        return None
    task_s = max(0.0, mean(one["fixed_s"] for one in others) - mean(static)) / (tasks_of(peak) - TASKS_EACH)
    lead_s = mean(one["lead_s"] for one in others)
    return Costs(row_s=ROW_S, task_s=task_s, batch_s=mean(static) - TASKS_EACH * task_s, lead_s=lead_s, cold_s=0.0)


def predict(contestant: str, costs: Costs, peak: int, length_s: float) -> tuple[float, float, int]:
    """Return the executor seconds, the share of late intervals and the changes that the simulator expects."""
    query = MicroBatches(rates_hz(peak_rate_hz(peak), length_s), costs, 1, partitions=tasks_of(peak), trigger_s=TRIGGER_S)
    guard = Guard(1, peak, scale_down_after=SCALE_DOWN)
    cycles = drive(query, contestant_of(contestant), guard, interval_s=INTERVAL_S)
    seen = [cycle.evaluation.seen for cycle in cycles if cycle.evaluation is not None]
    late = [each.latency_s is None or each.latency_s > BOUND_S for each in seen]
    sizes = [each.allocation.workers for each in seen]
    changes = sum(one != two for one, two in pairwise(sizes))
    return query.executor_s(length_s), sum(late) / max(1, len(late)), changes


def report(console: Console, found: Sequence[Found], peak: int, length_s: float) -> None:
    """Print the table, and whether the goal is reached."""
    static_s = mean([one["executor_s"] for one in found if one["contestant"] == "static"] or [peak * length_s])
    costs = costs_of(found, peak)
    rows, good = [], [0.0]
    for name in dict.fromkeys(one["contestant"] for one in found):
        runs = [one for one in found if one["contestant"] == name]

        def over(what: str, runs: Sequence[Found] = runs) -> float:
            return mean(one[what] for one in runs)

        saved, late = 1 - over("executor_s") / static_s, over("violation_share")
        own = name not in ("static", "dynamic")
        if own and late <= 0.01:
            good.append(saved)
        expected = predict(name, costs, peak, length_s) if own and costs else None
        rows.append(
            [
                name,
                str(len(runs)),
                f"{over('executor_s'):,.0f}",
                f"{saved:.0%}",
                f"{late:.1%}",
                f"{over('latency_s'):.1f}",
                f"{max(one['worst_s'] for one in runs):.1f}",
                f"{over('reconfigurations'):.1f}",
                f"{over('amplitude'):.1f}",
                str(sum(one["failed_tasks"] for one in runs)),
                *(
                    (f"{expected[0]:,.0f}", f"{expected[0] / over('executor_s') - 1:+.0%}", f"{expected[1]:.1%}", str(expected[2]))
                    if expected
                    else ("",) * 4
                ),
            ]
        )
    names = [
        "",
        "runs",
        "executor s",
        "saved",
        f"later than {BOUND_S:g} s",
        "mean s",
        "worst s",
        "changes",
        "amplitude",
        "failed tasks",
    ]
    simulated = ["simulated: executor s", "off by", "late", "changes"]
    show(console, f"a hill of {length_s:g} s, whose peak needs {peak} executors, on a standalone cluster", names + simulated, rows)
    if costs:
        console.print(str(costs))
    announce(console, [Goal("share of executor seconds saved, with violations in at most 1 % of the intervals", max(good), 0.4)])


if __name__ == "__main__":
    main()
