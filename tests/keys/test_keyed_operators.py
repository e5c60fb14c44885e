"""Laws of operators on keys, applied to all of skytide and to some of users', and specimens that break them."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skytide.trading
from skytide.keyed import KeyedOperator, Operator

START = datetime(2024, 1, 1, 9, 30, tzinfo=UTC)


class Sums:
    """Adds up prices as rows come: an operator without windows."""

    def open(self, key: Any) -> Any:
        return np.zeros(1)

    def process(self, state: Any, rows: pa.Table) -> Any:
        sums = state[0] + np.cumsum(rows["price"].to_numpy())
        return sums[-1:] if len(sums) else state, {"sum": sums}


class Calls(Sums):
    """Guilty: its results depend on how often it was called."""

    calls = 0

    def process(self, state: Any, rows: pa.Table) -> Any:
        self.calls += 1
        return state, {"calls": [self.calls]}


class Pieces(Sums):
    """Guilty: its results depend on how rows are divided."""

    def process(self, state: Any, rows: pa.Table) -> Any:
        return state, {"rows": [rows.num_rows] if rows.num_rows else []}


class Objects(Sums):
    """Guilty: its state cannot be stored."""

    def process(self, state: Any, rows: pa.Table) -> Any:
        return {"a": 1}, {"sum": []}


class Forgetful(skytide.trading.Candlesticks):
    """Guilty: for all windows at once it drops the first row."""

    def process_windows(self, rows: pa.Table, begins: Any, ends: Any) -> Any:
        return super().process_windows(rows, np.minimum(begins + 1, ends), ends)


MADE = {"AlgoTrader": {}, "Candlesticks": {"price": "price", "volume": "size", "time": "ts"}}
PRODUCT = [getattr(skytide.trading, name)(**MADE[name]) for name in skytide.trading.__all__]
OPERATORS = [*PRODUCT, Sums()]


@st.composite
def quotes(draw: st.DrawFn) -> pa.Table:
    waits = draw(st.lists(st.integers(0, 2_000), min_size=0, max_size=12))
    times = [START + timedelta(milliseconds=int(ms)) for ms in np.cumsum(waits)]
    prices = draw(st.lists(st.integers(90, 110), min_size=len(waits), max_size=len(waits)))
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("price", pa.float64()), ("size", pa.int64())])
    return pa.table({"ts": times, "price": [float(price) for price in prices], "size": prices}, schema)


def plain(found: Any) -> list[dict[str, Any]]:
    rows = (found if isinstance(found, pa.Table) else pa.table(found)).to_pylist()
    return [{name: None if value != value else value for name, value in row.items()} for row in rows]


def law_the_same_again(own: KeyedOperator, rows: pa.Table, cut: int) -> None:
    """The same state and rows have the same results and the same state every time, even after it was stored."""
    operator = Operator(own)
    state, _ = operator.process("k", operator.open("k"), rows.slice(0, cut))
    kept = operator.packed(state)
    first, second = (operator.process("k", operator.unpacked(kept), rows.slice(cut)) for _ in range(2))
    assert plain(first[1]) == plain(second[1])
    assert operator.packed(first[0]) == operator.packed(second[0])


def law_columns_are_known(own: KeyedOperator, rows: pa.Table, cut: int) -> None:
    """Results have the declared columns."""
    operator = Operator(own)
    _, found = operator.process("k", operator.open("k"), rows)
    table = found if isinstance(found, pa.Table) else pa.table(found)
    assert set(operator.schema(rows.schema, ("k",) if "k" in rows.column_names else ()).names) == set(table.column_names)


def law_divided_or_not(own: KeyedOperator, rows: pa.Table, cut: int) -> None:
    """Without windows, some rows and then others are the same as all rows."""
    operator = Operator(own)
    whole = operator.process("k", operator.open("k"), rows)
    half = operator.process("k", operator.open("k"), rows.slice(0, cut))
    rest = operator.process("k", operator.unpacked(operator.packed(half[0])), rows.slice(cut))
    assert plain(half[1]) + plain(rest[1]) == plain(whole[1])
    assert operator.packed(rest[0]) == operator.packed(whole[0])


def law_windows_at_once(own: KeyedOperator, rows: pa.Table, cut: int) -> None:
    """All windows at once have the same results as one window after the other."""
    operator = Operator(own)
    begins, ends = np.array([0, cut // 2, cut]), np.array([cut, rows.num_rows, rows.num_rows])
    found, counts = operator.process_windows(rows, begins, ends)
    each = [plain(operator.process("k", None, rows.slice(b, e - b))[1]) for b, e in zip(begins, ends, strict=True)]
    assert counts.tolist() == [len(answer) for answer in each]
    for row, other in zip(plain(found), [row for answer in each for row in answer], strict=True):
        for name, value in row.items():
            same = pytest.approx(value, rel=1e-5, abs=1e-6) if isinstance(value, float) else value
            assert other[name] == same or name == "signal"  # a rounding error may turn a signal


Law = Callable[[KeyedOperator, pa.Table, int], None]
CASES: list[tuple[Law, KeyedOperator]] = [
    *((law, own) for law in (law_the_same_again, law_columns_are_known) for own in OPERATORS),
    (law_divided_or_not, Sums()),
    *((law_windows_at_once, own) for own in PRODUCT),
]
GUILTY: list[tuple[Law, KeyedOperator]] = [
    (law_the_same_again, Calls()),
    (law_the_same_again, Objects()),
    (law_columns_are_known, type("Moody", (Sums,), {"schema": lambda self, rows: pa.schema([("other", pa.int64())])})()),
    (law_divided_or_not, Pieces()),
    (law_windows_at_once, Forgetful(**MADE["Candlesticks"])),
]


def named(case: Any) -> str:
    return getattr(case, "__name__", type(case).__name__)


@pytest.mark.parametrize(("law", "own"), CASES, ids=named)
@given(rows=quotes(), at=st.floats(0, 1))
def test_each_operator_keeps_the_laws(law: Law, own: KeyedOperator, rows: pa.Table, at: float) -> None:
    law(own, rows, int(at * rows.num_rows))


@pytest.mark.parametrize(("law", "own"), GUILTY, ids=named)
def test_who_breaks_a_law_is_caught(law: Law, own: KeyedOperator) -> None:
    rows = pa.table(
        {
            "ts": pa.array([START + timedelta(seconds=second) for second in range(6)], pa.timestamp("us", "UTC")),
            "price": [100.0, 101.0, 99.0, 102.0, 98.0, 97.0],
            "size": list(range(6)),
        }
    )
    with pytest.raises((AssertionError, skytide.errors.SkytideError)):
        law(own, rows, 3)
