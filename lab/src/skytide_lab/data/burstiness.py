"""Estimates the index of dispersion and the Hurst parameter of a series of counts (SPEC L2)."""

import numpy as np
from numpy.typing import NDArray

MIN_INTERVALS = 200
BANDWIDTH = 0.65  # of n values, the n^0.65 lowest frequencies are used
HURSTS = np.linspace(0.01, 1.2, 1_191)  # candidates, in steps of 0.001


def index_of_dispersion(counts: NDArray[np.int64], tolerance: float = 0.05) -> float:
    """Return an estimate of lim Var(N_t) / E(N_t): intervals grow until the ratio no longer does (P3 §6.1 after Gusella 1991).

    >>> index_of_dispersion(np.random.default_rng(0).poisson(50, 100_000)) < 1.2
    True
    """
    dispersion = 0.0
    length = 1
    while len(counts) // length >= MIN_INTERVALS:
        sums = counts[: len(counts) // length * length].reshape(-1, length).sum(axis=1)
        mean = sums.mean()
        ratio = float(sums.var(ddof=1) / mean) if mean else 0.0
        if length > 1 and ratio < dispersion * (1 + tolerance):
            return max(dispersion, ratio)
        dispersion = ratio
        length *= 2
    return dispersion


def hurst(counts: NDArray[np.int64]) -> float:
    """Return an estimate of the Hurst parameter from the lowest frequencies (local Whittle: Robinson 1995).

    >>> 0.45 < hurst(np.random.default_rng(0).poisson(50, 2**16)) < 0.55
    True
    """
    n = len(counts)
    frequencies = int(n**BANDWIDTH)
    power = np.abs(np.fft.rfft(counts - counts.mean())[1 : frequencies + 1]) ** 2
    waves = np.arange(1, frequencies + 1) * (2 * np.pi / n)
    logs = np.log(waves)
    objective = [np.log((power * waves ** (2 * h - 1)).mean()) - (2 * h - 1) * logs.mean() for h in HURSTS]
    return float(HURSTS[int(np.argmin(objective))])
