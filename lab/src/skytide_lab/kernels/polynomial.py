"""Fits polynomials to the prices of many windows by Levenberg-Marquardt (P2 §5.1).

Prices of one resolution interval (1 ms in P2) are averaged first, and time is scaled to [-1, 1]. The model is linear in its coefficients,
so its Jacobian J never changes: one QR decomposition of [J | y] holds all that the steps need, and a step costs the same however
many quotes a window has. It is QR and not J'J, which would square the condition number, as the times of quotes are clustered.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skytide.errors.checks import check_integer, positive_us
from skytide.kernels.compiled import compiled
from skytide.kernels.order import Indices
from skytide.kernels.ranges import check_ranges

Floats = NDArray[np.float64]

MAX_DEGREE = 8
MAX_KERNEL_US = 2**62  # times that a compiled loop adds to others
MAX_STEPS = 60
FIRST_DAMPING = 1e-3
FACTOR = 10.0  # damping falls by it after a step that helps, and rises by it after one that does not
SMALL_STEP = 1e-13  # relative to the coefficients: the fit is found
ROUNDING = 1e-15  # relative to the prices: nothing is left to explain
TINY = 1e-150  # shorter vectors count as 0: their squares do not fit into a float


class Fits(NamedTuple):
    """The fit of each window; all values are NaN where a window has no price."""

    coefficients: Floats
    """One row per window, lowest power first, of the time scaled to [-1, 1]: (time - middle_us) / half_us, or 0 where half_us is 0."""
    middle_us: Floats
    half_us: Floats
    fitted: Floats
    """The polynomial at the window's last interval with a price."""
    predicted: Floats
    """The polynomial some time later."""
    error: Floats
    """The standard error of `predicted` for independent residuals; NaN where there are as many coefficients as points."""
    residual: Floats
    """The root of the mean squared distance between averaged prices and the polynomial."""
    points: Indices
    """Intervals with a price."""
    steps: Indices
    """Steps that Levenberg-Marquardt took."""


def fit_windows(
    times_us: NDArray[np.int64],
    prices: Floats,
    begins: Indices,
    ends: Indices,
    *,
    degree: int = 2,
    ahead_us: int = 1_000_000,
    resolution_us: int = 1_000,
) -> Fits:
    """Return a polynomial fitted to each window, which is a half-open range of rows; ranges may overlap and come in any order.

    - Prices that are not finite are left out, as if their rows were not there.
    - Fewer intervals than coefficients: the polynomial has the highest degree that these determine, and higher coefficients are 0.
      One interval: a constant.
    - Equal prices: exactly that price, and a residual of 0.
    - No price at all: NaN, and 0 points.
    - Times within a window need not be in order. Where squares of price differences overflow (1e154 and more) the fit is NaN.

    >>> times = np.arange(5) * 1_000_000
    >>> fits = fit_windows(times, 10.0 + np.arange(5.0) ** 2, np.array([0]), np.array([5]), degree=2, ahead_us=2_000_000)
    >>> fits.coefficients.round(9).tolist(), fits.predicted.round(9).tolist(), fits.points.tolist()
    ([[14.0, 8.0, 4.0]], [46.0], [5])
    """
    check_integer("degree", degree, 0, MAX_DEGREE)
    positive_us("time ahead", ahead_us, MAX_KERNEL_US)
    positive_us("resolution", resolution_us, MAX_KERNEL_US)
    begins, ends = check_ranges(begins, ends, len(times_us), len(prices))
    buckets = np.floor_divide(times_us, resolution_us, dtype=np.int64)
    clean = np.where(np.isfinite(prices), prices, np.nan).astype(np.float64, copy=False)
    falls = np.zeros(len(buckets), np.int64)  # how often time went backwards up to each row
    np.cumsum(buckets[1:] < buckets[:-1], out=falls[1:])
    coefficients = np.full((len(begins), degree + 1), np.nan)
    fits = np.full((len(begins), 6), np.nan)
    counts = np.zeros((len(begins), 2), np.int64)
    _fit(buckets, clean, falls, begins, ends, ahead_us / resolution_us, coefficients, fits, counts)
    fits[:, :2] *= resolution_us
    return Fits(coefficients, *fits.T, *counts.T)


@compiled
def _fit(
    buckets: NDArray[np.int64],
    prices: Floats,
    falls: Indices,
    begins: Indices,
    ends: Indices,
    ahead: float,
    coefficients: Floats,
    fits: Floats,
    counts: Indices,
) -> None:
    """Fit each window; `fits` gets middle, half, fitted, predicted, error and residual, `counts` points and steps."""
    longest = 0
    for w in range(len(begins)):
        longest = max(longest, ends[w] - begins[w])
    at = np.empty(longest, np.int64)
    matrix = np.empty((coefficients.shape[1] + 1, longest))  # one row per column of [J | y], so that loops run along memory
    for w in range(len(begins)):
        begin, end = begins[w], ends[w]
        if begin == end:
            continue
        if falls[end - 1] == falls[begin]:
            points, base = _average(buckets[begin:end], prices[begin:end], at, matrix[-1])
        else:
            order = np.argsort(buckets[begin:end], kind="mergesort")
            points, base = _average(buckets[begin:end][order], prices[begin:end][order], at, matrix[-1])
        counts[w, 0] = points
        if points == 0:
            continue
        span = at[points - 1] - at[0]
        fits[w, 0] = at[0] + 0.5 * span
        fits[w, 1] = 0.5 * span
        later = 1.0 + 2.0 * ahead / span if span > 0 else 0.0
        terms = min(coefficients.shape[1], points)
        if terms <= matrix.shape[0] - 2:
            matrix[terms, :points] = matrix[-1, :points]
        _powers(at[:points], span, matrix[:terms])
        _reduce(matrix[: terms + 1], points)
        tail = matrix[terms, terms] ** 2 if points > terms else 0.0
        if not np.isfinite(_dot(matrix[terms, :terms], matrix[terms, :terms]) + tail):
            continue
        coefficients[w, :] = 0.0
        counts[w, 1], left = _marquardt(matrix, terms, coefficients[w])
        fits[w, 2] = base + _value(coefficients[w], 1.0 if span > 0 else 0.0)
        fits[w, 3] = base + _value(coefficients[w], later)
        if points > terms:
            fits[w, 4] = np.sqrt((left + tail) / (points - terms)) * _leverage(matrix, terms, later)
        fits[w, 5] = np.sqrt((left + tail) / points)
        coefficients[w, 0] += base


@compiled
def _average(buckets: NDArray[np.int64], prices: Floats, at: NDArray[np.int64], means: Floats) -> tuple[int, float]:
    """Average the prices of each interval, minus the first price of all, and return their number and that price: so no digits are lost."""
    points, count, total, base = 0, 0, 0.0, 0.0
    for i in range(len(buckets)):
        price = prices[i]
        if np.isnan(price):
            continue
        if count == 0:
            base = price
            at[0] = buckets[i]
        elif buckets[i] != at[points]:
            means[points] = total / count
            points += 1
            at[points] = buckets[i]
            count, total = 0, 0.0
        total += price - base
        count += 1
    if count == 0:
        return 0, 0.0
    means[points] = total / count
    return points + 1, base


@compiled
def _powers(at: NDArray[np.int64], span: int, rows: Floats) -> None:
    """Fill the Jacobian: powers of the time scaled to [-1, 1]."""
    points = len(at)
    rows[0, :points] = 1.0
    if len(rows) > 1:
        for i in range(points):
            rows[1, i] = (2 * (at[i] - at[0]) - span) / span
    for power in range(2, len(rows)):
        for i in range(points):
            rows[power, i] = rows[power - 1, i] * rows[1, i]


@compiled
def _dot(a: Floats, b: Floats) -> float:
    """Return the scalar product, by four sums that do not wait for each other."""
    s, t, u, v = 0.0, 0.0, 0.0, 0.0
    whole = len(a) // 4 * 4
    for i in range(0, whole, 4):
        s += a[i] * b[i]
        t += a[i + 1] * b[i + 1]
        u += a[i + 2] * b[i + 2]
        v += a[i + 3] * b[i + 3]
    for i in range(whole, len(a)):
        s += a[i] * b[i]
    return (s + t) + (u + v)


@compiled
def _reduce(matrix: Floats, length: int) -> None:
    """Make the columns (rows of `matrix`, up to `length`) upper triangular by Householder reflections; below the diagonal anything is left."""
    for k in range(min(len(matrix), length)):
        reflector = matrix[k, k:length]
        norm = np.sqrt(_dot(reflector, reflector))
        if norm < TINY:
            continue
        first = reflector[0]
        signed = norm if first >= 0.0 else -norm
        reflector[0] = first + signed
        scale = 1.0 / (norm * (norm + abs(first)))
        for j in range(k + 1, len(matrix)):
            column = matrix[j, k:length]
            share = scale * _dot(reflector, column)
            for i in range(len(column)):
                column[i] -= share * reflector[i]
        reflector[0] = -signed


@compiled
def _marquardt(matrix: Floats, terms: int, fit: Floats) -> tuple[int, float]:
    """Find the coefficients for a triangle R and its right side, starting from 0; return the steps and the remaining squared error.

    A step solves min |R d - (q - R c)|² + damping |D d|², with D the norms of the Jacobian's columns, as Marquardt scales them. Damping
    falls tenfold after each step that helps: 3 to 5 steps reach the minimum, more where times are clustered.
    """
    right = matrix[terms]
    scales, step, tried = np.empty(terms), np.empty(terms), np.empty(terms)
    for j in range(terms):
        scales[j] = np.sqrt(_dot(matrix[j, : j + 1], matrix[j, : j + 1]))
    stacked = np.empty((terms + 1, 2 * terms))
    everything = _dot(right[:terms], right[:terms])
    cost, damping, steps = everything, FIRST_DAMPING, 0
    while steps < MAX_STEPS and cost > ROUNDING * ROUNDING * everything:
        steps += 1
        stacked[:] = 0.0
        for j in range(terms):
            stacked[j, : j + 1] = matrix[j, : j + 1]
            stacked[j, terms + j] = np.sqrt(damping) * scales[j]
        _remaining(matrix, right, terms, fit, stacked[terms])
        _reduce(stacked, 2 * terms)
        _solve(stacked, terms, step)
        tried[:] = fit[:terms] + step
        _remaining(matrix, right, terms, tried, stacked[terms])
        left = _dot(stacked[terms, :terms], stacked[terms, :terms])
        if left < cost:
            fit[:terms] = tried
            cost = left
            damping /= FACTOR
        else:
            damping *= FACTOR
        if _norm(scales * step) <= SMALL_STEP * _norm(scales * fit[:terms]):
            break
    return steps, cost


@compiled
def _norm(values: Floats) -> float:
    return sqrt(_dot(values, values))


@compiled
def _remaining(matrix: Floats, right: Floats, terms: int, coefficients: Floats, into: Floats) -> None:
    """Compute the part of the right side that coefficients do not explain: q - R c."""
    for i in range(terms):
        rest = right[i]
        for j in range(i, terms):
            rest -= matrix[j, i] * coefficients[j]
        into[i] = rest


@compiled
def _solve(triangle: Floats, terms: int, into: Floats) -> None:
    """Solve a triangular system from below; the right side is the last column."""
    for back in range(terms):
        i = terms - 1 - back
        rest = triangle[terms, i]
        for j in range(i + 1, terms):
            rest -= triangle[j, i] * into[j]
        into[i] = rest / triangle[i, i] if triangle[i, i] != 0.0 else 0.0


@compiled
def _value(coefficients: Floats, x: float) -> float:
    value = 0.0
    for back in range(len(coefficients)):
        value = value * x + coefficients[len(coefficients) - 1 - back]
    return value


@compiled
def _leverage(matrix: Floats, terms: int, x: float) -> float:
    """Return how much of the points' noise a value at x has: the norm of v / R, with v the powers of x."""
    weights = np.empty(terms)
    power = 1.0
    for j in range(terms):
        rest = power
        for i in range(j):
            rest -= matrix[j, i] * weights[i]
        if matrix[j, j] == 0.0:
            return np.inf
        weights[j] = rest / matrix[j, j]
        power *= x
    return _norm(weights)
