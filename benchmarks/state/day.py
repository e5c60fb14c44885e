"""Windows of a day every second: 86,400 panes of 100 keys.

The window is filled in batches of half an hour of the stream. Another process works off the last of these, and a third one, which has seen
batches of a second only, is measured. So is the same query with windows of a second: what processes take without a state.
"""

import multiprocessing
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.state import oracle
from benchmarks.state.common import (
    START_US,
    Bench,
    Found,
    Mark,
    follow,
    in_turn,
    micros,
    numbers,
    session,
    started,
    tuples,
    tuples_so_far,
)
from benchmarks.state.memory import Peaks, watched
from benchmarks.timing import Disagreement, Limit
from skytide.records import Step

MAX_CPU_S, MAX_MB = 0.3, 1_000.0
MEASURES = ("count(*) AS n", "avg(v) AS mean", "max(v) AS top")
HEAP = "512m"


@dataclass(frozen=True)
class Sizes:
    """A window, which is filled in large batches, and how many batches of a second are measured after some others."""

    window_s: int = 86_400
    keys: int = 100
    fill_s: int = 1_800
    warm_up: int = 30
    measured: int = 120


QUICK = Sizes(600, 10, 120, 3, 8)


def day(bench: Bench) -> Found:
    """Fill a window of a day in one process; go on in another, and measure it there."""
    sizes, folder = QUICK if bench.quick else Sizes(), bench.folder / "day"
    fill_batches = sizes.window_s // sizes.fill_s
    for batch_s, until in ((sizes.fill_s, fill_batches), (1, fill_batches + 3)):
        filling = multiprocessing.get_context("spawn").Process(target=fill, args=(sizes, folder, batch_s, until))
        filling.start()
        filling.join()
        if filling.exitcode:
            raise RuntimeError(f"filling the window ended with {filling.exitcode}")
    marks, steps, peaks, count = steady(sizes, folder)
    check(sizes, folder / "out", count)
    _, _, without, _ = steady(replace(sizes, window_s=1), bench.folder / "second")
    batches = marks[-1].batch - marks[0].batch
    cpu_s, took_s = (marks[-1].cpu_s - marks[0].cpu_s) / batches, (marks[-1].at_s - marks[0].at_s) / batches
    row = [
        f"{batches:,}",
        f"{cpu_s:.3f}",
        f"{took_s:.3f}",
        *(f"{peaks.mb[kind]:,.0f}" for kind in ("driver", "Java", "workers", "all")),
    ]
    alone = ["windows of a second", "", "", "", *(f"{without.mb[kind]:,.0f}" for kind in ("driver", "Java", "workers", "all"))]
    goals = [
        Limit("1 day by 1 s: CPU seconds per batch of all processes", cpu_s, MAX_CPU_S),
        Limit("1 day by 1 s: MB of all processes", peaks.mb["all"], MAX_MB),
    ]
    title = f"{sizes.window_s:,} s by 1 s, {sizes.keys} keys, count, mean and maximum, a batch per second of the stream on local[2]"
    columns = ["where", "batches", "CPU s/batch", "s/batch", "driver MB", "Java MB", "workers MB", "all MB"]
    levels = {str(step): seconds / batches for step, seconds in steps.items()}
    bench.console.print("Seconds per batch: " + ", ".join(f"{step} {seconds:.3f}" for step, seconds in levels.items()))
    figures = {
        "cpu_s": cpu_s,
        "batch_s": took_s,
        "mb": peaks.mb,
        "mb_without_state": without.mb,
        "files": peaks.files,
        "manifest_kb": peaks.manifest_kb,
        "steps": levels,
    }
    return Found(title, columns, [["a full window, a new process", *row], alone], goals, figures)


def fill(sizes: Sizes, folder: Path, batch_s: int, until: int) -> None:
    """Run until a batch, of so many seconds of the stream as all, has ended."""
    with session("day", memory=HEAP) as spark:
        rows = tuples(numbers(spark, sizes.keys * batch_s), sizes.keys, in_turn(sizes.keys))
        run = started(rows, folder, f"{sizes.window_s} seconds", "1 second", *MEASURES)
        follow(run.query, until)
        run.stop()


def steady(sizes: Sizes, folder: Path) -> tuple[list[Mark], dict[Step, float], Peaks, int]:
    """Go on with a batch for each second, and return marks of measured batches, the seconds of each step, the memory, and how many tuples there were."""
    with session("day", memory=HEAP) as spark, watched(folder / "checkpoint") as peaks:
        rows = tuples(numbers(spark, sizes.keys), sizes.keys, in_turn(sizes.keys))
        run = started(rows, folder, f"{sizes.window_s} seconds", "1 second", *MEASURES)
        while run.query.lastProgress is None:
            follow(run.query, 0, seconds=1)
        follow(run.query, run.query.lastProgress["batchId"] + sizes.warm_up)
        before = dict(run._engine.seconds)
        marks = follow(run.query, run.query.lastProgress["batchId"] + sizes.measured)
        steps = {step: seconds - before.get(step, 0.0) for step, seconds in run._engine.seconds.items()}
        run.stop()
        count = tuples_so_far(run.query)
    return marks, steps, peaks, count


def check(sizes: Sizes, out: Path, count: int) -> None:
    """Compare the latest window that has surely come out with its tuples."""
    start_us = micros(count, sizes.keys) // 1_000_000 * 1_000_000 - (sizes.window_s + 3) * 1_000_000
    some = oracle.numbers_between(start_us, start_us + sizes.window_s * 1_000_000, sizes.keys, count)
    expected = oracle.in_turn(some, sizes.keys)
    found = oracle.window_of(out, start_us, ("key", "n", "mean", "top"))
    means = expected["total"].to_numpy() / expected["n"].to_numpy()
    if start_us < START_US or found.num_rows != sizes.keys:
        raise Disagreement(f"the window of a day is not full: {found.num_rows} keys")
    if any(not (found[name].to_numpy() == expected[name].to_numpy()).all() for name in ("key", "n", "top")):
        raise Disagreement("1 day by 1 s: keys, counts or maxima differ")
    if abs(found["mean"].to_numpy() - means).max() > 1e-9:
        raise Disagreement("1 day by 1 s: means differ")
