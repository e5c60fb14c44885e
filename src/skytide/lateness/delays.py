"""How late tuples were: a histogram that is small enough to report and fine enough to find a quantile in."""

from dataclasses import dataclass, field

import numpy as np

from skytide.lateness.crowds import FAR_US, FEW, Crowd, Times, crowds_of, joined, newest_of, went_on

STEPS_PER_OCTAVE = 8
BUCKETS = 45 * STEPS_PER_OCTAVE  # to more than a year


@dataclass(frozen=True)
class Arrivals:
    """What came in with one batch, late tuples included. A delay is how far a tuple lies behind the newest one before it."""

    tuples: int = 0
    late: int = 0
    newest_us: int | None = None
    """As far as it can be believed: see `crowds`."""
    longest_delay_us: int = 0
    """Of those within a leap."""
    far_delays_us: tuple[int, ...] = ()
    """The longest of those beyond it, and one more than a few of them, from the longest on."""
    delays: tuple[int, ...] = field(default=(0,) * BUCKETS, repr=False)
    crowds: tuple[Crowd, ...] = ()
    """The tuples that are newer than the newest before, or all if there was none."""

    def then(self, later: "Arrivals", leap_us: int) -> "Arrivals":
        """Return this followed by what one and the same task saw later."""
        crowds = joined([*went_on(self.crowds, later.tuples, later.crowds, leap_us), *later.crowds], leap_us)
        return self._with(later, crowds)

    def beside(self, other: "Arrivals", leap_us: int) -> "Arrivals":
        """Return what two tasks of one batch saw, neither before the other."""
        return self._with(other, joined([*self.crowds, *other.crowds], leap_us))

    def _with(self, other: "Arrivals", crowds: list[Crowd]) -> "Arrivals":
        known = [newest for newest in (self.newest_us, other.newest_us) if newest is not None]
        return Arrivals(
            tuples=self.tuples + other.tuples,
            late=self.late + other.late,
            newest_us=max(known, default=None),
            longest_delay_us=max(self.longest_delay_us, other.longest_delay_us),
            far_delays_us=longest((*self.far_delays_us, *other.far_delays_us)),
            delays=tuple(a + b for a, b in zip(self.delays, other.delays, strict=True)),
            crowds=tuple(crowds),
        )


def observe(
    times_us: Times, newest_us: int | None, punctuation_us: int | None, leap_us: int, seen_us: int | None = None
) -> Arrivals:
    """Return what tuples tell in the order they came, after `newest_us` had been the newest, and `seen_us` of this batch.

    >>> observe(np.array([10, 12, 9, 11]), newest_us=None, punctuation_us=10, leap_us=100).late
    1
    >>> observe(np.array([10, 12, 9, 11]), newest_us=None, punctuation_us=10, leap_us=100).longest_delay_us
    3
    """
    if len(times_us) == 0:
        return Arrivals()
    crowds = crowds_of(times_us if newest_us is None else times_us[times_us > newest_us], leap_us)
    before_us = max((time for time in (newest_us, seen_us) if time is not None), default=None)
    newest = newest_of(before_us, crowds, leap_us)
    credible = times_us
    if newest is not None and crowds and crowds[-1].last_us > newest:
        credible = np.where(times_us > newest, times_us.min(), times_us)
    before = np.maximum.accumulate(credible)
    if before_us is not None:
        before = np.maximum(before, before_us)
    delays = np.maximum(before - times_us, 0)
    far = delays[delays > leap_us]
    return Arrivals(
        tuples=len(times_us),
        late=0 if punctuation_us is None else int((times_us < punctuation_us).sum()),
        newest_us=newest,
        longest_delay_us=int(delays.max() if not len(far) else delays[delays <= leap_us].max(initial=0)),
        far_delays_us=longest(far.tolist()),
        delays=tuple(np.bincount(bucket(delays), minlength=BUCKETS).tolist()),
        crowds=crowds,
    )


def longest(far_delays_us: "tuple[int, ...] | list[int]") -> tuple[int, ...]:
    """Return the longest delays that can be real, and one more than a few of them."""
    return tuple(sorted((delay for delay in far_delays_us if delay <= FAR_US), reverse=True)[: FEW + 1])


def bucket(delays_us: Times) -> Times:
    """Return the bucket of each delay: each is an eighth of a doubling wide, and the first holds no delay at all."""
    exact = np.log2(np.maximum(delays_us, 1).astype(np.float64)) * STEPS_PER_OCTAVE
    return np.where(delays_us <= 0, 0, np.minimum(np.floor(exact).astype(np.int64) + 1, BUCKETS - 1))


def bucket_end_us(index: int) -> int:
    """Return a delay that no delay of this bucket exceeds."""
    return 0 if index == 0 else int(np.ceil(2 ** (index / STEPS_PER_OCTAVE)))
