"""What an aggregate function is: the parts it keeps of values, how parts are merged, and the result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.errors import InvalidInput
from skytide.kernels import Indices, Mask
from skytide.queries.groups import Groups

if TYPE_CHECKING:
    from skytide.queries.measure import Measure

Parts = dict[str, Any]
"""What is kept, by the name of each part: columns with one row per group."""
ArrowFunction = str
"""A name in Arrow's own table of functions, such as "sum"."""


@dataclass(frozen=True)
class Reduction:
    """How to get from rows to one row per group: columns for Arrow, which reduces those of all aggregates at once, and what is kept of its results."""

    columns: dict[str, tuple[pa.ChunkedArray, ArrowFunction]] = field(default_factory=dict)
    keep: Callable[[dict[str, pa.ChunkedArray]], Parts] = dict


@dataclass(frozen=True)
class Ranges:
    """Ranges of rows that may overlap, each a window of one key, and the column of them that is aggregated."""

    rows: pa.Table
    column: str
    time: str
    begins: Indices
    ends: Indices

    @cached_property
    def values(self) -> pa.ChunkedArray:
        """Return the values of the column."""
        return self.rows[self.column]

    @cached_property
    def times(self) -> Indices:
        """Return the times of rows, which few functions need."""
        return np.asarray(self.rows[self.time].cast(pa.int64()))

    @cached_property
    def valid(self) -> Mask:
        """Return which values are not NULL."""
        return np.asarray(self.values.is_valid()) if self.values.null_count else np.ones(len(self.values), np.bool_)

    @cached_property
    def floats(self) -> NDArray[np.float64]:
        """Return the values as float64, 0 for NULL; integers above 2**53 are rounded."""
        return np.asarray(self.values.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy())

    @cached_property
    def integers(self) -> Indices:
        """Return the values as integers, 0 for NULL."""
        return np.asarray(self.values.cast(pa.int64()).fill_null(0).to_numpy())


class AggregateFunction(ABC):
    """A function of the values of a column. To add one, derive from this class, and put an object into the table `FUNCTIONS`.

    The law: reduce the parts of values in any grouping and order; the result is the same. Parts are columns of types that Spark knows, as
    they are in checkpoints: their names, order and types never change.
    """

    name: str
    """What it is called in SQL, and in checkpoints."""
    spark: tuple[str, ...] = ()
    """The classes of Spark's expressions that mean the same."""
    parts: tuple[str, ...]
    """The names of what is kept."""
    place = 2
    """Where its parts are among those of other functions: checkpoints have counts and sums (0) before values (1) before all others (2)."""
    keeps_type = False
    """Whether the type of the values is kept with the parts, as a column of NULLs."""
    takes_rows = False
    """Whether it can be applied to `*`."""
    by_time = False
    """Whether the times of the values matter."""
    returns_values = False
    """Whether results are values of the column, so that they have whatever Spark knows of it."""
    ignores_cast = False
    """Whether a cast to double, which Spark puts around what is inside, changes nothing."""
    tries = False
    """Whether the result is NULL where it does not fit its type, instead of an error."""

    @property
    def kept_as(self) -> str:
        """Return the name of the function that keeps the same parts."""
        return self.name

    def check(self, measure: Measure, values: pa.DataType) -> None:
        """Raise InvalidInput if values of this type are not accepted; here all are."""

    @abstractmethod
    def of_values(self, values: pa.ChunkedArray | None, times: pa.ChunkedArray | None, groups: Groups) -> Reduction:
        """Return how to reduce values to parts; `values` is None for `*`, `times` is given if the function is `by_time`."""

    @abstractmethod
    def of_parts(self, parts: Parts, values: pa.DataType | None, groups: Groups) -> Reduction:
        """Return how to merge parts; `values` is the type of the values if it was kept."""

    @abstractmethod
    def result(self, parts: Parts, values: pa.DataType | None, measure: Measure) -> pa.Array | pa.ChunkedArray:
        """Return the result of each group."""

    def does_ranges(self, values: pa.DataType) -> bool:
        """Return whether compiled loops can find the results of ranges of rows that have values of this type."""
        return False

    def of_ranges(self, ranges: Ranges, measure: Measure) -> pa.Array | pa.ChunkedArray:
        """Return the result of each range; called only if the function `does_ranges`."""
        raise NotImplementedError(f"{self.name} of ranges")


def refused_type(measure: Measure, reason: str, remedy: str = "cast the column to a number first") -> InvalidInput:
    """Return the error for values of a type that a function does not accept."""
    return InvalidInput(value=measure.text, reason=reason, remedy=remedy)


def is_number(values: pa.DataType) -> bool:
    """Return whether compiled loops can compute with values of this type."""
    return bool(pa.types.is_floating(values) or (pa.types.is_integer(values) and values != pa.uint64()))
