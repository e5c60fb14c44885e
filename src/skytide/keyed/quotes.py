"""Checks the columns of quotes, and turns them into arrays for kernels."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skytide.errors import InvalidInput
from skytide.errors.checks import check_text
from skytide.kernels.border import EXACT_INTEGER
from skytide.kernels.candles import Candles, candles
from skytide.kernels.order import Indices

Floats = NDArray[np.float64]

EXACT_DIGITS = 15  # decimal numbers of up to this many digits stay different in float64
UNITS_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def name_given(option: str, value: object) -> None:
    """Refuse values that are not names of columns."""
    check_text(option, value, option)


def is_number(type_: pa.DataType) -> bool:
    """Return whether a column of this type has numbers."""
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def check_columns(rows: pa.Schema, *, time: str, **numbers: str) -> None:
    """Refuse rows that lack a column, or have one of the wrong type; errors name the option that names the column."""
    for option, name in (("time", time), *numbers.items()):
        places = rows.get_all_field_indices(name)
        if len(places) != 1:
            raise InvalidInput(
                value=f"{option}={name!r}",
                reason="no column has this name" if not places else f"{len(places)} columns have this name",
                remedy=f"name one of {', '.join(rows.names) or 'no columns at all'}",
            )
    _check_type(rows, "time", time, pa.types.is_timestamp(rows.field(time).type), "a timestamp", "cast it to one")
    for option, name in numbers.items():
        fits = is_number(rows.field(name).type)
        _check_type(rows, option, name, fits, "a number", "name a column of integers, floats or decimals")


def _check_type(rows: pa.Schema, option: str, name: str, fits: bool, wanted: str, remedy: str) -> None:
    if not fits:
        raise InvalidInput(value=f"{option}={name!r}", reason=f"its type {rows.field(name).type} is not {wanted}", remedy=remedy)


@dataclass(frozen=True)
class Quotes:
    """Times and prices of all rows; the price is NaN where price or time is missing, or the price is not finite."""

    times_us: NDArray[np.int64]
    prices: Floats
    ranks: NDArray[np.int64] | None
    column: pa.Array

    @classmethod
    def of(cls, rows: pa.Table, time: str, price: str) -> "Quotes":
        """Return the quotes of some rows."""
        times, column = rows[time].combine_chunks(), rows[price].combine_chunks()
        prices = floats(column)
        prices[~np.isfinite(prices) | _nulls(times)] = np.nan
        stamps = times.cast(pa.int64()).fill_null(0).to_numpy()
        unit_ns = UNITS_NS[times.type.unit]
        return cls(stamps * (unit_ns // 1_000) if unit_ns >= 1_000 else stamps // 1_000, prices, _ranks(column), column)

    def candles(self, begins: Indices, ends: Indices) -> Candles:
        """Return the candlestick of each window."""
        return candles(self.times_us, self.prices, begins, ends, ranks=self.ranks)

    def at(self, rows: Indices) -> pa.Array:
        """Return the original prices; NULL for row -1."""
        return self.column.take(pa.array(rows, mask=rows < 0))


def floats(column: pa.Array) -> Floats:
    """Return numbers as float64, with NaN for NULL."""
    return np.array(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def _nulls(column: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)


def _ranks(column: pa.Array) -> NDArray[np.int64] | None:
    """Return ranks of prices if different ones may be equal in float64, otherwise None."""
    type_ = column.type
    if pa.types.is_floating(type_) or (pa.types.is_decimal(type_) and type_.precision <= EXACT_DIGITS) or len(column) == 0:
        return None
    if pa.types.is_integer(type_):
        ends = pc.min_max(column)
        if not ends["min"].is_valid or -EXACT_INTEGER <= ends["min"].as_py() <= ends["max"].as_py() <= EXACT_INTEGER:
            return None
    return np.array(pc.rank(column, tiebreaker="dense").to_numpy(), dtype=np.int64)
