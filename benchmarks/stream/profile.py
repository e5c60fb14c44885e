"""Shows where the time of a continuous skyline goes: inside the tasks, without Spark, and around them, on Spark."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from rich.console import Console

import skytide
from benchmarks.stream.measure import run_for
from benchmarks.stream.peers import preferences
from benchmarks.timing import show
from skytide import KSlack
from skytide.batch import PaneReport, Rules, Way
from skytide.queries import Skyline, combine
from skytide.spark import local_session
from skytide.spark.checkpoint import Files, Store
from skytide.spark.engine.engine import Engine, Plan
from skytide.spark.engine.pane_level import PaneTask, Tuples, read_reports
from skytide.spark.sinks.outlets import Sinks
from skytide.spark.sinks.parquet import ParquetSink
from skytide.windows import Windows

RATES_HZ = (150_000, 300_000, 600_000)
BATCH_TICKS = 50  # half a second
WARM_UP, BATCHES = 8, 24
CORES = 2


class Timed:
    """Measures core seconds by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str, less: str = "") -> Iterator[None]:
        """Time a stage, without the part that another stage inside it accounts for."""
        inner, began = self.seconds.get(less, 0.0), time.perf_counter()
        yield
        inside = self.seconds.get(less, 0.0) - inner
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began - inside


class TimedFiles(Files):
    """Files whose reads and writes are timed."""

    timed: Timed

    def put(self, name: str, data: Any, *, durable: bool = True) -> None:
        with self.timed.stage("state"):
            super().put(name, data, durable=durable)

    def read_table(self, name: str) -> pa.Table:
        with self.timed.stage("state"):
            return super().read_table(name)

    def read_batches(self, name: str, first: int = 0, count: int | None = None) -> list[pa.RecordBatch]:
        with self.timed.stage("state"):
            return super().read_batches(name, first, count)


class HereAndNow:
    """Jobs in this process; a batch is a range of ticks."""

    def __init__(self, source: Any, timed: Timed) -> None:
        self.source, self.timed = source, timed

    def panes(self, batch: range, task: PaneTask, way: Way) -> PaneReport:
        reports = []
        middle = (batch.start + batch.stop) // 2
        for slot, ticks in enumerate((range(batch.start, middle), range(middle, batch.stop))):
            with self.timed.stage("source"):
                tuples = [Tuples(piece) for piece in self.source.workload.tuples(ticks.start, ticks.stop, 0)]
            with self.timed.stage("pane kernel", less="state"):
                reports += list(task.run(tuples, slot))
        return read_reports(pa.Table.from_batches(reports))

    def window_task(self, work: Callable[[], Iterator[pa.RecordBatch]]) -> str:
        with self.timed.stage("window kernel", less="state"):
            return next(work())["report"][0].as_py()

    def stored(self, store: Files, files: tuple[str, ...], columns: pa.Schema) -> Any:
        raise AssertionError("results go to Parquet")

    def rows(self, table: pa.Table) -> pa.Table:
        return table


def without_spark(rate_hz: int) -> dict[str, float]:
    """Return the core seconds per second of stream, by stage, without Spark."""
    folder = tempfile.mkdtemp(prefix="skytide-profile-")
    timed = Timed()
    source = skytide.workload(rate=rate_hz, arrivals="constant")
    files = TimedFiles(f"{folder}/state")
    files.timed = timed
    query = Skyline(combine(tuple(preferences(source))))
    rules = Rules(Windows(1_000_000, 200_000), KSlack())
    plan = Plan(query, rules, "ts", source.workload.schema, (), Store(files))
    engine = Engine(plan, Sinks(ParquetSink(f"{folder}/results")))
    for number in range(BATCHES):
        if number == WARM_UP:
            timed.seconds.clear()
        ticks = range(number * BATCH_TICKS, (number + 1) * BATCH_TICKS)
        engine.run_batch(HereAndNow(source, timed), ticks, number)
    shutil.rmtree(folder, ignore_errors=True)
    stream_s = (BATCHES - WARM_UP) * BATCH_TICKS * source.workload.tick_us / 1e6
    return {name: spent / stream_s for name, spent in timed.seconds.items()}


def on_spark(rate_hz: int, seconds: float = 30.0) -> dict[str, float]:
    """Return the mean milliseconds per batch, by step, of a real run."""
    spark = local_session("skytide profile")
    folder = tempfile.mkdtemp(prefix="skytide-profile-")
    source = skytide.workload(rate=rate_hz, arrivals="constant")
    asked = skytide.stream(source).window("1 second", slide="200 ms").skyline(*preferences(source))
    run = asked.start("parquet", path=f"{folder}/results", checkpoint=f"{folder}/checkpoint", trigger="500 ms")
    run_for(run.query, 20.0)
    before, first = dict(run._engine.seconds), run.status().batch
    run_for(run.query, seconds)
    batches = run.status().batch - first
    found = {name: 1000 * (spent - before[name]) / batches for name, spent in dict(run._engine.seconds).items()}
    progress = [each.durationMs for each in run.query.recentProgress[-batches:]]
    for phase in ("latestOffset", "queryPlanning", "walCommit", "commitOffsets"):
        found[phase] = sum(each.get(phase, 0) for each in progress) / len(progress)
    found["whole batch"] = sum(each["triggerExecution"] for each in progress) / len(progress)
    run.query.stop()
    spark.stop()
    shutil.rmtree(folder, ignore_errors=True)
    return found


def main() -> None:
    """Measure, and print both tables."""
    console = Console(width=130, highlight=False)
    stages = {rate_hz: without_spark(rate_hz) for rate_hz in RATES_HZ}
    names = list(stages[RATES_HZ[0]])
    rows = [[name, *(f"{stages[rate][name]:.3f}" for rate in RATES_HZ)] for name in names]
    rows.append(["all", *(f"{sum(stages[rate].values()):.3f}" for rate in RATES_HZ)])
    rows.append(["limit on two cores, tuples/s", *(f"{rate * CORES / sum(stages[rate].values()):,.0f}" for rate in RATES_HZ)])
    show(console, "Core seconds per second of stream, without Spark", ["stage", *(f"{rate:,}/s" for rate in RATES_HZ)], rows)
    spent = on_spark(RATES_HZ[0])
    show(
        console,
        f"Mean milliseconds per batch on local[2], {RATES_HZ[0]:,} tuples/s, trigger 500 ms",
        ["step", "ms"],
        [[name, f"{value:.0f}"] for name, value in spent.items()],
    )


if __name__ == "__main__":
    main()
