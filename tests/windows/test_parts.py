"""State in parts: results do not depend on slots, merges and caches; what is on the disk does not grow with the age of a window."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engine import COLUMNS, QUERIES, InProcess, Outputs, plan_of, slacks_drawn, streams, tuples, windows_drawn

from skytide.batch import OpenPane, Piece, Run, State, machine, merging
from skytide.batch.merging import FAN_IN, pieces_to_merge, runs_to_replace
from skytide.batch.spreading import DRIVER_S, PARTS, OnDriver, OneTask, Parts, Spreader
from skytide.keyed.bits import between, bits
from skytide.lateness import FixedSlack, Slack
from skytide.queries import Aggregate, Measure, Query, Skyline, TopK, blocks, diff, high, low
from skytide.spark.checkpoint import Files
from skytide.spark.engine import parts, windows
from skytide.spark.engine.cache import Cache, cache
from skytide.spark.engine.engine import Engine
from skytide.spark.engine.parts import ALL_PARTS, cut_out, in_parts, parts_of
from skytide.spark.engine.spread import DRIVER_THREADS
from skytide.windows import Windows

GROUPED = QUERIES[4]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a few rows be many: everything is merged, sorted and divided at once."""
    monkeypatch.setattr(merging, "FAN_IN", 2)
    monkeypatch.setattr(blocks, "FANOUT", 2)
    monkeypatch.setattr(parts, "SORTED_ROWS", 1)
    monkeypatch.setattr(windows, "ROWS_HELD", 2)
    monkeypatch.setattr(machine, "changes_to_replace", lambda runs, new_rows: len(runs) if len(runs) > 3 else 0)
    yield


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("query", QUERIES, ids=[type(query).__name__ for query in QUERIES])
@given(
    batches=streams(),
    windows_=windows_drawn,
    slack=slacks_drawn,
    slots=st.lists(st.integers(1, 5), min_size=7, max_size=7),
    forgets=st.booleans(),
    restarts=st.sets(st.integers(1, 5)),
    pays_s=st.sampled_from([0.0, 1e-9, 10.0]),
)
def test_results_do_not_depend_on_slots_merges_caches_and_restarts(
    tmp_path_factory: pytest.TempPathFactory,
    query: Query,
    batches: Any,
    windows_: Windows,
    slack: Slack,
    slots: list[int],
    forgets: bool,
    restarts: set[int],
    pays_s: float,
) -> None:
    folder, data, out = tmp_path_factory.mktemp("state"), tuples(batches), Outputs()
    plan = plan_of(query, str(folder), windows_, slack, spreading_pays_s=pays_s, driver_pays_s=-1.0 if pays_s < 1 else np.inf)
    engine = Engine(*plan, out.sinks)
    for number, batch in enumerate(data):
        if number in restarts:
            engine.store.release()
            engine = Engine(*plan_of(query, str(folder), windows_, slack, spreading_pays_s=pays_s), out.sinks)
        if forgets:
            cache.keep_only(engine.store.files.uri)
        engine.resize(window_slots=slots[number])
        engine.run_batch(InProcess(), batch, number)
    engine.flush(InProcess())
    out.check(data, plan)
    engine.store.release()


def test_an_open_pane_has_few_pieces_whatever_the_number_of_batches(tmp_path: Path) -> None:
    hour = Windows(3_600_000_000, 3_600_000_000)
    plan, out = plan_of(GROUPED, str(tmp_path), hour, FixedSlack(0)), Outputs()
    engine, pieces, files = Engine(*plan, out.sinks), [], []
    data = [[[number * 500_000 + task for _ in range(2)] for task in range(8)] for number in range(600)]
    for number, batch in enumerate(tuples(data)):
        engine.run_batch(InProcess(), batch, number)
        latest = engine.store.latest()
        pieces.append(sum(len(pane.pieces) for pane in latest.open.values()))
        files.append(len(latest.files()))
    assert max(pieces) <= FAN_IN * 8 + 3 * FAN_IN and max(files) <= FAN_IN * 8 + 3 * FAN_IN
    assert max(pieces[300:]) <= 1.2 * max(pieces[:300])
    engine.flush(InProcess())
    assert sum(row["tuples"] for row in out.windows.rows()) == 600 * 8 * 2
    assert {row["a"]: row["count"] for row in out.results.rows()} == dict.fromkeys(range(5), 1_920)


def test_a_window_of_thousands_of_panes_is_remembered_in_few_runs(tmp_path: Path) -> None:
    plan, out = plan_of(GROUPED, str(tmp_path), Windows(2_000, 1), FixedSlack(0)), Outputs()
    engine, sizes = Engine(*plan, out.sinks), []
    for number in range(300):
        times = list(range(4 * number, 4 * number + 4))
        engine.run_batch(InProcess(), tuples([[times]])[0], number)
        sizes.append(len(engine.store.latest().memory))
    assert max(sizes) <= 2 * FAN_IN
    assert engine.store.latest().memory_rows < 2 * 5 * 1_200


def test_a_file_with_pieces_of_many_panes_is_opened_once_by_each_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, seek = [], Files.seek_batches
    monkeypatch.setattr(Files, "seek_batches", lambda files, name: opened.append(name) or seek(files, name))
    plan, out = plan_of(GROUPED, str(tmp_path), Windows(40, 1), FixedSlack(0)), Outputs()
    engine, data = Engine(*plan, out.sinks), tuples([[list(range(200))], [[500]]])
    for number, batch in enumerate(data):
        engine.run_batch(InProcess(), batch, number)
    engine.flush(InProcess())
    assert 1 <= len(opened) <= DRIVER_THREADS * len(set(opened)) < 100
    out.check(data, plan)


def test_what_a_slide_costs_is_not_expected_to_grow_with_what_is_remembered(tmp_path: Path) -> None:
    plan = plan_of(GROUPED, str(tmp_path), Windows(2_000, 1), FixedSlack(0), driver_pays_s=DRIVER_S)
    engine = Engine(*plan, Outputs().sinks)
    engine.run_batch(InProcess(), tuples([[list(range(1_000))]])[0], 0)
    engine._machine.spreader._unit_s = 1e-3  # a second for all that is remembered
    engine.run_batch(InProcess(), tuples([[[1_001]]])[0], 1)
    assert engine.store.latest().memory_rows >= 1_000 and engine.status().window_plan.startswith("on the driver")


def test_the_pieces_of_a_tier_become_one_of_the_next() -> None:
    tiers = [Piece(str(n), 0, 1, 5, tier) for tier, count in ((0, FAN_IN + 3), (1, 2), (2, FAN_IN)) for n in range(count)]
    assert [{piece.tier for piece in merge.pieces} for merge in pieces_to_merge(3, OpenPane(9, tuple(tiers)), 1)] == [{0}, {2}]


@pytest.mark.parametrize("tasks", [1, 8, 100, 1_000, 5_000])
def test_pieces_of_few_batches_wait_and_those_of_many_are_few(tasks: int) -> None:
    pieces: list[Piece] = []
    most, rewritten = 0, 0
    for batch in range(300):
        pieces += [Piece(f"{batch}-{task}", 0, 1, 1) for task in range(tasks)]
        merges = list(pieces_to_merge(0, OpenPane(0, tuple(pieces)), tasks))
        assert batch >= min(15, merging.MAX_PIECES // tasks - 1) or not merges
        assert all(1 < len(merge.pieces) <= merging.PIECES_AT_ONCE for merge in merges)
        gone = {piece.file for merge in merges for piece in merge.pieces}
        rewritten += sum(merge.rows for merge in merges)
        merged = [Piece(f"{batch}.{at}", 0, 1, merge.rows, merge.pieces[0].tier + 1) for at, merge in enumerate(merges)]
        pieces = [piece for piece in pieces if piece.file not in gone] + merged
        most = max(most, len(pieces))
    assert sum(piece.rows for piece in pieces) == 300 * tasks
    assert most <= 1.5 * max(FAN_IN * tasks, 3 * FAN_IN) and most <= 2 * max(merging.MAX_PIECES, tasks)
    assert rewritten <= 4 * 300 * tasks, "a row is written anew once per tier"


@given(st.lists(st.integers(1, merging.MAX_RUN_ROWS // 2), max_size=300))
def test_runs_are_few_unless_they_are_large(batches: list[int]) -> None:
    runs: list[Run] = []
    for pane, rows in enumerate(batches):
        replaced = runs_to_replace(runs, rows)
        gone = runs[len(runs) - replaced :]
        level = max((run.level + 1 for run in gone), default=0)
        most_rows = merging.MAX_RUN_ROWS * max(1, len(runs) // merging.MANY_RUNS)
        runs[len(runs) - replaced :] = [Run(pane, pane, level, rows=rows + sum(run.rows for run in gone))]
        assert runs[-1].rows <= most_rows
    full = sum(batches) // (merging.MAX_RUN_ROWS // (2 * FAN_IN)) + 3 * FAN_IN
    assert len(runs) <= full


@given(
    rows=st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 9)), max_size=60),
    slots=st.integers(1, 9),
    took=st.lists(st.dictionaries(st.integers(0, PARTS - 1), st.floats(0, 9), max_size=20), max_size=3),
)
def test_each_row_is_in_one_part_whatever_parts_took(rows: list[tuple[str, int]], slots: int, took: list[dict[int, float]]) -> None:
    table = pa.table({"g": [g for g, _ in rows], "v": [v for _, v in rows]}, pa.schema([("g", pa.string()), ("v", pa.int64())]))
    spreader = Spreader(slots, can_spread=False, worth_s=0.0, has_groups=True)
    for took_s in (None, *took):
        if took_s is not None:
            spreader.measured(sum(took_s.values()), 1, 1, took_s)
        spreading = spreader.decide(1, 1)
    assert isinstance(spreading, Parts) or slots == 1
    of_slots = spreading.of_slots if isinstance(spreading, Parts) else [ALL_PARTS]
    before, parts.SORTED_ROWS = parts.SORTED_ROWS, 1
    try:
        [divided] = in_parts([table], ("g",))
    finally:
        parts.SORTED_ROWS = before
    for stored in (table, divided):
        pieces = [cut_out(stored, mine, ("g",)) for mine in of_slots]
        found = [row for piece in pieces for row in piece.to_pylist()]
        assert sorted(map(str, found)) == sorted(map(str, table.to_pylist()))
        groups = [set(piece["g"].to_pylist()) for piece in pieces]
        assert sum(map(len, groups)) == len(set().union(*groups))


def test_a_slot_reads_no_more_than_its_parts_of_a_large_piece(tmp_path: Path) -> None:
    rng, store = np.random.default_rng(1), Files(str(tmp_path))
    table = pa.table({"g": rng.integers(0, 50_000, 100_000), "v": rng.random(100_000)})
    [divided] = in_parts([table], ("g",))
    batches = parts.batches_of(divided)
    assert len(batches) == 16 and sum(batch.num_rows for batch in batches) == 100_000
    store.write_batches("panes/1", divided.schema, batches)
    reader, seen = store.seek_batches("panes/1"), []
    for some in (between(0, 40) | between(200, 205), between(40, 130), between(130, 200) | between(205, PARTS)):
        numbers = parts.numbers_of(reader.schema, 0, 16, some)
        assert len(numbers) <= 8
        seen += cut_out(pa.Table.from_batches([reader.get_batch(number) for number in numbers]), some, ("g",)).to_pylist()
    assert sorted(map(str, seen)) == sorted(map(str, table.to_pylist()))
    assert parts.numbers_of(reader.schema, 3, 5, 1) == range(3, 8), "not divided by parts"
    assert [len(parts.batches_of(divided.slice(0, rows))) for rows in (0, 5, 8_192, 16_384)] == [0, 1, 2, 4]


def test_equal_values_have_one_part_however_they_are_written() -> None:
    zeros = parts_of(pa.table({"g": [0.0, -0.0]}), ("g",))
    assert zeros[0] == zeros[1]
    assert (
        parts_of(pa.table({"g": pa.array([None, None, "x"])}), ("g",))[:2]
        == parts_of(pa.table({"g": pa.array([None, "y"])}), ("g",))[0]
    ).all()


def test_much_work_of_groups_is_spread_and_little_is_not() -> None:
    spreader = Spreader(slots=3, can_spread=False, driver_s=float("inf"), has_groups=True)
    assert isinstance(spreader.decide(1_000, 1_000), OnDriver)
    assert spreader.decide(10_000_000, 0) == Parts(
        (between(0, 86), between(86, 171), between(171, PARTS)), "3 slots, each with its parts: 10.00 s of work"
    )
    spreader.slots = 1
    assert isinstance(spreader.decide(10_000_000, 0), OnDriver)
    on_cluster = Spreader(slots=1, can_spread=False, has_groups=True)
    assert on_cluster.decide(10_000_000, 0) == OneTask("one task: there is one slot")
    assert isinstance(on_cluster.decide(150_000, 0), OneTask), "the driver of a cluster holds few rows"


def test_parts_that_take_long_are_given_to_slots_of_their_own_and_few_others_move() -> None:
    spreader = Spreader(slots=4, can_spread=False, has_groups=True)
    before = _owners(spreader)
    took = dict.fromkeys(range(PARTS), 0.01) | {3: 0.5, 9: 0.4, 20: 0.3}
    for _ in range(10):
        spreader.measured(sum(took.values()), 10_000_000, 0, took)
    after = _owners(spreader)
    of_slots = [sum(busy_s for part, busy_s in took.items() if after[part] == slot) for slot in range(4)]
    assert max(of_slots) < 1.2 * sum(of_slots) / 4
    assert sum(of_slots[before[part]] for part in (3, 9, 20)) > 0 and sum(a != b for a, b in zip(before, after, strict=True)) < 100


def _owners(spreader: Spreader) -> list[int]:
    spreading = spreader.decide(10_000_000, 0)
    assert isinstance(spreading, Parts)
    owners = [[slot for slot, mine in enumerate(spreading.of_slots) if bits(mine, PARTS)[part]] for part in range(PARTS)]
    return [owner for (owner,) in owners]


def test_how_long_parts_took_is_known_where_rows_are_many(tmp_path: Path) -> None:
    plan = plan_of(GROUPED, str(tmp_path), Windows(10, 10), FixedSlack(0), spreading_pays_s=0.0, driver_pays_s=-1.0)
    engine, took = Engine(*plan, Outputs().sinks), []
    engine.resize(window_slots=3)
    measured = engine._machine.spreader.measured
    engine._machine.spreader.measured = lambda *seen: (took.append(seen), measured(*seen))  # type: ignore[method-assign]
    before, parts.SORTED_ROWS = parts.SORTED_ROWS, 1
    try:
        for number, batch in enumerate(tuples([[list(range(10 * n, 10 * n + 10))] for n in range(3)])):
            engine.run_batch(InProcess(), batch, number)
    finally:
        parts.SORTED_ROWS = before
    busy_s, _, _, of_parts = took[-1]
    assert len(of_parts) == 5 and 0 < sum(of_parts.values()) <= busy_s + 1e-3, "there are five groups"


@pytest.mark.parametrize(
    "noted", [[[0, 128], [128, 256]], [f"{between(0, 128):x}", f"{between(128, 256):x}"]], ids=["before", "now"]
)
def test_what_earlier_versions_noted_of_files_is_read(noted: list[Any]) -> None:
    run = Run.from_json([1, 2, 0, ["a", "b"], 7, noted])
    assert run.files_of(between(0, 5)) == ("a",) and run.files_of(between(200, 205)) == ("a", "b")
    assert Run.from_json(run.to_json()) == run and Run.from_json([1, 2, 0, ["a"], 7]).files_of(1) == ("a",)


def test_a_skyline_with_groups_is_divided_too(tmp_path: Path) -> None:
    query, rows = Skyline(low("a") * diff("b")), {}
    for slots in (1, 3):
        out = Outputs()
        plan = plan_of(query, str(tmp_path / str(slots)), Windows(6, 2), FixedSlack(0), spreading_pays_s=0.0, driver_pays_s=-1.0)
        engine = Engine(*plan, out.sinks)
        engine.resize(window_slots=slots)
        for number, batch in enumerate(tuples([[[2 * n, 2 * n + 1] * 3, [2 * n] * 2] for n in range(12)])):
            engine.run_batch(InProcess(), batch, number)
        assert isinstance(engine._machine.spreader.decide(10, 10), Parts if slots > 1 else OneTask)
        rows[slots] = sorted(map(str, out.results.rows()))
    assert rows[1] == rows[3] and rows[1]


class Busiest(Aggregate):
    """A user's own query: the group with most rows, and of several the first."""

    def window(self, kept: pa.Table) -> pa.Table:
        return super().window(kept).sort_by([("count", "descending"), ("a", "ascending")]).slice(0, 1)


def test_a_window_of_ones_own_sees_all_groups(tmp_path: Path) -> None:
    plan, out = plan_of(Busiest((Measure.parse("count(*)"),), ("a",)), str(tmp_path), Windows(6, 2), FixedSlack(0)), Outputs()
    plan = replace(plan, rules=plan.spec.rules(window_slots=3, spreading_pays_s=0.0, driver_pays_s=-1.0))
    engine = Engine(*plan, out.sinks)
    for number, batch in enumerate(tuples([[[2 * n, 2 * n + 1] * 3, [2 * n] * 2] for n in range(12)])):
        engine.run_batch(InProcess(), batch, number)
    assert {row["kept"] for row in out.windows.rows()} == {1}


@pytest.mark.parametrize("query", [Skyline(low("b") * low("id")), Skyline(low("b") * low("id") * diff("a"))], ids=["one", "diff"])
def test_a_slide_of_many_candidates_writes_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: Query) -> None:
    data = [_anticorrelated(number) for number in range(40)]
    out, written = {}, {}
    for small in (64, 10**9):
        monkeypatch.setattr(merging, "SMALL_ROWS", small)
        plan, outputs = plan_of(query, str(tmp_path / str(small)), Windows(1_000, 100), FixedSlack(0)), Outputs()
        engine, runs = Engine(*plan, outputs.sinks), []
        for number, batch in enumerate(data):
            engine.run_batch(InProcess(), [batch], number)
            runs.append(engine.store.latest().memory)
        assert max(map(len, runs)) <= FAN_IN + 1
        engine.flush(InProcess())
        out[small], written[small] = outputs.results.rows(), sum(memory[-1].rows for memory in runs[20:])
    assert out[64] == out[10**9], "the same rows, in the same order"
    assert written[64] < written[10**9] / 2


def _anticorrelated(number: int) -> pa.Table:
    x = np.random.default_rng(number).random(100)
    times, ids = pa.array(np.full(100, number * 100), pa.timestamp("us", "UTC")), ((1 - x) * 1e9).astype(int)
    return pa.table({"ts": times, "a": np.arange(100) % 2, "b": x, "id": ids}, COLUMNS)


def test_a_cache_has_a_bound_and_forgets_what_is_gone() -> None:
    kept = Cache(max_bytes=35, max_files=10)
    for name in "abcdefg":
        assert kept.get("s3://bucket", name, lambda name=name: (name, 10)) == name  # type: ignore[misc]
    assert kept.nbytes == 30 and kept.find("s3://bucket", "d") is None
    kept.get("s3://bucket", "e", lambda: pytest.fail("it is kept"))
    kept.add("s3://other", "x", "x", 10)
    assert kept.find("s3://bucket", "f") is None, "the others were used later"
    kept.keep_only("s3://bucket", {"g"})
    assert kept.nbytes == 20 and kept.find("s3://bucket", "e") is None
    for number in range(20):
        kept.add("s3://other", str(number), number, 0)
    assert kept.find("s3://bucket", "g") is None, "so many files do not stay open"


def test_a_state_is_the_same_after_it_was_written() -> None:
    state = State(
        memory=(Run(3, 9, 1, ("memory/1", "memory/2"), 7, (between(0, 100), between(100, 256))), Run(10, 10, 0, ("memory/3",), 1)),
        open={4: OpenPane(9, (Piece("panes/1", 0, 1, 5, 2), Piece("panes/2", 0, 1, 5)))},
    )
    assert State.from_json(state.to_json()) == state


def test_a_memory_of_an_earlier_format_is_one_run_of_all_panes() -> None:
    values = State().to_json() | {"memory": "memory/7", "memory_rows": 12}
    state = State.from_json(values)
    assert (state.memory_rows, state.files()) == (12, {"memory/7"})
    assert State.from_json(state.to_json()) == state


def test_a_piece_without_rows_is_not_taken_for_the_next_one_of_its_file(tmp_path: Path) -> None:
    columns = pa.schema([COLUMNS.field("ts"), COLUMNS.field("b"), COLUMNS.field("id")])

    def rows(*values: tuple[int, float | None, int]) -> pa.Table:
        return pa.table(
            [pa.array(column, field.type) for column, field in zip(zip(*values, strict=True), columns, strict=True)], columns
        )

    query = TopK(high("b"), k=9, nulls="drop")
    always = {"spreading_pays_s": 0.0, "driver_pays_s": -1.0}
    plan, out = plan_of(query, str(tmp_path), Windows(100, 100), FixedSlack(0), **always).but(columns=columns), Outputs()
    engine = Engine(*plan, out.sinks)
    engine.resize(window_slots=3)
    tasks = [rows((101, 1.0, 1), (501, 1.0, 2)), rows((1, 1.0, 3), (102, 1.0, 4)), rows((2, None, 5), (103, 1.0, 6))]
    engine.run_batch(InProcess(), tasks, 0)
    engine.flush(InProcess())
    assert sorted(row["id"] for row in out.results.rows()) == [1, 2, 3, 4, 6]
