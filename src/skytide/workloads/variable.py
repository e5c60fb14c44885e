"""Arrival processes whose rate varies: self-similar, a random walk, and recorded ones (SPEC L1)."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skytide.errors import InvalidInput
from skytide.workloads.arrivals import SECOND_US, Floats, Modulated
from skytide.workloads.identity import derive


class Cyclic(Modulated):
    """A rate that is known in grains of time, and starts again after its last grain."""

    @abstractmethod
    def grains(self, seed: int) -> tuple[int, Floats]:
        """Return the length of a grain in microseconds, and the expected tuples of each grain of the cycle."""

    def expected(self, first: int, last: int, *, tick_us: int, seed: int) -> Floats:
        """Return the difference of the expected totals at both ends of each tick."""
        grain_us, tuples = self.grains(seed)
        come = np.append(0.0, np.cumsum(tuples))
        rounds, into = np.divmod(np.arange(first, last + 1) * tick_us, grain_us * len(tuples))
        whole, rest = np.divmod(into, grain_us)
        by_then: Floats = rounds * come[-1] + come[whole] + np.append(tuples, 0.0)[whole] * (rest / grain_us)
        return np.diff(by_then).clip(min=0)


@dataclass(frozen=True)
class SelfSimilar(Cyclic):
    """Traffic that looks the same at every time scale (P0 §5.2), with a Hurst parameter from 0.5 to 1.

    The logarithm of the rate is fractional Gaussian noise, so the counts themselves have long memory, rather than independent heavy-tailed
    ticks. The noise is exact (Davies and Harte 1987: a circulant matrix with its covariances, whose root the Fourier transform yields), in
    grains of 10 ms, and repeats after 44 minutes.
    """

    rate_hz: float
    hurst: float

    grain_us = 10_000
    cycle = 2**18
    spread = 0.7  # the standard deviation of the logarithm of a grain's rate

    @property
    def mean_hz(self) -> float:
        """Return the mean rate."""
        return self.rate_hz

    @property
    def peak_hz(self) -> float:
        """Return a rate that a few grains of a cycle exceed."""
        return self.rate_hz * float(np.exp(4 * self.spread))

    def grains(self, seed: int) -> tuple[int, Floats]:
        """Return the whole cycle."""
        rates = np.exp(self.spread * fractional_noise(self.hurst, self.cycle, seed))
        return self.grain_us, rates * (self.rate_hz * self.grain_us / SECOND_US / rates.mean())


@lru_cache(maxsize=4)
def fractional_noise(hurst: float, n: int, seed: int) -> Floats:
    """Return fractional Gaussian noise of variance 1, whose end continues at its beginning."""
    lags = np.minimum(np.arange(n), n - np.arange(n)).astype(float)
    covariance = 0.5 * ((lags + 1) ** (2 * hurst) - 2 * lags ** (2 * hurst) + np.abs(lags - 1) ** (2 * hurst))
    power = np.fft.rfft(covariance).real.clip(min=0)
    white = derive(seed, "noise", str(hurst)).standard_normal(n)
    noise: Floats = np.fft.irfft(np.sqrt(power) * np.fft.rfft(white), n)
    return noise


@dataclass(frozen=True)
class RandomWalk(Cyclic):
    """Poisson arrivals whose mean changes every five seconds by a log-normal random walk (P0 §5.3).

    The walk returns to where it began after 21 minutes, and then repeats: so it has a mean.
    """

    rate_hz: float

    grain_us = 5 * SECOND_US
    cycle = 256
    step = 0.15  # the standard deviation of a step of the logarithm

    @property
    def mean_hz(self) -> float:
        """Return the mean rate."""
        return self.rate_hz

    @property
    def peak_hz(self) -> float:
        """Return a rate that is seldom exceeded: that of a walk two standard deviations away in the middle of the cycle."""
        return self.rate_hz * float(np.exp(2 * self.step * np.sqrt(self.cycle / 4)))

    def grains(self, seed: int) -> tuple[int, Floats]:
        """Return the whole cycle."""
        walk = np.cumsum(derive(seed, "walk").standard_normal(self.cycle) * self.step)
        rates = np.exp(walk - np.arange(1, self.cycle + 1) / self.cycle * walk[-1])
        return self.grain_us, rates * (self.rate_hz * self.grain_us / SECOND_US / rates.mean())


@dataclass(frozen=True)
class Replay(Cyclic):
    """A recorded series, which starts again when it is over: rates (a column `tuples` or `count`), or the times of tuples (`ts`).

    The length of a grain follows from the column `second` or `minute`; `path#name` is one of several streams in a file.
    """

    path: str

    @property
    def mean_hz(self) -> float:
        """Return the mean rate of the recording."""
        grain_us, tuples = _recorded(self.path)
        return float(tuples.mean()) * SECOND_US / grain_us

    @property
    def peak_hz(self) -> float:
        """Return the highest rate of the recording."""
        grain_us, tuples = _recorded(self.path)
        return float(tuples.max()) * SECOND_US / grain_us

    def grains(self, seed: int) -> tuple[int, Floats]:
        """Return the recording."""
        return _recorded(self.path)


TIMES_GRAIN_US = 100_000


@lru_cache(maxsize=8)
def _recorded(path: str) -> tuple[int, Floats]:
    """Return the grain and the counts of a recorded series."""
    file, _, stream = path.partition("#")
    try:
        table = pq.read_table(Path(file))
    except (OSError, pa.ArrowInvalid) as error:
        raise InvalidInput(
            value=f"series={path!r}", reason=f"cannot be read ({error or type(error).__name__})", remedy="give a Parquet file"
        ) from None
    if stream and "stream" in table.column_names:
        table = table.filter(pc.equal(table["stream"], stream))
    names = set(table.column_names)
    tuples = next((name for name in ("tuples", "count") if name in names), None)
    grain = next(((name, us) for name, us in (("second", SECOND_US), ("minute", 60 * SECOND_US)) if name in names), None)
    if table.num_rows and tuples and grain:
        return grain[1], table.sort_by(grain[0])[tuples].to_numpy().astype(float)
    if table.num_rows and "ts" in names and pa.types.is_timestamp(table["ts"].type):
        times = np.sort(table["ts"].cast(pa.timestamp("us", table["ts"].type.tz)).cast(pa.int64()).to_numpy())
        return TIMES_GRAIN_US, np.bincount((times - times[0]) // TIMES_GRAIN_US).astype(float)
    raise InvalidInput(
        value=f"series={path!r}",
        reason=f"no rows, or neither rates nor times, but {', '.join(sorted(names))}",
        remedy="give a Parquet file with second (or minute) and tuples (or count), or with ts",
    )
