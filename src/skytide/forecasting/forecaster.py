"""Forecasts of a series with prediction intervals: the base of all forecasters, and the simplest of them.

A forecaster takes in one value per step. The width of its interval follows from its recent errors one step ahead, and from how these
add up over k steps (the state space form of exponential smoothing: Hyndman et al. 2008, section 6.4). Errors above and below are
counted apart: that a load fell faster than expected is no reason to expect a higher one.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import isfinite, sqrt
from statistics import NormalDist
from typing import Any

from skytide.errors import InvalidInput
from skytide.errors.checks import brief, is_finite, is_integer

State = dict[str, Any]
FORGET = 0.95  # an error 14 steps ago counts half: long enough to estimate a spread, short enough for a stream that becomes rougher


@dataclass(frozen=True)
class Forecast:
    """A future value, and the interval in which it lies with the requested probability."""

    mean: float
    low: float
    high: float


class ForecasterLogic(ABC):
    """Turns values into forecasts."""

    def __init__(self, values: int = 0, below: float = 0.0, above: float = 0.0, weight: float = 0.0) -> None:
        """Start without values; `below` and `above` are weighted sums of the squared errors on either side."""
        self._values, self._below, self._above, self._weight = values, below, above, weight

    def observe(self, value: float) -> None:
        """Take in the value of a step; values that are not finite are ignored."""
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
        """Return the forecast k steps after the latest value. With a coverage of 0 the interval is the mean alone."""
        if not (is_integer(k, 1) and is_finite(coverage) and 0 <= coverage < 1):
            raise InvalidInput(
                value=f"forecast({brief(k)}, coverage={brief(coverage)})",
                reason="not a future step, or not a probability",
                remedy="choose k >= 1 and 0 <= coverage < 1",
            )
        if not self._values:
            raise InvalidInput(value=f"forecast({k})", reason="there is no value yet", remedy="observe a value first")
        mean = self._ahead(k)
        if not self._weight:
            return Forecast(mean, mean, mean)
        reach = NormalDist().inv_cdf((1 + coverage) / 2) * sqrt(self._growth(k))
        below, above = (reach * sqrt(2 * squares / self._weight) for squares in (self._below, self._above))
        return Forecast(mean, mean - below, mean + above)

    def snapshot(self) -> State:
        """Return the state as plain values."""
        return {"values": self._values, "below": self._below, "above": self._above, "weight": self._weight}

    @property
    def _judged(self) -> bool:
        """Return whether forecasts are meaningful yet: a first guess must not count as an error."""
        return True

    @abstractmethod
    def _learn(self, value: float) -> None:
        """Take in a value."""

    @abstractmethod
    def _ahead(self, k: int) -> float:
        """Return the mean k steps ahead."""

    @abstractmethod
    def _growth(self, k: int) -> float:
        """Return the variance k steps ahead, relative to that of one step."""


class Forecaster(ABC):
    """A way to forecast a series."""

    @abstractmethod
    def build(self, resume: State | None = None) -> ForecasterLogic:
        """Return a new logic, or one that continues from a snapshot."""


@dataclass(frozen=True)
class LastValue(Forecaster):
    """Forecasts that the latest value stays.

    >>> logic = LastValue().build()
    >>> for value in (3, 5, 4):
    ...     logic.observe(value)
    >>> logic.forecast(7).mean
    4.0
    """

    def build(self, resume: State | None = None) -> ForecasterLogic:
        """Return the logic."""
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
