"""Laws of operators on keys, applied to all of skytide and to some of users', and specimens that break them."""

from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.quotes import START, quotes

from skytide.errors import SkytideError
from skytide.keyed import Candlesticks, KeyedOperator
from skytide.testing import BrokenLaw, check_operator


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


class Forgets(Sums):
    """Guilty: its state depends on how rows are divided."""

    def process(self, state: Any, rows: pa.Table) -> Any:
        return np.array([float(rows.num_rows)]), {"sum": []}


class Objects(Sums):
    """Guilty: its state cannot be stored."""

    def process(self, state: Any, rows: pa.Table) -> Any:
        return {"a": 1}, {"sum": []}


class Forgetful(Candlesticks):
    """Guilty: for all windows at once it drops the first row."""

    def process_windows(self, rows: pa.Table, begins: Any, ends: Any) -> Any:
        return super().process_windows(rows, np.minimum(begins + 1, ends), ends)


@given(rows=quotes(), seed=st.integers(0, 2**32))
def test_candlesticks_keep_the_laws(rows: pa.Table, seed: int) -> None:
    check_operator(Candlesticks(volume="size"), rows, windowed=True, tries=1, seed=seed)


@given(rows=quotes(), seed=st.integers(0, 2**32))
def test_an_operator_without_windows_keeps_the_laws(rows: pa.Table, seed: int) -> None:
    check_operator(Sums(), rows, tries=1, seed=seed)


SIX = [
    {"ts": START + timedelta(seconds=second), "symbol": "AB"[second % 2], "price": price, "size": second}
    for second, price in enumerate([100.0, 101.0, 99.0, 102.0, 98.0, 97.0])
]


@pytest.mark.parametrize(
    ("guilty", "law"),
    [
        (Calls(), "the same state and rows"),
        (Objects(), "the state of Objects is a dict"),
        (type("Moody", (Sums,), {"schema": lambda self, rows: pa.schema([("other", pa.int64())])})(), "results have the columns"),
        (Pieces(), "rows may be divided anywhere"),
        (Forgets(), "rows may be divided anywhere; the states after them differ"),
        (Forgetful(volume="size"), "`process_windows` returns"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_who_breaks_a_law_is_caught(guilty: KeyedOperator, law: str) -> None:
    with pytest.raises((BrokenLaw, SkytideError), match=law):
        check_operator(guilty, SIX, windowed=isinstance(guilty, Forgetful))


class Named(Sums):
    """Guilty for one key only."""

    def process(self, state: Any, rows: pa.Table) -> Any:
        odd = rows.num_rows and rows["symbol"][0].as_py() == "B"
        return state, {"rows": [rows.num_rows] if odd else []}


def test_each_key_is_judged_on_its_own() -> None:
    with pytest.raises(BrokenLaw):
        check_operator(Named(), SIX, keys="symbol")
    check_operator(Named(), [row for row in SIX if row["symbol"] == "A"], keys=["symbol"])
