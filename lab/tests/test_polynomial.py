"""Polynomials fitted to windows, against SciPy's Levenberg-Marquardt and NumPy's polyfit."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import least_squares

from skytide.errors import InvalidInput
from skytide_lab.kernels.polynomial import Fits, fit_windows

NAN, INF = float("nan"), float("inf")
MS = 1_000


@dataclass(frozen=True)
class Expected:
    """A window's fit, and how far rounding may carry it."""

    fitted: float
    predicted: float
    residual: float
    points: int
    near: float
    far: float


def averaged(times: list[int], prices: list[float], resolution: int) -> tuple[list[int], NDArray[np.float64]]:
    found: dict[int, list[float]] = {}
    for time, price in zip(times, prices, strict=True):
        if np.isfinite(price):
            found.setdefault(time // resolution, []).append(price)
    at = sorted(found)
    return at, np.array([np.mean(found[bucket]) for bucket in at])


def by_scipy(x: NDArray[np.float64], y: NDArray[np.float64], degree: int) -> NDArray[np.float64]:
    """Return coefficients, highest power first."""
    powers = np.vander(x, degree + 1)
    start = np.zeros(degree + 1)
    start[-1] = y[0]
    found = least_squares(lambda c: powers @ c - y, start, jac=lambda c: powers, method="lm", xtol=1e-15, ftol=1e-15, gtol=1e-15)
    return np.asarray(found.x)


def by_polyfit(x: NDArray[np.float64], y: NDArray[np.float64], degree: int) -> NDArray[np.float64]:
    return np.asarray(np.linalg.lstsq(np.vander(x, degree + 1), y, rcond=None)[0]) if len(x) == 1 else np.polyfit(x, y, degree)


Fitter = Callable[[NDArray[np.float64], NDArray[np.float64], int], NDArray[np.float64]]


def twin(times: list[int], prices: list[float], degree: int, ahead: int, resolution: int, fit: Fitter) -> Expected | None:
    at, y = averaged(times, prices, resolution)
    if not at:
        return None
    degree, span = min(degree, len(at) - 1), at[-1] - at[0]
    x = np.array([(2 * bucket - at[0] - at[-1]) / span for bucket in at]) if span else np.zeros(1)
    now, later = (1.0, 1.0 + 2 * ahead / resolution / span) if span else (0.0, 0.0)
    coefficients = fit(x, y, degree)
    gap = np.polyval(coefficients, x) - y
    condition = np.linalg.cond(np.vander(x, degree + 1))  # by so much the twin's own rounding may grow
    rounding = np.finfo(float).eps * condition
    near = 1e-13 * condition * np.ptp(y) + (1e-12 + rounding) * np.abs(y).max()
    predicted = np.polyval(coefficients, later)
    return Expected(
        np.polyval(coefficients, now),
        predicted,
        float(np.sqrt(np.mean(gap**2))),
        len(at),
        near,
        near * max(1.0, abs(later)) ** degree * 10 + rounding * abs(predicted) * 10,
    )


def check(fits: Fits, window: int, expected: Expected | None) -> None:
    if expected is None:
        assert fits.points[window] == 0
        assert np.isnan([fits.predicted[window], fits.fitted[window], fits.residual[window], *fits.coefficients[window]]).all()
        return
    assert fits.points[window] == expected.points
    assert fits.fitted[window] == pytest.approx(expected.fitted, abs=expected.near)
    assert fits.residual[window] == pytest.approx(expected.residual, abs=expected.near)
    assert fits.predicted[window] == pytest.approx(expected.predicted, abs=expected.far)


@st.composite
def quotes(draw: st.DrawFn) -> tuple[list[int], list[float], list[tuple[int, int]]]:
    """Draw rows whose times are clustered, some without a price, and ranges of them."""
    gaps = draw(st.lists(st.sampled_from([0, 0, 1, 300, 999, 1_000, 5_000, 70_000, 2_000_000]), max_size=60))
    times = [int(time) for time in 1_700_000_000_000_000 + np.cumsum([0, *gaps])]
    price = st.one_of(st.floats(1, 1_000), st.sampled_from([100.0, 100.01, NAN, INF]))
    prices = draw(st.lists(price, min_size=len(times), max_size=len(times)))
    bounds = st.tuples(st.integers(0, len(times)), st.integers(0, len(times))).map(lambda pair: (min(pair), max(pair)))
    return times, prices, draw(st.lists(bounds, max_size=6))


def fitted(rows: tuple[list[int], list[float], list[tuple[int, int]]], **options: Any) -> Fits:
    times, prices, ranges = rows
    bounds = np.array(ranges, np.int64).reshape(-1, 2)
    return fit_windows(np.array(times, np.int64), np.array(prices, float), bounds[:, 0], bounds[:, 1], **options)


@given(quotes(), st.integers(0, 4), st.sampled_from([1_000, 40_000, 1_000_000]), st.sampled_from([1, 1_000, 100_000]))
def test_windows_are_fitted_as_polyfit_does(rows: Any, degree: int, ahead: int, resolution: int) -> None:
    times, prices, ranges = rows
    fits = fitted(rows, degree=degree, ahead_us=ahead, resolution_us=resolution)
    for window, (begin, end) in enumerate(ranges):
        check(fits, window, twin(times[begin:end], prices[begin:end], degree, ahead, resolution, by_polyfit))


@given(quotes(), st.integers(0, 3))
def test_windows_are_fitted_as_scipy_does(rows: Any, degree: int) -> None:
    times, prices, ranges = rows
    fits = fitted(rows, degree=degree, ahead_us=5_000)
    for window, (begin, end) in enumerate(ranges):
        expected = twin(times[begin:end], prices[begin:end], degree, 5_000, MS, by_scipy)
        if expected is None or expected.near < 1e-6:  # beyond that SciPy, which stops at 1e-15, is the less exact one
            check(fits, window, expected)


@given(quotes(), st.randoms(use_true_random=False))
def test_the_order_of_rows_in_a_window_does_not_matter(rows: Any, random: Any) -> None:
    times, prices, _ = rows
    order = list(range(len(times)))
    random.shuffle(order)
    both = [
        fitted((list(np.take(times, way)), list(np.take(prices, way)), [(0, len(times))])) for way in (range(len(times)), order)
    ]
    expected = twin(times, prices, 2, 1_000_000, MS, by_polyfit)
    for fits in both:
        check(fits, 0, expected)


def day(n: int = 4_000, seed: int = 3) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    rng = np.random.default_rng(seed)
    return np.cumsum(rng.exponential(700, n)).astype(np.int64), 180 + np.cumsum(rng.normal(0, 0.01, n))


def test_the_paper_s_windows_are_fitted_in_few_steps() -> None:
    times, prices = day()
    ends = np.arange(1_000, len(times) + 1, 25)
    fits = fit_windows(times, prices, ends - 1_000, ends, degree=2, ahead_us=50_000)
    assert fits.steps.max() <= 6
    for window in range(0, len(ends), 7):
        part = slice(ends[window] - 1_000, ends[window])
        check(fits, window, twin(times[part].tolist(), prices[part].tolist(), 2, 50_000, MS, by_scipy))


def test_coefficients_and_scale_evaluate_to_what_is_predicted() -> None:
    times, prices = day(1_500)
    fits = fit_windows(times, prices, np.array([0, 300]), np.array([1_000, 1_500]), degree=3, ahead_us=20_000)
    for window, last in enumerate((times[999], times[1_499])):
        x = (last // MS * MS + 20_000 - fits.middle_us[window]) / fits.half_us[window]
        assert np.polyval(fits.coefficients[window][::-1], x) == pytest.approx(fits.predicted[window], rel=1e-12)


def test_the_error_of_a_prediction_is_that_of_linear_regression() -> None:
    times, prices = day(400)
    fits = fit_windows(times, prices, np.array([0]), np.array([400]), degree=2, ahead_us=30_000)
    at, y = averaged(times.tolist(), prices.tolist(), MS)
    span = at[-1] - at[0]
    powers = np.vander([(2 * bucket - at[0] - at[-1]) / span for bucket in at], 3)
    later = np.vander([1 + 60 / span], 3)[0]
    gap = y - powers @ np.linalg.lstsq(powers, y, rcond=None)[0]
    variance = gap @ gap / (len(y) - 3) * (later @ np.linalg.inv(powers.T @ powers) @ later)
    assert fits.error[0] == pytest.approx(np.sqrt(variance), rel=1e-9)


@pytest.mark.parametrize(
    ("times", "prices", "coefficients", "predicted", "residual"),
    [
        ([7_000, 7_000, 7_999], [1.0, 2.0, 6.0], [3.0, 0, 0], 3.0, 0.0),  # one millisecond
        ([7_000], [5.0], [5.0, 0, 0], 5.0, 0.0),  # one quote
        ([0, 2_000], [4.0, 6.0], [5.0, 1.0, 0], 10.0, 0.0),  # fewer than coefficients: a line through both, 4 ms on
        ([0, 1_000, 2_000, 9_000], [0.1] * 4, [0.1, 0, 0], 0.1, 0.0),  # equal prices, to the last bit
        ([0, 0, 0, 0, 0, 0], [0.1] * 6, [0.1, 0, 0], 0.1, 0.0),
        ([0, 1_000, 2_000], [NAN, 3.0, INF], [3.0, 0, 0], 3.0, 0.0),
        ([0, 1_000], [NAN, -INF], [NAN] * 3, NAN, NAN),
        ([], [], [NAN] * 3, NAN, NAN),
        ([0, 1_000, 2_000], [1e300, -1e300, 1e300], [NAN] * 3, NAN, NAN),  # whose squares are no numbers
        ([0, 1_000, 2_000, 3_000], [1e-200, 3e-200, 1e-200, 3e-200], [1e-200, 0, 0], 1e-200, 0.0),
    ],
)
def test_windows_with_too_little_in_them(
    times: list[int], prices: list[float], coefficients: list[float], predicted: float, residual: float
) -> None:
    fits = fitted((times, prices, [(0, len(times))]), degree=2, ahead_us=4_000)
    assert fits.coefficients[0].tolist() == pytest.approx(coefficients, abs=1e-150, rel=1e-14, nan_ok=True)
    assert fits.predicted[0] == pytest.approx(predicted, abs=1e-150, rel=1e-14, nan_ok=True)
    assert fits.residual[0] == pytest.approx(residual, abs=1e-14, nan_ok=True)


def test_equal_prices_stay_equal_to_the_last_bit() -> None:
    fits = fitted(([0, 0, 0, 1_000, 2_000, 2_000, 2_000], [0.1] * 7, [(0, 7)]), degree=1)
    assert (fits.predicted[0], fits.residual[0], fits.error[0], fits.coefficients[0].tolist()) == (0.1, 0.0, 0.0, [0.1, 0.0])


def test_no_noise_is_known_where_every_point_has_its_coefficient() -> None:
    fits = fitted(([0, 2_000, 3_000], [4.0, 6.0, 1.0], [(0, 3)]), degree=2)
    assert np.isnan(fits.error[0]) and fits.residual[0] == pytest.approx(0, abs=1e-12)


def test_a_cluster_far_from_one_quote_is_fitted_as_well_as_qr_can() -> None:
    times = [0, *range(3_600_000_000, 3_600_200_000, 1_000)]
    prices = (100 + np.random.default_rng(5).normal(0, 1, len(times))).tolist()
    fits = fitted((times, prices, [(0, len(times))]), degree=2, ahead_us=1_000_000)
    expected = twin(times, prices, 2, 1_000_000, MS, by_polyfit)
    assert expected is not None
    assert fits.residual[0] == pytest.approx(expected.residual, rel=1e-9)
    assert np.isfinite(fits.predicted[0])


def test_no_windows_and_no_rows() -> None:
    fits = fitted(([], [], []))
    assert fits.coefficients.shape == (0, 3) and len(fits.predicted) == 0


@pytest.mark.parametrize(
    ("begins", "ends", "options", "part"),
    [
        ([0], [4], {}, "rows 0 to 4 of window 0"),
        ([-1], [2], {}, "rows -1 to 2"),
        ([2], [1], {}, "rows 2 to 1"),
        ([0, 1], [1], {}, "shape (2,)"),
        ([0], [3], {"degree": 9}, "degree=9"),
        ([0], [3], {"degree": -1}, "degree=-1"),
        ([0], [3], {"ahead_us": 0}, "time ahead of 0"),
        ([0], [3], {"resolution_us": 0}, "resolution of 0"),
    ],
)
def test_the_border_refuses(begins: list[int], ends: list[int], options: dict[str, int], part: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        fit_windows(np.arange(3), np.ones(3), np.array(begins), np.array(ends), **options)
    assert part in str(caught.value)


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(InvalidInput, match="columns of 3, 2 rows"):
        fit_windows(np.arange(3), np.ones(2), np.array([0]), np.array([2]))


def test_the_twin_catches_who_forgets_to_average_and_who_stops_after_one_damped_step() -> None:
    """Guilty specimens."""
    times, prices, ranges = [0, 0, 0, 1_000, 2_000, 3_000], [1.0, 9.0, 9.0, 2.0, 4.0, 3.0], [(0, 6)]
    expected = twin(times, prices, 1, 1_000_000, MS, by_scipy)
    assert expected is not None
    check(fitted((times, prices, ranges), degree=1), 0, expected)
    raw = np.polyfit((np.array(times) - 1_500) / 1_500, prices, 1)
    assert abs(raw @ [1, 1] - expected.fitted) > 1e6 * expected.near
    x, y = np.array([-1, -1 / 3, 1 / 3, 1]), np.array([19 / 3, 2.0, 4.0, 3.0])
    powers = np.vander(x, 2)
    normal = powers.T @ powers
    once = np.linalg.solve(normal + 1e-3 * np.diag(np.diag(normal)), powers.T @ y)
    assert abs(once @ [1, 1] - expected.fitted) > 1e6 * expected.near
