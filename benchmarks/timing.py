"""Clocks, tables and goals for all benchmarks."""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

T = TypeVar("T")


class Disagreement(Exception):
    """Contestants that should return the same answer did not, so their times mean nothing."""


@dataclass(frozen=True)
class Run(Generic[T]):
    """What a contestant answered, and the seconds of each round."""

    answer: T
    seconds: tuple[float, ...]

    @property
    def best_s(self) -> float:
        """Return the time of the fastest round."""
        return min(self.seconds)

    @property
    def median_s(self) -> float:
        """Return the time of the median round."""
        return median(self.seconds)


@dataclass(frozen=True)
class Goal:
    """A measured number, and the least it should be."""

    what: str
    measured: float
    at_least: float

    @property
    def reached(self) -> bool:
        """Return whether the goal is reached."""
        return self.measured >= self.at_least

    def __str__(self) -> str:
        """Return the goal and its verdict in one line."""
        verdict = "reached" if self.reached else "MISSED"
        return f"Goal {verdict}: {self.what}: {self.measured:,.2f} (goal: {self.at_least:g})"


@dataclass(frozen=True)
class Limit:
    """A measured number, and the most it may be."""

    what: str
    measured: float
    at_most: float

    @property
    def reached(self) -> bool:
        """Return whether the limit is kept."""
        return self.measured <= self.at_most

    def __str__(self) -> str:
        """Return the limit and its verdict in one line."""
        verdict = "reached" if self.reached else "MISSED"
        return f"Goal {verdict}: {self.what}: {self.measured:,.2f} (goal: at most {self.at_most:g})"


def race(
    contestants: Mapping[str, Callable[[], T]], *, min_rounds: int, max_rounds: int, budget_s: float, slow_s: float
) -> dict[str, Run[T]]:
    """Let contestants run in turn, round after round, so that noise affects all alike, and return the runs.

    There are `min_rounds` to `max_rounds` rounds, as many as fit into `budget_s`. Contestants that need more than `slow_s` run only once.
    """
    answers: dict[str, T] = {}
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    taking_part, used_s = dict(contestants), 0.0
    for played in range(max_rounds):
        if played >= min_rounds and used_s >= budget_s:
            break
        for name, contestant in taking_part.items():
            start = time.perf_counter()
            answers[name] = contestant()
            seconds[name].append(time.perf_counter() - start)
        taking_part = {name: each for name, each in taking_part.items() if seconds[name][0] <= slow_s}
        used_s += sum(seconds[name][-1] for name in taking_part)
    return {name: Run(answers[name], tuple(seconds[name])) for name in contestants}


def check_agreement(cell: str, answers: Mapping[str, NDArray[Any]]) -> None:
    """Raise Disagreement unless all answers are equal."""
    (first, expected), *others = answers.items()
    for name, answer in others:
        if not np.array_equal(answer, expected):
            raise Disagreement(f"{cell}: {name} and {first} differ: {_difference(answer, expected)}")


def _difference(answer: NDArray[Any], expected: NDArray[Any]) -> str:
    if answer.shape != expected.shape:
        return f"{len(answer):,} rows instead of {len(expected):,}"
    differing = np.flatnonzero(answer != expected)
    return f"in {len(differing):,} rows, the first of which is {differing[0]}"


def announce(console: Console, goals: Iterable[Goal | Limit]) -> list[dict[str, Any]]:
    """Print goals, and return them for the machine-readable copy."""
    verdicts = []
    for goal in goals:
        console.print(str(goal), style="green" if goal.reached else "bold red")
        verdicts.append(asdict(goal) | {"reached": goal.reached})
    return verdicts


def geometric_mean(ratios: Iterable[float]) -> float:
    """Return the geometric mean of ratios."""
    logarithms = [math.log(ratio) for ratio in ratios]
    return math.exp(sum(logarithms) / len(logarithms))


def duration(seconds: float) -> str:
    """Return a time in a suitable unit."""
    value, unit = (seconds * 1000, "ms") if seconds < 1 else (seconds, "s")
    return f"{value:.{3 if value < 1 else 2 if value < 10 else 1}f} {unit}"


def durations(seconds: Mapping[str, float], rounds: Mapping[str, int]) -> list[str]:
    """Return the times of contestants, with a star for those that ran only once."""
    return [duration(each) + ("*" if rounds[name] == 1 else "") for name, each in seconds.items()]


def show(console: Console, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table with its first column aligned left, and numbers aligned right."""
    table = Table()
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console.print(title, style="bold", markup=False)
    console.print(table)
