"""Arrival processes (SPEC L1): how many tuples come in each tick of time.

A tick is a short part of the stream, such as 10 ms; tick 0 begins where the stream begins. Any ticks can be drawn, in any order and
by any process: the tuples of a tick follow from the seed and the tick's number alone.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skytide.errors import InvalidInput
from skytide.errors.checks import brief
from skytide.workloads.identity import derive

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

BLOCK = 256  # number of ticks whose randomness is drawn together
SECOND_US = 1_000_000


class Arrivals(ABC):
    """Derive from this class, or from `Modulated`, to write an arrival process of your own."""

    @property
    @abstractmethod
    def mean_hz(self) -> float:
        """Return the mean number of tuples per second over a long time."""

    @property
    def peak_hz(self) -> float:
        """Return the highest rate expected at any time."""
        return self.mean_hz

    @abstractmethod
    def counts(self, first: int, last: int, *, tick_us: int, seed: int) -> Counts:
        """Return the number of tuples of each tick of [first, last), which never depends on the range."""

    def offsets(self, random: np.random.Generator, n: int, tick_us: int) -> Counts:
        """Return when within their tick `n` tuples come, in microseconds and in order: independent and uniform."""
        return np.sort(random.integers(0, tick_us, n))


@dataclass(frozen=True)
class Constant(Arrivals):
    """Tuples at equal distances.

    >>> Constant(250).counts(0, 8, tick_us=10_000, seed=0)
    array([2, 3, 2, 3, 2, 3, 2, 3])
    """

    rate_hz: float

    @property
    def mean_hz(self) -> float:
        """Return the rate."""
        return self.rate_hz

    def counts(self, first: int, last: int, *, tick_us: int, seed: int) -> Counts:
        """Return the number of whole tuples by the end of each tick, minus those before."""
        come = np.arange(first, last + 1) * (self.rate_hz * tick_us) // SECOND_US
        return np.diff(come).astype(np.int64)

    def offsets(self, random: np.random.Generator, n: int, tick_us: int) -> Counts:
        """Return times at equal distances."""
        return np.arange(n) * tick_us // max(n, 1)


class Modulated(Arrivals):
    """A Poisson process whose rate changes: subclasses determine the expected number of tuples of each tick."""

    @abstractmethod
    def expected(self, first: int, last: int, *, tick_us: int, seed: int) -> Floats:
        """Return the mean number of tuples of each tick of [first, last), which are whole blocks of ticks."""

    def counts(self, first: int, last: int, *, tick_us: int, seed: int) -> Counts:
        """Draw whole blocks, each with its own randomness, and return the requested ticks."""
        if first >= last:
            return np.zeros(0, np.int64)
        blocks = range(first // BLOCK, (last - 1) // BLOCK + 1)
        expected = self.expected(blocks.start * BLOCK, blocks.stop * BLOCK, tick_us=tick_us, seed=seed).reshape(-1, BLOCK)
        drawn = [derive(seed, "arrivals", block).poisson(mean) for block, mean in zip(blocks, expected, strict=True)]
        skipped = blocks.start * BLOCK
        return np.concatenate(drawn)[first - skipped : last - skipped]


@dataclass(frozen=True)
class Poisson(Modulated):
    """Independent tuples at a steady mean rate.

    >>> Poisson(1_000).counts(0, 100, tick_us=10_000, seed=1).sum()
    np.int64(1032)
    """

    rate_hz: float

    @property
    def mean_hz(self) -> float:
        """Return the rate."""
        return self.rate_hz

    def expected(self, first: int, last: int, *, tick_us: int, seed: int) -> Floats:
        """Return the same number for all ticks."""
        return np.full(last - first, self.rate_hz * tick_us / SECOND_US)


@dataclass(frozen=True)
class Steps(Modulated):
    """Poisson arrivals at rates that last some seconds each, in turn and repeatedly (P0 Fig. 9).

    >>> Steps.parse("1:1000, 2:0").expected(0, 6, tick_us=500_000, seed=0)
    array([500., 500.,   0.,   0.,   0.,   0.])
    """

    steps: tuple[tuple[float, float], ...]  # seconds, and tuples per second

    @classmethod
    def parse(cls, text: str) -> "Steps":
        """Return the steps for a text such as "seconds:rate, seconds:rate, ..."."""
        try:
            steps = tuple((float(seconds), float(rate)) for seconds, rate in (step.split(":") for step in text.split(",")))
        except (AttributeError, ValueError):
            steps = ()
        good = all(SECOND_US**-1 <= seconds < np.inf and 0 <= rate < np.inf for seconds, rate in steps)
        if not (good and any(rate for _, rate in steps)):
            raise InvalidInput(
                value=f"steps={brief(text)}",
                reason="not a list of seconds and rates, or no tuple ever comes",
                remedy='write seconds:rate pairs, for instance "10:1000, 5:20000"',
            )
        return cls(steps)

    @property
    def mean_hz(self) -> float:
        """Return the mean over all steps."""
        return sum(seconds * rate for seconds, rate in self.steps) / sum(seconds for seconds, _ in self.steps)

    @property
    def peak_hz(self) -> float:
        """Return the rate of the highest step."""
        return max(rate for _, rate in self.steps)

    def expected(self, first: int, last: int, *, tick_us: int, seed: int) -> Floats:
        """Return the difference of the expected totals at both ends of each tick: a step may end within one."""
        lengths, rates = np.array(self.steps).T
        times, tuples = np.append(0, np.cumsum(lengths * SECOND_US)), np.append(0, np.cumsum(lengths * rates))
        rounds, into = np.divmod(np.arange(first, last + 1) * float(tick_us), times[-1])
        come: Floats = rounds * tuples[-1] + np.interp(into, times, tuples)
        return np.diff(come).clip(min=0)


class TwoStates(Modulated):
    """A Markov chain switches between a fast and a slow state, with Poisson arrivals in each.

    The chain is in the fast state for a share p of the time and forgets its state at rate r: at the times of a Poisson process of rate r
    the state is drawn again, fast with probability p. So the state at any time is the one drawn last before it. It is found by looking
    back a block or two, which is exact, and no block needs the whole past. States shorter than a tick count by the time spent in them.
    """

    rate_hz: float

    @property
    @abstractmethod
    def fast(self) -> float:
        """Return the rate of the fast state, as a multiple of the mean."""

    @property
    @abstractmethod
    def slow(self) -> float:
        """Return the rate of the slow state, as a multiple of the mean."""

    @property
    def fast_share(self) -> float:
        """Return the share of time in the fast state, which follows from both rates and the mean."""
        return (1 - self.slow) / (self.fast - self.slow)

    @property
    @abstractmethod
    def renewals_hz(self) -> float:
        """Return how often the state is drawn again."""

    @property
    def mean_hz(self) -> float:
        """Return the mean over both states."""
        return self.rate_hz

    @property
    def peak_hz(self) -> float:
        """Return the rate of the fast state."""
        return self.fast * self.rate_hz

    def expected(self, first: int, last: int, *, tick_us: int, seed: int) -> Floats:
        """Return the expected number of tuples of each tick, by the time spent in each state."""
        is_fast = self._state_before(first // BLOCK, tick_us, seed)
        fast_time: list[Floats] = []
        for block in range(first // BLOCK, last // BLOCK):
            states, random = self._renewals(block, tick_us, seed)
            moments = np.concatenate([[0], np.sort(random.random(len(states))) * BLOCK, [BLOCK]])
            spent = np.diff(moments) * np.append(is_fast, states)
            fast_time.append(np.diff(np.interp(np.arange(BLOCK + 1), moments, np.append(0, np.cumsum(spent)))))
            is_fast = states[-1] if len(states) else is_fast
        share = np.clip(np.concatenate(fast_time), 0, 1)
        return self.rate_hz * tick_us / SECOND_US * (self.slow + (self.fast - self.slow) * share)

    def _renewals(self, block: int, tick_us: int, seed: int) -> tuple[NDArray[np.bool_], np.random.Generator]:
        """Return the states that a block goes through, and the generator that draws their times next."""
        random = derive(seed, "states", block)
        n = random.poisson(self.renewals_hz * BLOCK * tick_us / SECOND_US)
        return random.random(n) < self.fast_share, random

    def _state_before(self, block: int, tick_us: int, seed: int) -> bool:
        for earlier in range(block - 1, -1, -1):
            states, _ = self._renewals(earlier, tick_us, seed)
            if len(states):
                return bool(states[-1])
        return bool(derive(seed, "states", "first").random() < self.fast_share)


@dataclass(frozen=True)
class MarkovModulated(TwoStates):
    """Bursts (P0 §5.2, P3 §4.3.2), fitted to a mean rate and an index of dispersion.

    The index of dispersion I = lim Var(N_t) / E(N_t) of a chain that is in the fast state for a share p of the time and forgets
    its state at rate r is (Heffes and Lucantoni 1986; Fischer and Meier-Hellstern 1993)

        I = 1 + 2 p (1 - p) (fast - slow)^2 / (mean r),      mean = p fast + (1 - p) slow.

    Mean and I leave two numbers free. The series that P0 published to Fig. 3 has 4 and 1/4 times the mean rate, hence p = 1/5,
    and r = 4.5 mean / (I - 1): a higher I means longer bursts, of (I - 1) / (3.6 mean) seconds on average. At 10,000 tuples per
    second and I = 1,000 there is a burst of 28 ms every 139 ms.

    >>> bursts = MarkovModulated(10_000, dispersion=1_000)
    >>> round(1e3 / (bursts.renewals_hz * (1 - bursts.fast_share)))
    28
    """

    rate_hz: float
    dispersion: float

    fast = 4.0
    slow = 0.25

    @property
    def renewals_hz(self) -> float:
        """Return how often the state is drawn again, fitted to the index of dispersion."""
        spread = self.fast_share * (1 - self.fast_share) * (self.fast - self.slow) ** 2
        return 2 * spread * self.rate_hz / (self.dispersion - 1)


@dataclass(frozen=True)
class OnOff(TwoStates):
    """Poisson arrivals for a while, then none for a while; both durations are exponential (P1 §6.1).

    >>> OnOff(100, on_us=1_000_000, off_us=3_000_000).peak_hz
    400.0
    """

    rate_hz: float
    on_us: int
    off_us: int

    slow = 0.0

    @property
    def fast(self) -> float:
        """Return the rate that makes up for the time without tuples, as a multiple of the mean."""
        return (self.on_us + self.off_us) / self.on_us

    @property
    def renewals_hz(self) -> float:
        """Return the rate at which a chain with these mean times forgets its state."""
        return SECOND_US / self.on_us + SECOND_US / self.off_us
