"""The strategies of P1 §6.1.2: they differ in the rate they expect of a stream, which leaves a full split first, and which may move."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skytide.admission.records import Bools, Floats


@dataclass(frozen=True, eq=False)
class Outlook:
    """What is known about the rate of each stream."""

    seen: Bools
    """Which streams have been observed; the others have the rates and forecasts of an average stream."""
    rate_hz: Floats
    """The rate in the last period."""
    next_hz: Floats
    """The forecast for the next period."""
    later_hz: Floats
    """The forecast after as many periods as the planner looks ahead."""
    declared_hz: Floats
    """The rate expected then by declared characteristics; NaN for streams without them."""


class Strategy(ABC):
    """A way to assign streams, best as a frozen dataclass."""

    declared: ClassVar[bool] = False
    """Whether it uses the declared characteristics of streams."""
    repacks: ClassVar[bool] = False
    """Whether it assigns all streams anew in each period."""

    @abstractmethod
    def expected_hz(self, seen: Outlook) -> Floats:
        """Return the rates to make room for: one row for each time that counts, the latest last."""

    @abstractmethod
    def urgency(self, seen: Outlook) -> Floats:
        """Return the rank of each stream: of an overloaded split, the stream with the highest leaves first."""


@dataclass(frozen=True)
class Drf(Strategy):
    """Delta rate forecasting: streams whose forecasts rise most leave first (P1 §2.5)."""

    def expected_hz(self, seen: Outlook) -> Floats:
        """Return the forecasts for the next period."""
        return seen.next_hz[None]

    def urgency(self, seen: Outlook) -> Floats:
        """Return the expected increase."""
        return seen.later_hz - seen.next_hz


@dataclass(frozen=True)
class Drfm(Drf):
    """Delta rate forecasting with metadata: the declared characteristics of a stream replace its forecast (P1 §2.5).

    The characteristics tell about later, and a rate that will fall has not fallen yet. So there has to be room for both: for the forecast
    of the next period, and for what was declared.
    """

    declared = True

    def expected_hz(self, seen: Outlook) -> Floats:
        """Return the rates of the next period (forecast, or declared for streams not observed yet), and those declared for later."""
        declared = ~np.isnan(seen.declared_hz)
        return np.where([declared & ~seen.seen, declared], seen.declared_hz, seen.next_hz)

    def urgency(self, seen: Outlook) -> Floats:
        """Return the declared increase, or else the forecast one."""
        later = np.where(np.isnan(seen.declared_hz), seen.later_hz, seen.declared_hz)
        rise: Floats = later - self.expected_hz(seen)[0]
        return rise


@dataclass(frozen=True)
class Ard(Strategy):
    """Average rate decreasing: the fastest streams leave first, by the rates of the last period."""

    def expected_hz(self, seen: Outlook) -> Floats:
        """Return the rates of the last period."""
        return seen.rate_hz[None]

    def urgency(self, seen: Outlook) -> Floats:
        """Return the rates."""
        return seen.rate_hz


@dataclass(frozen=True)
class Ari(Ard):
    """Average rate increasing: the slowest streams leave first."""

    def urgency(self, seen: Outlook) -> Floats:
        """Return the rates with the slowest first."""
        return -seen.rate_hz


@dataclass(frozen=True)
class Par(Ard):
    """Plain average rate: all streams are packed anew in each period."""

    repacks = True


STRATEGIES: dict[str, type[Strategy]] = {strategy.__name__.lower(): strategy for strategy in (Drfm, Drf, Ari, Ard, Par)}
"""All strategies by their names on a command line."""
