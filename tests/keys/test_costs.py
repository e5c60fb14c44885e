"""Keys that take longer count for more: what slots measure, what the rebalancer makes of it, and where keys lie then."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from support import keyed
from support.engine import COLUMNS, InProcess, Outputs

import skytide
from skytide.keyed import (
    GROUPS,
    AggregateAnswer,
    CountWindows,
    Loads,
    Operator,
    OperatorAnswer,
    Rebalancer,
    RoutingTable,
    SlotReport,
    TimeWindows,
    loads_of,
    slot_loads,
)
from skytide.keyed import costs as timing
from skytide.keyed.chunk import Chunk, ends
from skytide.keyed.costs import PORTIONS, WORTH_S, timed_answers
from skytide.keyed.windows import Cut
from skytide.lateness import FixedSlack
from skytide.queries import Aggregate, Measure
from skytide.spark.engine.engine import Engine
from skytide.windows import Windows

TABLE = RoutingTable.even(2)


class Clock:
    """Time that passes when somebody works."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


# ---------------------------------------------------------------- loads


def reports(tuples: list[int], cost_s: list[float], other_s: tuple[float, float] = (0.1, 0.1)) -> list[SlotReport]:
    """Return what two slots report of groups with some tuples, each of which takes some time."""
    made = []
    for slot in range(2):
        mine = [group for group in range(GROUPS) if TABLE.slots[group] == slot]
        spent = {group: tuples[group] * cost_s[group] for group in mine}
        came = {group: tuples[group] for group in mine}
        heavy = {group << 56: tuples[group] for group in mine[:3]}
        heavy_s = {group << 56: spent[group] for group in mine[:3]}
        busy_s = other_s[slot] + sum(spent.values())
        made.append(SlotReport(slot, sum(came.values()), loads=came, spent=spent, heavy=heavy, heavy_s=heavy_s, busy_s=busy_s))
    return made


def counted(made: list[SlotReport]) -> Loads:
    """Return loads by tuples alone."""
    return loads_of([replace(report, spent={}, heavy_s={}) for report in made], GROUPS)


def seconds_of_slots(table: RoutingTable, tuples: list[int], cost_s: list[float]) -> list[float]:
    used = [0.0, 0.0]
    for group in range(GROUPS):
        used[table.slots[group]] += tuples[group] * cost_s[group]
    return used


DEAR = [0.008 if group < 16 else 0.001 for group in range(GROUPS)]
"""The first groups, all of the first slot, take eight times as long."""


def test_groups_that_cost_more_move_though_all_have_as_many_tuples() -> None:
    made = reports([10] * GROUPS, DEAR)
    moves = Rebalancer().build().plan(TABLE, 2, loads_of(made, GROUPS))
    assert moves.moved and all(moves.table.slots[group] == 1 and group < 128 for group in moves.moved)
    before, after = (seconds_of_slots(table, [10] * GROUPS, DEAR) for table in (TABLE, moves.table))
    assert max(before) / np.mean(before) > 1.25 and max(after) / np.mean(after) < 1.06


def test_by_tuples_alone_nothing_moves() -> None:
    """A guilty specimen: the slot that takes longer keeps all it has."""
    moves = Rebalancer().build().plan(TABLE, 2, counted(reports([10] * GROUPS, DEAR)))
    assert moves.moved == ()


def test_a_key_that_takes_long_becomes_a_group_of_its_own_though_it_comes_no_more_often() -> None:
    cost_s = [0.001] * GROUPS
    cost_s[1] = 0.2
    made = reports([10] * GROUPS, cost_s)
    assert Rebalancer().build().plan(TABLE, 2, loads_of(made, GROUPS)).table.own == (1 << 56,)
    assert Rebalancer().build().plan(TABLE, 2, counted(made)).table.own == ()


def test_a_slot_that_was_slow_at_what_is_the_same_for_all_keys_moves_nothing() -> None:
    """It read files of other slots, or shared its core."""
    made = reports([10] * GROUPS, [0.001] * GROUPS, other_s=(5.0, 0.1))
    assert Rebalancer().build().plan(TABLE, 2, loads_of(made, GROUPS)).moved == ()
    assert slot_loads(made) == pytest.approx([1_280, 1_280])


@given(
    st.lists(st.integers(0, 1_000), min_size=GROUPS, max_size=GROUPS),
    st.lists(st.floats(0, 0.1), min_size=GROUPS, max_size=GROUPS),
    st.tuples(st.floats(0, 2), st.floats(0, 2)),
)
def test_loads_are_tuples_altogether_and_each_group_has_its_share(
    tuples: list[int], cost_s: list[float], other_s: tuple[float, float]
) -> None:
    """So averages of batches without times, as of earlier versions, and with them can be mixed."""
    made = reports(tuples, cost_s, other_s)
    loads = loads_of(made, GROUPS)
    assert sum(loads.of_groups) == pytest.approx(sum(tuples))
    assert sum(slot_loads(made)) == pytest.approx(sum(tuples))
    assert counted(made).of_groups == tuples
    for key, load in loads.heaviest:
        assert load == pytest.approx(loads.of_groups[key >> 56])


def test_what_slots_report_survives_the_way_to_the_driver() -> None:
    [made, _] = reports([10] * GROUPS, DEAR)
    assert SlotReport.from_text(made.to_text()) == made


# ---------------------------------------------------------------- times


class Dear:
    """Answers windows at once; rows with a high price take a second each, others a millisecond."""

    is_even = False

    def __init__(self, clock: Clock, cheap_s: float = 0.001) -> None:
        self.clock, self.cheap_s, self.calls = clock, cheap_s, 0

    def windows(self, rows: pa.Table, begins: Any, ends: Any) -> Any:
        self.calls += 1
        prices = rows["price"].to_numpy()
        sums = [prices[begin:end].sum() for begin, end in zip(begins, ends, strict=True)]
        self.clock.now_s += sum(
            np.where(prices[begin:end] > 1, 1.0, self.cheap_s).sum() for begin, end in zip(begins, ends, strict=True)
        )
        return pa.table({"sum": pa.array(sums, pa.float64())}), np.ones(len(begins), np.int64)


def windows_of(keys: list[list[float]], length: int = 2) -> tuple[Chunk, Cut]:
    """Return keys with some prices, and all their windows of some rows."""
    counts = np.array([len(prices) for prices in keys], np.int64)
    whole = Chunk(
        pa.table({"price": np.concatenate(keys)}), np.arange(len(keys)).astype(np.uint64) << np.uint64(40), ends(counts), counts
    )
    places = [(key, begin) for key in range(len(keys)) for begin in range(whole.starts[key], whole.starts[key + 1] - length + 1)]
    begins = np.array([begin for _, begin in places], np.int64)
    return whole, Cut(np.array([key for key, _ in places], np.int64), begins, begins + length, {})


prices_drawn = st.lists(st.lists(st.sampled_from([0.5, 1.0, 2.0]), max_size=6), min_size=1, max_size=30)


@given(prices_drawn, st.sampled_from([0.0, 0.001]))
def test_answers_in_portions_are_those_of_one_call(keys: list[list[float]], cheap_s: float) -> None:
    whole, cut = windows_of(keys)
    clock = Clock()
    answers, counts, spent = timed_answers(Dear(clock, cheap_s), whole, cut, clock)  # type: ignore[arg-type]
    one, ones = Dear(Clock()).windows(whole.rows, cut.begins, cut.ends)
    assert answers["sum"].to_pylist() == one["sum"].to_pylist() and counts.tolist() == ones.tolist()
    if spent is not None:
        assert spent.seconds.sum() == pytest.approx(clock.now_s) and len(spent.seconds) == len(keys)


def test_the_keys_that_take_long_are_known() -> None:
    clock = Clock()
    whole, cut = windows_of([[1.0, 1.0, 1.0]] * 20 + [[2.0, 2.0, 2.0]] + [[1.0, 1.0, 1.0]] * 20)
    answer = Dear(clock)
    _, _, spent = timed_answers(answer, whole, cut, clock)  # type: ignore[arg-type]
    assert spent is not None and answer.calls == PORTIONS
    near = [place for place in range(41) if spent.seconds[place] > 0.1]
    assert 20 in near and len(near) <= 41 / PORTIONS + 2, "as near as portions tell"
    assert int(whole.hashes[20]) in spent.slowest()


def test_what_takes_no_time_is_not_told_apart() -> None:
    clock = Clock()
    whole, cut = windows_of([[1.0, 1.0, 1.0]] * 40)
    answer = Dear(clock, WORTH_S / 1_000)
    assert timed_answers(answer, whole, cut, clock)[2] is None and answer.calls == 2  # type: ignore[arg-type]
    even = AggregateAnswer(Aggregate((Measure.parse("count(*) AS n"),), time="ts"))
    assert timed_answers(even, whole, cut, clock)[2] is None


class Slow:
    """Takes a second for each row of key 3, and a millisecond for others."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def open(self, key: Any) -> Any:
        return None

    def process(self, state: Any, rows: pa.Table) -> Any:
        self.clock.now_s += rows.num_rows * (1.0 if rows["a"][0].as_py() == 3 else 0.001)
        return None, {"n": [rows.num_rows]}


class SlowAtOnce(Slow):
    """Does so for all windows at once."""

    def process_windows(self, rows: pa.Table, begins: Any, ends: Any) -> Any:
        for begin, end in zip(begins, ends, strict=True):
            self.process(None, rows.slice(begin, end - begin))
        return pa.table({"n": ends - begins}), np.ones(len(begins), np.int64)


STEPS: dict[str, Callable[[Clock], Any]] = {
    "as they come": lambda clock: keyed.step(operator=Operator(Slow(clock))),
    "windows by number": lambda clock: keyed.step(CountWindows(2, 1), None, Operator(Slow(clock))),
    "windows of time": lambda clock: keyed.step(TimeWindows(Windows(400, 200)), None, Operator(Slow(clock))),
    "windows at once": lambda clock: keyed.step(CountWindows(2, 1), OperatorAnswer(Operator(SlowAtOnce(clock)), ("a",))),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_key_that_takes_long_fills_a_slot(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten keys have as many rows each; one of them takes a thousand times as long."""
    clock = Clock()
    for module in ("skytide.keyed.work.perf_counter", "skytide.spark.engine.keys.time.perf_counter"):
        monkeypatch.setattr(module, clock)
    monkeypatch.setattr(timing.timed_answers, "__defaults__", (clock,))
    plan = keyed.plan_of(STEPS[name](clock), str(tmp_path), FixedSlack(0), slots=3)
    engine = Engine(*plan, Outputs().sinks)
    for number in range(6):
        ids = np.arange(number * 100, number * 100 + 100)
        times = pa.array(ids * 10, pa.timestamp("us", "UTC"))
        rows = pa.table({"ts": times, "a": ids % 10, "b": ids.astype(float), "id": ids}, COLUMNS)
        engine.run_batch(InProcess(), [rows], number)
    assert engine.status().hot_keys == ("3",)
    assert engine.status().imbalance > 2.5


# ---------------------------------------------------------------- on Spark


class Expensive:
    """Sums the values of a key; of one key, a hundred thousand times as slowly."""

    def open(self, key: Any) -> Any:
        return np.zeros(1)

    def process(self, state: Any, rows: pa.Table) -> Any:
        values = rows["value"].to_numpy()
        if rows["name"][0].as_py() == "dear":
            for _ in range(20):
                np.sort(np.random.default_rng(1).random(200_000))
        after = state + values.sum()
        return after, {"total": after}


@pytest.mark.slow
def test_on_spark_a_key_that_takes_long_has_a_slot_for_itself_and_no_total_changes(spark: SparkSession, tmp_path: Path) -> None:
    """It comes no more often than 19 others: by tuples nothing would move."""
    names = ["dear", *(f"cheap {n}" for n in range(19))]
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(4):
        rows = [(number * 1_000 + at * 50 + place, name, at + place) for at in range(10) for place, name in enumerate(names)]
        times, named, values = zip(*sorted(rows), strict=True)
        ts = pa.array([ms * 1_000 for ms in times], pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"ts": ts, "name": named, "value": values}), folder / f"{number}.parquet")
        os.utime(folder / f"{number}.parquet", (number, number))  # Spark reads the oldest first
    source = spark.readStream.schema("ts timestamp, name string, value long").option("maxFilesPerTrigger", 1).parquet(str(folder))
    run = (
        skytide.stream(source)
        .keyed("name")
        .apply(Expensive(), slack=FixedSlack(0))
        .start("memory", checkpoint=tmp_path / "c", trigger="availableNow", flush=True, slots=2)
    )
    run.await_termination()
    assert run.status().late == 0
    totals = {name: max(mine) for name, mine in run.results().to_pandas().groupby("name")["total"]}
    assert totals == {name: 4.0 * sum(at + place for at in range(10)) for place, name in enumerate(names)}
    assert run.status().hot_keys == ("dear",)
