"""The skyline of an array: skytide compared with moocore (C), paretoset (Numba) and block nested loops (Numba)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import moocore
import numpy as np
import paretoset
from numpy.typing import NDArray
from rich.console import Console

from benchmarks.timing import Goal, announce, check_agreement, durations, geometric_mean, race, show
from skytide import kernels
from skytide.workloads.points import CLOUDS, points
from skytide_lab.kernels.bnl import block_nested_loops

DIMENSIONS = 8
SIZES = (2_000, 10_000, 100_000)
SMALL, SMALL_CLOUDS = 10_000, 5

Contestant = Callable[[NDArray[np.float64]], NDArray[np.bool_]]


def moocore_skyline(cloud: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return by moocore what `kernels.skyline` returns: smaller is better, duplicates are kept."""
    return np.asarray(moocore.is_nondominated(cloud, maximise=False, keep_weakly=True))


CONTESTANTS: dict[str, Contestant] = {
    "skytide": kernels.skyline,
    "moocore": moocore_skyline,
    "paretoset": lambda cloud: np.asarray(paretoset.paretoset(cloud, distinct=False)),
    "nested loops": block_nested_loops,
}


def run(
    console: Console,
    *,
    contestants: dict[str, Contestant] = CONTESTANTS,
    sizes: tuple[int, ...] = SIZES,
    budget_s: float = 3.0,
) -> dict[str, Any]:
    """Race on every cell, print the table and whether goals are reached, and return the figures."""
    for contestant in contestants.values():  # compile
        contestant(points("independent", 1000, DIMENSIONS))
    cells = [compare(contestants, kind, n, budget_s=budget_s) for kind in CLOUDS for n in sizes]
    show(
        console,
        f"Kernel, d = {DIMENSIONS}: best times (* run once)",
        ["points", "skyline", *contestants, "over best peer", "over moocore"],
        [
            [
                f"{cell['kind']} {cell['n']:,}",
                f"{cell['skyline']:,}",
                *durations(cell["best_s"], cell["rounds"]),
                f"{cell['over_best_peer']:.2f}",
                f"{cell['over_moocore']:.2f}",
            ]
            for cell in cells
        ],
    )
    mean = geometric_mean(cell["over_moocore"] for cell in cells)
    goals = [
        Goal("times as fast as the best peer, worst cell", min(cell["over_best_peer"] for cell in cells), 1.0),
        Goal("times as fast as moocore, geometric mean", mean, 2.0),
    ]
    return {"cells": cells, "goals": announce(console, goals)}


def compare(contestants: dict[str, Contestant], kind: str, n: int, *, budget_s: float) -> dict[str, Any]:
    """Race on clouds, several if they are small, as chance matters there, and return the figures. Contestants that take seconds run once, the others equally often."""
    clouds = [points(kind, n, DIMENSIONS, seed=seed) for seed in range(SMALL_CLOUDS if n <= SMALL else 1)]
    starters = {name: partial(_all, contestant, clouds) for name, contestant in contestants.items()}
    runs = race(starters, min_rounds=5, max_rounds=200, budget_s=budget_s, slow_s=2.0)
    check_agreement(f"{kind} {n:,} x {DIMENSIONS}", {name: run.answer for name, run in runs.items()})
    ours, *peers = (run.best_s for run in runs.values())
    return {
        "kind": kind,
        "n": n,
        "skyline": int(runs["skytide"].answer.sum()) // len(clouds),
        "rounds": {name: len(run.seconds) for name, run in runs.items()},
        "best_s": {name: run.best_s / len(clouds) for name, run in runs.items()},
        "over_best_peer": min(peers) / ours,
        "over_moocore": runs["moocore"].best_s / ours,
    }


def _all(contestant: Contestant, clouds: list[NDArray[np.float64]]) -> NDArray[np.bool_]:
    return np.concatenate([contestant(cloud) for cloud in clouds])
