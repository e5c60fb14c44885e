"""Measures how long a plan takes: `python -m benchmarks.admission`.

A new fleet: a period is over, all known streams have left, and as many new ones are placed. Steady: a period is over, rates are learned,
and hardly any stream moves. Between periods: nothing is learned. Each stream has a profile, and streams are not in the order of their names.
"""

import time
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.timing import Disagreement, Goal, announce, duration, show
from skytide.admission import STRATEGIES, Admission, Assignment, Profile, Sample

GOALS_S = {10_000: 0.05, 100_000: 1.0}
CAPACITY_HZ, MEAN_HZ = 20_000.0, 100.0
ROUNDS = {10_000: 7, 100_000: 3}


class Fleet:
    """Streams whose rates differ widely."""

    def __init__(self, streams: int, seed: int) -> None:
        """Draw rates, and an order of streams."""
        random = np.random.default_rng(seed)
        self.names = tuple(f"fleet-{seed}/stream-{number:06d}" for number in random.permutation(streams))
        self.rates_hz = random.exponential(MEAN_HZ, streams)
        self.profiles = {name: Profile(max_hz=rate) for name, rate in zip(self.names, self.rates_hz.tolist(), strict=True)}
        self._random = random

    def sample(self, now_s: float) -> Sample:
        """Return roughly what has arrived by a time."""
        arrived = (self.rates_hz * now_s * self._random.uniform(0.99, 1.0, len(self.names))).astype(np.int64)
        return Sample(now_s, self.names, arrived, np.zeros_like(arrived), np.zeros(len(arrived), np.bool_))


def run(console: Console, sizes: tuple[int, ...] = tuple(GOALS_S)) -> dict[str, Any]:
    """Measure all strategies, print the table, and return the figures."""
    cells = [measure(name, streams) for streams in sizes for name in STRATEGIES]
    columns = ["streams", "strategy", "splits", "a new fleet", "steady", "between periods"]
    rows = [
        [
            f"{cell['streams']:,}",
            cell["strategy"],
            str(cell["splits"]),
            *(duration(cell[name]) for name in ("new_s", "steady_s", "between_s")),
        ]
        for cell in cells
    ]
    show(console, "One plan, median", columns, rows)
    goals = [
        Goal(
            f"times as fast as {duration(GOALS_S[streams])} for {streams:,} new streams, slowest strategy",
            GOALS_S[streams] / max(cell["new_s"] for cell in cells if cell["streams"] == streams),
            1.0,
        )
        for streams in sizes
        if streams in GOALS_S
    ]
    return {"cells": cells, "goals": announce(console, goals)}


def measure(strategy: str, streams: int) -> dict[str, Any]:
    """Return the median times of the plans for one fleet after another."""
    admission = Admission(strategy=STRATEGIES[strategy](), capacity_hz=CAPACITY_HZ)
    planner, now_s = admission.build(), 0.0
    old, new = Fleet(streams, 1), Fleet(streams, 2)
    times: dict[str, list[float]] = {"new_s": [], "steady_s": [], "between_s": []}

    def plan(fleet: Fleet, what: str | None) -> Assignment:
        sample = fleet.sample(now_s)
        start = time.perf_counter()
        found = planner.plan(sample, fleet.profiles)
        if what:
            times[what].append(time.perf_counter() - start)
        return found

    for _ in range(ROUNDS.get(streams, 3)):
        planner, now_s = admission.build(), 0.0
        for _ in range(3):
            plan(old, None)
            now_s += admission.period_s
        check(plan(new, "new_s"), new)
        now_s += admission.period_s
        plan(new, None)
        now_s += admission.period_s
        found = plan(new, "steady_s")
        check(found, new)
        now_s += admission.period_s / 5
        plan(new, "between_s")
    medians = {name: float(np.median(seconds)) for name, seconds in times.items()}
    return {"strategy": strategy, "streams": streams, "splits": len(found.open), **medians}


def check(plan: Assignment, fleet: Fleet) -> None:
    """Refuse the times of invalid plans."""
    if len(plan.splits) != len(fleet.names) or plan.load_hz.max() > CAPACITY_HZ * 1.001:
        raise Disagreement(f"a split of {plan.load_hz.max():,.0f} tuples/s, more than {CAPACITY_HZ:,.0f}")


if __name__ == "__main__":
    run(Console(width=130, highlight=False))
