"""Decides which times to believe: a single time stamp far ahead of a stream is more often wrong than a leap of the stream.

Times within a leap of each other are a crowd. Any tuple can move a stream's time forward by up to a leap; to move further, more than a
few tuples have to come at or after the new time, beyond as many as have come behind it meanwhile. Until then a crowd ahead is held; if the
stream continues behind it instead, it is odd, and says nothing any more about how far the stream has come. Either way its tuples stay in
their panes: no tuple is dropped for its time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

FEW = 3
"""How many tuples may be wrong together."""
FAR_US = 30 * 86_400_000_000
"""No delay is this long."""
MAX_CROWDS = 64

Times = NDArray[np.int64]


@dataclass(frozen=True)
class Crowd:
    """Tuples whose times lie within a leap of each other."""

    first_us: int
    last_us: int
    tuples: int
    passed: int = 0
    """Tuples that came later, and are more than a leap behind."""

    @property
    def is_confirmed(self) -> bool:
        """Return whether its tuples alone show that the stream has come there."""
        return self.tuples - self.passed > FEW

    @property
    def is_odd(self) -> bool:
        """Return whether it says nothing about how far the stream has come: the stream has continued behind."""
        return self.passed > FEW and not self.is_confirmed

    def join(self, other: "Crowd") -> "Crowd":
        """Return both crowds as one; what one of them confirms, the other does not take back."""
        first_us, last_us = min(self.first_us, other.first_us), max(self.last_us, other.last_us)
        passed = 0 if self.is_confirmed or other.is_confirmed else self.passed + other.passed
        return Crowd(first_us, last_us, self.tuples + other.tuples, passed)


def crowds_of(times_us: Times, leap_us: int) -> tuple[Crowd, ...]:
    """Return the crowds of tuples that came in this order.

    >>> [(crowd.first_us, crowd.tuples, crowd.passed) for crowd in crowds_of(np.array([1, 90, 2, 3]), leap_us=10)]
    [(1, 3, 0), (90, 1, 2)]
    """
    if len(times_us) == 0:
        return ()
    low, high = int(times_us.min()), int(times_us.max())
    if high - low <= leap_us:
        return (Crowd(low, high, len(times_us)),)
    ordered = np.sort(times_us)
    parts = np.split(ordered, np.flatnonzero(np.diff(ordered) > leap_us) + 1)
    crowds = few_enough([Crowd(int(part[0]), int(part[-1]), len(part)) for part in parts])
    return tuple(crowd if crowd.is_confirmed else replace(crowd, passed=_passed(times_us, crowd, leap_us)) for crowd in crowds)


def _passed(times_us: Times, crowd: Crowd, leap_us: int) -> int:
    inside = np.flatnonzero((times_us >= crowd.first_us) & (times_us <= crowd.last_us))
    return int((times_us[inside[-1] :] < crowd.first_us - leap_us).sum())


def joined(crowds: Iterable[Crowd], leap_us: int) -> list[Crowd]:
    """Return crowds in order of time, joining those that are within a leap of each other."""
    out: list[Crowd] = []
    for crowd in sorted(crowds, key=lambda crowd: crowd.first_us):
        if out and crowd.first_us - out[-1].last_us <= leap_us:
            out[-1] = out[-1].join(crowd)
        else:
            out.append(crowd)
    return few_enough(out)


def few_enough(crowds: Sequence[Crowd]) -> list[Crowd]:
    """Return no more crowds than a report should hold: the newest as they are, as they decide what is believed, and older ones as one."""
    old, new = crowds[:-MAX_CROWDS], crowds[-MAX_CROWDS:]
    return [reduce(Crowd.join, old), *new] if old else list(new)


def telling(crowds: Iterable[Crowd]) -> tuple[Crowd, ...]:
    """Return the crowds that say how far a stream has come, or may do so later."""
    return tuple(crowd for crowd in crowds if not crowd.is_odd)


def went_on(crowds: Sequence[Crowd], tuples: int, later: Sequence[Crowd], leap_us: int) -> list[Crowd]:
    """Return crowds after more `tuples` have come, of which those ahead are the crowds `later`."""
    out = []
    for crowd in crowds:
        ahead = sum(other.tuples for other in later if other.last_us >= crowd.first_us - leap_us)
        out.append(crowd if crowd.is_confirmed else replace(crowd, passed=crowd.passed + max(0, tuples - ahead)))
    return out


def believed_us(crowds: Sequence[Crowd]) -> int | None:
    """Return the newest time that more than a few tuples confirm, or None; crowds are in order."""
    tuples = passed = 0
    for crowd in reversed(telling(crowds)):
        tuples, passed = tuples + crowd.tuples, max(passed, crowd.passed)
        if crowd.is_confirmed or tuples - passed > FEW:
            return crowd.last_us
    return None


def newest_of(newest_us: int | None, crowds: Sequence[Crowd], leap_us: int) -> int | None:
    """Return how far a stream has come that was at `newest_us` and now has these crowds, in order."""
    for crowd in crowds:
        if newest_us is not None and crowd.first_us - newest_us <= leap_us:
            newest_us = max(newest_us, crowd.last_us)
    times_us = [time for time in (newest_us, believed_us(crowds)) if time is not None]
    return max(times_us, default=None)
