"""How late tuples are: a histogram that is small enough to report and fine enough to find quantiles."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from skytide.lateness.crowds import FAR_US, FEW, Crowd, Times, crowds_of, joined, newest_of, telling, went_on

STEPS_PER_OCTAVE = 8
BUCKETS = 45 * STEPS_PER_OCTAVE  # to more than a year


class Order(Enum):
    """What the order of tuples means."""

    ARRIVAL = "arrival"
    """They arrived in this order, and each is as late as it is behind the newest before it."""
    TOGETHER = "together"
    """They arrived together: late are those behind the tuples of earlier batches."""
    BEHIND = "behind"
    """The engine kept them waiting, so their delays tell nothing about the stream."""


@dataclass(frozen=True)
class Arrivals:
    """What arrived with one batch, including late tuples. A delay is how far a tuple is behind the newest one before it."""

    tuples: int = 0
    late: int = 0
    newest_us: int | None = None
    """The newest credible time: see `crowds`."""
    longest_delay_us: int = 0
    """The longest delay within a leap."""
    far_delays_us: tuple[int, ...] = ()
    """The longest delays beyond a leap, descending: one more than `FEW`."""
    delays: tuple[int, ...] = field(default=(0,) * BUCKETS, repr=False)
    crowds: tuple[Crowd, ...] = ()
    """The tuples that are newer than the newest before, or all if there was none before."""
    behind: int = 0
    """Tuples that the engine kept waiting: that they are old does not make newer ones odd."""

    @property
    def passing(self) -> int:
        """Return how many tuples show how far the stream has come."""
        return self.tuples - self.behind

    def followed_by(self, later: "Arrivals", leap_us: int) -> "Arrivals":
        """Return these arrivals followed by later ones of the same task."""
        crowds = joined([*went_on(self.crowds, later.passing, later.crowds, leap_us), *later.crowds], leap_us)
        return _sum((self, later), telling(crowds))

    def merged(self, other: "Arrivals", leap_us: int) -> "Arrivals":
        """Return the arrivals of two tasks of one batch, neither before the other."""
        return Arrivals.of_tasks((self, other), leap_us)

    @staticmethod
    def of_tasks(tasks: "Sequence[Arrivals]", leap_us: int) -> "Arrivals":
        """Return the arrivals of all tasks of one batch: in one pass, as there may be thousands."""
        crowds: list[Crowd] = []
        for task in tasks:
            crowds = joined([*crowds, *task.crowds], leap_us)
        return _sum(tasks, crowds)


def _sum(parts: Sequence[Arrivals], crowds: Iterable[Crowd]) -> Arrivals:
    return Arrivals(
        tuples=sum(part.tuples for part in parts),
        late=sum(part.late for part in parts),
        newest_us=max((part.newest_us for part in parts if part.newest_us is not None), default=None),
        longest_delay_us=max((part.longest_delay_us for part in parts), default=0),
        far_delays_us=longest([delay for part in parts for delay in part.far_delays_us]),
        delays=tuple(map(sum, zip(*(part.delays for part in parts), strict=True))) or (0,) * BUCKETS,
        crowds=tuple(crowds),
        behind=sum(part.behind for part in parts),
    )


def observe(
    times_us: Times,
    newest_us: int | None,
    punctuation_us: int | None,
    leap_us: int,
    seen_us: int | None = None,
    order: Order = Order.ARRIVAL,
    out_us: Iterable[tuple[int, int]] = (),
) -> Arrivals:
    """Return the arrivals of tuples in some order; `newest_us` was the newest time before this batch, `seen_us` that of this batch so far.

    Late are those before the punctuation, and those in stretches whose windows have come out already.

    >>> observe(np.array([10, 12, 9, 11]), newest_us=None, punctuation_us=10, leap_us=100).late
    1
    >>> observe(np.array([10, 12, 9, 11]), newest_us=None, punctuation_us=10, leap_us=100).longest_delay_us
    3
    """
    if len(times_us) == 0:
        return Arrivals()
    crowds = crowds_of(times_us if newest_us is None else times_us[times_us > newest_us], leap_us)
    if order is not Order.ARRIVAL:
        crowds = tuple(replace(crowd, passed=0) for crowd in crowds)
    before_us = max((time for time in (newest_us, seen_us) if time is not None), default=None)
    newest = newest_of(before_us, crowds, leap_us)
    odd = newest is not None and bool(crowds) and crowds[-1].last_us > newest
    delays = _delays(times_us, newest_us if order is Order.TOGETHER else before_us, newest if odd else None, order)
    far = delays[delays > leap_us]
    return Arrivals(
        tuples=len(times_us),
        late=int(late_ones(times_us, punctuation_us, out_us).sum()),
        newest_us=newest,
        longest_delay_us=int(delays.max() if not len(far) else delays[delays <= leap_us].max(initial=0)),
        far_delays_us=longest(far.tolist()),
        delays=tuple(np.bincount(bucket(delays), minlength=BUCKETS).tolist()),
        crowds=telling(crowds),
        behind=len(times_us) if order is Order.BEHIND else 0,
    )


def late_ones(times_us: Times, punctuation_us: int | None, out_us: Iterable[tuple[int, int]] = ()) -> NDArray[np.bool_]:
    """Return which tuples are late."""
    late = np.zeros(len(times_us), np.bool_) if punctuation_us is None else times_us < punctuation_us
    for first_us, end_us in out_us:
        late = late | ((times_us >= first_us) & (times_us < end_us))
    return late


def _delays(times_us: Times, before_us: int | None, newest_us: int | None, order: Order) -> Times:
    """Return how late tuples are if `before_us` was the newest; times after `newest_us`, if given, are not believed."""
    if order is Order.BEHIND or (order is Order.TOGETHER and before_us is None):
        return np.zeros(len(times_us), np.int64)
    if order is Order.TOGETHER:
        return np.asarray(np.maximum(before_us - times_us, 0))  # type: ignore[operator]
    credible = times_us if newest_us is None else np.where(times_us > newest_us, times_us.min(), times_us)
    before = np.maximum.accumulate(credible)
    if before_us is not None:
        before = np.maximum(before, before_us)
    return np.asarray(np.maximum(before - times_us, 0))


def longest(far_delays_us: "tuple[int, ...] | list[int]") -> tuple[int, ...]:
    """Return the longest delays that can be real, one more than `FEW`."""
    return tuple(sorted((delay for delay in far_delays_us if delay <= FAR_US), reverse=True)[: FEW + 1])


def bucket(delays_us: Times) -> Times:
    """Return the bucket of each delay: each is an eighth of an octave wide, and the first is for no delay at all."""
    exact = np.log2(np.maximum(delays_us, 1).astype(np.float64)) * STEPS_PER_OCTAVE
    return np.where(delays_us <= 0, 0, np.minimum(np.floor(exact).astype(np.int64) + 1, BUCKETS - 1))


def bucket_end_us(index: int) -> int:
    """Return a delay that no delay of this bucket exceeds."""
    return 0 if index == 0 else int(np.ceil(2 ** (index / STEPS_PER_OCTAVE)))
