"""The cost of a slide that does not divide its window, and of a window of a day that slides by a second: `python -m benchmarks.panes`.

Tuples are reduced pane by pane and slid over in one process, as in the tasks of a stream. Times are processor times, which other work on
the machine hardly changes. Answers are compared with those computed from all tuples of their windows.
"""

import time

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Console

from benchmarks.timing import Disagreement, Goal, announce, duration, show
from skytide.queries import Aggregate, Answers, Blocks, Incremental, Measure, Panes, Query, Skyline, combine, low
from skytide.queries.blocks import InMemory
from skytide.windows import Windows, pane_bounds, sliding, windows_with_panes
from skytide.workloads.points import points

SLIDES = ("200 ms", "333 ms", "333333 us")
SECONDS, RATE_HZ, DIMENSIONS = 10, 50_000, 8
SKYLINE = Skyline(combine(tuple(low(f"x{i}") for i in range(DIMENSIONS))))
AGGREGATE = Aggregate(tuple(map(Measure.parse, ("count(*)", "sum(id)", "max(x0)"))), keys=("key",))
DAY_S = 86_400

Times = NDArray[np.int64]


def main() -> None:
    """Run the measurements, and print the tables."""
    console = Console(width=130, highlight=False)
    rows, times = tuples(SECONDS * RATE_HZ, SECONDS * 1_000_000)
    goals = []
    for name, query in (("skyline", SKYLINE), ("aggregate", AGGREGATE)):
        layouts = {slide: sliding("1 s", slide) for slide in SLIDES}
        seconds = race(query, rows, times, layouts)
        show(
            console,
            f"{name} of 1 s, {RATE_HZ:,} tuples per second, d = {DIMENSIONS}: processor time of {SECONDS} s of stream, best of 3",
            ["slide", "panes per window", "time", "against 200 ms"],
            [
                [slide, str(layouts[slide].panes_per_window), duration(each), f"{each / seconds['200 ms']:.2f}"]
                for slide, each in seconds.items()
            ],
        )
        goals += [Goal(f"{name}, 200 ms over {slide}", seconds["200 ms"] / seconds[slide], 0.5) for slide in SLIDES[1:]]
    announce(console, goals)
    day(console)


def tuples(count: int, span_us: int) -> tuple[pa.Table, Times]:
    """Return tuples, and their times in order."""
    cloud = points("independent", count, DIMENSIONS)
    columns = {f"x{i}": cloud[:, i] for i in range(DIMENSIONS)}
    times = np.sort(np.random.default_rng(count).integers(0, span_us, count))
    return pa.table({"id": np.arange(count), "key": np.arange(count) % 7, **columns}), times


def race(query: Query, rows: pa.Table, times: Times, layouts: dict[str, Windows], rounds: int = 3) -> dict[str, float]:
    """Let all slides run in turn, check their answers, and return the best processor time of each."""
    best = dict.fromkeys(layouts, float("inf"))
    for _ in range(rounds):
        for slide, windows in layouts.items():
            began = time.process_time()
            wanted, answers = slid(query, rows, times, windows, batch_us=500_000)
            best[slide] = min(best[slide], time.process_time() - began)
            agree(query, rows, times, windows, wanted[::7], [each for out in answers for each in out.tables()][::7])
    return best


class _Memory:
    """What is remembered of panes, as the engine does it for a query, but in memory."""

    def __init__(self, query: Query, rows: pa.Schema) -> None:
        self._skyline = Incremental(query) if query.skyline_inside() is not None else None
        self._candidates = self._skyline.empty(rows) if self._skyline else None
        self._blocks, self._segments = Blocks(query, rows), InMemory()

    def slide(self, panes: Panes, windows: Windows, wanted: Times) -> Answers:
        """Add panes, and return the answers of windows."""
        if self._skyline:
            answers, self._candidates = self._skyline.slide(self._candidates, panes, windows, wanted)
            return answers
        start, stop = pane_bounds(windows, wanted)
        parts, new = self._blocks.slide(self._segments, panes, windows, wanted, int(stop[-1]))
        found = list(parts)
        self._segments.add(new, int(start[-1]) + windows.panes_per_slide)
        return Answers(pa.concat_tables([one.rows for one in found]), np.concatenate([one.counts for one in found]))


def slid(query: Query, rows: pa.Table, times: Times, windows: Windows, batch_us: int) -> tuple[Times, list[Answers]]:
    """Slide over a stream in batches, as with a trigger, and return the windows and their answers."""
    panes, starts = np.unique(windows.pane_of(times), return_index=True)
    ends = np.append(starts[1:], len(times))
    every = windows_with_panes(windows, panes, range(-(10**9), 10**9))
    batch = (every * windows.slide_us + windows.length_us) // batch_us
    memory, done, answers = _Memory(query, rows.schema), 0, []
    for wanted in np.split(every, np.flatnonzero(np.diff(batch)) + 1):
        closed = int(np.searchsorted(panes, pane_bounds(windows, wanted[-1:])[1][0]))
        new = [(int(panes[i]), query.pane(rows.slice(starts[i], ends[i] - starts[i]))) for i in range(done, closed)]
        answers.append(memory.slide(new, windows, wanted))
        done = closed
    return every, answers


def agree(query: Query, rows: pa.Table, times: Times, windows: Windows, wanted: Times, answers: list[pa.Table]) -> None:
    """Raise Disagreement unless each answer is that of all tuples of its window."""
    for window, answer in zip(wanted.tolist(), answers, strict=True):
        first, end = np.searchsorted(times, [windows.start_us(window), windows.end_us(window)])
        expected = query.window(query.pane(rows.slice(first, end - first)))
        key = expected.column_names[0]
        if not answer.sort_by(key).equals(expected.sort_by(key)):
            raise Disagreement(f"{type(query).__name__}, window {window}: not the answer of its tuples")


def day(console: Console, counts: tuple[int, ...] = (250, 500, 1_000)) -> None:
    """Slide a window of a day by a second over two days, with more and more tuples."""
    windows, table = sliding("1 day", "1 s"), []
    for count in counts:
        rows, times = tuples(count, 2 * DAY_S * 1_000_000)
        for name, query in (("skyline of 2", Skyline(low("x0") * low("x1"))), ("aggregate", AGGREGATE)):
            began = time.process_time()
            wanted, answers = slid(query, rows, times, windows, batch_us=3_600_000_000)
            seconds = time.process_time() - began
            some = slice(None, None, DAY_S // 2)
            agree(query, rows, times, windows, wanted[some], [each for out in answers for each in out.tables()][some])
            table.append([name, f"{count:,}", f"{len(wanted):,}", duration(seconds), duration(seconds / count)])
    show(console, "1 day by 1 s over two days", ["query", "tuples", "windows", "processor time", "per tuple"], table)


if __name__ == "__main__":
    main()
