"""Forecasts of a series with an interval about them: last value, Holt (SPEC A3) and Holt-Winters.

A forecaster takes in one value a step. How wide its interval is follows from how far it was off one step ahead lately, and from how
errors of one step add up over k of them (the state space form of exponential smoothing: Hyndman et al. 2008, section 6.4). Either side
has errors of its own: that a load fell faster than expected is no reason to expect a higher one.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite, sqrt
from statistics import NormalDist
from typing import Any

from skytide.errors import InvalidInput
from skytide.errors.checks import is_finite, is_whole, refused, told

State = dict[str, Any]
FORGET = 0.95  # an error of 14 steps ago counts half: long enough to tell a spread, short enough for a stream that becomes rougher


@dataclass(frozen=True)
class Forecast:
    """A value to come, and where it lies with the probability that was asked for."""

    mean: float
    low: float
    high: float


class ForecasterLogic(ABC):
    """Values in, forecasts out."""

    def __init__(self, values: int = 0, below: float = 0.0, above: float = 0.0, weight: float = 0.0) -> None:
        """Start with nothing seen; `below` and `above` are sums of squares of how far values were off to either side."""
        self._values, self._below, self._above, self._weight = values, below, above, weight

    def observe(self, value: float) -> None:
        """Take in the value of a step; what is no number is passed over."""
        if not isfinite(value):
            return
        if self._values > 0 and self._judged:
            error = value - self._ahead(1)
            self._below = FORGET * self._below + min(error, 0.0) ** 2
            self._above = FORGET * self._above + max(error, 0.0) ** 2
            self._weight = FORGET * self._weight + 1
        self._learn(value)
        self._values += 1

    def forecast(self, k: int, coverage: float = 0.9) -> Forecast:
        """Say what comes k steps after the latest value. With a coverage of 0 the interval is the mean alone."""
        if not (is_whole(k, 1) and is_finite(coverage) and 0 <= coverage < 1):
            raise InvalidInput(
                value=f"forecast({told(k)}, coverage={told(coverage)})",
                reason="not a step to come, or not a probability",
                remedy="choose k >= 1 and 0 <= coverage < 1",
            )
        if not self._values:
            raise InvalidInput(value=f"forecast({k})", reason="nothing was seen yet", remedy="observe a value first")
        mean = self._ahead(k)
        if not self._weight:
            return Forecast(mean, mean, mean)
        reach = NormalDist().inv_cdf((1 + coverage) / 2) * sqrt(self._growth(k))
        below, above = (reach * sqrt(2 * squares / self._weight) for squares in (self._below, self._above))
        return Forecast(mean, mean - below, mean + above)

    def snapshot(self) -> State:
        """Give what was learned, as plain values."""
        return {"values": self._values, "below": self._below, "above": self._above, "weight": self._weight}

    @property
    def _judged(self) -> bool:
        """Whether forecasts mean something yet: a first guess must not count as an error."""
        return True

    @abstractmethod
    def _learn(self, value: float) -> None:
        """Take in a value."""

    @abstractmethod
    def _ahead(self, k: int) -> float:
        """Give the mean k steps ahead."""

    @abstractmethod
    def _growth(self, k: int) -> float:
        """Give the variance k steps ahead in units of that of one step."""


class Forecaster(ABC):
    """A way to forecast."""

    @abstractmethod
    def build(self, resume: State | None = None) -> ForecasterLogic:
        """Give a new logic, or one that goes on from a snapshot."""


@dataclass(frozen=True)
class LastValue(Forecaster):
    """It goes on as it is now.

    >>> logic = LastValue().build()
    >>> for value in (3, 5, 4):
    ...     logic.observe(value)
    >>> logic.forecast(7).mean
    4.0
    """

    def build(self, resume: State | None = None) -> ForecasterLogic:
        """Give the logic."""
        return _Last(**(resume or {}))


class _Last(ForecasterLogic):
    def __init__(self, last: float = 0.0, **seen: Any) -> None:
        super().__init__(**seen)
        self._last = last

    def _learn(self, value: float) -> None:
        self._last = float(value)

    def _ahead(self, k: int) -> float:
        return self._last

    def _growth(self, k: int) -> float:
        return k

    def snapshot(self) -> State:
        return {**super().snapshot(), "last": self._last}


@dataclass(frozen=True)
class Holt(Forecaster):
    """A level and a trend, both smoothed (SPEC A3, P1 section 2.3).

    The first two values give level and trend. As one step is no good estimate of a trend, the next ones count more than `trend` says:
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
        """Refuse what is no weight."""
        _weights(level=self.level, trend=self.trend)

    def build(self, resume: State | None = None) -> ForecasterLogic:
        """Give the logic."""
        return _Holt(self, **(resume or {}))


class _Holt(ForecasterLogic):
    def __init__(self, config: Holt, level: float = 0.0, trend: float = 0.0, **seen: Any) -> None:
        super().__init__(**seen)
        self._config, self._level, self._trend = config, level, trend

    def _learn(self, value: float) -> None:
        if self._values == 0:
            self._level = float(value)
        elif self._values == 1:
            self._level, self._trend = float(value), float(value) - self._level
        else:
            before = self._level
            weight = max(self._config.trend, 1 / self._values)
            self._level = self._config.level * value + (1 - self._config.level) * (before + self._trend)
            self._trend = weight * (self._level - before) + (1 - weight) * self._trend

    @property
    def _judged(self) -> bool:
        return self._values >= 2

    def _ahead(self, k: int) -> float:
        return self._level + k * self._trend

    def _growth(self, k: int) -> float:
        return _growth(k, self._config.level, self._config.trend)

    def snapshot(self) -> State:
        return {**super().snapshot(), "level": self._level, "trend": self._trend}


@dataclass(frozen=True)
class HoltWinters(Forecaster):
    """A level, a trend, and an additive season of so many steps, as the 24 hours of a day.

    Until two seasons were seen, it is Holt's method; then both give the first level, trend and season.
    """

    period: int
    level: float = 0.3
    trend: float = 0.05
    season: float = 0.2

    def __post_init__(self) -> None:
        """Refuse what is no season and no weight."""
        _weights(level=self.level, trend=self.trend, season=self.season)
        if not is_whole(self.period, 2):
            raise refused("period", self.period, "a season has at least two steps", "choose more, or Holt without one")

    def build(self, resume: State | None = None) -> ForecasterLogic:
        """Give the logic."""
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
        before, expected = self._level, self._season.pop(0)
        level, trend, season = self._winters.level, self._winters.trend, self._winters.season
        self._level = level * (value - expected) + (1 - level) * (before + self._trend)
        self._trend = trend * (self._level - before) + (1 - trend) * self._trend
        self._season.append(season * (value - self._level) + (1 - season) * expected)

    def _begin(self) -> None:
        """Read level, trend and season from the first two seasons."""
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
    """Sum the squares of what an error of one step does to a forecast j steps later, for all j before k."""
    return 1.0 + sum((level * (1 + trend * j) + season * (j % period == 0)) ** 2 for j in range(1, k))


def _weights(**named: float) -> None:
    for name, weight in named.items():
        if not (is_finite(weight) and 0 < weight <= 1):
            raise refused(name, weight, "not a weight", "choose one above 0 and up to 1")
