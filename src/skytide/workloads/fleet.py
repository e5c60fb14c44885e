"""Many input streams at once, as generated in P1 §6.1: steady, in opposite pairs, or all going up and down."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from skytide.workloads.arrivals import SECOND_US, Floats, Modulated
from skytide.workloads.identity import derive

PERIOD_S = 60.0
HIGH, LOW = 1.6, 0.4  # times the mean rate of a stream
SHARES = 0.2, 1.8  # times the mean of all streams: the range of their mean rates
SPREAD = 0.1  # share of a period within which unpaired streams begin


@dataclass(frozen=True)
class Fleet(Modulated):
    """`streams` streams with `rate_hz` tuples per second together; how uneven they are follows from the seed.

    constw: every stream is steady. psfcw and ptfcw: streams go up and down in opposite pairs, in steps or by a trend, and the total
    stays. sfvar and tfvar: all go up and down at about the same time, so the total does too.
    """

    rate_hz: float
    streams: int

    shape: ClassVar[str]  # "steady", "step" or "trend"
    paired: ClassVar[bool] = False

    @property
    def mean_hz(self) -> float:
        """Return the mean of the total."""
        return self.rate_hz

    @property
    def peak_hz(self) -> float:
        """Return the highest total."""
        return self.rate_hz * (1.0 if self.paired or self.shape == "steady" else HIGH)

    def rates_hz(self, times_s: Floats, seed: int) -> NDArray[np.float64]:
        """Return the rate of each stream (a row) at each time."""
        means = derive(seed, "fleet", "means").uniform(*SHARES, self.streams)
        if self.paired:
            means = np.repeat(means[: (self.streams + 1) // 2], 2)[: self.streams]
        means *= self.rate_hz / means.sum()
        if self.shape == "steady":
            return np.repeat(means[:, None], len(times_s), axis=1)
        pairs = np.arange(self.streams) // 2
        spread = 1.0 if self.paired else SPREAD
        phases = derive(seed, "fleet", "phases").random(self.streams)[pairs if self.paired else slice(None)] * spread
        at = (times_s[None, :] / PERIOD_S + phases[:, None]) % 1
        wave = np.where(at < 0.5, 1.0, -1.0) if self.shape == "step" else 1 - 4 * np.abs(at - 0.5)
        if self.paired:
            signs = np.where(np.arange(self.streams) % 2, -1.0, 1.0)
            if self.streams % 2:
                signs[-1] = 0.0  # one without a partner is steady
            wave = wave * signs[:, None]
        return means[:, None] * (1 + (HIGH - LOW) / 2 * wave)

    def expected(self, first: int, last: int, *, tick_us: int, seed: int) -> Floats:
        """Return the total of each tick."""
        times = (np.arange(first, last) + 0.5) * tick_us / SECOND_US
        total: Floats = self.rates_hz(times, seed).sum(axis=0) * tick_us / SECOND_US
        return total


class Constw(Fleet):
    """Steady streams."""

    shape = "steady"


class Psfcw(Fleet):
    """Opposite pairs, in steps."""

    shape, paired = "step", True


class Ptfcw(Fleet):
    """Opposite pairs, by a trend."""

    shape, paired = "trend", True


class Sfvar(Fleet):
    """All together, in steps."""

    shape = "step"


class Tfvar(Fleet):
    """All together, by a trend."""

    shape = "trend"


FLEETS: dict[str, type[Fleet]] = {kind.__name__.lower(): kind for kind in (Constw, Psfcw, Ptfcw, Sfvar, Tfvar)}
