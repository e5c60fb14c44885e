"""Measures what grows with tasks and slots: the work of pane tasks and of slots of the window level on rows of many groups, and Spark's work per task."""

import os
import pickle
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from skytide.batch import PaneReport, PaneTaskReport, Parts, Piece, RunPanes, RunWindows
from skytide.batch.spreading import PARTS
from skytide.keyed.bits import between
from skytide.lateness import FixedSlack
from skytide.queries import Aggregate, Measure
from skytide.spark import local_session
from skytide.spark.arrow import spark_schema
from skytide.spark.checkpoint import Files
from skytide.spark.engine.panes import REPORT, PaneTask, read_reports
from skytide.spark.engine.spec import QuerySpec
from skytide.spark.engine.tasks import tasks
from skytide.spark.engine.windows import WindowTask
from skytide.spark.session.cluster import LocalCluster
from skytide.spark.sinks.parquet import Parquet
from skytide.windows import Windows
from skytide_lab.sim.window_level import WindowCosts

AGGREGATES = ("count(*) AS n", "avg(x0) AS mean", "max(x1) AS best")
COLUMNS = pa.schema([("ts", pa.timestamp("us", "UTC")), ("key", pa.int64()), ("x0", pa.float64()), ("x1", pa.float64())])
SECOND = Windows(1_000_000, 1_000_000)
SPEC = QuerySpec(Aggregate(tuple(map(Measure.parse, AGGREGATES)), keys=("key",), time="ts"), "ts", COLUMNS, SECOND, FixedSlack(0))
SPARK_ROWS = 1_000  # in a batch that Spark sends to a task
ROUNDS = 4
EXECUTORS = 2


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    tuples: tuple[int, int] = (20_000, 100_000)
    pieces: tuple[int, int] = (40, 160)
    piece_tuples: int = 50_000
    groups: tuple[int, int] = (50_000, 2_000_000)
    parts: tuple[int, int] = (1, 64)
    tasks: Sequence[int] = (8, 64, 192)
    jobs: int = 3


QUICK = Sizes((1_000, 4_000), (4, 8), 5_000, (1_000, 20_000), (1, 64), (2, 8), 1)


@dataclass(frozen=True)
class TaskCosts:
    """The costs of the tasks of both levels, processor time."""

    task_s: float
    """Of a task of the pane level without tuples."""
    tuple_s: float
    windows: WindowCosts


@dataclass(frozen=True)
class DriverCosts:
    """What one more task costs Spark's driver, processor time."""

    task_s: float
    """Of all its threads."""
    thread_s: float
    """Of the busiest thread, which does one task after the other."""
    thread: str


def tuples(count: int, groups: int, seed: int) -> list[pa.RecordBatch]:
    """Return the tuples of a task in a second, as Spark sends them."""
    rng = np.random.default_rng(seed)
    times = pa.array(np.sort(rng.integers(0, SECOND.length_us, count)), pa.timestamp("us", "UTC"))
    rows = pa.table([times, rng.integers(0, groups, count), *rng.random((2, count))], schema=COLUMNS)
    return rows.to_batches(max_chunksize=SPARK_ROWS)


def run_pane_task(files: Files, batches: list[pa.RecordBatch], slot: int = 0) -> PaneTaskReport:
    """Run a task of the pane level, and return its report."""
    task = PaneTask(SPEC, files, RunPanes(0, None, None, SECOND.length_us, 1))
    return read_reports(pa.Table.from_batches(list(task.run_partition(batches, slot)))).tasks[0]


def used_s(work: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """Return the processor time of some work: the least of some rounds, as other work on the machine makes caches cold."""
    seen = []
    for _ in range(rounds + 1):
        began_s = time.process_time()
        work()
        seen.append(time.process_time() - began_s)
    return min(seen[1:])


def fitted(rows: Sequence[Sequence[float]], seconds: Sequence[float]) -> list[float]:
    """Return the cost of each column, so that the relative errors are small; none is below nothing.

    >>> [round(cost, 3) for cost in fitted([(1, 0), (1, 10), (1, 20)], [2.0, 7.0, 12.0])]
    [2.0, 0.5]
    """
    weights = 1 / np.array(seconds)
    scaled = np.array(rows, float) * weights[:, None]
    used = list(range(scaled.shape[1]))
    while True:
        costs = np.linalg.lstsq(scaled[:, used], np.ones(len(scaled)), rcond=None)[0]
        if (costs >= 0).all():
            found = dict(zip(used, costs.tolist(), strict=True))
            return [found.get(column, 0.0) for column in range(scaled.shape[1])]
        used.pop(int(np.argmin(costs)))


def task_costs(sizes: Sizes) -> TaskCosts:
    """Run tasks of both levels in this process, and return what they cost."""
    with tempfile.TemporaryDirectory(prefix="skytide-state-costs-") as folder:
        files = Files(folder)
        rows, seconds = [], []
        for count in sizes.tuples:
            for groups in (100, 100 * sizes.groups[1]):
                mine = tuples(count, groups, seed=count)
                kept = sum(part.piece.rows for part in run_pane_task(files, mine).parts)
                rows.append((1, count, kept))
                seconds.append(used_s(lambda mine=mine: run_pane_task(files, mine)))  # type: ignore[misc]
        task_s, tuple_s, kept_s = fitted(rows, seconds)
        slot_s, open_s, row_s, answer_s = fitted(*slots(files, sizes))
    return TaskCosts(task_s, tuple_s, WindowCosts(slot_s, open_s, row_s, answer_s, kept_s))


def slots(files: Files, sizes: Sizes) -> tuple[list[tuple[float, ...]], list[float]]:
    """Return what slots of several sizes had to do (tasks, files to open, rows to merge, rows of the answer), and how long each took."""
    rows, seconds = [], []
    for groups in sizes.groups:
        reports = [
            run_pane_task(files, tuples(sizes.piece_tuples, groups, seed=[groups, at]), at)  # type: ignore[arg-type]
            for at in range(max(sizes.pieces))
        ]
        pieces = [part.piece for part in PaneReport(tuple(reports)).parts]
        for some, parts in (
            (pieces[: sizes.pieces[0]], sizes.parts[0]),
            (pieces, sizes.parts[0]),
            (pieces[: sizes.pieces[0]], sizes.parts[1]),
        ):
            task = window_task(files, some)
            text = cloudpickle.dumps(task)  # type: ignore[no-untyped-call]
            mine = between(0, parts)
            answered = WindowTask.run(task, mine=mine).windows[0].kept
            merged = sum(piece.rows for piece in some) * parts / PARTS
            rows.append((1, len(some), merged + answered, answered))
            seconds.append(used_s(lambda text=text, mine=mine: pickle.loads(text).run(mine=mine)))  # type: ignore[misc]
    return rows, seconds


def window_task(files: Files, pieces: Sequence[Piece]) -> WindowTask:
    """Return the work of the window level on one pane."""
    work = RunWindows(0, range(1), {0: tuple(pieces)}, {0: 1_000_000}, (), 0, Parts((between(0, PARTS),), ""))
    return WindowTask(SPEC, files, work, Parquet(f"{files.root}/results"))


def driver_costs(sizes: Sizes) -> DriverCosts:
    """Return what a task costs Spark's driver on a real cluster."""
    text = PaneTaskReport(0, parts=(), busy_s=0.1).to_text()

    def work(_: int) -> Any:
        yield pa.RecordBatch.from_arrays([pa.array([text])], schema=REPORT)

    with LocalCluster(EXECUTORS) as cluster:
        wait = {"spark.scheduler.minRegisteredResourcesRatio": "1.0", "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s"}
        spark = local_session("skytide state growth", **{**cluster.settings(), **wait})
        java: int = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
        found = {}
        for number in (*sizes.tasks, *sizes.tasks):  # the second time counts
            before = threads_s(java)
            for _ in range(sizes.jobs):
                report_job(spark, number, work)
            found[number] = {name: (used - before.get(name, 0.0)) / sizes.jobs for name, used in threads_s(java).items()}
        spark.stop()

    def slope(values: Sequence[float]) -> float:
        return max(float(np.polyfit(list(found), values, 1)[0]), 0.0)

    by_thread = {
        name: slope([each.get(name, 0.0) for each in found.values()]) for name in {name for each in found.values() for name in each}
    }
    thread = max(by_thread, key=lambda name: by_thread[name])
    return DriverCosts(slope([sum(each.values()) for each in found.values()]), by_thread[thread], thread.rpartition(" ")[0])


def report_job(spark: SparkSession, number: int, work: Callable[[int], Any]) -> None:
    """Run a job whose tasks do nothing but report."""
    reports = tasks(spark.range(0, number, 1, number), work, spark_schema(StructType([]), REPORT)).toArrow()
    assert reports.num_rows == number


def threads_s(process: int) -> dict[str, float]:
    """Return the processor time of each thread of a process, by its name and number; without Java's compilers."""
    seen = {}
    for folder in Path(f"/proc/{process}/task").iterdir():
        try:
            head, _, rest = (folder / "stat").read_text().rpartition(")")
        except OSError:
            continue  # it ended meanwhile
        values = rest.split()
        if "Compiler" in head:
            continue  # Java compiles while it is new, not for every task
        seen[f"{head.partition('(')[2]} {folder.name}"] = (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")
    return seen
