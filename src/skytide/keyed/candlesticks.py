"""Candlesticks, which the consumer of P2's trading application draws for each window."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.kernels.candles import window_sums
from skytide.kernels.order import Indices
from skytide.keyed.plain_quotes import quotes_in_order
from skytide.keyed.quotes import Quotes, check_columns, floats, name_given


@dataclass(frozen=True, kw_only=True)
class Candlesticks:
    """The open, high, low and close of each window, its volume, and its number of quotes.

    Prices keep their type. The volume is a whole number if the column has whole numbers, otherwise a float. A row without a time or a finite
    price is not a quote, and is ignored; a missing volume counts as 0. A window without quotes has NULL as its prices.

    >>> from datetime import datetime
    >>> rows = pa.table({"ts": [datetime(2024, 1, 1, 9, 30, s) for s in range(3)], "price": [10, 12, 11], "volume": [5, 1, 1]})
    >>> Candlesticks().process(None, rows)[1].to_pylist()
    [{'open': 10, 'high': 12, 'low': 10, 'close': 11, 'volume': 7, 'quotes': 3}]
    """

    version: ClassVar[int] = 1

    price: str = "price"
    volume: str = "volume"
    time: str = "ts"

    def __post_init__(self) -> None:
        """Refuse options that are not names of columns."""
        for option in ("price", "volume", "time"):
            name_given(option, getattr(self, option))

    def check(self, rows: pa.Schema) -> None:
        """Refuse rows that lack a column, or have one of another type."""
        check_columns(rows, time=self.time, price=self.price, volume=self.volume)

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns of a result, for rows of this schema."""
        self.check(rows)
        price, volume = rows.field(self.price).type, rows.field(self.volume).type
        total = pa.int64() if _is_counted(volume) else pa.float64()
        prices = [(name, price) for name in ("open", "high", "low", "close")]
        return pa.schema([*prices, ("volume", total), ("quotes", pa.int64())])

    def open(self, key: object) -> None:
        """Return the state of a new key: none."""

    def process(self, state: None, rows: pa.Table) -> tuple[None, pa.Table]:
        """Return the candlestick of one window."""
        schema = self.schema(rows.schema)
        quotes = quotes_in_order(rows, self.time, self.price)
        prices = [quote.price for quote in quotes]
        volumes = rows[self.volume].to_pylist()
        counted = [volume for quote in quotes if (volume := volumes[quote.row]) is not None and math.isfinite(volume)]
        result = {
            "open": prices[0] if prices else None,
            "high": max(prices, default=None),
            "low": min(prices, default=None),
            "close": prices[-1] if prices else None,
            "volume": sum(counted) if pa.types.is_integer(schema.field("volume").type) else math.fsum(counted),
            "quotes": len(quotes),
        }
        return state, pa.Table.from_pylist([result], schema=schema)

    def process_windows(self, rows: pa.Table, begins: Indices, ends: Indices) -> tuple[pa.Table, NDArray[np.int64]]:
        """Return the candlesticks of all windows, one row per window."""
        schema = self.schema(rows.schema)
        quotes = Quotes.of(rows, self.time, self.price)
        candles = quotes.candles(begins, ends)
        volumes = self._volumes(rows, np.isnan(quotes.prices), begins, ends)
        prices = [quotes.at(row) for row in (candles.open, candles.high, candles.low, candles.close)]
        table = pa.table([*prices, volumes, pa.array(candles.quotes)], schema=schema)
        return table, np.ones(table.num_rows, np.int64)

    def _volumes(self, rows: pa.Table, left_out: NDArray[np.bool_], begins: Indices, ends: Indices) -> pa.Array:
        """Return the volume of each window."""
        column = rows[self.volume].combine_chunks()
        if _is_counted(column.type):
            counts = np.array(column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)
            counts[left_out] = 0
            return pa.array(window_sums(counts, begins, ends))
        values = floats(column)
        values[left_out | ~np.isfinite(values)] = 0.0
        return pa.array(window_sums(values, begins, ends))


def _is_counted(type_: pa.DataType) -> bool:
    """Return whether volumes are whole numbers that fit into 64 bits with a sign."""
    return bool(pa.types.is_integer(type_) and type_ != pa.uint64())
