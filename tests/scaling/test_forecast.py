"""Forecasters: each reproduces the series it is made for, and its intervals hold what they claim."""

import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skytide.control.models.sizing import Sizing, sizing
from skytide.errors import InvalidInput
from skytide.forecasting import Forecast, Forecaster, ForecasterLogic, Holt, HoltWinters, LastValue

FORECASTERS: list[Forecaster] = [LastValue(), Holt(), HoltWinters(period=6)]
SEASON = (0.0, 5.0, 8.0, 3.0, -6.0, -10.0)
Series = Callable[[int], float]


def fed(forecaster: Forecaster, series: Series, steps: int) -> ForecasterLogic:
    logic = forecaster.build()
    for at in range(steps):
        logic.observe(series(at))
    return logic


def reproduces(logic: ForecasterLogic, series: Series, now: int) -> bool:
    """Return whether the next steps are forecast exactly, without any uncertainty."""
    return all(
        logic.forecast(k) == Forecast(*[pytest.approx(series(now + k - 1), abs=1e-6)] * 3)  # type: ignore[arg-type]
        for k in range(1, 15)
    )


@given(value=st.floats(-1e6, 1e6), steps=st.integers(1, 40))
@pytest.mark.parametrize("forecaster", FORECASTERS, ids=repr)
def test_a_constant_gives_itself(forecaster: Forecaster, value: float, steps: int) -> None:
    logic = fed(forecaster, lambda _: value, steps)
    found = logic.forecast(5)
    assert (found.low, found.mean, found.high) == pytest.approx((value, value, value), abs=1e-3)


@given(slope=st.floats(-100, 100), start=st.floats(-1e3, 1e3), steps=st.integers(2, 40))
def test_a_line_gives_the_line(slope: float, start: float, steps: int) -> None:
    assert reproduces(fed(Holt(), lambda at: start + slope * at, steps), lambda at: start + slope * at, steps)


def test_a_season_gives_the_season_even_on_a_slope() -> None:
    def series(at: int) -> float:
        return 100 + 2 * at + SEASON[at % 6]

    for steps in (12, 13, 40):
        assert reproduces(fed(HoltWinters(period=6), series, steps), series, steps)


@pytest.mark.parametrize(
    ("guilty", "series"),
    [(LastValue(), lambda at: 3.0 * at), (Holt(), lambda at: SEASON[at % 6]), (HoltWinters(period=5), lambda at: SEASON[at % 6])],
    ids=["LastValue on a line", "Holt on a season", "another season"],
)
def test_what_a_forecaster_does_not_know_it_does_not_give_back(guilty: Forecaster, series: Series) -> None:
    assert not reproduces(fed(guilty, series, 40), series, 40)


def test_holt_by_hand() -> None:
    """SPEC A3 with a = 0.5, g = 0.5 after the first two values 10 and 12 (level 12, trend 2).

    15: level 7.5 + 7 = 14.5, trend 1.25 + 1 = 2.25; 14: level 7 + 8.375 = 15.375, trend 0.4375 + 1.125 = 1.5625.
    """
    logic = Holt(level=0.5, trend=0.5).build()
    for value in (10, 12, 15, 14):
        logic.observe(value)
    assert logic.forecast(1).mean == pytest.approx(16.9375)
    assert logic.forecast(4).mean == pytest.approx(15.375 + 4 * 1.5625)


@pytest.mark.parametrize("coverage", [0.5, 0.9])
@pytest.mark.parametrize("k", [1, 4])
def test_an_interval_holds_what_it_claims(coverage: float, k: int) -> None:
    """A series as Holt's method assumes it: the level and the trend move with every error."""
    config = Holt(level=0.5, trend=0.1)
    level, trend, series = 1_000.0, 0.0, []
    for error in np.random.default_rng(5).normal(0, 10, 4_000):
        series.append(level + trend + error)
        level, trend = level + trend + config.level * error, trend + config.level * config.trend * error
    assert _covered(config, series, k, coverage) == pytest.approx(coverage, abs=0.05)
    assert _covered(LastValue(), np.cumsum(np.random.default_rng(6).normal(0, 1, 4_000)), k, coverage) == pytest.approx(
        coverage, abs=0.05
    )


def _covered(forecaster: Forecaster, series: "list[float] | np.ndarray", k: int, coverage: float) -> float:
    logic, held, judged = forecaster.build(), 0, 0
    for at in range(len(series) - k):
        logic.observe(float(series[at]))
        if at >= 50:
            found = logic.forecast(k, coverage)
            held += found.low <= series[at + k] <= found.high
            judged += 1
    return held / judged


def test_further_ahead_is_less_certain() -> None:
    for forecaster in FORECASTERS:
        logic = fed(forecaster, lambda at: float(at * at % 17), 50)
        widths = [logic.forecast(k).high - logic.forecast(k).low for k in (1, 2, 5, 20)]
        assert widths == sorted(widths)
        assert widths[0] > 0
        assert logic.forecast(3, coverage=0).low == logic.forecast(3, coverage=0).high


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40), st.integers(0, 39))
@pytest.mark.parametrize("forecaster", FORECASTERS, ids=repr)
def test_a_snapshot_goes_on_alike(forecaster: Forecaster, values: list[float], cut: int) -> None:
    whole, part = forecaster.build(), forecaster.build()
    for at, value in enumerate(values):
        if at == cut:
            part = forecaster.build(json.loads(json.dumps(part.snapshot())))
        whole.observe(value)
        part.observe(value)
    assert whole.forecast(3) == part.forecast(3)


def test_what_is_no_number_is_passed_over() -> None:
    logic = fed(Holt(), float, 10)
    before = logic.forecast(2)
    logic.observe(float("nan"))
    logic.observe(float("inf"))
    assert logic.forecast(2) == before


def test_what_cannot_be_forecast_is_refused() -> None:
    with pytest.raises(InvalidInput, match="there is no value yet"):
        Holt().build().forecast(1)
    with pytest.raises(InvalidInput, match="not a future step"):
        fed(Holt(), float, 3).forecast(0)
    with pytest.raises(InvalidInput, match="level=0: not a weight"):
        Holt(level=0)
    with pytest.raises(InvalidInput, match="at least two steps"):
        HoltWinters(period=1)


def test_sizing_by_hand() -> None:
    """SPEC E7: 9,000 tuples/s of 1 ms with 10 % in reserve need 10 nodes; those send 10,000 results/s of 0.2 ms: 2.2, so 3 nodes."""
    assert sizing(9_000, 0.001, capacity_hz=1_000, merge_cost_s=0.0002, headroom=0.1) == Sizing(10, 3)
    assert sizing(0, 0.001, capacity_hz=1_000, merge_cost_s=0.0002) == Sizing(1, 1)
    with pytest.raises(InvalidInput, match="not a share of a node"):
        sizing(1, 1, capacity_hz=1, merge_cost_s=1, headroom=1)
    with pytest.raises(InvalidInput, match="below 0"):
        sizing(-1, 1, capacity_hz=1, merge_cost_s=1)
