"""What to expect of streams in the future by their declared characteristics (P1 §2.4, §2.5)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from skytide.admission.profile import Profile
from skytide.admission.records import Bools, Floats


class Observed(Protocol):
    """Columns with what was observed of all streams."""

    seen: NDArray[np.int32]
    rate: Floats
    level: Floats
    lowest: Floats
    highest: Floats
    is_high: Bools
    turned_s: Floats


@dataclass(frozen=True)
class Turned:
    """Streams whose rates crossed the middle of their range: their rows, when, and whether upwards."""

    rows: NDArray[np.intp]
    at_s: Floats
    is_high: Bools


class Declared:
    """The profiles of streams as columns, with one row per stream that has a profile."""

    def __init__(self, names: tuple[str, ...] = (), profiles: Mapping[str, Profile] | None = None) -> None:
        """Select the streams that have a profile."""
        self.names, self.profiles = names, dict(profiles or {})
        rows = [row for row, name in enumerate(names) if name in self.profiles] if self.profiles else []
        self.rows = np.array(rows, np.intp)
        table = np.array([self.profiles[names[row]].row for row in rows], np.float64).reshape(-1, 9).T
        self._average, self._least, self._most, self._growth, self._period, self._high, self._low, self._phase, trend = table
        self._trend = trend > 0
        self._ramp = np.where(self._trend, (self._period - self._high - self._low) / 2, 0.0)

    def turned(self, streams: Observed, now_s: float, elapsed_s: Floats, due: Bools) -> Turned:
        """Return the streams whose latest rate is on the other side of the middle than before.

        The rate of a period in which a stream jumped lies between its two rates, and shows when it jumped.
        """
        rows = self.rows
        bottom, top = self._range(streams)
        rate, elapsed_s = streams.rate[rows], elapsed_s[rows]
        is_high = rate > (bottom + top) / 2
        span = np.maximum(top - bottom, 1e-300)
        within = np.clip(np.where(is_high, rate - bottom, top - rate) / span, 0, 1)
        by_trend = elapsed_s / 2 + np.maximum(within - 0.5, 0) * self._ramp
        at_s = now_s - np.where(self._trend, by_trend, within * elapsed_s)
        turned = due[rows] & ((is_high != streams.is_high[rows]) | np.isnan(streams.turned_s[rows]))
        return Turned(rows[turned], at_s[turned], is_high[turned])

    def expected_hz(self, streams: Observed, now_s: float, ahead_s: float, forecast_hz: Floats, late_s: float) -> Floats:
        """Return the expected rate of each stream in `ahead_s` seconds; NaN for a stream whose profile does not determine it.

        A cycle is the best source; otherwise a growth; otherwise an observed trend, within the declared range; otherwise the highest rate alone
        (P1 §2.5). For a stream that has not been observed yet it is the highest rate, or the average, which is ignored later on.
        """
        expected = np.full(len(forecast_hz), np.nan)
        rows, seen = self.rows, streams.seen[self.rows] > 0
        if not len(rows):
            return expected
        least, most = np.nan_to_num(self._least, nan=0.0), np.nan_to_num(self._most, nan=np.inf)
        known_most, known_average = np.isfinite(most), ~np.isnan(self._average)
        start = np.where(known_average, self._average, forecast_hz[rows])
        value = np.where(seen, forecast_hz[rows], np.where(known_most, most, start))
        value = np.where(known_most & ~self._trend & np.isnan(self._period), most, value)
        grown = np.where(seen, streams.level[rows], start) + self._growth * ahead_s
        value = np.clip(np.where(np.isnan(self._growth), value, grown), least, most)
        cycle = ~np.isnan(self._period) & np.where(np.isnan(self._phase), self._on_time(streams, now_s, late_s), known_most | seen)
        says = ~seen | cycle | known_most | ~np.isnan(self._least) | ~np.isnan(self._growth)
        expected[rows] = np.where(cycle, self._wave(streams, now_s, ahead_s), np.where(says, value, np.nan))
        return expected

    def _on_time(self, streams: Observed, now_s: float, late_s: float) -> Bools:
        """Return which streams keep to their declared lengths, give or take the time between observations; those of the others are ignored."""
        lasts_s = np.where(streams.is_high[self.rows], self._high, self._low) + self._ramp
        return now_s - streams.turned_s[self.rows] <= lasts_s + late_s

    def _range(self, streams: Observed) -> tuple[Floats, Floats]:
        """Return the lowest and highest rates: as declared, or as observed so far."""
        bottom = np.where(np.isnan(self._least), streams.lowest[self.rows], self._least)
        top = np.where(np.isnan(self._most), streams.highest[self.rows], self._most)
        return np.minimum(bottom, top), top

    def _wave(self, streams: Observed, now_s: float, ahead_s: float) -> Floats:
        """Return the rates of streams that go up and down. A cycle begins where the highest rate is reached."""
        bottom, top = self._range(streams)
        ramp, is_high = self._ramp, streams.is_high[self.rows]
        since_s = now_s - streams.turned_s[self.rows]
        # A stream that is overdue to turn is about to do so.
        risen = np.minimum(since_s, self._high + ramp) - ramp / 2
        fallen = self._high + ramp / 2 + np.minimum(since_s, self._low + ramp)
        at = np.where(np.isnan(self._phase), np.where(is_high, risen, fallen), now_s - self._phase) + ahead_s
        at = np.mod(at, self._period)
        gentle, divisor = ramp > 0, np.where(ramp > 0, ramp, 1.0)
        fall_s, rise_s = at - self._high, at - self._high - ramp - self._low
        fall = np.where(gentle, np.clip(fall_s / divisor, 0, 1), fall_s >= 0)
        rise = np.where(gentle, np.clip(rise_s / divisor, 0, 1), rise_s >= 0)
        rates: Floats = top - (top - bottom) * (fall - rise)
        return rates
