"""The memory of the driver's Python while executors have millions of rows of state."""

import os
from dataclasses import dataclass
from pathlib import Path

from benchmarks.state import oracle
from benchmarks.state.common import START_US, Bench, Found, follow, in_turn, numbers, session, started, tuples
from benchmarks.state.memory import files_of, watched
from benchmarks.timing import Limit
from skytide.spark.session.cluster import LocalCluster

MAX_MB = 600.0
SLIDE_S, PANES = 60, 10
EXECUTORS = 2


@dataclass(frozen=True)
class Sizes:
    """Every pane has each key once, and so many windows are full."""

    keys: int = 2_250_000
    full_windows: int = 2
    memory: str = "2g"


QUICK = Sizes(5_000, 1, "512m")


def driver(bench: Bench) -> Found:
    """Fill windows of ten panes on a cluster, and watch the driver."""
    sizes = QUICK if bench.quick else Sizes()
    rate_hz, last = sizes.keys // SLIDE_S, PANES + sizes.full_windows
    ready = {"spark.scheduler.minRegisteredResourcesRatio": "1.0", "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s"}
    with LocalCluster(cores=EXECUTORS) as cluster:
        settings = {**cluster.settings(memory=sizes.memory), **ready, "spark.driver.memory": "1g"}
        with session("driver", **settings) as spark, watched(bench.folder / "checkpoint") as peaks:
            before_mb = peak_mb()
            rows = tuples(numbers(spark, sizes.keys), rate_hz, in_turn(sizes.keys))
            run = started(rows, bench.folder, f"{PANES * SLIDE_S} seconds", f"{SLIDE_S} seconds")
            marks = follow(run.query, last)
            state = run._engine.store.latest()
            plan = run.status().window_plan
            run.stop()
            after_mb = peak_mb()
    check(sizes, rate_hz, bench.folder / "out", last)
    batch_s = (marks[-1].at_s - marks[-3].at_s) / (marks[-1].batch - marks[-3].batch)
    files, manifest_kb = files_of(bench.folder / "checkpoint")
    row = [f"{state.memory_rows:,}", f"{before_mb:,.0f}", f"{after_mb:,.0f}", f"{peaks.mb['workers']:,.0f}", f"{batch_s:.1f}"]
    goals = [Limit(f"MB of the driver's Python with {state.memory_rows:,} rows of state", after_mb, MAX_MB)]
    title = f"{PANES} min by 1 min, {sizes.keys:,} keys, LocalCluster of {EXECUTORS} executors; {plan}"
    columns = ["where", "rows of state", "MB at first", "MB at most", "workers MB", "s/batch"]
    figures = {"rows": state.memory_rows, "before_mb": before_mb, "after_mb": after_mb, "mb": peaks.mb, "batch_s": batch_s}
    return Found(
        title, columns, [["driver's Python", *row]], goals, {**figures, "files": files, "manifest_kb": manifest_kb, "plan": plan}
    )


def peak_mb() -> float:
    """Return the most memory that this process ever had, in megabytes."""
    for line in Path(f"/proc/{os.getpid()}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return float(line.split()[1]) / 1e3
    raise RuntimeError("the system does not tell the memory of a process")


def check(sizes: Sizes, rate_hz: int, out: Path, last: int) -> None:
    """Compare the latest full window that has surely come out with its tuples."""
    start_us = START_US + (last - PANES - 1) * SLIDE_S * 1_000_000
    some = oracle.numbers_between(start_us, start_us + PANES * SLIDE_S * 1_000_000, rate_hz, (last + 1) * sizes.keys)
    oracle.check("the driver's windows", oracle.window_of(out, start_us), oracle.in_turn(some, sizes.keys))
