"""Operators on keys without Spark: random streams, batches, slots that come and go, and crashes, against a naive twin in plain Python."""

import itertools
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import keyed
from support.engine import (
    COLUMNS,
    Batch,
    Collected,
    Crash,
    Fragile,
    InProcess,
    Outputs,
    Plan,
    micros,
    slacks_drawn,
    streams,
    tuples,
)
from support.examples import examples
from support.keyed import step

from skytide.control import CONTROLLERS, Guard
from skytide.keyed import (
    AggregateAnswer,
    CountWindows,
    KeyedStep,
    Operator,
    OperatorAnswer,
    QueryAnswer,
    RoutingTable,
    TimeWindows,
)
from skytide.lateness import FixedSlack, KSlack, Slack
from skytide.loop.cycle import Loop
from skytide.queries import Aggregate, Measure, Skyline, TopK, high, low
from skytide.records import Allocation, Observation
from skytide.spark.api.run import Run
from skytide.spark.engine.engine import Engine
from skytide.spark.scaling.slots import RunSlots, SlotPlant
from skytide.spark.sinks.roles import Sinks
from skytide.windows import Windows

Row = dict[str, Any]
MEASURES = tuple(
    map(Measure.parse, ("count(*) AS n", "sum(a) AS total", "max(id) AS highest", "first(b) AS opened", "avg(b) AS mean"))
)


class Running:
    """Counts and sums the rows of a key: its state is a NumPy array."""

    def open(self, key: Any) -> np.ndarray[Any, Any]:
        return np.array([0, 1_000_000 * key])

    def process(self, state: Any, rows: pa.Table) -> Any:
        ids = rows["id"].to_numpy()
        sums = state[1] + np.cumsum(ids)
        after = np.array([state[0] + len(ids), sums[-1] if len(ids) else state[1]])
        return after, {"id": ids, "sum": sums, "n": state[0] + np.arange(1, len(ids) + 1)}


class Windows_:
    """Counts the windows of a key in bytes, and returns which rows they have."""

    def open(self, key: Any) -> bytes:
        return b""

    def process(self, state: bytes, rows: pa.Table) -> Any:
        return state + b".", pa.table({"number": [len(state)], "ids": [rows["id"].to_pylist()]})


class Latest:
    """Remembers the last three rows of a key as an Arrow table, and returns how far apart they are."""

    def open(self, key: Any) -> pa.Table:
        return pa.table({"id": pa.array([], pa.int64())})

    def process(self, state: pa.Table, rows: pa.Table) -> Any:
        known = pa.concat_tables([state, rows.select(["id"])])
        ids = known["id"].to_pylist()
        spans = [ids[place] - ids[max(place - 2, 0)] for place in range(state.num_rows, len(ids))]
        return known.slice(max(len(ids) - 3, 0)), {"span": pa.array(spans, pa.int64())}


class Vectorised(Windows_):
    """Returns for all windows at once which rows they have, twice if there are many."""

    def schema(self, rows: pa.Schema) -> pa.Schema:
        return pa.schema([("ids", pa.list_(pa.int64()))])

    def process_windows(self, rows: pa.Table, begins: Any, ends: Any) -> Any:
        ids = rows["id"].to_pylist()
        found = [ids[begin:end] for begin, end in zip(begins, ends, strict=True)]
        counts = [len(each) % 3 for each in found]
        table = pa.table(
            {"ids": pa.array([each for each, n in zip(found, counts, strict=True) for _ in range(n)], pa.list_(pa.int64()))}
        )
        return table, counts


def aggregated(rows: list[Row]) -> list[Row]:
    first = min(row["b"] for row in rows if row["ts"] == rows[0]["ts"])
    mean = sum(row["b"] for row in rows) / len(rows)
    highest = max(row["id"] for row in rows)
    return [{"n": len(rows), "total": sum(row["a"] for row in rows), "highest": highest, "opened": first, "mean": mean}]


@dataclass
class Case:
    """A step, and the answer of its twin for all rows of a key in order; without keys for all rows."""

    step: Callable[[], KeyedStep]
    twin: Callable[[int, list[Row]], list[Row]]
    is_keyed: bool = True


def by_count(length: int, slide: int, answer: Callable[[list[Row], int], list[Row]]) -> Callable[[int, list[Row]], list[Row]]:
    def twin(key: int, rows: list[Row]) -> list[Row]:
        found = []
        for number, start in enumerate(range(0, len(rows) - length + 1, slide)):
            window = rows[start : start + length]
            bounds = {
                "row_start": start,
                "row_end": start + length,
                "window_start": window[0]["ts"],
                "window_end": window[-1]["ts"],
            }
            found += [{"a": key, **bounds, **each} for each in answer(window, number)]
        return found

    return twin


def by_time(length: int, slide: int, answer: Callable[[list[Row], int], list[Row]]) -> Callable[[int, list[Row]], list[Row]]:
    def twin(key: int, rows: list[Row]) -> list[Row]:
        found = []
        starts = sorted(
            {start for row in rows for start in range(-200 * slide, 40_000, slide) if start <= row["ts"] < start + length}
        )
        for number, start in enumerate(starts):
            window = [row for row in rows if start <= row["ts"] < start + length]
            found += [{"a": key, "window_start": start, "window_end": start + length, **each} for each in answer(window, number)]
        return found

    return twin


def running(key: int, rows: list[Row]) -> list[Row]:
    sums = itertools.accumulate((row["id"] for row in rows), initial=1_000_000 * key)
    return [
        {"a": key, "id": row["id"], "sum": total, "n": n}
        for n, (row, total) in enumerate(zip(rows, list(sums)[1:], strict=True), 1)
    ]


def latest(key: int, rows: list[Row]) -> list[Row]:
    ids = [row["id"] for row in rows]
    return [{"a": key, "span": each - ids[max(place - 2, 0)]} for place, each in enumerate(ids)]


def of_all(twin: Callable[[int, list[Row]], list[Row]]) -> Callable[[int, list[Row]], list[Row]]:
    return lambda key, rows: [{name: value for name, value in row.items() if name != "a"} for row in twin(key, rows)]


def numbered(rows: list[Row], number: int) -> list[Row]:
    return [{"number": number, "ids": [row["id"] for row in rows]}]


def undominated(rows: list[Row], _: int) -> list[Row]:
    """Return the rows of a window for which no other has a lower id and a higher b, in order."""
    kept = [
        row
        for row in rows
        if not any(o["id"] <= row["id"] and o["b"] >= row["b"] and (o["id"], o["b"]) != (row["id"], row["b"]) for o in rows)
    ]
    return [{"ts": row["ts"], "b": row["b"], "id": row["id"]} for row in kept]


def with_a(rows: list[Row], number: int) -> list[Row]:
    """Return the same as whole rows."""
    kept = {row["id"] for row in undominated(rows, number)}
    return [row for row in rows if row["id"] in kept]


def best_two(rows: list[Row], _: int) -> list[Row]:
    """Return the two rows with the highest b, and ties with the second."""
    second = sorted((row["b"] for row in rows), reverse=True)[:2][-1]
    return [{"ts": row["ts"], "b": row["b"], "id": row["id"]} for row in rows if row["b"] >= second]


def thirds(rows: list[Row], _: int) -> list[Row]:
    return [{"ids": [row["id"] for row in rows]}] * (len(rows) % 3)


AGGREGATE = Aggregate(MEASURES, (), "ts")
SKYLINE, TOP_K = Skyline(low("id") * high("b")), TopK(high("b"), k=2)
COUNTED = [(1, 1), (3, 1), (3, 2), (5, 5), (4, 3)]
TIMED = [(300, 100), (300, 300), (500, 200)]
CASES = {
    "running": Case(lambda: step(operator=Operator(Running())), running),
    **{
        f"aggregate {w} by {s}": Case(
            lambda w=w, s=s: step(CountWindows(w, s), AggregateAnswer(AGGREGATE)), by_count(w, s, lambda rows, _: aggregated(rows))
        )
        for w, s in COUNTED
    },
    "aggregate asked window by window": Case(
        lambda: step(CountWindows(3, 2), QueryAnswer(AGGREGATE)), by_count(3, 2, lambda rows, _: aggregated(rows))
    ),
    "windows with a state": Case(lambda: step(CountWindows(3, 2), None, Operator(Windows_())), by_count(3, 2, numbered)),
    "windows at once": Case(
        lambda: step(CountWindows(4, 1), OperatorAnswer(Operator(Vectorised()), ("a",))), by_count(4, 1, thirds)
    ),
    **{
        f"time {w} by {s}": Case(
            lambda w=w, s=s: step(TimeWindows(Windows(w, s)), None, Operator(Windows_())), by_time(w, s, numbered)
        )
        for w, s in TIMED
    },
    "state as a table": Case(lambda: step(operator=Operator(Latest())), latest),
    "skyline by number": Case(lambda: step(CountWindows(4, 2), QueryAnswer(SKYLINE)), by_count(4, 2, undominated)),
    "skyline by time": Case(lambda: step(TimeWindows(Windows(300, 100)), QueryAnswer(SKYLINE)), by_time(300, 100, undominated)),
    "skyline of many slides": Case(
        lambda: step(TimeWindows(Windows(2_000, 50)), QueryAnswer(SKYLINE)), by_time(2_000, 50, undominated)
    ),
    "top k by number": Case(lambda: step(CountWindows(5, 5), QueryAnswer(TOP_K)), by_count(5, 5, best_two)),
    "top k by time": Case(lambda: step(TimeWindows(Windows(500, 200)), QueryAnswer(TOP_K)), by_time(500, 200, best_two)),
    "all tuples by number": Case(
        lambda: step(CountWindows(4, 3), None, Operator(Windows_()), keys=()), of_all(by_count(4, 3, numbered)), is_keyed=False
    ),
    "skyline of all tuples by number": Case(
        lambda: step(CountWindows(5, 2), QueryAnswer(SKYLINE), keys=()), by_count(5, 2, with_a), is_keyed=False
    ),
}


def plan_of(case: Case, folder: str, slack: Slack, slots: int = 2) -> Plan:
    return keyed.plan_of(case.step(), folder, slack, slots)


def in_order(rows: list[Row]) -> list[Row]:
    """Return rows as they came, but those of one window, which a query returns in any order, by their ids."""
    windows = itertools.groupby(rows, lambda row: (row.get("row_start"), row.get("window_start")))
    return [
        row
        for _, mine in windows
        for row in sorted(mine, key=lambda row: row["id"] if "window_start" in row and "id" in row else 0)
    ]


def check(out: Outputs, data: list[list[pa.Table]], case: Case) -> None:
    aside = {row["id"] for sink in (out.late, out.invalid) for row in sink.rows()}
    rows = [row for batch in data for part in batch for row in part.to_pylist() if row["id"] not in aside]
    keys: dict[int, list[Row]] = {}
    for row in sorted(
        ({**row, "ts": micros(row["ts"])} for row in rows), key=lambda row: (row["ts"], row["a"], row["b"], row["id"])
    ):
        keys.setdefault(row["a"] if case.is_keyed else 0, []).append(row)
    found: dict[int, list[Row]] = {}
    for row in out.results.rows():
        plain = {name: micros(value) if name.startswith("window_") or name == "ts" else value for name, value in row.items()}
        found.setdefault(plain["a"] if case.is_keyed else 0, []).append(plain)
    expected = {key: answers for key, mine in keys.items() if (answers := case.twin(key, mine))}
    assert found.keys() == expected.keys()
    for key, answers in expected.items():
        assert in_order(found[key]) == in_order(answers)  # also windows in this order


sizes_drawn = st.lists(st.integers(1, 4), min_size=7, max_size=7)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@given(batches=streams(), slack=slacks_drawn, sizes=sizes_drawn)
@settings(max_examples=examples(30))
def test_no_batch_slot_or_move_changes_a_result(name: str, batches: list[Batch], slack: Slack, sizes: list[int]) -> None:
    """The number of slots changes with every batch, and keys move all the time."""
    play_moving(CASES[name], batches, slack, sizes)


def play_moving(case: Case, batches: list[Batch], slack: Slack, sizes: list[int]) -> None:
    data, out = tuples(batches), Outputs()
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(*plan_of(case, folder, slack), out.sinks)
        for number, (batch, slots) in enumerate(zip(data, sizes, strict=False)):
            engine.resize(slots=slots)
            engine.rebalance()
            engine.run_batch(InProcess(), batch, number)
        engine.flush(InProcess())
    check(out, data, case)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@given(batches=streams(), slack=slacks_drawn, sizes=sizes_drawn)
@settings(max_examples=examples(30))
def test_groups_that_come_later_than_others_change_no_result(
    name: str, batches: list[Batch], slack: Slack, sizes: list[int]
) -> None:
    """The same, while a slot works first on the groups whose chunks are in memory, and then on those that it had to read."""
    with keyed.reading_slowly():
        play_moving(CASES[name], batches, slack, sizes)


@pytest.mark.parametrize("name", ["running", "aggregate 3 by 2"])
@given(apart=st.lists(st.integers(0, 500) | st.integers(0, 10**8) | st.integers(0, 10**14), max_size=25), size=st.integers(1, 25))
@settings(max_examples=examples(30))
def test_rows_that_are_years_apart_are_all_let_in(name: str, apart: list[int], size: int) -> None:
    times = list(itertools.accumulate(apart, initial=0))
    case, out = CASES[name], Outputs()
    data = tuples([[times[begin : begin + size]] for begin in range(0, len(times), size)])
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(*plan_of(case, folder, KSlack()), out.sinks)
        for number, batch in enumerate(data):
            engine.run_batch(InProcess(), batch, number)
        engine.flush(InProcess())
    assert not out.late.rows() and not out.invalid.rows()
    check(out, data, case)


def fragile_sinks(out: Outputs, bombs: Iterator[bool]) -> Sinks:
    return Sinks(*(Fragile(sink, bombs) for sink in (out.results, out.late, out.windows, out.invalid)))


@pytest.mark.parametrize("name", ["running", "aggregate 3 by 2", "windows with a state", "time 500 by 200"])
@given(
    batches=streams(),
    fuse=st.lists(st.booleans(), max_size=60),
    parts=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
)
@settings(max_examples=examples(30))
def test_a_crash_anywhere_changes_nothing(
    name: str, batches: list[Batch], fuse: list[bool], parts: list[int], sizes: list[int]
) -> None:
    """The process dies at any step and starts again, with other slots and other partitions; sinks must get the same."""
    play_crashing(name, batches, fuse, parts, sizes)


@pytest.mark.parametrize("name", ["running", "time 500 by 200"])
@given(
    batches=streams(),
    fuse=st.lists(st.booleans(), max_size=60),
    parts=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
)
@settings(max_examples=examples(30))
def test_a_crash_while_groups_come_changes_nothing(
    name: str, batches: list[Batch], fuse: list[bool], parts: list[int], sizes: list[int]
) -> None:
    with keyed.reading_slowly():
        play_crashing(name, batches, fuse, parts, sizes)


def play_crashing(name: str, batches: list[Batch], fuse: list[bool], parts: list[int], sizes: list[int]) -> None:
    case, data, out = CASES[name], tuples(batches), Outputs()
    dividing, slots, bombs = itertools.cycle(parts), itertools.cycle(sizes), iter(fuse)
    with tempfile.TemporaryDirectory() as folder:
        for number in [*range(len(data)), -1]:
            while True:
                plan = plan_of(case, folder, KSlack(), next(slots))
                plan = replace(plan, store=Fragile(plan.store, bombs))  # type: ignore[arg-type]
                try:
                    engine, jobs = Engine(*plan, fragile_sinks(out, bombs)), Fragile(InProcess(), bombs)
                    engine.finish_flush(jobs)  # type: ignore[arg-type]
                    if number == -1:
                        engine.flush(jobs)  # type: ignore[arg-type]
                    else:
                        whole, count = pa.concat_tables(data[number]), next(dividing)
                        split = [whole.take(pa.array(range(part, whole.num_rows, count), pa.int64())) for part in range(count)]
                        engine.run_batch(jobs, split, number)  # type: ignore[arg-type]
                except Crash:
                    continue
                break
    check(out, data, case)


def test_a_twin_that_forgets_a_row_is_found_out() -> None:
    case, data, out = CASES["aggregate 3 by 1"], tuples([[list(range(0, 5_000, 10))]]), Outputs()
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(*plan_of(case, folder, KSlack()), out.sinks)
        engine.run_batch(InProcess(), data[0], 0)
        engine.flush(InProcess())
    check(out, data, case)
    with pytest.raises(AssertionError):
        check(out, [[data[0][0].slice(1)]], case)


def test_a_batch_of_few_keys_writes_few_bytes() -> None:
    """Ten of 5,000 keys come again: then only a small part of all is written."""
    many = pa.table(
        {"ts": pa.array(range(5_000), pa.timestamp("us", "UTC")), "a": range(5_000), "b": [0.0] * 5_000, "id": range(5_000)}
    )
    few = [
        many.slice(0, 10).set_column(0, "ts", pa.array([t] * 10, pa.timestamp("us", "UTC"))) for t in range(10_000, 60_000, 10_000)
    ]
    with tempfile.TemporaryDirectory() as folder:
        plan = plan_of(CASES["running"], folder, FixedSlack(0))
        engine = Engine(*plan, Outputs().sinks)
        for number, rows in enumerate([many, *few]):
            engine.run_batch(InProcess(), [rows.cast(COLUMNS)], number)
        known = plan.store.latest().keyed
        assert known is not None
        sizes = sorted(chunk.size for chunk in known.chunks)
        assert len(sizes) <= 2 * 4
        assert sum(sizes[:-2]) < 0.05 * sizes[-1]


def test_chunks_stay_few_and_files_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skytide.spark.checkpoint.store.now_us", lambda: 1_700_000_000_000_000)  # one state per minute is kept, too
    with tempfile.TemporaryDirectory() as folder:
        plan, out = plan_of(CASES["aggregate 3 by 2"], folder, FixedSlack(0)), Collected()
        engine = Engine(*plan, Sinks(out))
        counts = []
        for number, batch in enumerate(tuples([[list(range(start, start + 200, 4))] for start in range(0, 20_000, 200)])):
            engine.run_batch(InProcess(), batch, number)
            known = plan.store.latest().keyed
            counts.append(len(known.chunks) if known else 0)
        assert max(counts) <= 2 * 8
        assert len(plan.store.files.names("keys")) <= max(counts) * 6


def skewed(batches: int, of_hundred: int) -> list[pa.Table]:
    """Return batches with a key that has some of a hundred tuples, and twenty other keys."""
    found = []
    for number in range(batches):
        ids = np.arange(number * 100, number * 100 + 100)
        keys = np.where(ids % 100 < of_hundred, 0, ids % 20 + 1)
        times = pa.array(ids * 10, pa.timestamp("us", "UTC"))
        found.append(pa.table({"ts": times, "a": keys, "b": ids.astype(float), "id": ids}, COLUMNS))
    return found


def test_a_key_that_fills_a_slot_has_it_for_itself_and_the_status_names_it() -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(*plan_of(CASES["aggregate 3 by 1"], folder, FixedSlack(0), slots=3), Outputs().sinks)
        plans = []
        for number, rows in enumerate(skewed(6, 80)):
            engine.run_batch(InProcess(), [rows], number)
            plans.append(engine.status().window_plan)
        assert engine.status().hot_keys == ("0",)
        assert engine.status().own_groups >= 1
        assert any("key 0 has" in plan and "alone on slot" in plan for plan in plans)


class Live_:
    """Measures as a query whose slots have too much to do, and later hardly anything."""

    trigger_s, busy = 0.5, True

    def __init__(self) -> None:
        self.metrics = self

    def observe(self, now_s: float, at: Allocation) -> Observation:
        load = 4.0 if self.busy else 0.2  # slots' worth of work
        rate_hz, used = 1_000.0 * load, load / at.workers
        served_hz = min(rate_hz, 1_000.0 * at.workers)
        loads = tuple((str(slot), min(used, 1.0)) for slot in range(at.workers))
        return Observation(now_s, 10, at, rate_hz, served_hz, used, 0.001, max(rate_hz - served_hz, 0) * 10, 0.1, 1.0, 1.0, loads)


class Running_:
    """A query in this process, as the auto-scaler sees one."""

    resize, next_slots = Run.resize, Run.next_slots

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def status(self) -> Any:
        return self._engine.status()


@pytest.mark.parametrize("name", [name for name in CONTROLLERS if name != "static"])
def test_each_controller_changes_the_slots_of_keys_and_no_result(name: str) -> None:
    case, out = CASES["aggregate 3 by 1"], Outputs()
    data = [[rows] for rows in skewed(10, 30)]
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(*plan_of(case, folder, FixedSlack(0)), out.sinks)
        live = Live_()
        slots = SlotPlant(live, RunSlots(Running_(engine)))  # type: ignore[arg-type]
        loop = Loop(slots, CONTROLLERS[name](), Guard.bounds(1, 8))
        sizes = []
        for number, batch in enumerate(data):
            live.busy = number < 5
            for each in range(10):
                loop.cycle(1_000.0 * number + 100.0 * each)
            engine.run_batch(InProcess(), batch, number)
            sizes.append(engine.status().slots)
            assert sizes[-1] == slots.size().workers
            assert len(set(plan_table(engine).slots)) <= sizes[-1]
        engine.flush(InProcess())
    check(out, data, case)
    assert max(sizes[:5]) > 2  # more than at the start
    assert min(sizes[5:]) < max(sizes[:5])


def test_a_second_scaler_begins_with_the_slots_that_there_are() -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(*plan_of(CASES["aggregate 3 by 1"], folder, FixedSlack(0)), Outputs().sinks)
        first, second = (SlotPlant(Live_(), RunSlots(Running_(engine))) for _ in range(2))  # type: ignore[arg-type]
        assert first.request(Allocation(7), 0).kind == "done"
        assert (first.size(), second.size()) == (Allocation(7), Allocation(7))
        assert second.request(Allocation(7), 1).kind == "kept"


def plan_table(engine: Engine) -> RoutingTable:
    keyed = engine.store.latest().keyed
    assert keyed is not None
    return keyed.table
