"""What is known of a stream before it arrives (P1 §2.4, SPEC A2)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from math import nan
from typing import Any, Self

from skytide.errors import InvalidInput
from skytide.errors.checks import brief, check_choice, is_finite, refused
from skytide.windows import duration_us

TRANSITIONS = ("jump", "trend")
RATES = ("average_hz", "min_hz", "max_hz")
LENGTHS = ("period", "high", "low", "phase")
CHARACTERISTICS = (*RATES, "growth_hz_per_s", "burstiness", "transition", *LENGTHS)
ROUNDING = 1e-6  # relative difference that is allowed between two declarations of one thing
Length = str | timedelta


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Ten characteristics of a stream, any of which may be declared. What is not declared is observed, or is that of an average stream.

    Rates are tuples per second; lengths of time are texts, such as "10 min", or timedeltas. `Fleet.declare` takes a profile; more in
    [fleet.md](fleet.md).

    Parameters
    ----------
    average_hz
        The average rate, which is expected until the stream was observed.
    min_hz
        The lowest rate.
    max_hz
        The highest rate.
    growth_hz_per_s
        A lasting rise or fall of the rate, per second.
    burstiness
        The highest rate over the average, so with one of them it declares the other.
    transition
        How a stream that goes up and down changes: by a "jump" from one rate to the other, or by a "trend", steadily in the rest of the
        period.
    period
        How long a cycle takes. Alone, it is halved for a stream that jumps.
    high
        How much of each period is spent at the highest rate. For a stream that jumps, two of the three lengths determine the third.
    low
        How much of each period is spent at the lowest rate.
    phase
        When highs begin, after the zero of the planner's clock and every period from then on ("9.5 hours": half past nine every day, if the
        clock counts from midnight); for zero itself write a whole period.

    Raises
    ------
    InvalidInput
        If characteristics are impossible, or contradict each other.

    Examples
    --------
    >>> Profile(max_hz=5_000, period="1 hour", high="10 min", transition="jump").low
    datetime.timedelta(seconds=3000)
    >>> Profile(average_hz=100, burstiness=8).max_hz
    800.0
    >>> Profile(min_hz=5, max_hz=2)
    Traceback (most recent call last):
    ...
    skytide.errors.InvalidInput: min_hz=5, max_hz=2: the lowest rate is above the highest; choose min_hz <= average_hz <= max_hz
    """

    average_hz: float | None = None
    min_hz: float | None = None
    max_hz: float | None = None
    growth_hz_per_s: float | None = None
    burstiness: float | None = None
    transition: str | None = None
    period: Length | None = None
    high: Length | None = None
    low: Length | None = None
    phase: Length | None = None
    row: tuple[float, ...] = field(init=False, repr=False, compare=False)
    """Average, lowest, highest, growth, period, high, low and phase in Hz and seconds, NaN if unknown, and 1 for a trend: for arrays."""

    def __post_init__(self) -> None:
        """Refuse impossible characteristics, and add those that follow from the declared ones."""
        for name in RATES:
            rate = getattr(self, name)
            if rate is not None and not (is_finite(rate) and rate >= 0):
                raise refused(name, rate, "not a rate", "give tuples per second, 0 or more")
        if self.growth_hz_per_s is not None and not is_finite(self.growth_hz_per_s):
            raise refused("growth_hz_per_s", self.growth_hz_per_s, "not a growth", "give the change of the rate per second")
        if self.transition is not None:
            check_choice("transition", self.transition, TRANSITIONS)
        for name in LENGTHS:
            if (length := getattr(self, name)) is not None:
                self._set(name, timedelta(microseconds=duration_us(length, name)))
        self._burst()
        self._in_order()
        self._cycle()
        rates = (self.average_hz, self.min_hz, self.max_hz, self.growth_hz_per_s)
        lengths = (self.period, self.high, self.low, self.phase)
        row = [nan if rate is None else float(rate) for rate in rates] + [_seconds(length) for length in lengths]
        self._set("row", (*row, float(self.transition == "trend")))

    def to_json(self) -> dict[str, Any]:
        """Return the known characteristics as plain values.

        >>> Profile(max_hz=40, period="1 min").to_json()
        {'max_hz': 40, 'period': '60000000 us', 'high': '30000000 us', 'low': '30000000 us'}
        """
        declared = {name: getattr(self, name) for name in CHARACTERISTICS}
        return {
            name: f"{value // timedelta(microseconds=1)} us" if isinstance(value, timedelta) else value
            for name, value in declared.items()
            if value is not None and value != timedelta(0)  # a trend without plateaus
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the profile for what `to_json` returned.

        >>> Profile.from_json({"max_hz": 40, "period": "1 min"}) == Profile(max_hz=40, period="60 s")
        True
        """
        if not isinstance(values, Mapping):
            raise refused("values", values, "not names with values", 'write, for instance, {"max_hz": 40}')
        for name in values:
            check_choice("characteristic", name, CHARACTERISTICS)
        return cls(**values)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _burst(self) -> None:
        """Derive the highest rate from burstiness and the average, or the average from burstiness and the highest."""
        burstiness, average, most = self.burstiness, self.average_hz, self.max_hz
        if burstiness is None:
            return
        if not (is_finite(burstiness) and burstiness >= 1):
            raise refused("burstiness", burstiness, "not the highest rate over the average", "give 1 or more")
        if average is None and most is None:
            raise refused("burstiness", burstiness, "it means nothing without a rate", "give average_hz or max_hz with it")
        if average is None:
            self._set("average_hz", float(most or 0) / burstiness)
        elif most is None:
            self._set("max_hz", float(average) * burstiness)
        elif abs(average * burstiness - most) > ROUNDING * most:
            raise refused(
                "burstiness", burstiness, f"max_hz is {brief(most)}, average_hz {brief(average)}", "leave one of the three out"
            )

    def _in_order(self) -> None:
        rates = {name: value for name in ("min_hz", "average_hz", "max_hz") if (value := getattr(self, name)) is not None}
        if list(rates.values()) != sorted(rates.values()):
            low, high = next(pair for pair in zip(rates, list(rates)[1:], strict=False) if rates[pair[0]] > rates[pair[1]])
            words = {"min_hz": "lowest", "average_hz": "average", "max_hz": "highest"}
            raise InvalidInput(
                value=f"{low}={rates[low]!r}, {high}={rates[high]!r}",
                reason=f"the {words[low]} rate is above the {words[high]}",
                remedy="choose min_hz <= average_hz <= max_hz",
            )

    def _cycle(self) -> None:
        """Derive the missing lengths of a cycle."""
        period, high, low = self.period, self.high, self.low
        assert not isinstance(period, str) and not isinstance(high, str) and not isinstance(low, str)
        if self.transition == "trend":
            if period is None and (high or low):
                raise refused("high, low", (str(high), str(low)), "how long a trend takes is unknown", "give the period with them")
            if period is not None:
                self._set("high", high or timedelta(0))
                self._set("low", low or timedelta(0))
                if (high or timedelta(0)) + (low or timedelta(0)) >= period:
                    raise refused("period", str(period), "high and low leave no time for a trend", 'choose transition="jump"')
        elif period is not None:
            high = high or (period - low if low else period / 2)
            low = low or period - high
            if high + low != period or min(high, low) <= timedelta(0):
                raise refused("period", str(period), f"high is {high}, low {low}", "leave one of the three out")
            self._set("high", high)
            self._set("low", low)
        elif high is not None and low is not None:
            self._set("period", high + low)
        elif high is not None or low is not None:
            raise refused("high, low", (str(high), str(low)), "one alone makes no cycle", "give the other, or the period")
        self._check_phase()

    def _check_phase(self) -> None:
        if self.phase is None:
            return
        if not (isinstance(self.period, timedelta) and isinstance(self.phase, timedelta)):
            raise refused("phase", str(self.phase), "there is no phase without a period", "give the period with it")
        if self.phase > self.period:
            raise refused("phase", str(self.phase), f"longer than the period of {self.period}", "choose one up to the period")


def _seconds(length: Length | None) -> float:
    return length.total_seconds() if isinstance(length, timedelta) else nan
