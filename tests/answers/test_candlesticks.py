"""Candlesticks: all windows at once have the same results as one after the other, for any types, order and ranges."""

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from support.quotes import NAN, Windows, at_once, one_by_one, stamps, windows

from skytide.errors import InvalidInput
from skytide.keyed import Candlesticks


@given(windows(), windows(ordered=False))
def test_candlesticks_of_all_windows_are_those_of_each(first: Windows, second: Windows) -> None:
    for each in (first, second):
        expected, found = one_by_one(Candlesticks(), each), at_once(Candlesticks(), each)
        for row in (*expected, *found):
            row["volume"] = pytest.approx(row["volume"], rel=1e-12) if isinstance(row["volume"], float) else row["volume"]
        assert [{**row, "volume": None} for row in found] == [{**row, "volume": None} for row in expected]
        assert [getattr(row["volume"], "expected", row["volume"]) for row in found] == [row["volume"] for row in expected]


def test_windows_without_quotes() -> None:
    rows = pa.table({"ts": stamps(0, 1, 2), "price": pa.array([None, NAN, 7.5], pa.float64()), "volume": [1, 2, 4]})
    ranges = Windows(rows, [(0, 2), (1, 1), (2, 3)])
    empty = {"open": None, "high": None, "low": None, "close": None}
    assert (
        at_once(Candlesticks(), ranges)
        == one_by_one(Candlesticks(), ranges)
        == [
            {**empty, "volume": 0, "quotes": 0},
            {**empty, "volume": 0, "quotes": 0},
            {"open": 7.5, "high": 7.5, "low": 7.5, "close": 7.5, "volume": 4, "quotes": 1},
        ]
    )


def test_no_windows_and_no_rows() -> None:
    rows = pa.table({"ts": stamps(), "price": pa.array([], pa.decimal128(30, 3)), "volume": pa.array([], pa.int64())})
    assert at_once(Candlesticks(), Windows(rows, [])) == []
    assert len(at_once(Candlesticks(), Windows(rows, [(0, 0)]))) == 1


def test_decimals_stay_decimals() -> None:
    rows = pa.table({"ts": stamps(0, 1), "price": [Decimal("1.10"), Decimal("1.30")], "volume": [Decimal("0.5"), None]})
    (found,) = at_once(Candlesticks(), Windows(rows, [(0, 2)]))
    assert (found["high"], found["volume"]) == (Decimal("1.30"), 0.5)


@pytest.mark.parametrize(
    ("operator", "part"),
    [
        (Candlesticks(time="when"), "time='when'"),
        (Candlesticks(volume="symbol"), "volume='symbol'"),
        (Candlesticks(price="ts"), "price='ts'"),
    ],
)
def test_missing_and_strange_columns_are_refused(operator: Candlesticks, part: str) -> None:
    rows = pa.table({"ts": stamps(0), "price": [1], "volume": [2], "symbol": ["IBM"]})
    for call in (lambda: operator.check(rows.schema), lambda: operator.schema(rows.schema), lambda: operator.process(None, rows)):
        with pytest.raises(InvalidInput) as caught:
            call()
        assert part in str(caught.value)


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InvalidInput):
        Candlesticks(volume=7)  # type: ignore[arg-type]
