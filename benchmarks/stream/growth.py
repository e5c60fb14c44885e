"""How the cost of a continuous query grows: with dimensions, panes per window, late tuples and slots, and to 1,000 executors; draws docs/growth-stream.png."""

import argparse
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console

from benchmarks.stream.growth_picture import TRIGGER_S, Table, draw, report
from benchmarks.stream.measure import family
from benchmarks.timing import Disagreement
from skytide import low, stream, workload
from skytide.batch import BatchRules, InSource, PanePart, PaneTaskReport, Piece
from skytide.queries import Skyline, combine
from skytide.routing import EVEN
from skytide.slacks import FixedSlack, KSlack
from skytide.spark import local_session
from skytide.spark.engine.engine import Engine
from skytide.spark.engine.panes import read_reports
from skytide.spark.session.cluster import LocalCluster
from skytide.windows import Windows
from skytide.workloads.workload import Workload
from skytide_lab.experiments.s01_engine import fit
from skytide_lab.experiments.scenarios import START_US
from skytide_lab.experiments.unshared import Unshared
from skytide_lab.sim.micro_batch import BatchCosts, BatchPlant

ROOT = Path(__file__).resolve().parents[2]
WINDOW_MS, SLIDE_MS = 1_000, 200
CHECKED_PANES = 20  # per window, at most: without panes, more windows take too long
LATE = "900 ms"  # not a multiple of the slide: with a slack of that size, all batches end the same number of windows
EXECUTOR_HZ = 100_000
STANDS_FOR = 100  # tuples of the stream, in the simulator: it plays fewer tuples that cost more
REPEATS = 5
WARM_UP = 2  # batches: with the second one, windows are complete
AGGREGATES = ("count(*) AS n", "avg(x0) AS mean", "max(x1) AS best")


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rate_hz: int = 100_000
    stream_s: int = 6
    dimensions: Sequence[int] = (2, 4, 6, 8, 10, 12)
    panes: Sequence[int] = (2, 5, 10, 20, 50, 100)
    late: Sequence[float] = (0.0, 0.1, 0.25, 0.5)
    slots: Sequence[int] = (1, 2, 4, 8)
    tasks: Sequence[int] = (1, 8, 32, 128, 256)
    executors: Sequence[int] = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)


QUICK = Sizes(2_000, 4, (4,), (5,), (0.5,), (1, 2), (1, 16), (1, 100))


@dataclass(frozen=True)
class Played:
    """What the steps of a batch took (a second of the stream; the least disturbed one counts), and the windows that came out."""

    steps_s: dict[str, float]
    per_batch: float
    """Tuples."""
    dropped: float
    windows: pa.Table


def play(
    sizes: Sizes,
    *,
    dimensions: int = 8,
    panes: int = WINDOW_MS // SLIDE_MS,
    late: float = 0.0,
    slack: Any = FixedSlack(0),  # noqa: B008
    slots: int = 2,
    rate_hz: int | None = None,
    plain: bool = False,
    aggregates: bool = False,
) -> Played:
    """Run the engine over a stream as fast as it can, a second of the stream per batch: all batches have the same work."""
    delays: dict[str, Any] = {"delay": LATE, "late_share": late} if late else {}
    source = workload(
        rate=rate_hz or sizes.rate_hz, arrivals="constant", dimensions=dimensions, **delays,
        pace="fast", batch="1 s", duration=f"{sizes.stream_s} s", start=START_US,
    )  # fmt: skip
    skyline = Skyline(combine(tuple(low(f"x{i}") for i in range(dimensions))))
    windowed = stream(source).window(f"{WINDOW_MS} ms", slide=f"{WINDOW_MS // panes} ms", slack=slack)
    asked = windowed.aggregate(*AGGREGATES) if aggregates else windowed.apply(Unshared(skyline) if plain else skyline)
    with noted() as steps, tempfile.TemporaryDirectory(prefix="skytide-growth-") as folder:
        run = asked.start("parquet", path=f"{folder}/out", checkpoint=f"{folder}/c", trigger="availableNow", pane_slots=slots)
        run.await_termination()
        status = run.status()
        steps["batch"] = [each["durationMs"]["triggerExecution"] / 1e3 for each in run.recentProgress if each["numInputRows"]]
        table = pq.read_table(f"{folder}/out")
    order = [name for name in ("window_start", "id") if name in table.column_names]
    return Played(
        {name: min(seconds[WARM_UP:]) for name, seconds in steps.items()},
        status.tuples / len(steps["batch"]),
        status.late / status.tuples,
        table.select(order).sort_by([(name, "ascending") for name in order]),
    )


@contextmanager
def noted() -> Iterator[dict[str, list[float]]]:
    """Yield what becomes the seconds of each step of the engine, batch by batch."""
    steps: dict[str, list[float]] = {}
    real = Engine._spent

    def note(engine: Engine, step: str, seconds: float) -> None:
        steps.setdefault(step, []).append(seconds)
        real(engine, step, seconds)

    Engine._spent = note  # type: ignore[method-assign]
    try:
        yield steps
    finally:
        Engine._spent = real  # type: ignore[method-assign]


def busy(sizes: Sizes, **case: Any) -> dict[str, float]:
    """Return the busy seconds per million tuples of the tasks of both levels, and check the windows against those without panes."""
    run, per_million = play(sizes, **case), 1e6 / sizes.rate_hz
    if case.get("panes", 0) <= CHECKED_PANES:
        agree(str(case), [run.windows, play(sizes, **case, plain=True).windows])
    found = {"pane level": run.steps_s["pane tasks"] * per_million, "window level": run.steps_s["window task"] * per_million}
    return {**found, "dropped, KSlack": run.dropped} if "late" in case else found


def agree(what: str, answers: Sequence[pa.Table]) -> None:
    """Raise Disagreement unless all windows are the same, and there are some."""
    if not answers[0].num_rows or not all(each.equals(answers[0]) for each in answers):
        raise Disagreement(f"{what}: different windows, or none")


def on_local(sizes: Sizes) -> tuple[dict[str, Table], dict[str, BatchCosts]]:
    """Measure what depends on the stream and the query, and the costs of two queries for the simulator."""
    spark = local_session("skytide growth")
    play(sizes)  # the first run of a session is slower, and does not count
    tables: dict[str, Table] = {
        "dimensions": {d: busy(sizes, dimensions=d) for d in sizes.dimensions},
        "panes": {panes: busy(sizes, panes=panes) for panes in sizes.panes},
        "late": {
            share: busy(sizes, late=share, slack=KSlack()) | {"dropped, no slack": play(sizes, late=share).dropped}
            for share in sizes.late
        },
    }
    loads = (sizes.rate_hz // 2, sizes.rate_hz * 2)
    costs = {
        name: costs_of([play(sizes, rate_hz=load, aggregates=name == "aggregates") for load in loads])
        for name in ("skyline", "aggregates")
    }
    spark.stop()
    return tables, costs


def costs_of(runs: Sequence[Played]) -> BatchCosts:
    """Return the costs of a batch for the simulator, from runs at two loads."""
    names = {"batch_s": "batch", "pane_s": "pane tasks", "window_s": "window task"}
    per_batch = {"windows": WINDOW_MS / SLIDE_MS}
    return fit([per_batch | {"tuples": run.per_batch} | {key: run.steps_s[name] for key, name in names.items()} for run in runs])


def on_cluster(sizes: Sizes) -> dict[str, Table]:
    """Measure batches with several slots, and jobs with several tasks, on as many executors as there are slots at most."""
    with LocalCluster(max(sizes.slots)) as cluster:
        wait = {"spark.scheduler.minRegisteredResourcesRatio": "1.0", "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s"}
        settings: dict[str, Any] = {**cluster.settings(), **wait}
        spark = local_session("skytide growth", **settings)
        play(sizes, slots=max(sizes.slots))
        runs = {slots: play(sizes, slots=slots) for slots in sizes.slots}
        agree("slots", [run.windows for run in runs.values()])
        jobs = driver_jobs(spark, sizes.tasks)
        spark.stop()
    steps = ("batch", "pane level", "window level")
    return {"slots": {slots: {step: run.steps_s[step] for step in steps} for slots, run in runs.items()}, "tasks": jobs}


def driver_jobs(spark: SparkSession, numbers: Sequence[int]) -> Table:
    """Return the time of jobs, and how much of it the driver computes, by their number of tasks.

    Tasks do nothing but return a report as long as one of the pane level: what is left is Spark's cost, and that of reading reports. The driver's part is
    the processor time of its two processes (Java and Python), to which executors beside it add nothing.
    """
    parts = tuple(PanePart(pane, 10_000, Piece("panes/0123456789abcdef", pane, 1, 2_000)) for pane in range(4))
    text = F.lit(PaneTaskReport(0, parts=parts, busy_s=0.1).to_text()).alias("report")
    java: int = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]

    def job(tasks: int) -> dict[str, float]:
        began_s, driver_s = time.perf_counter(), family(java)[java] + time.process_time()
        for _ in range(REPEATS):
            assert len(read_reports(spark.range(0, tasks, 1, tasks).select(text).toArrow()).tasks) == tasks
        job_s, driver_s = time.perf_counter() - began_s, family(java)[java] + time.process_time() - driver_s
        return {"job": job_s / REPEATS, "processor time of the driver": driver_s / REPEATS}

    for tasks in numbers:
        job(tasks)  # warm-up
    return {tasks: job(tasks) for tasks in numbers}


def slope(jobs: Table, what: str) -> float:
    """Return how much one more task adds."""
    return max(float(np.polyfit(list(jobs), [row[what] for row in jobs.values()], 1)[0]), 0.0)


def batch_s(costs: BatchCosts, executors: int, trigger_s: float = TRIGGER_S, per_slot: int = 1) -> float:
    """Return how long a batch with one trigger interval of the load takes in the simulator, with one core per executor."""
    slots = max(executors // per_slot, 1)
    tick_us = int(trigger_s * 1e6) // (5 * max(slots, 10))  # a tick goes to one slot
    stream = Workload(rate=EXECUTOR_HZ * executors / STANDS_FOR, arrivals="constant", tick_us=tick_us)
    scaled = replace(costs, tuple_s=costs.tuple_s * STANDS_FOR, window_tuple_s=costs.window_tuple_s * STANDS_FOR)
    windows = Windows(WINDOW_MS * 1_000, SLIDE_MS * 1_000)
    rules = BatchRules(windows, FixedSlack(0), InSource(EVEN), pane_slots=slots, trigger_s=trigger_s)
    plant, ticks = BatchPlant(stream, scaled, rules, executors), round(trigger_s * 1e6 / tick_us)
    return mean([plant.run_batch(range(number * ticks, (number + 1) * ticks)) for number in range(4)][2:])


def simulate(costs: Mapping[str, BatchCosts], executors: Sequence[int]) -> tuple[Table, dict[str, float]]:
    """Return the time of a batch by executors for several ways to run, and the size at which it reaches the trigger's interval; infinite if none does."""
    of_aggregates = costs["aggregates"]
    ways: dict[str, Callable[[int], float]] = {
        "skyline": partial(batch_s, costs["skyline"]),
        "aggregates": partial(batch_s, of_aggregates),
        "aggregates, if the driver cost nothing": partial(batch_s, replace(of_aggregates, driver_task_s=0.0)),
        "aggregates, one slot per 4 executors": partial(batch_s, of_aggregates, per_slot=4),
        "aggregates, trigger of 2 s": partial(batch_s, of_aggregates, trigger_s=4 * TRIGGER_S),
    }
    table = {n: {name: way(n) for name, way in ways.items()} for n in executors}
    limits = {}
    for name in ways:
        bound_s = 4 * TRIGGER_S if "trigger" in name else TRIGGER_S
        rising = np.maximum.accumulate([row[name] for row in table.values()])
        limits[name] = float(np.interp(bound_s, rising, executors, left=1.0, right=math.inf))
    return table, limits


def main() -> None:
    """Measure, print, and save the picture and the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stream.growth", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a toy size, only to see that everything runs")
    parser.add_argument("--picture", type=Path, default=ROOT / "docs" / "growth-stream.png")
    options = parser.parse_args()
    sizes = QUICK if options.quick else Sizes()
    tables, costs = on_local(sizes)
    tables |= on_cluster(sizes)
    driver_task_s = slope(tables["tasks"], "processor time of the driver")
    costs = {name: replace(each, driver_task_s=driver_task_s) for name, each in costs.items()}
    tables["executors"], limits = simulate(costs, sizes.executors)
    report(Console(width=170, highlight=False), tables, driver_task_s, limits)
    draw(tables).savefig(options.picture, metadata={"Software": None})


if __name__ == "__main__":
    main()
