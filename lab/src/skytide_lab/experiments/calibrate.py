"""Measures how long work takes on this machine, for the simulator."""

import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from skytide.errors import InvalidInput
from skytide.kernels import Points, skyline
from skytide.workloads.points import CLOUDS, points
from skytide_lab.kernels.bnl import block_nested_loops
from skytide_lab.sim import Costs, Curve

SIZES = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000)
DIMENSIONS = 8
REPEATS = 3
KERNELS: dict[str, Callable[[Points], Any]] = {"bnl": block_nested_loops, "skytide": skyline}
MERGED = 10_000  # tuples behind each of the two results that are merged


def calibrate(algorithm: str, report: Callable[[str], None], out: Path | None = None) -> Costs:
    """Measure and return the costs of "bnl", the papers' algorithm, or of "skytide", the kernels of this package; the best of three."""
    if algorithm not in KERNELS:
        raise InvalidInput(value=f"{algorithm=}", reason="not known", remedy=f"choose one of {', '.join(KERNELS)}")
    kernel = KERNELS[algorithm]
    kernel(points("independent", 100, DIMENSIONS))  # compiles
    curves = {}
    for cloud in CLOUDS:
        kept, busy = [], []
        for size in SIZES:
            sample = points(cloud, size, DIMENSIONS)
            kept.append(float(np.count_nonzero(skyline(sample))))
            busy.append(_best_s(lambda sample=sample: kernel(sample)))  # type: ignore[misc]
        curves[cloud] = Curve(SIZES, tuple(kept), tuple(np.maximum.accumulate(busy).tolist()))
        report(
            f"{algorithm}, {cloud}: {busy[-2] / SIZES[-2] * 1e6:.1f} us per tuple, {kept[-2] / SIZES[-2]:.0%} kept, of {SIZES[-2]:,}"
        )
    origin = f"{algorithm}, d = {DIMENSIONS}, best of {REPEATS}, measured on {platform.machine()} with Python {platform.python_version()}"
    costs = Costs(origin, curves, _pair_s(kernel))
    if out:
        out.mkdir(parents=True, exist_ok=True)
        costs.save(out / f"{algorithm}.json")
        report(f"written to {out / algorithm}.json")
    return costs


def _pair_s(kernel: Callable[[Points], Any]) -> float:
    """Return the measured cost of merging one result into another, per pair of their rows."""
    one, two = (sample[skyline(sample)] for sample in (points("independent", MERGED, DIMENSIONS, seed=seed) for seed in (1, 2)))
    both = np.concatenate([one, two])
    return max(_best_s(lambda: kernel(both)) - _best_s(lambda: kernel(one)), 1e-9) / (len(one) * len(two))


def _best_s(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best
