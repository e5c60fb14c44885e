"""Shows where the time of a continuous query goes: inside the tasks, without Spark, and around them, on Spark."""

import argparse
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from rich.console import Console

import skytide
from benchmarks.stream.measure import run_for
from benchmarks.stream.peers import preferences
from benchmarks.timing import show
from skytide.batch import BatchRules, Delivery, PaneReport, StepReport, WindowReport
from skytide.queries import Query, Skyline, TopDelta, combine
from skytide.slacks import KSlack
from skytide.spark import local_session
from skytide.spark.checkpoint import Files, Store
from skytide.spark.engine.engine import Engine
from skytide.spark.engine.panes import PaneTask, Tuples, read_reports
from skytide.spark.engine.spec import QuerySpec
from skytide.spark.sinks.parquet import Parquet
from skytide.spark.sinks.roles import Sinks
from skytide.windows import Windows

RATES_HZ = (150_000, 300_000, 600_000)
QUERIES = ("skyline", "top-100")
BATCH_TICKS = 50  # half a second
WARM_UP, BATCHES = 8, 24
CORES = 2


class Timed:
    """Measures processor seconds by stage, of all threads; what a stage inside another takes, in whichever thread, is counted there only."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._lock, self._here = threading.Lock(), threading.local()
        self._is_open, self._inner_s = False, 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage; one that begins while none is open has all that the process does meanwhile."""
        outer, self._is_open = not self._is_open, True
        clock = time.process_time if outer else time.thread_time
        before_s, self._here.inside_s, inner_s = getattr(self._here, "inside_s", 0.0), 0.0, self._inner_s
        began_s = clock()
        yield
        took_s = clock() - began_s
        with self._lock:
            own_s = took_s - (self._inner_s - inner_s if outer else self._here.inside_s)
            self.seconds[name] = self.seconds.get(name, 0.0) + own_s
            self._inner_s += 0.0 if outer else own_s
        self._here.inside_s = before_s + took_s
        self._is_open = not outer


class TimedFiles(Files):
    """Files whose reads and writes are timed."""

    timed: Timed

    def write_parquet(self, name: str, table: pa.Table, *, durable: bool = True) -> None:
        with self.timed.stage("Parquet"):
            super().write_parquet(name, table, durable=durable)

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

    def cores(self) -> int:
        return 1

    def panes(self, batch: range, task: PaneTask, delivery: Delivery) -> PaneReport:
        reports = []
        middle = (batch.start + batch.stop) // 2
        for slot, ticks in enumerate((range(batch.start, middle), range(middle, batch.stop))):
            with self.timed.stage("source"):
                tuples = [Tuples(piece) for piece in self.source.workload.tuples(ticks.start, ticks.stop, 0)]
            with self.timed.stage("pane kernel"):
                reports += list(task.run(tuples, slot))
        return read_reports(pa.Table.from_batches(reports))

    def window_task(self, work: Callable[[], WindowReport | StepReport]) -> str:
        with self.timed.stage("window kernel"):
            return work().to_text()

    def window_tasks(self, cuts: Sequence[tuple[int, int]], work: Callable[[tuple[int, int]], str]) -> list[str]:
        with self.timed.stage("window kernel"):
            return [work(cut) for cut in cuts]

    def stored(self, store: Files, files: tuple[str, ...], columns: pa.Schema) -> Any:
        raise AssertionError("results go to Parquet")

    def rows(self, table: pa.Table) -> pa.Table:
        return table


def asked(name: str, source: Any) -> Query:
    """Return the query of this name."""
    preference = combine(tuple(preferences(source)))
    return Skyline(preference) if name == "skyline" else TopDelta(preference, delta=100)


def without_spark(query: str, points: str, rate_hz: int) -> dict[str, float]:
    """Return the core seconds per second of stream, by stage, without Spark."""
    folder = tempfile.mkdtemp(prefix="skytide-profile-")
    timed = Timed()
    source = skytide.workload(rate=rate_hz, arrivals="constant", points=points)
    sink = Parquet(f"{folder}/results")
    files, sink.owned.files = TimedFiles(f"{folder}/state"), (written := TimedFiles(f"{folder}/results"))
    files.timed = written.timed = timed
    rules = BatchRules(Windows(1_000_000, 200_000), KSlack(), driver_pays_s=0.0)
    spec = QuerySpec(asked(query, source), "ts", source.workload.schema, rules.windows, rules.slack)
    engine = Engine(spec, rules, Store(files), Sinks(sink))
    for number in range(BATCHES):
        if number == WARM_UP:
            timed.seconds.clear()
        ticks = range(number * BATCH_TICKS, (number + 1) * BATCH_TICKS)
        engine.run_batch(HereAndNow(source, timed), ticks, number)
    shutil.rmtree(folder, ignore_errors=True)
    stream_s = (BATCHES - WARM_UP) * BATCH_TICKS * source.workload.tick_us / 1e6
    return {name: spent / stream_s for name, spent in timed.seconds.items()}


def on_spark(query: str, points: str, rate_hz: int, seconds: float = 30.0) -> dict[str, float]:
    """Return the mean milliseconds per batch, by step, of a real run."""
    spark = local_session("skytide profile")
    folder = tempfile.mkdtemp(prefix="skytide-profile-")
    source = skytide.workload(rate=rate_hz, arrivals="constant", points=points)
    windows = skytide.stream(source).window("1 second", slide="200 ms")
    run = windows.apply(asked(query, source)).start(
        "parquet", path=f"{folder}/results", checkpoint=f"{folder}/checkpoint", trigger="500 ms"
    )
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
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stream.profile", description=__doc__)
    parser.add_argument("--query", choices=QUERIES, default=QUERIES[0])
    parser.add_argument("--points", default="independent")
    parser.add_argument("--rates", default=",".join(map(str, RATES_HZ)), help="tuples per second, such as 150000,300000")
    parser.add_argument("--tasks-only", action="store_true", help="measure without Spark only")
    options = parser.parse_args()
    rates = [int(rate) for rate in options.rates.split(",")]
    console = Console(width=130, highlight=False)
    stages = {rate_hz: without_spark(options.query, options.points, rate_hz) for rate_hz in rates}
    names = list(stages[rates[0]])
    rows = [[name, *(f"{stages[rate][name]:.3f}" for rate in rates)] for name in names]
    rows.append(["all", *(f"{sum(stages[rate].values()):.3f}" for rate in rates)])
    rows.append(["limit on two cores, tuples/s", *(f"{rate * CORES / sum(stages[rate].values()):,.0f}" for rate in rates)])
    what = f"{options.query}, {options.points}"
    show(console, f"{what}: core seconds per second of stream, without Spark", ["stage", *(f"{rate:,}/s" for rate in rates)], rows)
    if options.tasks_only:
        return
    spent = on_spark(options.query, options.points, rates[0])
    show(
        console,
        f"{what}: mean milliseconds per batch on local[2], {rates[0]:,} tuples/s, trigger 500 ms",
        ["step", "ms"],
        [[name, f"{value:.0f}"] for name, value in spent.items()],
    )


if __name__ == "__main__":
    main()
