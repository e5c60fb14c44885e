"""A window of an hour that only fills: do batches take longer as it ages?"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.state import oracle
from benchmarks.state.common import (
    MEASURES,
    ORDERED,
    START_US,
    Bench,
    Found,
    batches_s,
    follow,
    in_turn,
    numbers,
    session,
    started,
    tuples,
    tuples_so_far,
)
from benchmarks.state.memory import Peaks, watched
from benchmarks.timing import Limit
from skytide.queries import Aggregate, Measure
from skytide.testing import Runner

BATCH_S, PARTITIONS, KEYS = 0.5, 8, 50
MAX_GROWTH, MAX_FILES, MAX_MANIFEST_KB = 1.2, 2_000, 300.0


@dataclass(frozen=True)
class Sizes:
    """How many batches, of which so many are compared, and their rows."""

    on_spark: int = 1_500
    in_process: int = 7_200
    compared: int = 100
    per_batch: int = 800


QUICK = Sizes(30, 60, 10)


@dataclass(frozen=True)
class Aged:
    """How batches took longer with their number."""

    early_s: float
    late_s: float
    cpu_growth: float
    """How many times as much processor time of all processes the last ones take."""
    peaks: Peaks

    @staticmethod
    def of(seconds: list[float], cpu_growth: float, compared: int, peaks: Peaks) -> "Aged":
        """Compare the second hundred with the last."""
        return Aged(median(seconds[compared : 2 * compared]), median(seconds[-compared:]), cpu_growth, peaks)

    @property
    def growth(self) -> float:
        """How many times as long the last ones take."""
        return self.late_s / self.early_s


def hour(bench: Bench) -> Found:
    """Measure a tumbling window of an hour with a batch per 500 ms of 8 partitions, on Spark and in this process."""
    sizes = QUICK if bench.quick else Sizes()
    aged = {
        f"Spark local[2], {sizes.on_spark:,} batches": on_spark(sizes, bench.folder / "spark"),
        f"in process, {sizes.in_process:,} batches": in_process(sizes, bench.folder / "process"),
    }
    rows, goals = [], []
    for where, each in aged.items():
        peaks = each.peaks
        row = [f"{each.early_s * 1e3:.1f}", f"{each.late_s * 1e3:.1f}", f"{each.growth:.2f}", f"{each.cpu_growth:.2f}"]
        rows.append([where, *row, f"{peaks.files:,}", f"{peaks.manifest_kb:.1f}"])
        goals += [
            Limit(f"{where}: time of the last hundred over the second hundred", each.growth, MAX_GROWTH),
            Limit(f"{where}: files in the checkpoint", peaks.files, MAX_FILES),
            Limit(f"{where}: kB of a manifest", peaks.manifest_kb, MAX_MANIFEST_KB),
        ]
    title = f"1 hour tumbling, a batch per 500 ms of {PARTITIONS} partitions, {KEYS} keys: milliseconds per batch (medians of {sizes.compared})"
    figures = {
        where: {"early_s": each.early_s, "late_s": each.late_s, "cpu_growth": each.cpu_growth, **vars(each.peaks)}
        for where, each in aged.items()
    }
    return Found(
        title, ["where", "second hundred", "last hundred", "growth", "of CPU", "files", "manifest kB"], rows, goals, figures
    )


def on_spark(sizes: Sizes, folder: Path) -> Aged:
    """Run batches on Spark, back to back; then let the stream end, and check the window."""
    rate_hz = round(sizes.per_batch / BATCH_S)
    with session("hour") as spark, watched(folder / "checkpoint") as peaks:
        rows = tuples(numbers(spark, sizes.per_batch, PARTITIONS), rate_hz, in_turn(KEYS))
        run = started(rows, folder, "1 hour")
        second, late = 2 * sizes.compared, sizes.on_spark - sizes.compared
        cpu_s = [per_batch_cpu_s(run.query, first, last) for first, last in ((sizes.compared, second), (late, sizes.on_spark))]
        run.stop()
        seconds = batches_s(run.query)[: sizes.on_spark]
        last = started(rows, folder, "1 hour", trigger="availableNow", flush=True)
        last.await_termination()
        count = tuples_so_far(last.query)
    expected = oracle.in_turn(oracle.numbers_between(START_US, START_US + 3_600_000_000, rate_hz, count), KEYS)
    oracle.check("hour, on Spark", oracle.window_of(folder / "out", START_US), expected)
    return Aged.of(seconds, cpu_s[1] / cpu_s[0], sizes.compared, peaks)


def per_batch_cpu_s(query: Any, first: int, last: int) -> float:
    """Return the mean processor time of the batches from one to before another, which have not begun yet."""
    begin, end = follow(query, first - 1)[-1], follow(query, last - 1)[-1]
    return (end.cpu_s - begin.cpu_s) / (end.batch - begin.batch)


def in_process(sizes: Sizes, folder: Path) -> Aged:
    """Run batches in this process; then let the stream end, and check the window."""
    rate_hz, seconds, cpu_s, peaks = round(sizes.per_batch / BATCH_S), [], [], Peaks()
    asked = Aggregate(tuple(map(Measure.parse, MEASURES)), keys=("key",), time="ts")
    with Runner(asked, window="1 hour", slack=ORDERED, slots=PARTITIONS, checkpoint=folder) as runner:
        for number, partitions in enumerate(batches(sizes, rate_hz)):
            began_s, began_cpu_s = perf_counter(), process_time()
            runner.feed(*partitions)
            seconds.append(perf_counter() - began_s)
            cpu_s.append(process_time() - began_cpu_s)
            if number % 10 == 0:
                peaks.note_files(folder)
        runner.flush()
        found = runner.outputs.results
    starts = found["window_start"].cast(pa.int64()).to_numpy()
    mine = found.filter(pa.array(starts == START_US)).select(list(oracle.COLUMNS)).sort_by("key")
    some = oracle.numbers_between(START_US, START_US + 3_600_000_000, rate_hz, sizes.in_process * sizes.per_batch)
    oracle.check("hour, in process", mine, oracle.in_turn(some, KEYS))
    early_s, late_s = median(cpu_s[sizes.compared : 2 * sizes.compared]), median(cpu_s[-sizes.compared :])
    return Aged.of(seconds, late_s / early_s, sizes.compared, peaks)


def batches(sizes: Sizes, rate_hz: int) -> Iterator[list[pa.Table]]:
    """Yield the partitions of batch after batch."""
    for number in range(sizes.in_process):
        n = np.arange(number * sizes.per_batch, (number + 1) * sizes.per_batch, dtype=np.int64)
        times = pa.array(START_US + n * 1_000_000 // rate_hz).cast(pa.timestamp("us", "UTC"))
        rows = pa.table({"ts": times, "key": n * 514229 % KEYS, "v": n * 7919 % 1009})
        yield [rows.take(pa.array(np.arange(part, len(n), PARTITIONS))) for part in range(PARTITIONS)]
