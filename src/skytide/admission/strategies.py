"""What differs between the strategies of P1 §6.1.2: what is expected of a stream, who leaves a full split first, who may be moved."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skytide.admission.records import Bools, Floats


@dataclass(frozen=True, eq=False)
class Outlook:
    """What is known of the rate of each stream."""

    seen: Bools
    """Which streams were observed; of the others rates and forecasts are those of an average stream."""
    rate_hz: Floats
    """Of the last period."""
    next_hz: Floats
    """The forecast of the next period."""
    later_hz: Floats
    """The forecast of as many periods on as the planner looks ahead."""
    declared_hz: Floats
    """What was declared lets expect then; NaN for streams of which nothing was."""


class Strategy(ABC):
    """A way to assign streams, best as a frozen dataclass."""

    declared: ClassVar[bool] = False
    """Whether it uses what was declared of streams."""
    repacks: ClassVar[bool] = False
    """Whether it assigns all streams anew in each period."""

    @abstractmethod
    def expected_hz(self, seen: Outlook) -> Floats:
        """Return the rates to make room for: in each row those of a time that counts, the latest last."""

    @abstractmethod
    def urgency(self, seen: Outlook) -> Floats:
        """Return what ranks the streams of a split that is overloaded: the highest leaves first."""


@dataclass(frozen=True)
class Drf(Strategy):
    """Delta rate forecasting: streams whose forecasts rise most leave first (P1 §2.5)."""

    def expected_hz(self, seen: Outlook) -> Floats:
        """Return the forecasts of the next period."""
        return seen.next_hz[None]

    def urgency(self, seen: Outlook) -> Floats:
        """Return the increase that is expected."""
        return seen.later_hz - seen.next_hz


@dataclass(frozen=True)
class Drfm(Drf):
    """Delta rate forecasting with meta-data: what was declared of a stream stands in for its forecast (P1 §2.5).

    What was declared is about later, and a rate that will fall has not fallen yet. So there has to be room for both: for the next period
    as it is forecast, and for what was declared.
    """

    declared = True

    def expected_hz(self, seen: Outlook) -> Floats:
        """Return the forecasts of the next period, of streams not seen yet what was declared; and for later what was declared."""
        declared = ~np.isnan(seen.declared_hz)
        return np.where([declared & ~seen.seen, declared], seen.declared_hz, seen.next_hz)

    def urgency(self, seen: Outlook) -> Floats:
        """Return the increase that was declared, else the one that is forecast."""
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


STRATEGIES: dict[str, type[Strategy]] = {kind.__name__.lower(): kind for kind in (Drfm, Drf, Ari, Ard, Par)}
"""Each by its name on a command line."""
