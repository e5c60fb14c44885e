"""Measures how long a fit takes: `python -m benchmarks.trading`.

Windows of 1,000 quotes every 25, averaged per millisecond, and a polynomial of degree 2 (P2 §5.1). SciPy and NumPy get the averaged points
of one window after the other; the kernel also averages, so "with averages" adds the time that NumPy needs for that.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy.optimize import least_squares

from benchmarks.timing import Disagreement, Goal, announce, duration, race, show
from skytide_lab.kernels.polynomial import fit_windows

WINDOW, SLIDE, DEGREE, AHEAD_US = 1_000, 25, 2, 1_000_000
QUOTES, SEED = 30_000, 3
MEAN_GAPS_US = {"calm, 50 quotes per second": 20_000.0, "a burst, 2,000 quotes per second": 500.0}
MIN_RATIO = 5.0
AGREE = 1e-8  # relative to the price

Floats = NDArray[np.float64]


def quotes(mean_gap_us: float, n: int = QUOTES) -> tuple[NDArray[np.int64], Floats]:
    """Return synthetic quotes of one symbol, about a cent apart."""
    random = np.random.default_rng(SEED)
    times = np.cumsum(random.exponential(mean_gap_us, n)).astype(np.int64)
    return times, np.round(180 + np.cumsum(random.normal(0, 0.005, n)), 2)


def averaged(times: NDArray[np.int64], prices: Floats) -> tuple[Floats, Floats, float]:
    """Return one window's points in scaled time, and the scaled time to predict."""
    at, place = np.unique(times // 1_000, return_inverse=True)
    means = np.bincount(place, prices) / np.bincount(place)
    span = at[-1] - at[0]
    return (2 * (at - at[0]) - span) / span, means, 1 + 2 * AHEAD_US / 1_000 / span


def by_scipy(x: Floats, y: Floats, later: float) -> float:
    """Return the prediction of SciPy's Levenberg-Marquardt."""
    powers = np.vander(x, DEGREE + 1)
    start = np.zeros(DEGREE + 1)
    found = least_squares(lambda c: powers @ c - y, start, jac=lambda _: powers, method="lm")
    return float(np.polyval(found.x, later))


def by_polyfit(x: Floats, y: Floats, later: float) -> float:
    """Return the prediction of NumPy's linear least squares."""
    return float(np.polyval(np.polyfit(x, y, DEGREE), later))


def measure(kind: str, n: int = QUOTES, max_rounds: int = 7) -> dict[str, Any]:
    """Race over the windows of one kind of stream, and return the times; all predictions must agree."""
    times, prices = quotes(MEAN_GAPS_US[kind], n)
    ends = np.arange(WINDOW, n + 1, SLIDE)
    begins = ends - WINDOW
    bounds = list(zip(begins.tolist(), ends.tolist(), strict=True))
    points = [averaged(times[begin:end], prices[begin:end]) for begin, end in bounds]

    def each(fit: Callable[[Floats, Floats, float], float]) -> Callable[[], Floats]:
        return lambda: np.array([fit(*window) for window in points])

    def averages() -> Floats:
        for begin, end in bounds:
            averaged(times[begin:end], prices[begin:end])
        return ours()

    def ours() -> Floats:
        return fit_windows(times, prices, begins, ends, degree=DEGREE, ahead_us=AHEAD_US).predicted

    ours()  # compile
    contestants = {"skytide": ours, "scipy lm": each(by_scipy), "numpy polyfit": each(by_polyfit), "averages": averages}
    runs = race(contestants, min_rounds=2, max_rounds=max_rounds, budget_s=4.0, slow_s=20.0)
    for name, run in runs.items():
        worst = float(np.max(np.abs(run.answer - runs["skytide"].answer)))
        if not worst <= AGREE * float(prices.max()):
            raise Disagreement(f"{kind}: the predictions of {name} and skytide differ by up to {worst:g}")
    best = {name: run.best_s / len(ends) for name, run in runs.items()}
    best["averages"] -= best["skytide"]
    return {"kind": kind, "windows": len(ends), "points": float(np.mean([len(x) for x, _, _ in points])), "best_s": best}


def run(console: Console, *, n: int = QUOTES, max_rounds: int = 7) -> dict[str, Any]:
    """Measure, print the table and whether the goal is reached, and return the figures."""
    cells = [measure(kind, n, max_rounds) for kind in MEAN_GAPS_US]
    rows = []
    for cell in cells:
        best = cell["best_s"]
        peers = [best[name] for name in ("scipy lm", "numpy polyfit")]
        cell["over_scipy"], cell["over_polyfit"] = (peer / best["skytide"] for peer in peers)
        shown = [_us(best["skytide"]), *(f"{_us(peer)} / {_us(peer + best['averages'])}" for peer in peers)]
        rows.append([cell["kind"], f"{cell['points']:,.0f}", *shown, f"{cell['over_scipy']:.1f}", f"{cell['over_polyfit']:.1f}"])
    columns = [
        "quotes",
        "points",
        "skytide",
        "scipy lm / with averages",
        "numpy polyfit / with averages",
        "over scipy",
        "over polyfit",
    ]
    show(console, f"One window of {WINDOW:,} quotes, degree {DEGREE}: best times", columns, rows)
    worst = min(cell["over_scipy"] for cell in cells)
    goals = [Goal("times as fast as SciPy's fit alone, worst kind", worst, MIN_RATIO)]
    return {"cells": cells, "goals": announce(console, goals)}


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f} us" if seconds < 1e-3 else duration(seconds)


if __name__ == "__main__":
    run(Console(width=150, highlight=False))
