"""The candlesticks of many windows: which rows open and close, and which are highest and lowest."""

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from skytide.kernels.compiled import compiled
from skytide.kernels.order import Indices
from skytide.kernels.ranges import check_ranges

Floats = NDArray[np.float64]
Number = TypeVar("Number", np.int64, np.float64)


class Candles(NamedTuple):
    """Rows of each window, -1 where it has no price; among equals it is the first row, but for `close` the last."""

    open: Indices
    high: Indices
    low: Indices
    close: Indices
    quotes: Indices
    """How many rows have a price."""
    mean: Floats


def candles(
    times_us: NDArray[np.int64], prices: Floats, begins: Indices, ends: Indices, *, ranks: NDArray[np.int64] | None = None
) -> Candles:
    """Return the candlestick of each window, which is a half-open range of rows; rows whose price is NaN are left out.

    `ranks` distinguish prices that differ although they are equal in float64.

    >>> sticks = candles(np.array([1, 2, 3]), np.array([5.0, 9.0, 7.0]), np.array([0, 2]), np.array([3, 2]))
    >>> sticks.open.tolist(), sticks.high.tolist(), sticks.close.tolist(), sticks.quotes.tolist(), sticks.mean.tolist()
    ([0, -1], [1, -1], [2, -1], [3, 0], [7.0, nan])
    """
    begins, ends = check_ranges(begins, ends, len(times_us), len(prices), len(prices if ranks is None else ranks))
    rows = np.full((4, len(begins)), -1, np.int64)
    quotes, mean = np.zeros(len(begins), np.int64), np.full(len(begins), np.nan)
    order = np.array(prices if ranks is None else ranks)  # a copy: loops are compiled again for arrays that cannot be written to
    _candles(np.array(times_us, np.int64), np.array(prices, np.float64), order, begins, ends, rows, quotes, mean)
    return Candles(rows[0], rows[1], rows[2], rows[3], quotes, mean)


def window_sums(values: NDArray[Number], begins: Indices, ends: Indices) -> NDArray[Number]:
    """Return the sum of each window.

    >>> window_sums(np.array([1, 2, 4]), np.array([0, 1, 1]), np.array([3, 3, 1])).tolist()
    [7, 6, 0]
    """
    begins, ends = check_ranges(begins, ends, len(values))
    sums = np.zeros_like(values, shape=len(begins))
    _sums(np.array(values), begins, ends, sums)
    return sums


@compiled
def _candles(
    times: NDArray[np.int64],
    prices: Floats,
    order: NDArray[np.generic],
    begins: Indices,
    ends: Indices,
    rows: Indices,
    quotes: Indices,
    mean: Floats,
) -> None:
    for w in range(len(begins)):
        first, high, low, last = -1, -1, -1, -1
        count, total, base = 0, 0.0, 0.0
        for i in range(begins[w], ends[w]):
            price = prices[i]
            if np.isnan(price):
                continue
            if count == 0:
                first, high, low, last, base = i, i, i, i, price
            if times[i] < times[first]:
                first = i
            if times[i] >= times[last]:
                last = i
            if order[i] > order[high]:
                high = i
            if order[i] < order[low]:
                low = i
            total += price - base  # so that equal prices have exactly their mean
            count += 1
        rows[0, w], rows[1, w], rows[2, w], rows[3, w] = first, high, low, last
        quotes[w] = count
        if count > 0:
            mean[w] = base + total / count


@compiled
def _sums(values: NDArray[np.generic], begins: Indices, ends: Indices, sums: NDArray[np.generic]) -> None:
    for w in range(len(begins)):
        total = sums[w]
        for i in range(begins[w], ends[w]):
            total += values[i]
        sums[w] = total
