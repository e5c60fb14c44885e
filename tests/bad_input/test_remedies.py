"""The remedies of errors that end a running query, followed: the query goes on with its checkpoint, and gives what an oracle says.

`tests/bad_input/test_remedies_are_followed.py` sees to it that none is missing.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support import keyed
from support.engine import InProcess, Outputs, Plan, plan_of
from support.remedies import BAD, WINDOWS, Data, Row, by_window, found_in, goes_on, rows_of, stream, until_it_ends

from skytide.errors import InvalidInput, SkytideError
from skytide.keyed import AggregateAnswer, CountWindows, Operator, OperatorAnswer
from skytide.keyed.tagged import OfEachKey
from skytide.lateness import FixedSlack
from skytide.queries import Aggregate, Measure, Over, Query, Skyline, TopK, high
from skytide.spark.engine.engine import Engine


def changed(data: Data, change: Callable[[Row], Row | None]) -> Data:
    """Return a stream after a filter or an expression of the user."""
    return [
        [pa.Table.from_pylist([row for each in part.to_pylist() if (row := change(each))], part.schema) for part in batch]
        for batch in data
    ]


def is_missing(value: float | None) -> bool:
    return value is None or math.isnan(value)


def best(rows: list[Row]) -> set[tuple[int]]:
    """Return the row with the highest `b`; values that are missing are the worst, and equal."""
    highest = max(-math.inf if is_missing(row["b"]) else row["b"] for row in rows)
    return {(row["id"],) for row in rows if (-math.inf if is_missing(row["b"]) else row["b"]) == highest}


@pytest.mark.parametrize("value", [None, math.nan], ids=["NULL", "NaN"])
@pytest.mark.parametrize("remedy", ["drop", "worst", "invalid="])
def test_values_that_cannot_be_compared(tmp_path: Path, value: float | None, remedy: str) -> None:
    data, out, query = stream(b=value), Outputs(), Skyline(high("b"))
    plan = plan_of(query, str(tmp_path), WINDOWS, FixedSlack(0)).but(invalid_wanted=False)
    at = until_it_ends(
        plan, out, data, r'pass nulls="drop" to leave such rows out, or nulls="worst" to rank them last', InvalidInput
    )
    if remedy == "invalid=":
        goes_on(plan.but(invalid_wanted=True), out, data, at)
        assert {row["id"] for row in out.invalid.rows()} == set(BAD)
    else:
        goes_on(plan.but(query=replace(query, nulls=remedy)), out, data, at)  # type: ignore[arg-type]
    rows = [row for row in rows_of(data) if remedy == "worst" or not is_missing(row["b"])]
    assert found_in(out, "id") == by_window(rows, best)


@pytest.mark.parametrize("remedy", ["drop", "worst"])
def test_answers_that_cannot_be_compared(tmp_path: Path, remedy: Any) -> None:
    """As those of the window that `try_divide` has no answer for."""
    data, out = stream(b=None), Outputs()
    highest = Aggregate((Measure.parse("max(b) AS highest"), Measure.parse("count(*) AS n")))
    plan = plan_of(Over(highest, TopK(high("highest"), k=1)), str(tmp_path), WINDOWS, FixedSlack(0))
    at = until_it_ends(plan, out, data, 'nulls="worst" to rank them last', InvalidInput)
    goes_on(plan.but(query=Over(highest, TopK(high("highest"), k=1, nulls=remedy))), out, data, at)

    def answer(rows: list[Row]) -> set[tuple[Any, int]]:
        values = [row["b"] for row in rows if row["b"] is not None]
        return {(max(values, default=None), len(rows))} if values or remedy == "worst" else set()

    assert found_in(out, "highest", "n") == by_window(rows_of(data), answer)


class Running:
    """Adds up the ids of each key, and is out of order in one way until it is mended: the class keeps its name."""

    flaw = ""

    def open(self, key: Any) -> Any:
        return np.zeros(1, np.int64)

    def process(self, state: Any, rows: pa.Table) -> Any:
        ids = rows["id"].to_numpy()
        sums, bad = state[0] + np.cumsum(ids), self.flaw and max(ids, default=0) >= BAD[0]
        if bad and self.flaw == "raises":
            raise ZeroDivisionError("no such value")
        found: dict[str, Any] = {"id": ids, "total": sums}
        if bad and self.flaw == "columns":
            del found["total"]
        if bad and self.flaw == "lengths":
            found["total"] = [*sums.tolist(), 0]
        if bad and self.flaw == "types":
            found["total"] = ["many"] * len(ids)
        after = np.array([sums[-1] if len(ids) else state[0]])
        return (after.tolist() if bad and self.flaw == "state" else after), found


class Opening(Running):
    def open(self, key: Any) -> Any:
        if key == 7 and self.flaw:
            raise ZeroDivisionError("no such key")
        return super().open(key)


class Upgrading(Running):
    def upgrade(self, state: Any, version: int) -> Any:
        if self.flaw:
            raise ZeroDivisionError("no such state")
        return state


def totals(data: Data) -> set[tuple[int, int]]:
    found, sums = set(), dict.fromkeys([*range(10), None], 0)
    for row in sorted(rows_of(data), key=lambda row: int(row["ts"])):
        sums[row["a"]] += row["id"]
        found.add((row["id"], sums[row["a"]]))
    return found


def keyed_plan(folder: Path, operator: Any) -> Plan:
    return keyed.plan_of(keyed.step(operator=Operator(operator)), str(folder), FixedSlack(0)).but(invalid_wanted=False)


@pytest.mark.parametrize(
    ("own", "flaw", "says"),
    [
        (Running, "raises", r"process of Running raised ZeroDivisionError for the key \d: no such value"),
        (Running, "columns", "process of Running returned the columns id instead of id, total"),
        (Running, "lengths", "process of Running returned columns of different lengths"),
        (Running, "types", "process of Running returned columns of the wrong types"),
        (Running, "state", "the state of Running is a list; return None, bytes, an Arrow table or a plain NumPy array"),
        (Opening, "open", "open of Opening raised ZeroDivisionError for the key 7: no such key"),
    ],
)
def test_operators_are_mended(tmp_path: Path, own: Any, flaw: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, out = stream(a=7), Outputs()
    monkeypatch.setattr(own, "flaw", flaw)
    at = until_it_ends(keyed_plan(tmp_path, own()), out, data, says)
    monkeypatch.setattr(own, "flaw", "")
    goes_on(keyed_plan(tmp_path, own()), out, data, at)
    assert {(row["id"], row["total"]) for row in out.results.rows()} == totals(data)


def test_an_upgrade_is_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, out = stream(), Outputs()
    engine = Engine(*keyed_plan(tmp_path, Upgrading()), out.sinks)
    for number in (0, 1):
        engine.run_batch(InProcess(), data[number], number)
    monkeypatch.setattr(Upgrading, "version", 2, raising=False)
    monkeypatch.setattr(Upgrading, "flaw", "upgrade")
    engine = Engine(*keyed_plan(tmp_path, Upgrading()), out.sinks)
    with pytest.raises(SkytideError, match="upgrade of Upgrading from version 1 raised ZeroDivisionError: no such state"):
        engine.run_batch(InProcess(), data[2], 2)
    monkeypatch.setattr(Upgrading, "flaw", "")
    goes_on(keyed_plan(tmp_path, Upgrading()), out, data, 2)
    assert {(row["id"], row["total"]) for row in out.results.rows()} == totals(data)


class Pairs:
    """Adds up the ids of each window at once."""

    flaw = ""

    def open(self, key: Any) -> None:
        return None

    def process(self, state: Any, rows: pa.Table) -> Any:
        return None, {"total": np.array([rows["id"].to_numpy().sum()])}

    def process_windows(self, rows: pa.Table, begins: Any, ends: Any) -> Any:
        ids = rows["id"].to_numpy()
        if self.flaw and max(ids, default=0) >= BAD[0]:
            raise ZeroDivisionError("no such window")
        sums = [int(ids[begin:end].sum()) for begin, end in zip(begins, ends, strict=True)]
        return pa.table({"total": pa.array(sums, pa.int64())}), np.ones(len(sums), np.int64)


def pairs(data: Data, key: Callable[[Row], Any] = lambda row: row["a"]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    waiting: dict[Any, int] = {}
    for row in sorted(rows_of(data), key=lambda row: int(row["ts"])):
        before = waiting.pop(key(row), None)
        if before is None:
            waiting[key(row)] = row["id"]
        else:
            found.append((before, row["id"]))
    return found


def test_an_operator_on_whole_windows_is_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, out = stream(), Outputs()

    def plan() -> Plan:
        operator = Operator(Pairs())
        return keyed.plan_of(
            keyed.step(CountWindows(2, 2), OperatorAnswer(operator, ("a",)), operator), str(tmp_path), FixedSlack(0)
        )

    monkeypatch.setattr(Pairs, "flaw", "raises")
    at = until_it_ends(plan(), out, data, "process_windows of Pairs raised ZeroDivisionError: no such window")
    monkeypatch.setattr(Pairs, "flaw", "")
    goes_on(plan(), out, data, at)
    assert sorted(row["total"] for row in out.results.rows()) == sorted(map(sum, pairs(data)))


def test_a_sum_of_a_key_that_overflows(tmp_path: Path) -> None:
    """Tests of expressions over aggregates follow the same remedy where there are no keys."""
    data, out, most = changed(stream(), lambda row: row | {"b": 0.0}), Outputs(), 2**62
    data = changed(data, lambda row: row | {"id": most if row["id"] in BAD else row["id"]})

    def plan(measure: str) -> Plan:
        query = Aggregate((Measure.parse(f"{measure}(id) AS total"),), time="ts")
        made = keyed.plan_of(keyed.step(CountWindows(2, 2), AggregateAnswer(query)), str(tmp_path), FixedSlack(0))
        return made.but(identity=query.identity().of_keys(("a",)))

    at = until_it_ends(plan("sum"), out, data, r"write try_sum\(id\), which is NULL there", InvalidInput)
    goes_on(plan("try_sum"), out, data, at)
    expected = [sum(each) if sum(each) < 2**63 else None for each in pairs(data)]
    assert None in expected
    assert sorted(map(str, (row["total"] for row in out.results.rows()))) == sorted(map(str, expected))


KEY_REMEDIES: dict[str, Callable[[Row], Row | None]] = {
    "invalid=": lambda row: row,
    "filter": lambda row: row if row["a"] is not None else None,
    "coalesce": lambda row: row | {"a": 9 if row["a"] is None else row["a"]},
}


@pytest.mark.parametrize("remedy", KEY_REMEDIES)
@pytest.mark.parametrize("kind", ["operator", "aggregate"])
def test_rows_without_a_key(tmp_path: Path, kind: str, remedy: str) -> None:
    data, out = stream(a=None), Outputs()
    query: Query = OfEachKey.of(Aggregate((Measure.parse("sum(id) AS total"),), keys=("a",), time="ts"))
    plan = keyed_plan(tmp_path, Running()) if kind == "operator" else plan_of(query, str(tmp_path), WINDOWS, FixedSlack(0))
    plan = plan.but(invalid_wanted=False)
    says = r"a NULL is not a key; filter them out, replace them with coalesce\(\.\.\.\), or put them aside with invalid="
    at = until_it_ends(plan, out, data, says, InvalidInput)
    after = changed(data, KEY_REMEDIES[remedy])
    goes_on(plan.but(invalid_wanted=remedy == "invalid="), out, after, at)
    assert {row["id"] for row in out.invalid.rows()} == (set(BAD) if remedy == "invalid=" else set())
    valid = changed(after, KEY_REMEDIES["filter"])
    if kind == "operator":
        assert {(row["id"], row["total"]) for row in out.results.rows()} == totals(valid)
        return

    def sums(rows: list[Row]) -> set[tuple[int, int]]:
        return {(key, sum(row["id"] for row in rows if row["a"] == key)) for key in {row["a"] for row in rows}}

    assert found_in(out, "a", "total") == by_window(rows_of(valid), sums)
