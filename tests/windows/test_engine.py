"""The engine without Spark: random streams, batches, partitions, slacks and crashes against an oracle that recomputes windows.

The jobs run in this process; everything else (tasks, store, machine, memory) is what runs on Spark.
"""

import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support.engine import (
    QUERIES,
    Batch,
    Crash,
    Fragile,
    InProcess,
    Outputs,
    plan_of,
    slacks_drawn,
    streams,
    tuples,
    windows_drawn,
)

from skytide.batch import Delivery, PaneReport, Sent
from skytide.errors import SkytideError
from skytide.lateness import FixedSlack, KSlack, Slack
from skytide.queries import Query
from skytide.routing import KEYS, STRATEGIES, Splitting
from skytide.spark.checkpoint import Store
from skytide.spark.engine.engine import Engine
from skytide.spark.engine.panes import PaneTask
from skytide.spark.sinks.roles import Sinks
from skytide.windows import Windows


@pytest.mark.parametrize("query", QUERIES, ids=repr)
@given(batches=streams(), windows=windows_drawn, slack=slacks_drawn)
def test_windows_are_the_oracles(query: Query, batches: list[Batch], windows: Windows, slack: Slack) -> None:
    with tempfile.TemporaryDirectory() as folder:
        plan, out = plan_of(query, folder, windows, slack), Outputs()
        engine = Engine(*plan, out.sinks)
        data = tuples(batches)
        for number, batch in enumerate(data):
            engine.run_batch(InProcess(), batch, number)
        engine.flush(InProcess())
        out.check(data, plan)


@pytest.mark.slow
@pytest.mark.parametrize("splitting", STRATEGIES.values(), ids=STRATEGIES)
@given(
    batches=streams(),
    windows=windows_drawn,
    slack=slacks_drawn,
    sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=6, max_size=6),
    query=st.sampled_from([QUERIES[0], QUERIES[3], QUERIES[4], QUERIES[5]]),
)
def test_no_plan_changes_a_result(
    splitting: Splitting, batches: list[Batch], windows: Windows, slack: Slack, sizes: list[tuple[int, int]], query: Query
) -> None:
    """Tuples go to slots by any strategy, slots come and go with every batch, and the window level is spread whenever it can be."""
    with tempfile.TemporaryDirectory() as folder:
        plan = plan_of(query, folder, windows, slack, delivery=Sent(splitting), spreading_pays_s=0.0)
        out = Outputs()
        engine = Engine(*plan, out.sinks)
        data = tuples(batches)
        for number, (batch, (pane_slots, window_slots)) in enumerate(zip(data, sizes, strict=False)):
            engine.resize(pane_slots, window_slots)
            engine.run_batch(InProcess(), batch, number)
        engine.flush(InProcess())
        out.check(data, plan)


class Watched(InProcess):
    """Remembers how many tuples each slot got in the latest batch."""

    def panes(self, batch: list[pa.Table], task: PaneTask, delivery: Delivery) -> PaneReport:
        report = super().panes(batch, task, delivery)
        self.got = [sum(part.tuples for part in each.parts) for each in report.tasks]
        return report


def test_a_frequent_key_is_divided_among_slots(tmp_path: Path) -> None:
    """Nine of ten tuples have one key: in every batch, also in the first one, its slot would get them all."""
    plan, out = plan_of(QUERIES[4], str(tmp_path), Windows(1_000, 200), KSlack(), delivery=Sent(KEYS), pane_slots=4), Outputs()
    engine, jobs = Engine(*plan, out.sinks), Watched()
    data = tuples([[list(range(start, start + 100))] * 2 for start in range(0, 400, 100)])
    keys = pa.array([n % 10 // 9 for n in range(100)])
    data = [[part.set_column(1, "a", keys) for part in batch] for batch in data]
    for number, batch in enumerate(data):
        engine.run_batch(jobs, batch, number)
        assert sum(jobs.got) == 200
        assert max(jobs.got) < 80
    known = plan.store.latest().router["KEYS"]["keys"]
    assert sorted(parts for _, parts in known["divided"]) == pytest.approx([0.1 * 16_384, 0.9 * 16_384], abs=1)
    engine.flush(jobs)
    out.check(data, plan)


def divided(batch: list[pa.Table], parts: int) -> list[pa.Table]:
    """Return the tuples of a batch in so many partitions."""
    whole = pa.concat_tables(batch)
    return [whole.take(pa.array(range(part, whole.num_rows, parts), pa.int64())) for part in range(parts)]


@given(
    batches=streams(),
    fuse=st.lists(st.booleans(), max_size=60),
    repeats=st.lists(st.booleans(), max_size=8),
    parts=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    slacks=st.lists(slacks_drawn, min_size=1, max_size=4),
    query=st.sampled_from([QUERIES[0], QUERIES[5]]),
)
def test_a_crash_anywhere_changes_nothing(
    batches: list[Batch], fuse: list[bool], repeats: list[bool], parts: list[int], slacks: list[Slack], query: Query
) -> None:
    """The process dies at any step and starts again, with another number of partitions and another slack; Spark repeats the batch.

    The sinks remember what they got by number: nothing may differ between two tries.
    """
    data = tuples(batches)
    dividing, waiting = itertools.cycle(parts), itertools.cycle(slacks)
    with tempfile.TemporaryDirectory() as folder:
        plan, out = plan_of(query, folder, Windows(1_000, 200), KSlack()), Outputs()
        bombs = iter(fuse)
        for step in [*range(len(data)), -1]:
            tries = 2 if repeats and repeats.pop() else 1  # done, but Spark died before it noted so
            while tries:
                rules = replace(plan.rules, slack=next(waiting))
                fragile = replace(plan, rules=rules, store=Fragile(plan.store, bombs))  # type: ignore[arg-type]
                try:
                    engine = Engine(*fragile, fragile_sinks(out, bombs))
                    jobs: Any = Fragile(InProcess(), bombs)
                    engine.finish_flush(jobs)
                    if step == -1:
                        engine.flush(jobs)
                    else:
                        engine.run_batch(jobs, divided(data[step], next(dividing)), step)
                except Crash:
                    continue
                tries -= 1
        out.check(data, plan)


def fragile_sinks(out: Outputs, bombs: Iterator[bool]) -> Sinks:
    sinks = out.sinks
    return Sinks(*(Fragile(sink, bombs) for sink in (sinks.results, sinks.late, sinks.windows, sinks.invalid)))


def run(folder: Path, batches: list[Batch], slack: Slack | None = None) -> tuple[Engine, Outputs]:
    plan, out = plan_of(QUERIES[0], str(folder), Windows(1_000, 200), slack or KSlack()), Outputs()
    engine = Engine(*plan, out.sinks)
    for number, batch in enumerate(tuples(batches)):
        engine.run_batch(InProcess(), batch, number)
    return engine, out


def test_late_tuples_are_counted_and_can_be_had(tmp_path: Path) -> None:
    batches = [[[5_000] * 4], [[4_000, 6_000]], [[4_500, 5_500, 7_000]]]
    engine, out = run(tmp_path, batches, slack=FixedSlack(0))
    assert engine.status().late == 3
    assert [row["ts"].microsecond for row in out.late.rows()] == [4_000, 4_500, 5_500]


def test_a_gap_gives_its_empty_windows(tmp_path: Path) -> None:
    engine, out = run(tmp_path, [[[0] * 4], [[100_000]]], slack=FixedSlack(0))
    stats = out.windows.rows()
    assert len(stats) == engine.status().windows_out == 500
    assert [row["tuples"] for row in stats[:6]] == [4, 4, 4, 4, 4, 0]


def test_a_week_of_silence_is_one_row_and_its_windows_are_counted(tmp_path: Path) -> None:
    week_us = 7 * 86_400_000_000
    engine, out = run(tmp_path, [[[0] * 4], [[week_us + n for n in range(5)]], [[week_us + 1_000]]], slack=FixedSlack(0))
    engine.flush(InProcess())
    stats = out.windows.rows()
    assert len(stats) < 20
    assert sum(row["windows"] for row in stats) == engine.status().windows_out == week_us // 200 + 5 + 5
    assert [row["tuples"] for row in stats] == [4] * 5 + [0] + [5] * 5 + [1] * 5


@pytest.mark.slow
def test_a_day_by_a_second_comes_out_whole(tmp_path: Path) -> None:
    """Every tuple is in 86,400 windows."""
    day, slide = 86_400_000_000, 1_000_000
    plan, out = plan_of(QUERIES[3], str(tmp_path), Windows(day, slide), FixedSlack(0)), Outputs()
    engine, times = Engine(*plan, out.sinks), [n * 997_000_000 for n in range(180)]  # two days
    for number in range(6):
        engine.run_batch(InProcess(), tuples([[times[number * 30 : number * 30 + 30]]])[0], number)
    engine.flush(InProcess())
    stats = pa.concat_tables([out.windows.batches[number] for number in sorted(out.windows.batches)])
    assert pc.sum(pc.multiply(stats["tuples"], stats["windows"])).as_py() == len(times) * day // slide
    assert pc.sum(stats["windows"]).as_py() == engine.status().windows_out == times[-1] // slide + day // slide


def test_old_files_are_removed(tmp_path: Path) -> None:
    sizes = []
    batches = [[[t, t + 90]] for t in range(0, 20_000, 100)]
    engine = Engine(*plan_of(QUERIES[0], str(tmp_path), Windows(1_000, 200), KSlack()), Outputs().sinks)
    for number, batch in enumerate(tuples(batches)):
        engine.run_batch(InProcess(), batch, number)
        sizes.append(sum(path.is_file() for path in tmp_path.rglob("*")))
    assert max(sizes[100:]) <= max(sizes[20:100])


@pytest.mark.parametrize(("number", "which"), [(1, "an older"), (6, "a newer")])
def test_a_manifest_of_another_version_is_refused(tmp_path: Path, number: int, which: str) -> None:
    run(tmp_path, [[[0]]])
    manifest = next((tmp_path / "manifests").glob("*.json"))
    manifest.write_text(manifest.read_text().replace('"format": 5', f'"format": {number}'))
    with pytest.raises(
        SkytideError, match=f"written by {which} skytide, in format {number}, while this one reads only 3 to 5; continue with"
    ):
        Store(str(tmp_path)).latest()


@given(batches=streams(), parts=st.integers(1, 4), slack=slacks_drawn, seed=st.integers(0, 9))
def test_how_spark_packs_a_batch_changes_nothing(batches: list[Batch], parts: int, slack: Slack, seed: int) -> None:
    """Neither what comes out nor what is late: Spark puts files into partitions in any order."""
    data, let_out = tuples(batches), []
    for packed in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            out = Outputs()
            engine = Engine(*plan_of(QUERIES[0], folder, Windows(1_000, 200), slack), out.sinks)
            for number, batch in enumerate(data):
                engine.run_batch(InProcess(), divided(shuffled(batch, seed), parts) if packed else batch, number)
            engine.flush(InProcess())
        sinks = (out.results, out.late, out.invalid, out.windows)
        let_out.append([oracle.multiset({**row, "latency_s": 0} for row in sink.rows()) for sink in sinks])
    assert let_out[0] == let_out[1]


def shuffled(batch: list[pa.Table], seed: int) -> list[pa.Table]:
    whole = pa.concat_tables(batch)
    return [whole.take(pa.array(np.random.default_rng(seed).permutation(whole.num_rows)))]


def test_a_slack_that_outgrows_the_windows_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    late = [[[n * 1_000 - 15_000 * (n % 2), *(n * 1_000 for _ in range(4))]] for n in range(60, 70)]
    engine, _ = run(tmp_path, late, slack=KSlack())
    assert engine.status().notice.startswith("the slack has grown to")
    assert [record.getMessage().split(" to ")[0] for record in caplog.records] == ["the slack has grown"]
