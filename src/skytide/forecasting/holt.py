"""Exponential smoothing: Holt's level and trend (SPEC A3, P1 section 2.3), and Holt-Winters with a season.

The recurrence is written once, with operators only: the same lines smooth one series of floats (of a controller) or ten thousand at
once, as arrays (the streams of a fleet).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from skytide.errors.checks import is_finite, is_integer, refused
from skytide.forecasting.forecaster import Forecaster, ForecasterLogic, State

Number = TypeVar("Number", float, NDArray[np.float64])


def smooth(value: Number, level: Number, trend: Number, by_level: Number, by_trend: Number) -> tuple[Number, Number]:
    """Return level and trend after a value, given the weights of both.

    >>> smooth(15.0, 12.0, 2.0, 0.5, 0.5)
    (14.5, 2.25)
    """
    after = by_level * value + (1 - by_level) * (level + trend)
    return after, by_trend * (after - level) + (1 - by_trend) * trend


def ahead(level: Number, trend: Number, k: int) -> Number:
    """Return the value that a level and a trend forecast k steps ahead.

    >>> ahead(14.5, 2.25, 2)
    19.0
    """
    return level + k * trend


@dataclass(frozen=True)
class Holt(Forecaster):
    """A level and a trend, both smoothed (SPEC A3, P1 section 2.3).

    The first two values determine level and trend. As one step is a poor estimate of a trend, the next ones count more than `trend` says:
    the trend begins as the mean of the steps so far.

    >>> logic = Holt(level=0.5, trend=0.5).build()
    >>> for value in (10, 12, 15):
    ...     logic.observe(value)
    >>> logic.forecast(2, coverage=0).mean  # level 14.5, trend 2.25
    19.0
    """

    level: float = 0.5
    trend: float = 0.1

    def __post_init__(self) -> None:
        """Refuse invalid weights."""
        _weights(level=self.level, trend=self.trend)

    def step(self, value: Number, level: Number, trend: Number, seen: "int | NDArray[np.integer[Any]]") -> tuple[Number, Number]:
        """Return level and trend after a value, for one series or for many; `seen` is the number of values before it.

        >>> level, trend = Holt().step(np.array([12.0, 5.0]), np.array([10.0, 0.0]), np.zeros(2), np.array([1, 0]))
        >>> level, trend
        (array([12.,  5.]), array([2., 0.]))
        """
        by_level: Any = np.where(np.less(seen, 2), 1.0, self.level)
        by_trend: Any = np.where(np.less(seen, 1), 0.0, np.maximum(self.trend, 1 / np.maximum(seen, 1)))
        return smooth(value, level, trend, by_level, by_trend)

    def build(self, resume: State | None = None) -> ForecasterLogic:
        """Return the logic."""
        return _Holt(self, **(resume or {}))


class _Holt(ForecasterLogic):
    def __init__(self, config: Holt, level: float = 0.0, trend: float = 0.0, **seen: Any) -> None:
        super().__init__(**seen)
        self._config, self._level, self._trend = config, level, trend

    def _learn(self, value: float) -> None:
        level, trend = self._config.step(float(value), self._level, self._trend, self._values)
        self._level, self._trend = float(level), float(trend)  # plain numbers, as snapshots are written to files

    @property
    def _judged(self) -> bool:
        return self._values >= 2

    def _ahead(self, k: int) -> float:
        return ahead(self._level, self._trend, k)

    def _growth(self, k: int) -> float:
        return _growth(k, self._config.level, self._config.trend)

    def snapshot(self) -> State:
        return {**super().snapshot(), "level": self._level, "trend": self._trend}


@dataclass(frozen=True)
class HoltWinters(Forecaster):
    """A level, a trend, and an additive season of `period` steps, such as the 24 hours of a day.

    For the first two seasons it is Holt's method; then these determine the first level, trend and season.
    """

    period: int
    level: float = 0.3
    trend: float = 0.05
    season: float = 0.2

    def __post_init__(self) -> None:
        """Refuse invalid seasons and weights."""
        _weights(level=self.level, trend=self.trend, season=self.season)
        if not is_integer(self.period, 2):
            raise refused("period", self.period, "a season has at least two steps", "choose more, or Holt without one")

    def build(self, resume: State | None = None) -> ForecasterLogic:
        """Return the logic."""
        return _HoltWinters(self, **(resume or {}))


class _HoltWinters(_Holt):
    def __init__(self, config: HoltWinters, first: Sequence[float] = (), season: Sequence[float] = (), **seen: Any) -> None:
        super().__init__(Holt(config.level, config.trend), **seen)
        self._winters = config
        self._first, self._season = list(first), list(season)  # the season's next value comes first

    def _learn(self, value: float) -> None:
        if not self._season:
            self._first.append(float(value))
            if len(self._first) == 2 * self._winters.period:
                self._begin()
            else:
                super()._learn(value)
            return
        expected, season = self._season.pop(0), self._winters.season
        self._level, self._trend = smooth(value - expected, self._level, self._trend, self._winters.level, self._winters.trend)
        self._season.append(season * (value - self._level) + (1 - season) * expected)

    def _begin(self) -> None:
        """Derive level, trend and season from the first two seasons."""
        period = self._winters.period
        one, two = self._first[:period], self._first[period:]
        self._trend = (sum(two) - sum(one)) / period**2
        self._level = sum(two) / period + self._trend * (period - 1) / 2
        line = [self._level + self._trend * (at - 2 * period + 1) for at in range(2 * period)]
        off = [value - expected for value, expected in zip(self._first, line, strict=True)]
        self._season = [(off[at] + off[at + period]) / 2 for at in range(period)]
        self._first = []
        self._below = self._above = self._weight = 0.0  # the errors so far were those of a forecast without a season

    def _ahead(self, k: int) -> float:
        return super()._ahead(k) + (self._season[(k - 1) % self._winters.period] if self._season else 0.0)

    def _growth(self, k: int) -> float:
        config = self._winters
        return _growth(k, config.level, config.trend, config.season * (1 - config.level) if self._season else 0.0, config.period)

    def snapshot(self) -> State:
        return {**super().snapshot(), "first": list(self._first), "season": list(self._season)}


@lru_cache(maxsize=1024)
def _growth(k: int, level: float, trend: float, season: float = 0.0, period: int = 1) -> float:
    """Return the sum of squares of the effects of a one-step error on the forecasts j steps later, for all j before k."""
    return 1.0 + sum((level * (1 + trend * j) + season * (j % period == 0)) ** 2 for j in range(1, k))


def _weights(**named: float) -> None:
    for name, weight in named.items():
        if not (is_finite(weight) and 0 < weight <= 1):
            raise refused(name, weight, "not a weight", "choose one above 0 and up to 1")
