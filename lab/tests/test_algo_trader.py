"""The trader: all windows at once have the same results as one after the other, for any types, order and ranges."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.quotes import NAN, Windows, at_once, one_by_one, quotes, stamps, windows

from skytide.errors import InvalidInput
from skytide.testing import check_operator
from skytide_lab.trading import AlgoTrader


@dataclass(frozen=True)
class Rounding:
    """How far rounding may carry the fit of a window: by its condition, and farther ahead more."""

    near: float
    far: float

    @classmethod
    def of(cls, rows: pa.Table, trader: AlgoTrader) -> "Rounding":
        unit = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[rows.schema.field("ts").type.unit]
        stamps, prices = rows["ts"].cast(pa.int64()).to_pylist(), rows["price"].to_pylist()
        both = [
            (t * 1_000 // unit, float(p)) for t, p in zip(stamps, prices, strict=True) if None not in (t, p) and math.isfinite(p)
        ]
        if not both:
            return cls(0, 0)
        at, values = sorted({t for t, _ in both}), [p for _, p in both]
        span = at[-1] - at[0]
        terms = min(trader.degree + 1, len(at))
        x = [(2 * t - at[0] - at[-1]) / span for t in at] if span else [0.0]
        near = 1e-13 * float(np.linalg.cond(np.vander(x, terms))) * (max(values) - min(values)) + 1e-12 * max(values)
        return cls(near, 10 * near * (1 + 2_000 / span if span else 1.0) ** (terms - 1))


def differences(found: dict[str, Any], expected: dict[str, Any], rounding: Rounding, threshold: float) -> list[str]:
    """Return the names of the columns that differ by more than rounding."""
    wrong = [name for name in ("open", "high", "low", "close") if found[name] != expected[name]]
    near = {"mean", "fitted", "residual"}
    for name in (*near, "predicted", "error"):
        numbers = [row[name] for row in (found, expected) if row[name] is not None]
        if len(numbers) == 1 or (numbers and abs(numbers[0] - numbers[1]) > (rounding.near if name in near else rounding.far)):
            wrong.append(name)
    if (found["change"] is None) != (expected["change"] is None):
        wrong.append("change")
    if expected["change"] is None or abs(expected["fitted"]) < 0.1:
        return wrong
    slack = (300 * rounding.far + 3 * abs(expected["change"]) * rounding.near) / abs(expected["fitted"]) + 1e-12
    if abs(found["change"] - expected["change"]) > slack:
        wrong.append("change")
    margin = abs(abs(expected["predicted"] - expected["fitted"]) - 2 * (expected["error"] or 0.0))
    if abs(abs(expected["change"]) - threshold) > slack and margin > 4 * rounding.far and found["signal"] != expected["signal"]:
        wrong.append("signal")
    return wrong


@given(windows(), st.integers(0, 3), st.sampled_from([0.0, 0.01, 5.0]))
def test_the_trader_s_windows_are_those_of_each(given: Windows, degree: int, threshold: float) -> None:
    trader = AlgoTrader(degree=degree, threshold=threshold)
    for (begin, end), found, expected in zip(given.ranges, at_once(trader, given), one_by_one(trader, given), strict=True):
        rounding = Rounding.of(given.rows.slice(begin, end - begin), trader)
        assert differences(found, expected, rounding, threshold) == []


@given(windows(ordered=False))
def test_the_trader_needs_no_order(given: Windows) -> None:
    trader = AlgoTrader()
    for (begin, end), found, expected in zip(given.ranges, at_once(trader, given), one_by_one(trader, given), strict=True):
        rounding = Rounding.of(given.rows.slice(begin, end - begin), trader)
        assert differences(found, expected, rounding, trader.threshold) == []


def trend(slope: float, n: int = 200, noise: float = 0.001) -> pa.Table:
    """Return quotes every 10 ms of a price that changes by a constant amount per second."""
    wobble = noise * np.random.default_rng(1).standard_normal(n)
    return pa.table({"ts": stamps(*range(0, n * 10_000, 10_000)), "price": 100 + slope * np.arange(n) / 100 + wobble})


@pytest.mark.parametrize(("slope", "signal"), [(0.5, "buy"), (-0.5, "sell"), (0.0, "hold"), (0.005, "hold")])
def test_a_trend_gives_a_signal(slope: float, signal: str) -> None:
    trader, rows = AlgoTrader(degree=1, threshold=0.1), trend(slope)
    (found,) = at_once(trader, Windows(rows, [(0, len(rows))]))
    assert found["signal"] == signal == one_by_one(trader, Windows(rows, [(0, len(rows))]))[0]["signal"]
    assert found["predicted"] == pytest.approx(100 + slope * 2.99, abs=0.01)
    assert found["change"] == pytest.approx(100 * (found["predicted"] - found["fitted"]) / found["fitted"])


def test_noise_gives_no_signal_however_far_the_polynomial_goes() -> None:
    """Five milliseconds of noise, predicted for a second later: far away, and not believed."""
    rows = pa.table({"ts": stamps(0, 1_000, 2_000, 3_000, 4_000), "price": [100.0, 100.1, 99.9, 100.2, 100.0]})
    for found in (one_by_one(AlgoTrader(), Windows(rows, [(0, 5)])), at_once(AlgoTrader(), Windows(rows, [(0, 5)]))):
        assert abs(found[0]["change"]) > 1_000 and found[0]["signal"] == "hold"


def test_windows_without_quotes() -> None:
    rows = pa.table({"ts": stamps(0, 1, 2), "price": pa.array([None, NAN, 7.5], pa.float64())})
    ranges = Windows(rows, [(0, 2), (1, 1), (2, 3)])
    assert at_once(AlgoTrader(), ranges) == one_by_one(AlgoTrader(), ranges)
    nothing = at_once(AlgoTrader(), ranges)[0]
    assert nothing.pop("signal") == "hold" and set(nothing.values()) == {None}


def test_no_windows_and_no_rows() -> None:
    rows = pa.table({"ts": stamps(), "price": pa.array([], pa.decimal128(30, 3))})
    assert at_once(AlgoTrader(), Windows(rows, [])) == []
    assert len(at_once(AlgoTrader(), Windows(rows, [(0, 0)]))) == 1


def test_chunks_and_slices_do_not_matter() -> None:
    rows = trend(0.5)
    chunked = pa.concat_tables([trend(9.0).slice(3, 0), rows.slice(0, 70), rows.slice(70)])
    assert at_once(AlgoTrader(), Windows(chunked, [(0, 200)])) == at_once(AlgoTrader(), Windows(rows, [(0, 200)]))


@pytest.mark.parametrize(
    ("operator", "part"),
    [
        (AlgoTrader(price="cost"), "price='cost': no column has this name; name one of ts, price, volume, symbol"),
        (AlgoTrader(price="symbol"), "price='symbol': its type string is not a number"),
        (AlgoTrader(time="price"), "time='price': its type int64 is not a timestamp"),
    ],
)
def test_missing_and_strange_columns_are_refused(operator: AlgoTrader, part: str) -> None:
    rows = pa.table({"ts": stamps(0), "price": [1], "volume": [2], "symbol": ["IBM"]})
    for call in (lambda: operator.check(rows.schema), lambda: operator.schema(rows.schema), lambda: operator.process(None, rows)):
        with pytest.raises(InvalidInput) as caught:
            call()
        assert part in str(caught.value)


def test_a_name_that_two_columns_have_is_refused() -> None:
    rows = pa.schema([("ts", pa.timestamp("us")), ("price", pa.int64()), ("price", pa.int64())])
    with pytest.raises(InvalidInput, match="2 columns have this name"):
        AlgoTrader().check(rows)


@pytest.mark.parametrize(
    "options",
    [
        {"degree": 9}, {"degree": 1.5}, {"ahead": "soon"}, {"ahead": 3}, {"threshold": -1}, {"threshold": NAN}, {"threshold": "1"},
        {"price": ""}, {"time": None}, {"resolution": "0 s"},
    ],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        AlgoTrader(**options)


def test_the_twin_catches_guilty_specimens() -> None:
    """A trader that predicts too early, one that never sells, and a close that is not the last quote."""
    trader, rows = AlgoTrader(degree=1, threshold=0.1), trend(-0.5)
    given = Windows(rows, [(0, 200)])
    (expected,), rounding = one_by_one(trader, given), Rounding.of(rows, trader)
    (early,) = at_once(replace(trader, ahead="900 ms"), given)
    assert {"predicted", "change"} <= set(differences(early, expected, rounding, 0.1))
    (found,) = at_once(trader, given)
    assert differences(found, expected, rounding, 0.1) == []
    assert differences({**found, "signal": "hold"}, expected, rounding, 0.1) == ["signal"]
    assert differences({**found, "close": found["open"]}, expected, rounding, 0.1) == ["close"]


@given(rows=quotes(), seed=st.integers(0, 2**32))
def test_the_trader_keeps_the_laws_of_operators(rows: pa.Table, seed: int) -> None:
    check_operator(AlgoTrader(), rows, windowed=True, ignoring=["signal"], tries=1, seed=seed)  # a rounding error may turn a signal
