"""What `skytide trading` reads: the quotes of a trading day, made up or real, as lines of a feed that runs faster than real time."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from skytide.errors import InvalidInput
from skytide.errors.checks import check_number
from skytide.workloads.arrivals import SECOND_US
from skytide_lab.data.quote_day import LENGTH_S, OPEN_S, QuoteDay
from skytide_lab.data.traffic import Traffic

FEED = "quotes"
DAY_US = 24 * 3_600 * SECOND_US
MADE_UP_US = 20_458 * DAY_US  # a Monday, 5 January 2026
MAX_SPEED, MAX_RATE_HZ = 1e5, 1e6
SYMBOLS_NAMED = 5  # in a title; more are counted
COLUMNS = {"ts": pa.timestamp("us"), "symbol": pa.string(), "price": pa.float64(), "volume": pa.int64()}


class TradingDay(Traffic):
    """Quotes from the opening of the exchange to its close, in one feed, `speed` times faster than they were."""

    schema = "ts timestamp, symbol string, price double, volume long"
    format = "csv"

    opens_us: int

    def __post_init__(self) -> None:
        """Refuse a speed that nobody could follow."""
        check_number(
            "speed",
            self.speed,
            above=0,
            up_to=MAX_SPEED,
            meaning="how many times faster than the day was, above 0 and up to 100000",
        )

    @property
    def first_us(self) -> int | None:
        """The time when the exchange opens."""
        return self.opens_us

    @property
    def seconds(self) -> float:  # type: ignore[override]
        """How long the exchange is open, at this speed."""
        return LENGTH_S / self.speed

    @abstractmethod
    def rows(self, begin_us: int, end_us: int) -> pa.Table:
        """Return the quotes between two times since the opening."""

    def due(self, begin_s: float, end_s: float, began_us: int) -> Iterator[tuple[str, bytes]]:
        """Yield the lines of the feed."""
        begin_us, end_us = (round(at_s * SECOND_US * self.speed) for at_s in (begin_s, end_s))
        rows = self.rows(begin_us, min(end_us, LENGTH_S * SECOND_US))
        if rows.num_rows:
            lines = pa.BufferOutputStream()
            pa_csv.write_csv(rows, lines, pa_csv.WriteOptions(include_header=False, quoting_style="needed"))
            yield FEED, lines.getvalue().to_pybytes()


@dataclass(frozen=True)
class MadeUpDay(TradingDay):
    """A made-up day: a few symbols come often, and most quotes come at the opening and towards the close."""

    symbols: int
    rate_hz: float
    """Quotes per second on average, as they come."""
    speed: float

    opens_us = MADE_UP_US + OPEN_S * SECOND_US

    def __post_init__(self) -> None:
        """Refuse a rate or symbols that cannot be made up."""
        super().__post_init__()
        check_number("rate", self.rate_hz, above=0, up_to=MAX_RATE_HZ, meaning="quotes per second, more than 0")
        _ = self._day

    @property
    def title(self) -> str:  # type: ignore[override]
        """What it is, in a few words."""
        return f"a made-up day of {self.symbols:,} symbols, {self.speed:,g} times faster"

    @cached_property
    def _day(self) -> QuoteDay:
        return QuoteDay(self.symbols, self.rate_hz / self.speed)

    def rows(self, begin_us: int, end_us: int) -> pa.Table:
        """Return the made-up quotes between two times since the opening."""
        quotes = self._day.quotes(begin_us, end_us)
        times = pa.array(quotes.times_us + MADE_UP_US, COLUMNS["ts"])
        symbols = pa.array(np.array(self._day.names)[quotes.symbols], pa.string())
        return pa.table([times, symbols, quotes.prices, quotes.volumes], schema=pa.schema(COLUMNS.items()))


@dataclass(frozen=True)
class RealDay(TradingDay):
    """The day of a Parquet file with the columns ts, symbol, price and size."""

    file: Path
    speed: float

    def __post_init__(self) -> None:
        """Refuse a file that holds something else."""
        super().__post_init__()
        if not self._quotes.num_rows:
            raise self._refused("no quote from 9:30 to 16:00 on the day of its first one")

    def __reduce__(self) -> Any:
        """Leave the quotes out: another process reads them again."""
        return RealDay, (self.file, self.speed)

    @property
    def title(self) -> str:  # type: ignore[override]
        """What it is, in a few words."""
        symbols = sorted(self._quotes["symbol"].unique().to_pylist())
        named = ", ".join(symbols) if len(symbols) <= SYMBOLS_NAMED else f"{len(symbols):,} symbols"
        return f"{named} on {np.datetime64(self.opens_us, 'us').astype('M8[D]')}, {self.speed:,g} times faster"

    @property
    def opens_us(self) -> int:  # type: ignore[override]
        """The opening of the day of the first quote."""
        return int(self._all["ts"][0].value) // DAY_US * DAY_US + OPEN_S * SECOND_US

    @cached_property
    def _all(self) -> pa.Table:
        try:
            table = pq.read_table(self.file, columns=["ts", "symbol", "price", "size"]).rename_columns(list(COLUMNS))
            table = table.cast(pa.schema(COLUMNS.items()))
        except (OSError, KeyError, ValueError, pa.ArrowException) as error:
            raise self._refused(str(error).partition("\n")[0]) from None
        if any(column.null_count for column in table.columns):
            raise self._refused("there are NULLs in it")
        if not table.num_rows:
            raise self._refused("it has no rows")
        return table.sort_by("ts")

    @cached_property
    def _quotes(self) -> pa.Table:
        return self._between(self._all, self.opens_us, self.opens_us + LENGTH_S * SECOND_US)

    def rows(self, begin_us: int, end_us: int) -> pa.Table:
        """Return the quotes of the file between two times since the opening."""
        return self._between(self._quotes, self.opens_us + begin_us, self.opens_us + end_us)

    @staticmethod
    def _between(table: pa.Table, begin_us: int, end_us: int) -> pa.Table:
        begin, end = np.searchsorted(table["ts"].cast(pa.int64()).to_numpy(), [begin_us, end_us]).tolist()
        return table.slice(begin, end - begin)

    def _refused(self, reason: str) -> InvalidInput:
        remedy = "name a Parquet file with the columns ts, symbol, price, size"
        return InvalidInput(value=f"--quotes {self.file}", reason=reason, remedy=remedy)
