"""How late tuples are (SPEC L4): the time from an event to the arrival of its tuple."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from skytide.errors import InvalidInput

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Delays(ABC):
    """A distribution of delays for the `share` of the tuples that are late; the others have no delay at all."""

    delay_us: int
    share: float = 1.0
    series: str = ""

    def draw(self, random: np.random.Generator, n: int) -> Counts:
        """Return random delays of `n` tuples, in microseconds.

        >>> Uniform(1_000, share=0.5).draw(np.random.default_rng(4), 6)
        array([  0,   0,   0, 802,   0, 175])
        """
        if self.share >= 1:
            return np.ceil(self.late(random, n)).astype(np.int64)
        delays = np.zeros(n, np.int64)
        late = np.flatnonzero(random.random(n) < self.share)
        delays[late] = np.ceil(self.late(random, len(late)))
        return delays

    @property
    def longest_us(self) -> int | None:
        """Return a delay that none exceeds, or None if there is no such bound."""
        return None

    @abstractmethod
    def late(self, random: np.random.Generator, n: int) -> Floats:
        """Return random delays of `n` late tuples."""


class InOrder(Delays):
    """No tuple is late."""

    longest_us = 0

    def late(self, random: np.random.Generator, n: int) -> Floats:
        """Return zeros."""
        return np.zeros(n)


class Uniform(Delays):
    """Any delay up to `delay_us`, as in the papers: half of it on average."""

    @property
    def longest_us(self) -> int:
        """Return the longest delay."""
        return self.delay_us

    def late(self, random: np.random.Generator, n: int) -> Floats:
        """Return uniform delays."""
        return random.random(n) * self.delay_us


class Exponential(Delays):
    """Exponential delays of `delay_us` on average."""

    @property
    def longest_us(self) -> int:
        """Return a delay that one tuple in a hundred millions would exceed."""
        return 19 * self.delay_us

    def late(self, random: np.random.Generator, n: int) -> Floats:
        """Return exponential delays."""
        return random.standard_exponential(n) * self.delay_us


class Pareto(Delays):
    """Heavy tailed (Lomax, shape 2): `delay_us` on average, the median at 0.41 of it, and no finite variance.

    One in 10,000 tuples is later than 99 times the mean, one in a million than 999 times.
    """

    def late(self, random: np.random.Generator, n: int) -> Floats:
        """Return heavy-tailed delays by inversion: P(delay > y) = (1 + y / mean) ** -2."""
        return self.delay_us * (1 / np.sqrt(1 - random.random(n)) - 1)


class Replayed(Delays):
    """Recorded delays in their order: each tick begins somewhere in the recording (columns `ts` and `arrival`)."""

    def draw(self, random: np.random.Generator, n: int) -> Counts:
        """Return a part of the recording."""
        delays = _recorded(self.series)
        return np.take(delays, int(random.integers(len(delays))) + np.arange(n), mode="wrap")

    def late(self, random: np.random.Generator, n: int) -> Floats:
        """Return the same as numbers."""
        return self.draw(random, n).astype(np.float64)


@lru_cache(maxsize=4)
def _recorded(path: str) -> Counts:
    try:
        table = pq.read_table(path, columns=["ts", "arrival"])
    except (OSError, pa.ArrowInvalid) as error:
        raise InvalidInput(
            value=f"delay_series={path!r}",
            reason=f"cannot be read ({error or type(error).__name__})",
            remedy="give a Parquet file with ts and arrival",
        ) from None
    ts, arrival = (
        table[name].cast(pa.timestamp("us", table[name].type.tz)).cast(pa.int64()).to_numpy() for name in ("ts", "arrival")
    )
    delays: Counts = np.maximum((arrival - ts)[np.argsort(arrival, kind="stable")], 0)
    return delays


DELAYS: dict[str, type[Delays]] = {
    "none": InOrder,
    "uniform": Uniform,
    "exponential": Exponential,
    "pareto": Pareto,
    "replay": Replayed,
}
