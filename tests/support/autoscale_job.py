"""Queries under an auto-scaler on a real cluster, run as `python autoscale_job.py FOLDER`: what happened goes to FOLDER/found.json.

The work of these queries is modelled by waiting, as when each row asks a service: so it scales with executors although they all
share the few cores of one machine. No wait stands for an event that somebody waits for.
"""

import itertools
import json
import os
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import skytide
from skytide.control import Controller, ControllerLogic, Guard
from skytide.records import Decision, Evaluation, Observation, Step
from skytide.routing import SlotUse, slot_utilisation
from skytide.spark.scaling import Scaler
from skytide.spark.scaling.gateway import Executor, SparkCluster
from skytide.spark.scaling.warm import warm
from skytide.spark.session.cluster import LocalCluster
from skytide.spark.session.local import local_session
from skytide.spark.session.quick import SPECULATION
from support.classes import archive

TESTS, SOURCES = str(Path(__file__).parents[1]), str(Path(skytide.__file__).parents[1])
ROOM, MAX_EXECUTORS = 2, 3  # executors that the cluster has room for at first, and that the scaler may ask for
PARTS = 4
ROW_S, HIGH_HZ = 0.002, 750
INTERVAL_S = 3.0
DEADLINE_S = 90.0


class Cautious(Controller):
    """As many workers as the utilisation requires, with a fifth to spare."""

    def __repr__(self) -> str:
        return "Cautious()"

    def build(self, resume: Any = None) -> ControllerLogic:
        return _Cautious()


class _Cautious(ControllerLogic):
    def decide(self, seen: Evaluation, *, now_s: float) -> Decision:
        present = seen.seen.allocation
        wanted = max(1, -int(-present.workers * min(seen.demand_ratio, 2.0) // 0.8))
        return Decision(present.with_workers(wanted), f"utilisation {seen.demand_ratio:.2f}: {present.workers} to {wanted}")

    def snapshot(self) -> dict[str, Any]:
        return {}


def ask_service(row_s: float) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the work of the plain query: its time is in proportion to its rows."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(batch.num_rows * row_s)
            yield pa.RecordBatch.from_pydict({"id": batch["id"], "answer": [3 * number + 1 for number in batch["id"].to_pylist()]})

    return run


class Feeder:
    """Writes files of rows, as many per second as the rate says."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.rate_hz, self.fed = folder, PARTS, 0
        folder.mkdir()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _feed(self) -> None:
        for number in itertools.count():
            for part in range(PARTS):
                last = self.fed + self.rate_hz // PARTS
                if last == self.fed:
                    break
                draft = self.folder / f".{number}-{part}"
                pq.write_table(pa.table({"id": range(self.fed, last)}), draft)
                draft.rename(self.folder / f"{number}-{part}.parquet")
                self.fed = last
            if self._stopped.wait(1.0):
                return


def plain(spark: SparkSession, files: Path, out: Path, row_s: float = ROW_S, **trigger: Any) -> StreamingQuery:
    """Start a query that is not skytide's."""
    source = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 4 * PARTS).parquet(str(files))
    rows = source.mapInArrow(ask_service(row_s), "id bigint, answer bigint")
    writer = rows.writeStream.format("parquet").option("path", str(out)).option("checkpointLocation", f"{out}-checkpoint")
    return writer.trigger(**(trigger or {"processingTime": "1 second"})).start()


def answers(out: Path) -> list[tuple[int, int]]:
    """Return the rows of the batches that were committed, as Spark's log of the folder lists them: a second try of a task may leave its file beside."""
    logs = [log for log in (out / "_spark_metadata").glob("[0-9]*") if not log.name.endswith(".tmp")]
    files = {json.loads(line)["path"].removeprefix("file://") for log in logs for line in log.read_text().splitlines()[1:]}
    table = pq.read_table(sorted(files)) if files else pa.table({"id": [], "answer": []})
    return sorted(zip(table["id"].to_pylist(), table["answer"].to_pylist(), strict=True))


class Site:
    """The cluster, the session, and a way to wait for things to happen."""

    def __init__(self, spark: SparkSession, local: LocalCluster) -> None:
        self.spark, self.local, self.cluster = spark, local, SparkCluster(spark)
        self.began_s = time.time()

    deadline_s = DEADLINE_S

    def until(self, what: Callable[[], Any], why: str, deadline_s: float = DEADLINE_S) -> float:
        """Wait for something, and return the seconds it took."""
        began = time.monotonic()
        while not what():
            if time.monotonic() - began > deadline_s:
                raise TimeoutError(f"it never came that {why}")
            time.sleep(0.05)
        return time.monotonic() - began

    def active(self) -> list[Executor]:
        return [each for each in self.cluster.executors() if each.active]

    def failed(self) -> int:
        return sum(each.failed_tasks for each in self.cluster.executors())

    def note(self, *reported: Any) -> None:
        print(f"{time.time() - self.began_s:6.1f}", *reported, flush=True)

    def resize(self, total: int) -> None:
        """Bring the executors to a number, by hand."""
        self.cluster.request(total)
        for each in self.active()[total:]:
            self.cluster.decommission(each.id)
        self.until(lambda: len(self.active()) == total, f"there are {total} executors")

    def scale(self, query: Any, **options: Any) -> Scaler:
        limits = Guard(scale_down_after=f"{2 * INTERVAL_S:g} s", notice_no_help=False)
        options = {"executors": (1, MAX_EXECUTORS), "guard": limits, "on_event": self.note, **options}
        controller = options.pop("controller", Cautious())
        return skytide.autoscale(query, controller, interval=f"{INTERVAL_S:g} s", **options)


def step(site: Site, folder: Path) -> dict[str, Any]:
    """A plain query: a load step, of which the cluster can serve only a part at first, and its end."""
    feeder = Feeder(folder / "files")
    query = plain(site.spark, feeder.folder, folder / "out")
    site.until(lambda: len(query.recentProgress) > 2, "the query runs")
    scaler = site.scale(query, store=folder / "store.json")
    site.until(scaler.history, "something was seen")
    feeder.rate_hz = HIGH_HZ
    site.note("the load is high")
    up_s = site.until(lambda: len(site.active()) == ROOM, "all executors that the cluster has are there")
    short_s = site.until(lambda: reported(scaler, "the request stays open"), "it is noticed that the cluster gives too few")
    site.local.add_worker(MAX_EXECUTORS - ROOM)
    more_s = site.until(lambda: len(site.active()) == MAX_EXECUTORS, "the rest is there, too")
    settled_s = site.until(lambda: scaler.history()[-1].utilisation < 1, "the query keeps up") + up_s + short_s + more_s
    feeder.rate_hz = 0
    site.note("the load is low")
    down_s = site.until(lambda: len(site.active()) == 1, "one executor is left")
    failed = site.failed()
    feeder.stop()
    site.until(lambda: len(answers(folder / "out")) == feeder.fed, "all rows came out")
    query.stop()
    ended = scaler.await_termination(DEADLINE_S)
    fixed = plain(site.spark, feeder.folder, folder / "fixed", row_s=0.0, availableNow=True)
    fixed.awaitTermination()
    sizes = [seen.allocation.workers for seen in scaler.history()]
    return {
        "up_s": up_s, "settled_s": settled_s, "down_s": down_s, "failed": failed, "ended": ended, "rows": feeder.fed,
        "same": answers(folder / "out") == answers(folder / "fixed"), "sizes": sizes, "lead_s": scaler.status().lead_s,
        "events": [str(event) for event in scaler.events()], "stored": json.loads((folder / "store.json").read_text()),
    }  # fmt: skip


def reported(scaler: Scaler, text: str) -> bool:
    return any(text in event.text for event in scaler.events())


class Patient(skytide.Query):
    """The lowest x0: a skytide query whose work is modelled by waiting, too."""

    def __init__(self, row_s: float) -> None:
        self.row_s = row_s

    def __repr__(self) -> str:
        return "Patient()"

    def pane(self, rows: pa.Table) -> pa.Table:
        time.sleep(rows.num_rows * self.row_s)
        return self.merge(rows)

    def merge(self, kept: pa.Table) -> pa.Table:
        return kept.sort_by([("x0", "ascending"), ("id", "ascending")]).slice(0, 1)

    def window(self, kept: pa.Table) -> pa.Table:
        return self.merge(kept)


def patient(steps: str, folder: Path, row_s: float, start_us: int, **options: Any) -> Any:
    """Start a skytide query over a load of steps."""
    played = {name: options.pop(name) for name in ("pace", "batch", "duration") if name in options}
    source = skytide.workload(arrivals="steps", steps=steps, dimensions=1, start=start_us, **played)
    windowed = skytide.stream(source).window("1 s", slack=skytide.slacks.FixedSlack("10 ms"))
    return windowed.apply(Patient(row_s)).start("parquet", path=str(folder / "out"), checkpoint=str(folder / "check"), **options)


def levels(site: Site, folder: Path) -> dict[str, Any]:
    """A skytide query: a load step and its end, and an executor that dies while another one is released."""
    site.resize(1)
    low_s, high_s, start_us = 8, 40, int(time.time()) * 1_000_000
    steps = f"{low_s}:10, {high_s}:{HIGH_HZ}, 10000:0"
    run = patient(steps, folder, ROW_S, start_us, batch="4 s", trigger="2 s", pane_slots=1)
    site.until(lambda: run.status().batch > 0, "the query runs")
    scaler = site.scale(run)
    slots = {0}

    def watched(what: Callable[[], Any], why: str) -> float:
        return site.until(lambda: slots.add(run.status().pane_slots) or what(), why)

    watched(lambda: time.time() > start_us / 1e6 + low_s, "the load is high")
    up_s = watched(lambda: len(site.active()) == MAX_EXECUTORS, "all executors are there")
    settled_s = up_s + watched(lambda: scaler.history()[-1].utilisation < 1, "the query keeps up")
    watched(lambda: reported(scaler, "decommissioning"), "an executor is let go")
    failed = site.failed()
    leaving = next(event.text.split("executor ")[-1].split(" ")[0] for event in scaler.events() if "decommissioning" in event.text)
    victim = next(each for each in site.active() if each.id != leaving)
    kill(victim, site)
    site.until(lambda: reported(scaler, f"lost executor {victim.id}"), "it is noticed that an executor died")
    site.until(lambda: len(site.active()) == 1, "one executor is left")
    latest = run.status().batch
    site.until(lambda: run.status().batch > latest, "the query goes on")
    run.stop()
    ended = scaler.await_termination(DEADLINE_S)
    fixed = patient(
        steps, folder / "fixed", 0.0, start_us,
        pace="fast", batch="5 s", duration=f"{low_s + high_s + 60} s", trigger="availableNow", flush=True,
    )  # fmt: skip
    fixed.await_termination()
    got, right = windows(folder / "out"), windows(folder / "fixed" / "out")
    seen = [each for each in scaler.history() if each.pane_utilisation is not None]
    return {
        "up_s": up_s, "settled_s": settled_s, "failed": failed, "ended": ended, "levels": len(seen), "slots": max(slots),
        "windows": len(got), "same": all(right[start] == row for start, row in got.items()),
        "loaded": sum(low_s <= start / 1e6 - start_us / 1e6 < low_s + high_s for start in got),
        "sizes": [each.allocation.workers for each in scaler.history()], "events": [str(event) for event in scaler.events()],
    }  # fmt: skip


def overload(site: Site, folder: Path) -> dict[str, Any]:
    """A skytide query that is half as fast as its load, with one executor and a controller that keeps it: what there is to see."""
    site.resize(1)
    run = patient(f"10000:{HIGH_HZ}", folder, ROW_S, int(time.time()) * 1_000_000, batch="60 s", trigger="2 s", pane_slots=1)
    site.until(lambda: run.status().batch > 0, "the query runs")
    scaler = site.scale(run, controller=skytide.controllers.Static(1))
    busy_s, batches = run.seconds()[Step.PANE_TASKS], run.status().batch
    site.until(lambda: len(above(scaler)) >= 3, "a level was seen to be too slow three times")
    busy_s, batches = run.seconds()[Step.PANE_TASKS] - busy_s, run.status().batch - batches
    seen = scaler.history()
    seen.save(folder / "history.parquet")
    scaler.stop()
    run.stop()
    tuples = 1_000  # of a batch, of which all that is sent to a slot is also processed, however many there are
    period_s = 1 / seen[-1].processed_rate_hz * seen[-1].batch.rows if seen[-1].batch else 0.0
    old = slot_utilisation([SlotUse(tuples, tuples, busy_s / max(1, batches))], period_s)
    return {"history": str(folder / "history.parquet"), "old": old}


def above(scaler: Scaler) -> list[Observation]:
    """Return the observations that show a level that is too slow."""
    return [seen for seen in scaler.history() if max(seen.pane_utilisation or 0, seen.window_utilisation or 0) > 1]


def windows(out: Path) -> dict[int, list[str]]:
    """Return the results of each window, by the time it starts."""
    rows = pq.read_table([str(file) for file in out.glob("batch=*/*.parquet")], partitioning=None).to_pylist()
    found: dict[int, list[str]] = {}
    for row in rows:
        found.setdefault(int(row["window_start"].timestamp() * 1e6), []).append(str(sorted(row.items())))
    return found


def kill(executor: Executor, site: Site) -> None:
    """Kill the process of an executor."""
    marks = (site.spark.sparkContext.applicationId, "CoarseGrainedExecutorBackend", f"--executor-id\0{executor.id}\0")
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_text()
        except OSError:
            continue
        if all(mark in command for mark in marks):
            os.kill(int(entry.name), signal.SIGKILL)


def warmth(site: Site, folder: Path) -> dict[str, Any]:
    """Return how much longer the slowest batch after a new executor takes than those before: warmed up, and not."""
    rows = site.spark.readStream.format("rate").option("rowsPerSecond", 200).option("numPartitions", PARTS).load()
    query = (
        rows.mapInArrow(lambda batches: batches, rows.schema).writeStream.format("noop").trigger(processingTime="2 seconds").start()
    )
    site.until(lambda: len(query.recentProgress) > 4, "the query runs")
    stalls: dict[str, list[float]] = {"warm": [], "cold": []}
    for kind in ("warm", "cold") * 3:
        usual, known = durations(query, 3), {each.id for each in site.active()}
        site.cluster.request(2)
        site.until(lambda: len(site.active()) == 2, "an executor came")
        new = next(each for each in site.active() if each.id not in known)
        if kind == "warm":
            warm(site.spark, new)
        began = len(query.recentProgress)
        site.until(lambda: len(query.recentProgress) > began + 3, "it had some batches")  # noqa: B023
        stalls[kind].append(max(durations(query, 4)) - statistics.median(usual))
        site.note(kind, stalls[kind][-1])
        site.resize(1)
    query.stop()
    return stalls


def durations(query: StreamingQuery, count: int) -> list[float]:
    return [each.durationMs["triggerExecution"] / 1e3 for each in query.recentProgress[-count:]]


def refusal(site: Site) -> str:
    """Return the message that appears as long as Spark's own allocation is active."""
    try:
        site.cluster.check()
    except skytide.InvalidInput as refused:
        return str(refused)
    return ""


SCENARIOS = {scenario.__name__: scenario for scenario in (step, levels, overload, warmth)}


def main(folder: str, *names: str) -> None:
    """Run scenarios on one cluster and in one session."""
    room = ROOM if "step" in names else MAX_EXECUTORS
    with LocalCluster(room, hosts=room, classes=archive()) as local:
        settings = {
            **local.settings(),
            **({} if "warmth" in names else SPECULATION),  # which would hide how long a cold task takes
            "spark.python.daemon.module": "pyspark.daemon",
            "spark.executorEnv.PYTHONPATH": os.pathsep.join((TESTS, SOURCES)),  # the same skytide as here
            "spark.sql.files.minPartitionNum": str(PARTS),
            # With these, a standalone cluster starts with one executor.
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.shuffleTracking.enabled": "true",
            "spark.dynamicAllocation.initialExecutors": "1",
        }
        spark = local_session("auto-scaling", **settings)
        site = Site(spark, local)
        found: dict[str, Any] = {"refused": refusal(site)}
        spark.sparkContext._jsc.sc().executorAllocationManager().get().stop()
        for name in names:
            own = Path(folder, name)
            own.mkdir(parents=True)
            site.note(name)
            found[name] = SCENARIOS[name](site, own)
            site.note(found[name])
        Path(folder, "found.json").write_text(json.dumps(found))
        spark.stop()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to end"))  # so that the cluster ends, too
    main(*sys.argv[1:])
