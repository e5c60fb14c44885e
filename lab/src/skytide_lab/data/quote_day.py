"""A synthetic trading day: quotes of some dozens of symbols, few of which are frequent, mostly at the opening and towards the close.

The shape is that of real days (P2 Fig. 7): a burst when the exchange opens, a calm noon, a rise before the close, and at any time seconds
with many times the usual rate. Prices are random walks with trends that last for a while.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from skytide.errors.checks import check_integer, check_number
from skytide.workloads.arrivals import SECOND_US
from skytide.workloads.identity import derive

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

OPEN_S = 9 * 3_600 + 1_800  # in seconds of the day
LENGTH_S = 23_400  # six and a half hours
BLOCK_S = 60  # time whose randomness is drawn together
ZIPF = 1.0  # the n-th symbol is 1/n times as frequent as the first
PER_EVENT = 2.0  # mean number of quotes in the same millisecond
CALM, OPENING, OPENING_S, CLOSING, CLOSING_S = 0.7, 2.9, 1_500, 2.2, 1_200
"""The rate at noon, how much more there is at the opening and at the close, and how fast that fades."""
NOISE = 0.6  # standard deviation of the logarithm of the rate from second to second
BURST_SHARE, BURST_S, BURST_FACTOR = 0.1, 5, 8.0  # share of a symbol's minutes with a burst; its length; its factor of the rate
DAILY_MOVE = 0.012  # standard deviation of the logarithm of a price, from the opening to the close
TREND_S, TREND_SHARE = 180, 0.2  # how long a trend lasts, and what it adds, relative to the steps per second
HALF_SPREAD, MIN_HALF_SPREAD = 0.00008, 0.005  # as a share of the price, and at least so much
CENT = 0.01
LOG_PRICE = 4.2, 0.7  # mean and standard deviation of the logarithm of a first price
LOT, LAST_LOT = 100, 0.3  # size of a lot, and the probability that a lot is the last of a quote
MAX_SYMBOLS = 5_000  # there are no more names that can be pronounced
CONSONANTS, VOWELS = "BCDFGHJKLMNPRSTVWZ", "AEIOU"


@dataclass(frozen=True, eq=False)
class Quotes:
    """Columns of quotes, in order of time."""

    times_us: Numbers
    """Times since midnight, of whole milliseconds."""
    symbols: Numbers
    prices: Floats
    volumes: Numbers


@dataclass(frozen=True)
class QuoteDay:
    """`symbols` symbols with `rate_hz` quotes per second together on average; any part of the day always has the same quotes.

    >>> day = QuoteDay(symbols=3)
    >>> part, whole = day.quotes(60 * SECOND_US, 90 * SECOND_US), day.quotes(0, 90 * SECOND_US)
    >>> len(part.prices) > 0 and bool((whole.prices[-len(part.prices):] == part.prices).all())
    True
    """

    symbols: int = 40
    rate_hz: float = 100.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse days that cannot be generated."""
        check_integer("symbols", self.symbols, 1, MAX_SYMBOLS)
        check_number("rate_hz", self.rate_hz, above=0, up_to=1e6, meaning="quotes per second, more than 0")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the symbols, the most frequent first: four letters that can be pronounced."""
        letters = [a + b + c + d for a in CONSONANTS for b in VOWELS for c in CONSONANTS for d in VOWELS]
        return tuple(letters[number] for number in derive(self.seed, "names").permutation(len(letters))[: self.symbols])

    @cached_property
    def shares(self) -> Floats:
        """Return the share of each symbol in all quotes."""
        weights = 1.0 / np.arange(1, self.symbols + 1, dtype=np.float64) ** ZIPF
        return np.asarray(weights / weights.sum(), dtype=np.float64)

    @staticmethod
    def intensity(at_s: Floats) -> Floats:
        """Return the expected rate at some seconds after the opening, as a multiple of the mean.

        >>> QuoteDay.intensity(np.array([0.0, 3 * 3600.0, 23_399.0])).round(1).tolist()
        [3.6, 0.7, 2.9]
        """
        shape = CALM + OPENING * np.exp(-at_s / OPENING_S) + CLOSING * np.exp(-(LENGTH_S - at_s) / CLOSING_S)
        mean = CALM + (OPENING * OPENING_S + CLOSING * CLOSING_S) / LENGTH_S
        return np.asarray(shape / mean)

    def quotes(self, begin_us: int, end_us: int) -> Quotes:
        """Return the quotes between two times since the opening."""
        blocks = range(max(begin_us, 0) // (BLOCK_S * SECOND_US), min(-(-end_us // (BLOCK_S * SECOND_US)), LENGTH_S // BLOCK_S))
        parts = [self._block(block) for block in blocks]
        times, symbols, prices, volumes = (
            np.concatenate([part[place] for part in parts] or [np.zeros(0, dtype)])
            for place, dtype in enumerate((np.int64, np.int64, np.float64, np.int64))
        )
        wanted = slice(*np.searchsorted(times, [begin_us, end_us]).tolist())
        return Quotes(times[wanted] + OPEN_S * SECOND_US, symbols[wanted], prices[wanted], volumes[wanted])

    def _block(self, block: int) -> tuple[Numbers, Numbers, Floats, Numbers]:
        """Return the times, symbols, prices and volumes of a minute: events at random, each with some quotes."""
        random = derive(self.seed, "quotes", block)
        seconds = block * BLOCK_S + np.arange(BLOCK_S)
        events = random.poisson(self._rates(random, seconds) / PER_EVENT).ravel()
        second, symbol = np.divmod(np.repeat(np.arange(events.size), events), self.symbols)
        times_ms = (block * BLOCK_S + second) * 1_000 + random.integers(0, 1_000, len(second))
        order = np.argsort(times_ms, kind="stable")
        sizes = random.geometric(1 / PER_EVENT, len(order))
        times_ms, symbol = np.repeat(times_ms[order], sizes), np.repeat(symbol[order], sizes)
        middles = self._middles(times_ms / 1_000, symbol)
        spread = np.maximum(MIN_HALF_SPREAD, HALF_SPREAD * middles) * random.choice([-1.0, 1.0], len(symbol))
        volumes = LOT * random.geometric(LAST_LOT, len(symbol))
        return times_ms * 1_000, symbol, np.maximum(np.round(middles + spread, 2), CENT), volumes

    def _rates(self, random: np.random.Generator, seconds: Numbers) -> Floats:
        """Return the expected quotes of each second (a row) and symbol."""
        noise = np.exp(NOISE * random.standard_normal(len(seconds)) - NOISE**2 / 2)
        bursting = random.random(self.symbols) < BURST_SHARE
        begins = random.integers(0, BLOCK_S - BURST_S + 1, self.symbols)
        within = np.arange(BLOCK_S)[:, None]
        bursts = np.where(bursting & (within >= begins) & (within < begins + BURST_S), BURST_FACTOR, 1.0)
        usual = 1 + BURST_SHARE * BURST_S / BLOCK_S * (BURST_FACTOR - 1)
        rates: Floats = self.rate_hz * (self.intensity(seconds.astype(float)) * noise)[:, None] * self.shares * bursts / usual
        return rates

    @cached_property
    def _walks(self) -> Floats:
        """Return the middle between bid and ask of each symbol (a row) at each second."""
        activity = np.sqrt(self.intensity(np.arange(LENGTH_S, dtype=float)))
        step = DAILY_MOVE / np.sqrt(LENGTH_S) * activity / activity.mean()
        walks = np.empty((self.symbols, LENGTH_S + 1))
        for number, name in enumerate(self.names):
            random = derive(self.seed, "walk", name)
            first = np.exp(random.normal(*LOG_PRICE))
            trends = np.repeat(random.standard_normal(LENGTH_S // TREND_S + 1), TREND_S)[:LENGTH_S]
            moves = step * (random.standard_normal(LENGTH_S) + TREND_SHARE * trends)
            walks[number] = first * np.exp(np.append(0.0, np.cumsum(moves)))
        return walks

    def _middles(self, at_s: Floats, symbols: Numbers) -> Floats:
        second = at_s.astype(np.int64)
        part = at_s - second
        middles: Floats = self._walks[symbols, second] * (1 - part) + self._walks[symbols, second + 1] * part
        return middles
