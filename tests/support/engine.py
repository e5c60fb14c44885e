"""The engine without Spark: jobs that run in this process, streams to play, sinks that remember, and processes that die."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

from skytide.lateness import DropRatio, FixedSlack, KSlack, Progress, observe
from skytide.queries import Aggregate, KDominant, Measure, Query, Skyline, TopK, high, low
from skytide.routing import Router
from skytide.spark import window_level
from skytide.spark.checkpoint import Files
from skytide.spark.engine import Plan
from skytide.spark.pane_level import SLOT, PaneTask
from skytide.windows import Windows
from support.queries import same

COLUMNS = pa.schema([("ts", pa.timestamp("us", "UTC")), ("a", pa.int64()), ("b", pa.float64()), ("id", pa.int64())])
QUERIES: list[Query] = [
    Skyline(low("a") * high("b")),
    KDominant(low("a") * high("b"), k=1),
    TopK(low("a") & high("b"), k=2),
    Aggregate((Measure.parse("count(*)"), Measure.parse("sum(a)"), Measure.parse("last(b)")), time="ts"),
]
Part = list[int]  # the times of the tuples of one partition of a batch
Batch = list[Part]


class InProcess:
    """Jobs that run right here; a batch is a list of partitions."""

    def panes(self, batch: list[pa.Table], task: PaneTask) -> pa.Table:
        parts = [[(None, piece) for piece in part.to_batches(max_chunksize=3)] for part in batch]
        return pa.Table.from_batches([report for slot, part in enumerate(parts) for report in task.run(part, slot)])

    def panes_routed(self, batch: list[pa.Table], task: PaneTask, router: Router) -> pa.Table:
        slots, state = len(router.slots), json.loads(json.dumps(router.snapshot()))
        split = [
            rows
            for number, part in enumerate(batch)
            for rows in task.split(part.to_batches(max_chunksize=3), router.strategy.build(slots, state), number, 1 / len(batch))
        ]
        sent = pa.Table.from_batches(split)
        mine = [sent.filter(pc.equal(sent[SLOT], slot)).to_batches(max_chunksize=3) for slot in range(slots)]
        return pa.Table.from_batches([report for slot, rows in enumerate(mine) for report in task.run_routed(rows, slot)])

    def window_task(self, work: Callable[[], Iterator[pa.RecordBatch]]) -> pa.Table:
        return pa.Table.from_batches(list(work()))

    def stored(self, store: Files, files: tuple[str, ...], columns: pa.Schema) -> pa.Table:
        return pa.Table.from_batches(list(window_level.read_results(store, files)), columns)

    def rows(self, table: pa.Table) -> pa.Table:
        return table


class Collected:
    """A sink that overwrites by number."""

    def __init__(self) -> None:
        self.batches: dict[int, pa.Table] = {}

    def __call__(self, results: pa.Table, number: int) -> None:
        self.batches[number] = results

    def rows(self) -> list[dict[str, Any]]:
        return [row for number in sorted(self.batches) for row in self.batches[number].to_pylist()]


def tuples(batches: list[Batch]) -> list[list[pa.Table]]:
    """Give rows to times: values derive from a running number, so every tuple is another one."""
    number = 0
    out = []
    for batch in batches:
        parts = []
        for times in batch:
            ids = np.arange(number, number + len(times))
            number += len(times)
            values = {
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "a": ids * 7 % 5,
                "b": (ids * 11 % 7).astype(float),
                "id": ids,
            }
            parts.append(pa.table(values, COLUMNS))
        out.append(parts)
    return out


def oracle(batches: list[list[pa.Table]], plan: Plan) -> tuple[list[tuple[int, pa.Table]], int]:
    """Every window that must come out, in order, computed from all its tuples; and the number of late tuples."""
    slack, progress, accepted = plan.slack.build(), Progress(), []
    seen_late = 0
    for batch in batches:
        arrivals = None
        panes = []
        for part in batch:
            times = part["ts"].cast(pa.int64()).to_numpy()
            seen = observe(times, progress.newest_us, progress.punctuation_us)
            arrivals = seen if arrivals is None else arrivals + seen
            in_time = times >= (progress.punctuation_us if progress.punctuation_us is not None else -(2**62))
            seen_late += int((~in_time).sum())
            accepted.append(part.filter(pa.array(in_time)))
            panes += plan.windows.pane_of(times[in_time]).tolist()
        if arrivals is not None:
            progress = progress.advance(arrivals, panes, plan.windows, slack)
    rows = pa.concat_tables(accepted) if accepted else COLUMNS.empty_table()
    times = rows["ts"].cast(pa.int64()).to_numpy()
    if len(times) == 0:
        return [], seen_late
    first = plan.windows.first_of_pane(plan.windows.pane_of(int(times.min())))
    last = max(plan.windows.last_of_pane(plan.windows.pane_of(int(progress.newest_us or 0))), first)
    expected = []
    for window in range(first, last + 1):
        inside = (times >= plan.windows.start_us(window)) & (times < plan.windows.end_us(window))
        expected.append((window, plan.query.window(plan.query.pane(rows.filter(pa.array(inside))))))
    return expected, seen_late


@st.composite
def streams(draw: st.DrawFn) -> list[Batch]:
    """Batches of partitions of times: in order on the whole, with bursts, gaps, equal times and late ones."""
    clock, batches = draw(st.integers(-50, 50)) * 100, []
    for _ in range(draw(st.integers(0, 6))):
        batch = []
        for _ in range(draw(st.integers(1, 3))):
            part = []
            for _ in range(draw(st.integers(0, 8))):
                clock += draw(st.sampled_from([0, 0, 1, 10, 50, 100, 130, 700]))
                part.append(clock - draw(st.sampled_from([0, 0, 0, 5, 60, 150, 400])))
            batch.append(part)
        batches.append(batch)
        clock += draw(st.sampled_from([0, 0, 100, 2_500]))
    return batches


windows_drawn = st.sampled_from([Windows(1_000, 200), Windows(300, 300), Windows(500, 200), Windows(100, 100)])
slacks_drawn = st.sampled_from([KSlack(), FixedSlack(0), FixedSlack("150 us"), DropRatio(0.1)])


def check(out: Collected, rows: Collected, expected: list[tuple[int, pa.Table]], plan: Plan, late: int) -> None:
    results, stats = out.rows(), rows.rows()
    assert [round(row["window_start"].timestamp() * 1e6) // plan.windows.slide_us for row in stats] == [w for w, _ in expected]
    assert sum(row["late"] for row in stats) <= late
    for (window, right), stat in zip(expected, stats, strict=True):
        found = [row for row in results if round(row["window_start"].timestamp() * 1e6) == plan.windows.start_us(window)]
        bare = [{name: value for name, value in row.items() if name not in ("window_start", "window_end")} for row in found]
        assert same(pa.Table.from_pylist(bare, right.schema), right)
        assert stat["kept"] == right.num_rows
    order = [row["window_start"] for row in results]
    assert order == sorted(order)


class Crash(Exception):
    """The process dies here."""


class Fragile:
    """Passes calls on until its time has come."""

    def __init__(self, inner: Any, fuse: Iterator[bool]) -> None:
        self._inner, self._fuse = inner, fuse

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._inner, name)
        if name == "files":
            return Fragile(attribute, self._fuse)
        if not callable(attribute) or name in ("read_table", "stored"):
            return attribute

        def call(*given: Any, **named: Any) -> Any:
            if next(self._fuse, False):
                raise Crash
            answer = attribute(*given, **named)
            if next(self._fuse, False):
                raise Crash
            return answer

        return call

    def __call__(self, *given: Any) -> Any:
        if next(self._fuse, False):
            raise Crash
        answer = self._inner(*given)
        if next(self._fuse, False):
            raise Crash
        return answer
