"""Means over runs with different seeds, and their confidence intervals."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09, 2.09)
"""97.5 % quantiles of Student's t with 1, 2, ... degrees of freedom."""
NORMAL = 1.96


@dataclass(frozen=True)
class Mean:
    """A mean, and half the width of its 95 % confidence interval."""

    mean: float
    half: float

    @property
    def low(self) -> float:
        """Return the lower end of the interval."""
        return self.mean - self.half

    @property
    def high(self) -> float:
        """Return the upper end of the interval."""
        return self.mean + self.half

    def __format__(self, form: str) -> str:
        """Return the mean and half the width of its interval, each in the given format.

        >>> f"{mean_of([0.88, 0.90, 0.92]):.2f}", f"{Mean(0.5, 0.0):.0%}"
        ('0.90 ± 0.05', '50%')
        """
        off = f" ± {self.half:{form.replace('+', '')}}" if self.half else ""
        return f"{self.mean:{form}}{off}"


def mean_of(values: Iterable[float]) -> Mean:
    """Return the mean of independent runs with its interval by Student's t; a single run has no interval.

    >>> mean_of([1.0, 1.0, 1.0])
    Mean(mean=1.0, half=0.0)
    """
    seen = list(values)
    if len(seen) < 2:
        return Mean(fmean(seen) if seen else float("nan"), 0.0)
    quantile = STUDENT[len(seen) - 2] if len(seen) - 2 < len(STUDENT) else NORMAL
    return Mean(fmean(seen), quantile * stdev(seen) / len(seen) ** 0.5)


def column(rows: Sequence[Mapping[str, Any]], name: str, **wanted: object) -> list[float]:
    """Return a column of the rows that have the wanted values, in the order of their seeds.

    >>> column([{"seed": 1, "way": "a", "x": 2.0}, {"seed": 0, "way": "a", "x": 1.0}, {"seed": 0, "way": "b", "x": 9.0}], "x", way="a")
    [1.0, 2.0]
    """
    mine = [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]
    return [row[name] for row in sorted(mine, key=lambda row: row.get("seed", 0))]
