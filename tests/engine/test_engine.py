"""The engine without Spark: random streams, batches, partitions, slacks and crashes against an oracle that recomputes windows.

The jobs run in this process; everything else (tasks, store, progress, memory) is what runs on Spark.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engine import (
    COLUMNS,
    QUERIES,
    Batch,
    Collected,
    Crash,
    Fragile,
    InProcess,
    check,
    oracle,
    slacks_drawn,
    streams,
    tuples,
    windows_drawn,
)

from skytide.errors import SkytideError
from skytide.lateness import FixedSlack, KSlack, Slack
from skytide.queries import Query
from skytide.routing import STRATEGIES, Splitting
from skytide.spark.checkpoint import Store
from skytide.spark.engine import Engine, Plan, Sinks
from skytide.spark.store import State
from skytide.windows import Windows


@pytest.mark.parametrize("query", QUERIES, ids=repr)
@given(batches=streams(), windows=windows_drawn, slack=slacks_drawn)
def test_windows_are_the_oracles(query: Query, batches: list[Batch], windows: Windows, slack: Slack) -> None:
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(query, windows, slack, "ts", COLUMNS, (), Store(folder))
        out, stats = Collected(), Collected()
        engine = Engine(plan, Sinks(out, windows=stats))
        data = tuples(batches)
        for number, batch in enumerate(data):
            engine.run_batch(InProcess(), batch, number)
        engine.flush(InProcess())
        expected, late = oracle(data, plan)
        check(out, stats, expected, plan, late)


@pytest.mark.parametrize("splitting", STRATEGIES.values(), ids=STRATEGIES)
@given(
    batches=streams(),
    windows=windows_drawn,
    slack=slacks_drawn,
    sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=6, max_size=6),
    query=st.sampled_from([QUERIES[0], QUERIES[3]]),
)
@settings(max_examples=40)
def test_no_plan_changes_a_result(
    splitting: Splitting, batches: list[Batch], windows: Windows, slack: Slack, sizes: list[tuple[int, int]], query: Query
) -> None:
    """Tuples go to slots by any strategy, slots come and go with every batch, and the window level is spread whenever it can be."""
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(query, windows, slack, "ts", COLUMNS, (), Store(folder), splitting=splitting)
        out, stats, late = Collected(), Collected(), Collected()
        engine = Engine(plan, Sinks(out, windows=stats, late=late), routes=True)
        engine._spread.worth_s = 0.0
        data = tuples(batches)
        for number, (batch, (pane_slots, window_slots)) in enumerate(zip(data, sizes, strict=False)):
            engine.resize(pane_slots, window_slots)
            engine.run_batch(InProcess(), batch, number)
        engine.flush(InProcess())
        expected, dropped = oracle(data, plan)
        check(out, stats, expected, plan, dropped)
        assert len(late.rows()) == dropped


@given(batches=streams(), fuse=st.lists(st.booleans(), max_size=60), repeats=st.lists(st.booleans(), max_size=8))
def test_a_crash_anywhere_changes_nothing(batches: list[Batch], fuse: list[bool], repeats: list[bool]) -> None:
    """The process dies at any step and starts again; Spark repeats the batch it had not noted as done."""
    data = tuples(batches)
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(QUERIES[0], Windows(1_000, 200), KSlack(), "ts", COLUMNS, (), Store(folder))
        out, stats = Collected(), Collected()
        bombs = iter(fuse)
        steps: list[int] = [*range(len(data)), -1]
        for step in steps:
            tries = 2 if repeats and repeats.pop() else 1  # done, but Spark died before it noted so
            while tries:
                fragile = replace(plan, store=Fragile(plan.store, bombs))  # type: ignore[arg-type]
                try:
                    engine = Engine(fragile, Sinks(Fragile(out, bombs), windows=Fragile(stats, bombs)))
                    if step == -1:
                        engine.flush(Fragile(InProcess(), bombs))  # type: ignore[arg-type]
                    else:
                        engine.run_batch(Fragile(InProcess(), bombs), data[step], step)  # type: ignore[arg-type]
                except Crash:
                    continue
                tries -= 1
        expected, late = oracle(data, plan)
        check(out, stats, expected, plan, late)


def run(folder: Path, batches: list[Batch], **options: Any) -> tuple[Engine, Collected]:
    plan = Plan(QUERIES[0], Windows(1_000, 200), options.pop("slack", KSlack()), "ts", COLUMNS, (), Store(str(folder)))
    out = Collected()
    engine = Engine(plan, Sinks(out, **options))
    for number, batch in enumerate(tuples(batches)):
        engine.run_batch(InProcess(), batch, number)
    return engine, out


def test_late_tuples_are_counted_and_can_be_had(tmp_path: Path) -> None:
    late = Collected()
    engine, _ = run(tmp_path, [[[5_000]], [[4_000, 6_000]], [[4_500, 5_500, 7_000]]], slack=FixedSlack(0), late=late)
    assert engine.status().late == 3
    assert [row["ts"].microsecond for row in late.rows()] == [4_000, 4_500, 5_500]


def test_a_gap_gives_its_empty_windows(tmp_path: Path) -> None:
    stats = Collected()
    engine, out = run(tmp_path, [[[0]], [[100_000]]], slack=FixedSlack(0), windows=stats)
    assert len(stats.rows()) == engine.status().windows_out == 500
    assert [row["tuples"] for row in stats.rows()[:6]] == [1, 1, 1, 1, 1, 0]
    assert len(out.rows()) == 5


def test_old_files_are_removed(tmp_path: Path) -> None:
    sizes = []
    batches = [[[t, t + 90]] for t in range(0, 20_000, 100)]
    plan = Plan(QUERIES[0], Windows(1_000, 200), KSlack(), "ts", COLUMNS, (), Store(str(tmp_path)))
    engine = Engine(plan, Sinks(Collected()))
    for number, batch in enumerate(tuples(batches)):
        engine.run_batch(InProcess(), batch, number)
        sizes.append(sum(path.is_file() for path in tmp_path.rglob("*")))
    assert max(sizes[100:]) <= max(sizes[20:100])


@pytest.mark.parametrize(("number", "which"), [(1, "an older"), (3, "a newer")])
def test_a_manifest_of_another_version_is_refused(tmp_path: Path, number: int, which: str) -> None:
    run(tmp_path, [[[0]]])
    manifest = next((tmp_path / "manifests").glob("*.json"))
    manifest.write_text(manifest.read_text().replace('"format": 2', f'"format": {number}'))
    with pytest.raises(
        SkytideError, match=f"written by {which} skytide, in format {number}, where this one reads 2 only; go on with"
    ):
        Store(str(tmp_path)).latest()


@given(batches=streams())
@settings(max_examples=20)
def test_a_state_survives_its_file(batches: list[Batch]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine, _ = run(Path(folder), batches)
        state = engine.plan.store.latest()
        assert State.from_json(state.to_json()) == state
