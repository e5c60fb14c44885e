"""Laws of operators on keys, applied to all of skytide and to some of users', and specimens that break them."""

from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.operator_laws import (
    START,
    Law,
    law_columns_are_known,
    law_divided_or_not,
    law_the_same_again,
    law_windows_at_once,
    quotes,
)

from skytide.errors import SkytideError
from skytide.keyed import Candlesticks, KeyedOperator


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


class Forgetful(Candlesticks):
    """Guilty: for all windows at once it drops the first row."""

    def process_windows(self, rows: pa.Table, begins: Any, ends: Any) -> Any:
        return super().process_windows(rows, np.minimum(begins + 1, ends), ends)


PRODUCT = Candlesticks(volume="size")
OPERATORS = [PRODUCT, Sums()]


CASES: list[tuple[Law, KeyedOperator]] = [
    *((law, own) for law in (law_the_same_again, law_columns_are_known) for own in OPERATORS),
    (law_divided_or_not, Sums()),
    (law_windows_at_once, PRODUCT),
]
GUILTY: list[tuple[Law, KeyedOperator]] = [
    (law_the_same_again, Calls()),
    (law_the_same_again, Objects()),
    (law_columns_are_known, type("Moody", (Sums,), {"schema": lambda self, rows: pa.schema([("other", pa.int64())])})()),
    (law_divided_or_not, Pieces()),
    (law_windows_at_once, Forgetful(volume="size")),
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
    with pytest.raises((AssertionError, SkytideError)):
        law(own, rows, 3)
