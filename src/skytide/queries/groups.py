"""Groups rows by the values of their keys, and reduces each group to one value."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skytide.kernels import Indices, Mask
from skytide.queries.columns import group_numbers

GROUP = "__skytide_group"


@dataclass(frozen=True)
class Groups:
    """The group of each row, as a number; groups are numbered in order of appearance."""

    numbers: Indices
    count: int

    @staticmethod
    def of(rows: pa.Table, keys: tuple[str, ...]) -> "Groups":
        """Return the groups of rows by keys; without keys all rows are one group."""
        numbers = group_numbers(rows, keys) if keys else np.zeros(rows.num_rows, dtype=np.int64)
        return Groups(numbers, int(numbers.max(initial=-1)) + 1)

    def first(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return a column's value in the first row of each group."""
        places = np.empty(self.count, dtype=np.int64)
        places[self.numbers[::-1]] = np.arange(len(self.numbers))[::-1]
        return column.take(pa.array(places))

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return len(self.numbers)

    def divided(self, column: pa.ChunkedArray) -> list[pa.Array]:
        """Return the values of each group, in their order."""
        values = column.combine_chunks().take(pa.array(np.argsort(self.numbers, kind="stable")))
        ends = np.cumsum(np.bincount(self.numbers, minlength=self.count)).tolist()
        return [values.slice(start, end - start) for start, end in pairwise([0, *ends])]

    def added(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of the numbers of each group."""
        return np.bincount(self.numbers, weights=numbers, minlength=self.count).astype(np.float64)

    def firsts(self, numbers: NDArray[np.float64], among: Mask) -> NDArray[np.float64]:
        """Return the first of the selected numbers of each group, 0 where there is none."""
        firsts = np.zeros(self.count)
        firsts[self.numbers[among][::-1]] = numbers[among][::-1]
        return firsts

    def are_ends(self, values: pa.ChunkedArray, towards: str) -> pa.ChunkedArray:
        """Return for each row whether its value is the "min" or "max" of its group."""
        return pc.equal(values, self.reduce({"end": (values, towards)})["end"].take(pa.array(self.numbers)))

    def reduce(self, columns: dict[str, tuple[pa.ChunkedArray, str]]) -> dict[str, pa.ChunkedArray]:
        """Return columns reduced by Arrow's aggregate functions within each group; NULLs are ignored.

        >>> Groups.of(pa.table({"k": ["x", "y", "x"]}), ("k",)).reduce({"v": (pa.chunked_array([[1, 2, 3]]), "sum")})["v"].to_pylist()
        [4, 2]
        """
        if not columns:
            return {}
        rows = pa.table({GROUP: self.numbers, **{name: column for name, (column, _) in columns.items()}})
        reduced = rows.group_by(GROUP, use_threads=False).aggregate([(name, function) for name, (_, function) in columns.items()])
        return {name: reduced[f"{name}_{function}"] for name, (_, function) in columns.items()}


def normalised(key: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return keys with one NaN and one zero, as in Spark.

    >>> normalised(pa.chunked_array([[-0.0, 1.0]])).to_pylist()
    [0.0, 1.0]
    """
    if not pa.types.is_floating(key.type):
        return key
    return pc.if_else(pc.is_nan(key), pa.scalar(math.nan, key.type), pc.add(key, pa.scalar(0.0, key.type)))
