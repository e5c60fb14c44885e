"""What it would bring to answer the windows of a batch while the next one runs its pane level (P0 Fig. 2): `python -m benchmarks.stream.pipelining`.

Spark runs batches strictly one after the other. Here the engine runs some batches on a real standalone cluster with as many executors as there
are cores, and notes the work of both levels. Then that work is done once more, with the very same tasks: level after level, as the engine does
it, and side by side, the windows of a batch in a thread while the panes of the next are reduced. What Spark and the engine do around the levels
is waited for. It is an upper bound: nothing is decided or recorded in between. The simulator says the same from the busy times of the tasks.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from rich.console import Console

from benchmarks.stream.growth import AGGREGATES
from benchmarks.stream.measure import cpu_s
from benchmarks.timing import show
from skytide import low
from skytide.batch import BatchEvent, BatchRules, InPlace, Instruction, Parts, RunPanes, RunWindows, WindowReport
from skytide.lateness import FixedSlack
from skytide.queries import Aggregate, Measure, Query, Skyline, combine
from skytide.records import Step
from skytide.spark import local_session
from skytide.spark.checkpoint import Files, Store
from skytide.spark.engine.engine import Engine
from skytide.spark.engine.jobs import Jobs, SparkJobs
from skytide.spark.engine.panes import PaneTask
from skytide.spark.engine.pinning import Pins
from skytide.spark.engine.spec import QuerySpec
from skytide.spark.engine.spread import run_windows
from skytide.spark.engine.windows import WindowTask
from skytide.spark.session.cluster import LocalCluster
from skytide.spark.sinks.parquet import Parquet
from skytide.spark.sinks.roles import Sinks
from skytide.windows import Windows
from skytide.workloads.workload import Workload
from skytide_lab.sim.pipelining import Levels, one_by_one_s, side_by_side_s

CORES, WORTH = 2, 0.2
BATCHES, WARM_UP, ROUNDS = 7, 3, 4
SPARK_S = 0.03
"""What Spark itself notes of a batch: `benchmarks.stream.profile` prints it."""
TITLE = "Both levels of a batch, mean seconds: one by one, and the windows of a batch beside the panes of the next"
COLUMNS = [
    "query, load",
    "around",
    "busy: panes",
    "windows",
    "",
    "pane level",
    "window level",
    "cycle",
    "latency",
    "cores",
    "throughput",
    "latency",
    "simulated",
]
BATCH_TICKS, START_US = 100, 1_700_000_000_000_000  # a second of the stream per batch
DIMENSIONS = 8
SECOND, FIFTHS = Windows(1_000_000, 1_000_000), Windows(1_000_000, 200_000)


@dataclass(frozen=True)
class Case:
    """A query at a load."""

    name: str
    query: Query
    windows: Windows
    rate_hz: int
    keys: int = 1


def aggregate(*keys: str) -> Query:
    """Return the aggregates of each key."""
    return Aggregate(tuple(map(Measure.parse, AGGREGATES)), keys=keys, time="ts")


SKYLINE = Skyline(combine(tuple(low(f"x{i}") for i in range(DIMENSIONS))))
CASES = (
    Case("aggregates, 100 groups", aggregate("key"), FIFTHS, 1_000_000, 100),
    Case("aggregates, 1,000,000 groups", aggregate("key"), SECOND, 500_000, 1_000_000),
    Case("skyline of 8 columns", SKYLINE, FIFTHS, 400_000),
)


@dataclass
class Batch:
    """The work of a batch, as the engine had it done, and how long its tasks were busy."""

    rows: Any
    panes: PaneTask
    pane_tasks_s: tuple[float, ...] = ()
    windows: WindowTask | None = None
    windows_s: float = 0.0


class Noting(Engine):
    """An engine that notes the work of both levels."""

    batches: list[Batch]

    @property
    def levels_s(self) -> float:
        """The time of both levels so far."""
        return sum(self.seconds.get(step, 0.0) for step in (Step.PANE_LEVEL, Step.WINDOW_LEVEL))

    def _carry_out(self, instruction: Instruction, jobs: Jobs, batch: Any) -> list[BatchEvent]:
        events = super()._carry_out(instruction, jobs, batch)
        if isinstance(instruction, RunPanes):
            tasks_s = tuple(task.busy_s for task in events[0].report.tasks)  # type: ignore[union-attr]
            self.batches.append(Batch(batch, PaneTask(self.spec, self.store.files, instruction), tasks_s))
        elif isinstance(instruction, RunWindows):
            mine = self.batches[-1]
            mine.windows = WindowTask(self.spec, self.store.files, instruction, self.sinks.results.in_tasks)
            report: WindowReport = events[0].report  # type: ignore[union-attr, assignment]
            mine.windows_s = report.busy_s
        return events


class Lasting(Files):
    """Files that are never removed, as the work on them is repeated."""

    def delete(self, name: str) -> None:
        """Keep the file."""


def write_stream(case: Case, batches: int, folder: str) -> list[str]:
    """Write a file per core for each batch, and return the folders of the batches."""
    workload = Workload(rate=case.rate_hz, arrivals="constant", dimensions=DIMENSIONS)
    folders = []
    for batch in range(batches):
        Path(folder, str(batch)).mkdir(parents=True)
        folders.append(f"{folder}/{batch}")
        for core in range(CORES):
            first, last = (batch * BATCH_TICKS + BATCH_TICKS * at // CORES for at in (core, core + 1))
            rows = pa.Table.from_batches(list(workload.tuples(first, last, START_US))).drop_columns(["arrival"])
            keys = np.random.default_rng([batch, core]).integers(0, case.keys, rows.num_rows)
            pq.write_table(rows.append_column("key", pa.array(keys)), f"{folders[-1]}/{core}.parquet", row_group_size=2**20)
    return folders


def batches_of(spark: SparkSession, jobs: SparkJobs, case: Case, folders: Sequence[str], out: str) -> tuple[list[Batch], float]:
    """Run the engine over a stream, and return the work of the batches in which all windows are complete, and the time around the levels."""
    first = spark.read.parquet(folders[0])
    columns = pq.read_schema(f"{folders[0]}/0.parquet")
    has_skyline = case.query.skyline_inside() is not None
    spec = QuerySpec(case.query, "ts", columns, case.windows, FixedSlack(0))
    rules = BatchRules(
        case.windows, FixedSlack(0), InPlace(), CORES, CORES, can_spread=has_skyline, has_groups=bool(spec.parted_by)
    )
    Noting.batches = []
    engine = Noting(spec, rules, Store(Lasting(f"{out}/state")), Sinks(Parquet(f"{out}/out")))
    around_s = []
    for number, folder in enumerate(folders):
        rows, before_s, began_s = spark.read.schema(first.schema).parquet(folder), engine.levels_s, time.perf_counter()
        engine.run_batch(jobs, rows, number)
        around_s.append(time.perf_counter() - began_s - (engine.levels_s - before_s))
    engine.store.release()
    return [batch for batch in engine.batches[WARM_UP:] if batch.windows], SPARK_S + min(around_s)


@dataclass(frozen=True)
class Played:
    """The mean seconds from one batch to the next, of both levels, and from the beginning of a batch to its results."""

    cycle_s: float
    pane_s: float
    window_s: float
    results_s: float
    cores: float
    """How many were busy on average, of all processes."""

    @property
    def latency_s(self) -> float:
        """From the end of a window to its result, if a batch starts as soon as it can: half a cycle later on average."""
        return self.cycle_s / 2 + self.results_s


def play(jobs: SparkJobs, batches: Sequence[Batch], around: float, *, together: bool) -> Played:
    """Do the work of some batches once more, level after level or both side by side."""
    took: dict[str, list[float]] = {"panes": [], "windows": [], "results": []}

    def panes(batch: Batch) -> None:
        began_s = time.perf_counter()
        jobs.panes(batch.rows, batch.panes, InPlace())
        took["panes"].append(time.perf_counter() - began_s)

    def windows(batch: Batch, batch_began_s: float) -> None:
        assert batch.windows
        began_s = time.perf_counter()
        run_windows(jobs, batch.windows)
        took["windows"].append(time.perf_counter() - began_s)
        took["results"].append(time.perf_counter() - batch_began_s)

    start_s, used_s = time.perf_counter(), cpu_s()
    with ThreadPoolExecutor(1) as beside:
        waiting: list[Future[None]] = []
        for batch in batches:
            began_s = time.perf_counter()
            time.sleep(around)
            panes(batch)
            for each in waiting:
                each.result()
            waiting = [beside.submit(windows, batch, began_s)]
            if not together:
                waiting[0].result()
    whole_s = time.perf_counter() - start_s
    return Played(whole_s / len(batches), *(mean(each) for each in took.values()), (cpu_s() - used_s) / whole_s)


def least_disturbed(runs: Sequence[Played]) -> Played:
    """Return the quickest of some runs of the same work: others may be at work on the machine."""
    return min(runs, key=lambda run: run.cycle_s)


def levels(batches: Sequence[Batch], around: float, apart: Played) -> Levels:
    """Return what both levels of a batch take, for the simulator."""
    pane_tasks_s = tuple(mean(some) for some in zip(*(batch.pane_tasks_s for batch in batches), strict=True))
    slots = max(slots_of(batch) for batch in batches)
    window_tasks_s = (mean(batch.windows_s for batch in batches) / slots,) * slots
    jobs_s = max(apart.pane_s - max(pane_tasks_s), 0.0), max(apart.window_s - max(window_tasks_s), 0.0)
    return Levels(around, jobs_s[0], pane_tasks_s, jobs_s[1], window_tasks_s)


def slots_of(batch: Batch) -> int:
    """Return how many tasks answered the windows of a batch."""
    assert batch.windows
    spreading = batch.windows.instruction.spreading
    return len(spreading.of_slots) if isinstance(spreading, Parts) else 1


def run(console: Console, cases: Sequence[Case] = CASES, batches: int = BATCHES, rounds: int = ROUNDS) -> dict[str, Any]:
    """Measure all cases on a cluster, print the figures, and return them."""
    rows, gains = [], {}
    with LocalCluster(CORES) as cluster:
        wait = {"spark.scheduler.minRegisteredResourcesRatio": "1.0", "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s"}
        spark = local_session("skytide pipelining", **{**cluster.settings("2g"), **wait})
        jobs = SparkJobs(spark, StructType([]), Pins(spark))
        for case in cases:
            with tempfile.TemporaryDirectory(prefix="skytide-pipelining-") as folder:
                folders = write_stream(case, batches, f"{folder}/in")
                work, around = batches_of(spark, jobs, case, folders, folder)
                play(jobs, work, around, together=True)  # the first time does not count
                runs = [(play(jobs, work, around, together=False), play(jobs, work, around, together=True)) for _ in range(rounds)]
            apart, together = (least_disturbed(some) for some in zip(*runs, strict=True))
            seen = levels(work, around, apart)
            expected = one_by_one_s(seen, CORES) / side_by_side_s(seen, CORES)
            gains[case.name] = {
                "throughput": apart.cycle_s / together.cycle_s,
                "latency": apart.latency_s / together.latency_s,
                "simulated": expected,
            }
            rows += lines(case, around, apart, together, seen, gains[case.name])
        spark.stop()
    show(console, TITLE, COLUMNS, rows)
    best = max(max(gain["throughput"], gain["latency"]) for gain in gains.values()) - 1
    console.print(f"At most {best:.0%} more throughput or less latency; worth building from {WORTH:.0%} on.")
    return gains


def lines(case: Case, around: float, apart: Played, together: Played, seen: Levels, gain: dict[str, float]) -> list[list[str]]:
    """Return the rows of a case."""
    busy_s = sum(seen.pane_tasks_s), sum(seen.window_tasks_s)
    head = [f"{case.name}, {case.rate_hz:,}", f"{around:.3f}", f"{busy_s[0]:.2f}", f"{busy_s[1]:.2f}"]
    ways = (("one by one", apart, ["", "", ""]), ("side by side", together, [f"{each:+.0%}" for each in percent(gain)]))
    return [
        [
            *(head if at == 0 else [""] * len(head)),
            way,
            *(f"{each:.3f}" for each in (run.pane_s, run.window_s, run.cycle_s, run.latency_s)),
            f"{run.cores:.2f}",
            *more,
        ]
        for at, (way, run, more) in enumerate(ways)
    ]


def percent(gain: dict[str, float]) -> list[float]:
    """Return how much more is done in a time, how much shorter latency is, and how much more the simulator expects to be done."""
    return [gain["throughput"] - 1, 1 / gain["latency"] - 1, gain["simulated"] - 1]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stream.pipelining", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a toy size, only to see that everything runs")
    parser.add_argument("--share", type=float, default=1.0, help="of the load, such as 0.2 on a machine with other work")
    options = parser.parse_args()
    share = 0.01 if options.quick else options.share
    cases = [replace(case, rate_hz=round(case.rate_hz * share)) for case in CASES]
    quick = options.quick
    run(Console(width=190, highlight=False), cases, batches=5 if quick else BATCHES, rounds=1 if quick else ROUNDS)


if __name__ == "__main__":
    main()
