"""Quotes as plain Python values, for operators that work window by window."""

import math
from decimal import Decimal
from typing import NamedTuple

import pyarrow as pa

PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

Number = int | float | Decimal


class Quote(NamedTuple):
    """A row with a time and a price."""

    time_us: int
    row: int
    price: Number


def quotes_in_order(rows: pa.Table, time: str, price: str) -> list[Quote]:
    """Return the rows with a time and a finite price in order of time, those of the same time in the order of rows."""
    unit = PER_SECOND[rows.schema.field(time).type.unit]
    quotes = [
        Quote(stamp * 1_000_000 // unit, row, value)
        for row, (stamp, value) in enumerate(zip(rows[time].cast(pa.int64()).to_pylist(), rows[price].to_pylist(), strict=True))
        if stamp is not None and value is not None and math.isfinite(value)
    ]
    return sorted(quotes, key=lambda quote: (quote.time_us, quote.row))
