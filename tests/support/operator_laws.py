"""Laws of operators on keys, and quotes to apply them to."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from skytide.keyed import KeyedOperator, Operator

START = datetime(2024, 1, 1, 9, 30, tzinfo=UTC)
Law = Callable[[KeyedOperator, pa.Table, int], None]


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
