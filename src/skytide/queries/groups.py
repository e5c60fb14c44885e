"""Groups rows by the values of their keys, and reduces each group to one value."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skytide.kernels import Indices, Mask
from skytide.queries.columns import group_numbers

GROUP = "__skytide_group"
Columns = dict[str, pa.ChunkedArray]
Reduced = dict[str, tuple[pa.ChunkedArray, str]]
"""Columns, each with the function of Arrow by which the rows of a group become one."""


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of rows by the values of their keys; without keys all rows are one group."""

    keys: Columns
    rows: int
    """The number of rows."""

    @cached_property
    def numbers(self) -> Indices:
        """The group of each row, as a number; groups are numbered in order of appearance."""
        return group_numbers(pa.table(self.keys), tuple(self.keys)) if self.keys else np.zeros(self.rows, dtype=np.int64)

    @cached_property
    def count(self) -> int:
        """The number of groups."""
        return int(self.numbers.max(initial=-1)) + 1

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
        return pc.equal(values, self._by_numbers({"end": (values, towards)})["end"].take(pa.array(self.numbers)))

    def reduce(self, columns: Reduced) -> tuple[Columns, Columns]:
        """Return the keys of each group, and columns reduced by Arrow's aggregate functions within each; NULLs are ignored.

        Groups are in the order of their numbers, if somebody has asked for these; otherwise, numbering them would take as long as this.

        >>> keys, reduced = Groups({"k": pa.chunked_array([["x", "y", "x"]])}, 3).reduce({"v": (pa.chunked_array([[1, 2, 3]]), "sum")})
        >>> keys["k"].to_pylist(), reduced["v"].to_pylist()
        (['x', 'y'], [4, 2])
        """
        if self.keys and columns and "numbers" not in vars(self) and all(can_group(key.type) for key in self.keys.values()):
            named = {f"{GROUP}{place}": key for place, key in enumerate(self.keys.values())}
            found = _reduced(named, columns)
            return {name: found[by] for name, by in zip(self.keys, named, strict=True)}, _of(found, columns)
        return {name: self._first(column) for name, column in self.keys.items()}, self._by_numbers(columns)

    def _by_numbers(self, columns: Reduced) -> Columns:
        if not columns:
            return {}
        found = _reduced({GROUP: self.numbers}, columns)
        numbers = found[GROUP].to_numpy()
        if (np.diff(numbers) < 0).any():
            found = found.take(pa.array(np.argsort(numbers)))
        return _of(found, columns)

    def _first(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return a column's value in the first row of each group."""
        places = np.empty(self.count, dtype=np.int64)
        places[self.numbers[::-1]] = np.arange(len(self.numbers))[::-1]
        return column.take(pa.array(places))


def _reduced(by: Columns, columns: Reduced) -> pa.Table:
    """Return a row for each group, in any order."""
    wanted = [(name, function) for name, (_, function) in columns.items()]
    rows = pa.table({**by, **{name: column for name, (column, _) in columns.items()}})
    return rows.group_by(list(by), use_threads=False).aggregate(wanted)


def _of(found: pa.Table, columns: Reduced) -> Columns:
    return {name: found[f"{name}_{function}"] for name, (_, function) in columns.items()}


def can_group(key: pa.DataType) -> bool:
    """Return whether Arrow groups rows by keys of a type, whatever the chunks they come in."""
    return not (pa.types.is_nested(key) or pa.types.is_dictionary(key) or pa.types.is_null(key))
