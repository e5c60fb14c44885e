"""How late tuples were: a histogram that is small enough to report and fine enough to find a quantile in."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

STEPS_AN_OCTAVE = 8
BUCKETS = 45 * STEPS_AN_OCTAVE  # to more than a year


@dataclass(frozen=True)
class Arrivals:
    """What came in with one batch, late tuples included. A delay is how far a tuple lies behind the newest one before it."""

    tuples: int = 0
    late: int = 0
    newest_us: int | None = None
    longest_delay_us: int = 0
    delays: tuple[int, ...] = field(default=(0,) * BUCKETS, repr=False)

    def __add__(self, other: "Arrivals") -> "Arrivals":
        """Put two parts of one batch together."""
        known = [newest for newest in (self.newest_us, other.newest_us) if newest is not None]
        return Arrivals(
            tuples=self.tuples + other.tuples,
            late=self.late + other.late,
            newest_us=max(known, default=None),
            longest_delay_us=max(self.longest_delay_us, other.longest_delay_us),
            delays=tuple(a + b for a, b in zip(self.delays, other.delays, strict=True)),
        )


def observe(times_us: NDArray[np.int64], newest_us: int | None, punctuation_us: int | None) -> Arrivals:
    """Describe tuples in the order they came, after `newest_us` had been the newest.

    >>> observe(np.array([10, 12, 9, 11]), newest_us=None, punctuation_us=10).late
    1
    >>> observe(np.array([10, 12, 9, 11]), newest_us=None, punctuation_us=10).longest_delay_us
    3
    """
    if len(times_us) == 0:
        return Arrivals(newest_us=newest_us)
    before = np.maximum.accumulate(times_us)
    if newest_us is not None:
        before = np.maximum(before, newest_us)
    delays = before - times_us
    return Arrivals(
        tuples=len(times_us),
        late=0 if punctuation_us is None else int((times_us < punctuation_us).sum()),
        newest_us=int(before[-1]),
        longest_delay_us=int(delays.max()),
        delays=tuple(np.bincount(bucket(delays), minlength=BUCKETS).tolist()),
    )


def bucket(delays_us: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give the bucket of each delay: each is an eighth of a doubling wide, and the first holds no delay at all."""
    exact = np.log2(np.maximum(delays_us, 1).astype(np.float64)) * STEPS_AN_OCTAVE
    return np.where(delays_us <= 0, 0, np.minimum(np.floor(exact).astype(np.int64) + 1, BUCKETS - 1))


def bucket_end_us(index: int) -> int:
    """Give a delay that no delay of this bucket exceeds."""
    return 0 if index == 0 else int(np.ceil(2 ** (index / STEPS_AN_OCTAVE)))
