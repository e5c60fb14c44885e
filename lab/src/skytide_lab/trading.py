"""The operator of P2's trading application: it fits a polynomial to a window's quotes and reads a future price off it."""

import math
from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.errors.checks import check_integer, is_finite, refused
from skytide.kernels.order import Indices
from skytide.keyed.plain_quotes import Quote, quotes_in_order
from skytide.keyed.quotes import Quotes, check_columns, name_given
from skytide.windows.duration import duration_us
from skytide_lab.kernels.polynomial import MAX_DEGREE, fit_windows

SURE = 2.0  # standard errors that a change must exceed for a signal
SIGNALS = ("hold", "buy", "sell")
FITTED = ("mean", "fitted", "predicted", "error", "change")


@dataclass(frozen=True, kw_only=True)
class AlgoTrader:
    """Averages quotes of the same millisecond, fits a polynomial by Levenberg-Marquardt, and predicts a price (P2 §5.1).

    A result has the `open`, `high`, `low` and `close` of the window in the type of its prices, their `mean`, the polynomial at the last
    quote (`fitted`) and some time `ahead` (`predicted`), its standard `error`, the `change` from fitted to predicted in percent, a `signal`
    and the `residual` (the root of the mean squared distance from the polynomial). The change is not measured from `close`, which jumps
    between bid and ask. The signal is "buy" or "sell" if the change exceeds `threshold` percent and two standard errors, otherwise "hold".

    Rows without a time or a finite price are ignored. With fewer milliseconds than coefficients the degree is lowered, and the error is
    unknown (NULL), so the signal is "hold"; a window without quotes has NULL everywhere, and "hold".

    >>> from datetime import datetime
    >>> times = [datetime(2024, 1, 1, 9, 30, s) for s in range(5)]
    >>> rows = pa.table({"ts": times, "price": [10.0, 11.0, 12.0, 13.0, 14.0]})
    >>> (answer,) = AlgoTrader(degree=1).process(None, rows)[1].to_pylist()
    >>> round(answer["predicted"], 6), answer["signal"]
    (15.0, 'buy')
    """

    version: ClassVar[int] = 1

    price: str = "price"
    time: str = "ts"
    degree: int = 2
    ahead: str | timedelta = "1 s"
    threshold: float = 0.01
    resolution: str | timedelta = "1 ms"

    def __post_init__(self) -> None:
        """Refuse options that cannot be used for a fit."""
        name_given("price", self.price)
        name_given("time", self.time)
        check_integer("degree", self.degree, 0, MAX_DEGREE)
        duration_us(self.ahead, "ahead")
        duration_us(self.resolution, "resolution")
        if not is_finite(self.threshold) or self.threshold < 0:
            raise refused("threshold", self.threshold, "not a change in percent", "give a number of at least 0, for instance 0.01")

    def check(self, rows: pa.Schema) -> None:
        """Refuse rows that lack a column, or have one of another type."""
        check_columns(rows, time=self.time, price=self.price)

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns of a result, for rows of this schema."""
        self.check(rows)
        prices = [(name, rows.field(self.price).type) for name in ("open", "high", "low", "close")]
        return pa.schema([*prices, *((name, pa.float64()) for name in FITTED), ("signal", pa.string()), ("residual", pa.float64())])

    def open(self, key: object) -> None:
        """Return the state of a new key: none."""

    def process(self, state: None, rows: pa.Table) -> tuple[None, pa.Table]:
        """Return the result of one window."""
        schema = self.schema(rows.schema)
        quotes = quotes_in_order(rows, self.time, self.price)
        if not quotes:
            return state, pa.Table.from_pylist([{"signal": "hold"}], schema=schema)
        prices = [quote.price for quote in quotes]
        result = {
            "open": prices[0],
            "high": max(prices),
            "low": min(prices),
            "close": prices[-1],
            "mean": math.fsum(prices) / len(prices),
            **self._fit(quotes),
        }
        return state, pa.Table.from_pylist([result], schema=schema)

    def _fit(self, quotes: list[Quote]) -> dict[str, float | str | None]:
        """Return a fit by linear least squares, which has the same minimum."""
        resolution_us = duration_us(self.resolution, "resolution")
        of_interval = defaultdict(list)
        for quote in quotes:
            of_interval[quote.time_us // resolution_us].append(float(quote.price))
        first, last = min(of_interval), max(of_interval)
        half, middle = (last - first) / 2, (first + last) / 2
        times = np.array([(interval - middle) / half if half else 0.0 for interval in of_interval])
        means = np.array([math.fsum(prices) / len(prices) for prices in of_interval.values()])
        base = means.mean()
        terms = min(self.degree + 1, len(means))
        powers = np.vander(times, terms, increasing=True)
        coefficients = np.linalg.lstsq(powers, means - base, rcond=None)[0]
        now = np.power(1.0 if half else 0.0, np.arange(terms))
        then = np.power(
            (last - middle + duration_us(self.ahead, "ahead") / resolution_us) / half if half else 0.0, np.arange(terms)
        )
        squares = float(np.sum((means - base - powers @ coefficients) ** 2))
        fitted, predicted = float(base + now @ coefficients), float(base + then @ coefficients)
        error = None
        if len(means) > terms:
            error = math.sqrt(squares / (len(means) - terms)) * float(np.linalg.norm(np.linalg.pinv(powers).T @ then))
        change = 100 * (predicted - fitted) / abs(fitted) if fitted else None
        return {
            "fitted": fitted,
            "predicted": predicted,
            "error": error,
            "change": change,
            "signal": self._signal(change, predicted - fitted, error),
            "residual": math.sqrt(squares / len(means)),
        }

    def _signal(self, change: float | None, difference: float, error: float | None) -> str:
        if change is None or error is None or abs(change) <= self.threshold or abs(difference) <= SURE * error:
            return "hold"
        return "buy" if change > 0 else "sell"

    def process_windows(self, rows: pa.Table, begins: Indices, ends: Indices) -> tuple[pa.Table, NDArray[np.int64]]:
        """Return the results of all windows, one row per window."""
        schema = self.schema(rows.schema)
        quotes = Quotes.of(rows, self.time, self.price)
        candles = quotes.candles(begins, ends)
        fits = fit_windows(
            quotes.times_us,
            quotes.prices,
            begins,
            ends,
            degree=self.degree,
            ahead_us=duration_us(self.ahead, "ahead"),
            resolution_us=duration_us(self.resolution, "resolution"),
        )
        difference = fits.predicted - fits.fitted
        with np.errstate(divide="ignore", invalid="ignore"):
            change = 100 * difference / np.abs(fits.fitted)
        change[~np.isfinite(change)] = np.nan
        worth = (np.abs(change) > self.threshold) & (np.abs(difference) > SURE * fits.error)
        signals = pa.DictionaryArray.from_arrays(np.where(worth, np.where(change > 0, 1, 2), 0).astype(np.int8), list(SIGNALS))
        numbers = [_nullable(values) for values in (candles.mean, fits.fitted, fits.predicted, fits.error, change)]
        prices = [quotes.at(row) for row in (candles.open, candles.high, candles.low, candles.close)]
        table = pa.table([*prices, *numbers, signals.cast(pa.string()), _nullable(fits.residual)], schema=schema)
        return table, np.ones(table.num_rows, np.int64)


def _nullable(values: NDArray[np.float64]) -> pa.Array:
    """Return numbers with NULL for NaN."""
    return pa.array(values, mask=np.isnan(values))
