"""What P1's partitioning costs per tuple (§6.4.4), on Spark: keys divided by frequency against plain hashing, panes divided by rate against panes in turn."""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console

import skytide
from benchmarks.stream.measure import cpu_s
from benchmarks.timing import Disagreement, show
from skytide.batch import PaneReport
from skytide.routing.frequency import FrequencyAware
from skytide.routing.panes import PB_RR, RATE, ByKey, Splitting
from skytide.spark import local_session
from skytide.spark.engine.jobs import SparkJobs
from skytide.spark.engine.panes import PaneTask
from skytide.workloads.identity import derive
from skytide_lab.data.made_up_cabs import made_up_cabs

FILES, SECONDS_PER_FILE = 16, 2
WARM_FILES = 4
"""Sizes and frequencies are learned from what came: the first files, two panes, are not counted."""
JUMP, JUMP_SHARE = 5, 0.1  # P1 §6.4.1: the rate of a second, 18 to 22 thousand, jumps to five times as many with this probability
WINDOW, SLIDE = "240 seconds", "4 seconds"  # as many panes per window as P1's query has; a batch is half a pane
METRES = 500
PLAIN, OURS, IN_PLACE = "plain", "P1's", "in place"
KINDS: dict[str, dict[str, Splitting | None]] = {
    "keys": {PLAIN: ByKey(FrequencyAware(heaviest=0)), OURS: ByKey(), IN_PLACE: None},
    "panes": {PLAIN: PB_RR, OURS: RATE, IN_PLACE: None},
}
PAPER = {"keys": 0.17, "panes": 0.04}
NAMES = {"keys": ("plain hashing", "KEYS: frequent keys divided"), "panes": ("PB_RR: panes in turn", "RATE: large panes divided")}


@dataclass(frozen=True)
class Cost:
    """What a run took, in CPU seconds per million tuples, and how evenly slots were loaded."""

    split_s: float
    """Of the tasks that choose a slot for each tuple: P1's split nodes."""
    slots_s: float
    """Of the tasks that reduce them, and count keys and panes."""
    whole_s: float
    """Of Spark and all its workers."""
    imbalance: float
    """The tuples of the most loaded slot over the mean."""


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.traffic", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--rate", type=int, default=20_000, help="tuples per second without jumps (default: %(default)s)")
    options = parser.parse_args()
    console = Console(width=150, highlight=False)
    spark = local_session("skytide traffic benchmark", cores=2)
    with tempfile.TemporaryDirectory(prefix="skytide-traffic-") as folder:
        tuples = write(Path(folder, "in"), options.rate)
        for kind, ways in KINDS.items():
            rounds = [round_of(spark, Path(folder), kind, number, options.slots) for number in range(options.rounds + 1)]
            costs = {way: [each[way] for each in rounds[1:]] for way in ways}  # the first round is slower than the others
            report(console, kind, costs, tuples, options.slots)
    spark.stop()


def write(place: Path, rate: int) -> int:
    """Write tuples with the areas that made-up cabs report from, and rates that jump; return how many there are in a file on average."""
    place.mkdir(parents=True)
    cabs = made_up_cabs(300, 3.0)
    rows, columns = (
        np.floor((cabs[name].to_numpy() - origin) * metres / METRES)
        for name, origin, metres in (("lat", 37.0, 111_320), ("lon", -123.0, 88_020))
    )
    areas, total = (1_000 * rows + columns).astype(np.int64), 0
    for number in range(FILES):
        rng = derive(11, "file", number)
        sizes = np.rint(
            rate * rng.uniform(0.9, 1.1, SECONDS_PER_FILE) * np.where(rng.random(SECONDS_PER_FILE) < JUMP_SHARE, JUMP, 1)
        ).astype(int)
        seconds = np.repeat(number * SECONDS_PER_FILE + np.arange(SECONDS_PER_FILE), sizes) + np.sort(rng.random(sizes.sum()))
        times = np.floor(np.sort(seconds) * 1e6).astype("M8[us]")
        table = {"ts": times, "area": rng.choice(areas, len(times)), "speed": rng.integers(0, 120, len(times))}
        pq.write_table(pa.table(table), place / f"{number:02}.parquet")
        total += len(times)
    return total // FILES


def round_of(spark: SparkSession, folder: Path, kind: str, number: int, slots: int) -> dict[str, Cost]:
    """Run all ways once, in an order that changes from round to round, and compare their windows."""
    names = list(KINDS[kind])
    order = names[number % len(names) :] + names[: number % len(names)]
    measured = {name: play(spark, folder, kind, name, number, slots) for name in order}
    if len({answer for _, answer in measured.values()}) > 1:
        raise Disagreement(f"{kind}, round {number}: the ways gave different windows")
    return {name: cost for name, (cost, _) in measured.items()}


def play(spark: SparkSession, folder: Path, kind: str, name: str, number: int, slots: int) -> tuple[Cost, Any]:
    """Run one way over all files, and return what it cost, and a digest of its windows."""
    place = folder / f"{kind}-{name}-{number}"
    notes = place / "notes"
    notes.mkdir(parents=True)
    reports: list[PaneReport] = []
    whole: list[float] = []
    real_panes, real_sent = SparkJobs.panes, SparkJobs._sent

    def panes(jobs: SparkJobs, *given: Any) -> PaneReport:
        whole.append(cpu_s())
        reports.append(real_panes(jobs, *given))
        return reports[-1]

    def sent(jobs: SparkJobs, batch: Any, task: PaneTask, delivery: Any) -> Any:
        return real_sent(jobs, batch, _Timed(task, str(notes), len(reports)), delivery)  # type: ignore[arg-type]

    SparkJobs.panes, SparkJobs._sent = panes, sent  # type: ignore[method-assign]
    try:
        df = (
            spark.readStream.schema("ts timestamp_ntz, area long, speed long")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(folder / "in"))
        )
        windows = skytide.stream(df, time="ts").window(WINDOW, slide=SLIDE, slack=skytide.slacks.FixedSlack("0 s"))
        measures, keys = ("count(*) AS n", "avg(speed) AS mean", "max(speed) AS highest"), "area" if kind == "keys" else ()
        run = windows.aggregate(*measures, keys=keys).start(
            "parquet",
            path=place / "out",
            checkpoint=place / "c",
            trigger="availableNow",
            splitting=KINDS[kind][name],
            pane_slots=slots,
        )
        run.await_termination()
        whole.append(cpu_s())
    finally:
        SparkJobs.panes, SparkJobs._sent = real_panes, real_sent  # type: ignore[method-assign]
    counted = reports[WARM_FILES:]
    tuples = sum(part.tuples for report in counted for part in report.parts) / 1e6
    split_s, slots_s = (
        sum(float(note.read_text()) for note in notes.glob(f"{what}-*") if int(note.name.split("-")[1]) >= WARM_FILES)
        for what in ("split", "slot")
    )
    cost = Cost(split_s / tuples, slots_s / tuples, (whole[-1] - whole[WARM_FILES]) / tuples, imbalance(counted, slots))
    columns = "count(*)", "sum(n)", "sum(highest)", f"sum(hash(window_start, {'area, ' if keys else ''}n, round(mean, 9), highest))"
    return cost, spark.read.parquet(str(place / "out")).selectExpr(*columns).first()


class _Timed:
    """A pane task that notes the processor time of each of its tasks in a folder; Spark's own work is not in it."""

    def __init__(self, task: PaneTask, folder: str, batch: int) -> None:
        self.task, self.folder, self.batch = task, folder, batch
        self.instruction, self.spec = task.instruction, task.spec

    def split(self, batches: Any, router: Any) -> Iterator[pa.RecordBatch]:
        yield from self._noted("split", lambda: self.task.split(batches, router))

    def run_routed(self, batches: Any, slot: int, splitting: Splitting) -> Iterator[pa.RecordBatch]:
        yield from self._noted("slot", lambda: self.task.run_routed(batches, slot, splitting))

    def _noted(self, what: str, work: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        spent_s, rows, more = 0.0, work(), True
        while more:
            began_s = time.process_time()
            row = next(rows, None)
            spent_s += time.process_time() - began_s
            more = row is not None
            if row is not None:
                yield row
        with tempfile.NamedTemporaryFile("w", prefix=f"{what}-{self.batch}-", dir=self.folder, delete=False) as note:
            note.write(repr(spent_s))


def imbalance(reports: list[PaneReport], slots: int) -> float:
    """Return the tuples of the most loaded slot over the mean, of all batches together: P1's panes go to slots in turn."""
    loads = np.zeros(slots)
    for task in (task for report in reports for task in report.tasks):
        loads[task.slot % slots] += sum(part.tuples for part in task.parts)
    return float(loads.max() / loads.mean())


def overheads(plain: list[float], ours: list[float]) -> list[float]:
    """Return by what share ours costs more than the plain way, round by round.

    >>> [round(share, 2) for share in overheads([1.0, 2.0], [1.1, 2.5])]
    [0.1, 0.25]
    """
    return [mine / theirs - 1 for theirs, mine in zip(plain, ours, strict=True)]


def report(console: Console, kind: str, costs: dict[str, list[Cost]], tuples: int, slots: int) -> None:
    """Print what the ways of one kind cost, and what P1's costs more than the plain one."""
    names = dict(zip((PLAIN, OURS), NAMES[kind], strict=True)) | {IN_PLACE: "not sent: reduced where they are"}
    rows = []
    for way, rounds in costs.items():
        split, slot, whole = (median(getattr(cost, what) for cost in rounds) for what in ("split_s", "slots_s", "whole_s"))
        sent = [f"{split:.3f}", f"{slot:.3f}"] if way != IN_PLACE else ["-", "-"]
        load = "-" if way == IN_PLACE else f"{median(cost.imbalance for cost in rounds):.2f}"
        rows.append([names[way], *sent, f"{whole:.2f}", load])
    title = f"{tuples:,} tuples per batch, {slots} slots, {SLIDE} panes; CPU seconds per million tuples, medians of {len(costs[OURS])} rounds; all gave the same windows"
    show(console, title, [f"{kind}: tuples go", "split tasks", "slots", "all of Spark", "load: max / mean"], rows)
    for what, text in (
        ("split_s", "in the split tasks"),
        ("sent", "in split tasks and slots together"),
        ("whole_s", "in all of Spark"),
    ):
        plain, ours = ([_cost(cost, what) for cost in costs[way]] for way in (PLAIN, OURS))
        shares = overheads(plain, ours)
        low, high = np.quantile(shares, (0.25, 0.75))
        console.print(
            f"P1's partitioning by {kind} costs {median(shares):+.1%} {text} (quartiles {low:+.1%} to {high:+.1%}); P1: {PAPER[kind]:.0%} in the split node"
        )


def _cost(cost: Cost, what: str) -> float:
    return cost.split_s + cost.slots_s if what == "sent" else float(getattr(cost, what))


if __name__ == "__main__":
    main()
