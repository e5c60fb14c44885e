"""The window level of a million groups, with one and with two slots: the cores of a cluster's two executors."""

from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.state import oracle
from benchmarks.state.common import START_US, Bench, Found, follow, in_turn, numbers, session, started, tuples
from benchmarks.timing import Goal
from skytide.records import Step
from skytide.spark.session.cluster import LocalCluster

MIN_RATIO = 1.7
SLIDE_S, PANES = 10, 3


@dataclass(frozen=True)
class Sizes:
    """Every pane has each key once; so many batches, of a pane each, are measured in each turn, after one that is not."""

    keys: int = 1_000_000
    warm_up: int = 6
    per_turn: int = 4
    turns: int = 4


QUICK = Sizes(20_000, 4, 2, 1)


def slots(bench: Bench) -> Found:
    """Measure the window level with one slot and with two, in turn."""
    sizes = QUICK if bench.quick else Sizes()
    levels, plans = measure(sizes, bench.folder)
    check(sizes, bench.folder / "out")
    middle = {count: median(seconds) for count, seconds in levels.items()}
    rows = [[str(count), f"{middle[count]:.2f}", f"{min(levels[count]):.2f}", plans[count]] for count in levels]
    goals = [Goal(f"window level of {sizes.keys:,} groups: time with 1 slot over that with 2", middle[1] / middle[2], MIN_RATIO)]
    title = f"Window level of {sizes.keys:,} groups, windows of {PANES} panes, LocalCluster of 2 executors: seconds per window"
    return Found(title, ["slots", "median s", "best s", "where"], rows, goals, {"seconds": levels, "plans": plans})


def measure(sizes: Sizes, folder: Path) -> tuple[dict[int, list[float]], dict[int, str]]:
    """Return the seconds of the window level of each batch, and what the engine says where it ran, by the number of slots."""
    rate_hz = sizes.keys // SLIDE_S
    seconds: dict[int, list[float]] = {1: [], 2: []}
    plans: dict[int, str] = {}
    ready = {"spark.scheduler.minRegisteredResourcesRatio": "1.0", "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s"}
    with LocalCluster(cores=2) as cluster, session("slots", **{**cluster.settings(memory="2g"), **ready}) as spark:
        rows = tuples(numbers(spark, sizes.keys), rate_hz, in_turn(sizes.keys))
        run = started(rows, folder, f"{PANES * SLIDE_S} seconds", f"{SLIDE_S} seconds", window_slots=2)
        latest = follow(run.query, sizes.warm_up)[-1].batch
        for _ in range(sizes.turns):
            for count, mine in seconds.items():
                run.resize(window_slots=count)
                latest = follow(run.query, latest + 2)[-1].batch  # the one that runs may have begun before
                for _ in range(sizes.per_turn):
                    before_s = run._engine.seconds[Step.WINDOW_LEVEL]
                    mark = follow(run.query, latest + 1)[-1]
                    mine.append((run._engine.seconds[Step.WINDOW_LEVEL] - before_s) / (mark.batch - latest))
                    latest = mark.batch
                plans[count] = run.status().window_plan
        run.stop()
    return seconds, plans


def check(sizes: Sizes, out: Path) -> None:
    """Compare a window of those with either number of slots with its tuples."""
    rate_hz = sizes.keys // SLIDE_S
    turn = sizes.per_turn + 2
    for batch in (sizes.warm_up + turn - 1, sizes.warm_up + 2 * turn - 1):
        start_us = START_US + (batch - PANES - 1) * SLIDE_S * 1_000_000
        some = oracle.numbers_between(start_us, start_us + PANES * SLIDE_S * 1_000_000, rate_hz, (batch + 1) * sizes.keys)
        oracle.check(f"{sizes.keys:,} groups, batch {batch}", oracle.window_of(out, start_us), oracle.in_turn(some, sizes.keys))
