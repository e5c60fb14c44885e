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
from support.engine import COLUMNS, Batch, Collected, Crash, Fragile, InProcess, Outputs, micros, slacks_drawn, streams, tuples

from skytide.batch import Keying, Rules
from skytide.keyed import CountWindows, KeyedStep, OfAggregate, OfOperator, OfQuery, Operator, Rebalancer, Tagged, TimeWindows
from skytide.lateness import FixedSlack, KSlack, Slack
from skytide.queries import Aggregate, Measure
from skytide.spark.checkpoint import Store
from skytide.spark.engine import Engine, Plan
from skytide.spark.outlets import Sinks
from skytide.windows import Windows

TICK = Windows(100, 100)
Row = dict[str, Any]
MEASURES = tuple(
    map(Measure.parse, ("count(*) AS n", "sum(a) AS total", "max(id) AS highest", "first(b) AS opened", "avg(b) AS mean"))
)


class Running:
    """Counts the rows of a key, and adds them up: its state is a NumPy array."""

    def open(self, key: Any) -> np.ndarray[Any, Any]:
        return np.array([0, 1_000_000 * key])

    def process(self, state: Any, rows: pa.Table) -> Any:
        ids = rows["id"].to_numpy()
        sums = state[1] + np.cumsum(ids)
        after = np.array([state[0] + len(ids), sums[-1] if len(ids) else state[1]])
        return after, {"id": ids, "sum": sums, "n": state[0] + np.arange(1, len(ids) + 1)}


class Windows_:
    """Counts the windows of a key in bytes, and tells which rows they have."""

    def open(self, key: Any) -> bytes:
        return b""

    def process(self, state: bytes, rows: pa.Table) -> Any:
        return state + b".", pa.table({"number": [len(state)], "ids": [rows["id"].to_pylist()]})


class Vectorised(Windows_):
    """Says of all windows at once which rows they have, twice if there are many."""

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
    """A step, and what its twin answers for all rows of a key in order."""

    step: Callable[[], KeyedStep]
    twin: Callable[[int, list[Row]], list[Row]]


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


def step(windows: CountWindows | TimeWindows | None = None, answer: Any = None, operator: Any = None) -> KeyedStep:
    return KeyedStep(("a",), "ts", COLUMNS, windows, answer, operator)


def numbered(rows: list[Row], number: int) -> list[Row]:
    return [{"number": number, "ids": [row["id"] for row in rows]}]


def thirds(rows: list[Row], _: int) -> list[Row]:
    return [{"ids": [row["id"] for row in rows]}] * (len(rows) % 3)


AGGREGATE = Aggregate(MEASURES, (), "ts")
COUNTED = [(1, 1), (3, 1), (3, 2), (5, 5), (4, 3)]
TIMED = [(300, 100), (300, 300), (500, 200)]
CASES = {
    "running": Case(lambda: step(operator=Operator(Running())), running),
    **{
        f"aggregate {w} by {s}": Case(
            lambda w=w, s=s: step(CountWindows(w, s), OfAggregate(AGGREGATE)), by_count(w, s, lambda rows, _: aggregated(rows))
        )
        for w, s in COUNTED
    },
    "aggregate asked window by window": Case(
        lambda: step(CountWindows(3, 2), OfQuery(AGGREGATE)), by_count(3, 2, lambda rows, _: aggregated(rows))
    ),
    "windows with a state": Case(lambda: step(CountWindows(3, 2), None, Operator(Windows_())), by_count(3, 2, numbered)),
    "windows at once": Case(lambda: step(CountWindows(4, 1), OfOperator(Operator(Vectorised()), ("a",))), by_count(4, 1, thirds)),
    **{
        f"time {w} by {s}": Case(
            lambda w=w, s=s: step(TimeWindows(Windows(w, s)), None, Operator(Windows_())), by_time(w, s, numbered)
        )
        for w, s in TIMED
    },
}


def plan_of(case: Case, folder: str, slack: Slack, slots: int = 2) -> Plan:
    made = case.step()
    tick = TICK if not isinstance(made.windows, TimeWindows) else made.windows.tick
    windows = made.windows.windows if isinstance(made.windows, TimeWindows) else None
    keying = Keying(slots, Rebalancer(threshold=1.05, target=1.01, own_share=0.3), windows)
    return Plan(Tagged(("a",)), Rules(tick, slack, keying=keying), "ts", COLUMNS, (), Store(folder), "a query", True, True, made)


def check(out: Outputs, data: list[list[pa.Table]], case: Case) -> None:
    aside = {row["id"] for sink in (out.late, out.invalid) for row in sink.rows()}
    rows = [row for batch in data for part in batch for row in part.to_pylist() if row["id"] not in aside]
    keys: dict[int, list[Row]] = {}
    for row in sorted(
        ({**row, "ts": micros(row["ts"])} for row in rows), key=lambda row: (row["ts"], row["a"], row["b"], row["id"])
    ):
        keys.setdefault(row["a"], []).append(row)
    found: dict[int, list[Row]] = {}
    for row in out.results.rows():
        plain = {name: micros(value) if name.startswith("window_") else value for name, value in row.items()}
        found.setdefault(plain["a"], []).append(plain)
    expected = {key: answers for key, mine in keys.items() if (answers := case.twin(key, mine))}
    assert found.keys() == expected.keys()
    for key, answers in expected.items():
        assert found[key] == answers  # also in this order


sizes_drawn = st.lists(st.integers(1, 4), min_size=7, max_size=7)


@pytest.mark.parametrize("name", CASES)
@given(batches=streams(), slack=slacks_drawn, sizes=sizes_drawn)
@settings(max_examples=30)
def test_no_batch_slot_or_move_changes_a_result(name: str, batches: list[Batch], slack: Slack, sizes: list[int]) -> None:
    """The number of slots changes with every batch, and keys move all the time."""
    case, data, out = CASES[name], tuples(batches), Outputs()
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(plan_of(case, folder, slack), out.sinks)
        for number, (batch, slots) in enumerate(zip(data, sizes, strict=False)):
            engine.resize(slots=slots)
            engine.rebalance()
            engine.run_batch(InProcess(), batch, number)
        engine.flush(InProcess())
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
@settings(max_examples=30)
def test_a_crash_anywhere_changes_nothing(
    name: str, batches: list[Batch], fuse: list[bool], parts: list[int], sizes: list[int]
) -> None:
    """The process dies at any step and starts again, with other slots and other partitions; what sinks got may not differ."""
    case, data, out = CASES[name], tuples(batches), Outputs()
    dividing, slots, bombs = itertools.cycle(parts), itertools.cycle(sizes), iter(fuse)
    with tempfile.TemporaryDirectory() as folder:
        for number in [*range(len(data)), -1]:
            while True:
                plan = plan_of(case, folder, KSlack(), next(slots))
                plan = replace(plan, store=Fragile(plan.store, bombs))  # type: ignore[arg-type]
                try:
                    engine, jobs = Engine(plan, fragile_sinks(out, bombs)), Fragile(InProcess(), bombs)
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
        engine = Engine(plan_of(case, folder, KSlack()), out.sinks)
        engine.run_batch(InProcess(), data[0], 0)
        engine.flush(InProcess())
    check(out, data, case)
    with pytest.raises(AssertionError):
        check(out, [[data[0][0].slice(1)]], case)


def test_a_batch_of_few_keys_writes_few_bytes() -> None:
    """Of 5,000 keys ten come again: what is written then is a small part of what all are."""
    many = pa.table(
        {"ts": pa.array(range(5_000), pa.timestamp("us", "UTC")), "a": range(5_000), "b": [0.0] * 5_000, "id": range(5_000)}
    )
    few = [
        many.slice(0, 10).set_column(0, "ts", pa.array([t] * 10, pa.timestamp("us", "UTC"))) for t in range(10_000, 60_000, 10_000)
    ]
    with tempfile.TemporaryDirectory() as folder:
        plan = plan_of(CASES["running"], folder, FixedSlack(0))
        engine = Engine(plan, Outputs().sinks)
        for number, rows in enumerate([many, *few]):
            engine.run_batch(InProcess(), [rows.cast(COLUMNS)], number)
        keyed = plan.store.latest().keyed
        assert keyed is not None
        sizes = sorted(chunk.size for chunk in keyed.chunks)
        assert len(sizes) <= 2 * 4
        assert sum(sizes[:-2]) < 0.05 * sizes[-1]


def test_chunks_stay_few_and_files_are_removed() -> None:
    with tempfile.TemporaryDirectory() as folder:
        plan, out = plan_of(CASES["aggregate 3 by 2"], folder, FixedSlack(0)), Collected()
        engine = Engine(plan, Sinks(out))
        counts = []
        for number, batch in enumerate(tuples([[list(range(start, start + 200, 4))] for start in range(0, 20_000, 200)])):
            engine.run_batch(InProcess(), batch, number)
            keyed = plan.store.latest().keyed
            counts.append(len(keyed.chunks) if keyed else 0)
        assert max(counts) <= 2 * 8
        assert len(plan.store.files.names("keys")) <= max(counts) * 6
