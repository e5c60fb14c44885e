"""What answers windows of keys: a query of skytide, aggregates in compiled loops, or a user's own operator."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.errors import InvalidInput
from skytide.kernels.window_measures import range_counts, range_extremes, range_firsts, range_lasts, range_sums, range_totals
from skytide.keyed.chunk import Numbers
from skytide.keyed.operator import Operator
from skytide.queries import Aggregate, Measure, Query
from skytide.queries.measure import PLAIN

Found = tuple[pa.Table, Numbers]
"""Rows of results, one window after the other, and how many each window has."""


class Answer(Protocol):
    """Answers windows from nothing but their rows."""

    def columns(self, rows: pa.Schema) -> Iterable[str]:
        """Return the columns that are read."""

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns of the results."""

    def windows(self, rows: pa.Table, begins: Numbers, ends: Numbers) -> Found:
        """Return the results of windows."""


@dataclass(frozen=True)
class OfQuery:
    """Answers each window on its own by a query."""

    query: Query

    def columns(self, rows: pa.Schema) -> Iterable[str]:
        """Return all columns: a query returns whole rows."""
        return tuple(rows.names)

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns of the query's results."""
        return self.query.schema(rows)

    def windows(self, rows: pa.Table, begins: Numbers, ends: Numbers) -> Found:
        """Return the results of the query, window by window."""
        found = [
            self.query.window(self.query.pane(rows.slice(b, e - b))) for b, e in zip(begins.tolist(), ends.tolist(), strict=True)
        ]
        return pa.concat_tables([self.query.schema(rows.schema).empty_table(), *found]), np.array(
            [t.num_rows for t in found], np.int64
        )


@dataclass(frozen=True)
class OfOperator:
    """Answers all windows at once by a user's operator."""

    operator: Operator
    keys: tuple[str, ...] = ()

    def columns(self, rows: pa.Schema) -> Iterable[str]:
        """Return all columns, as it is unknown which the operator reads."""
        return tuple(rows.names)

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns of the operator's results."""
        return self.operator.schema(rows, self.keys)

    def windows(self, rows: pa.Table, begins: Numbers, ends: Numbers) -> Found:
        """Return the results of the operator."""
        return self.operator.process_windows(rows, begins, ends)


@dataclass(frozen=True)
class OfAggregate:
    """Answers windows by aggregates without keys of their own, in compiled loops. Values, types and errors are those of `Aggregate`."""

    query: Aggregate

    @staticmethod
    def can(query: Query, rows: pa.Schema) -> bool:
        """Return whether a query can be answered this way, by the types of its columns alone, so that all batches are treated alike."""
        if not isinstance(query, Aggregate):
            return False
        plain = all(measure.plain in PLAIN for measure in query.measures)
        return plain and all(each.column == "*" or _is_plain(rows.field(each.column).type, each) for each in query.measures)

    def columns(self, rows: pa.Schema) -> Iterable[str]:
        """Return the columns of the measures, and the time."""
        return (self.query.time, *(measure.column for measure in self.query.measures if measure.column != "*"))

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns of the aggregates."""
        return self.query.schema(rows)

    def windows(self, rows: pa.Table, begins: Numbers, ends: Numbers) -> Found:
        """Return one row per window."""
        columns = [self._measured(measure, rows, begins, ends) for measure in self.query.measures]
        names = [measure.name for measure in self.query.measures]
        return self.query.answer(pa.table(dict(zip(names, columns, strict=True)))), np.ones(len(begins), np.int64)

    def _measured(self, measure: Measure, rows: pa.Table, begins: Numbers, ends: Numbers) -> pa.Array | pa.ChunkedArray:
        if measure.column == "*":
            return pa.array(ends - begins)
        column = rows[measure.column]
        valid = np.asarray(column.is_valid()) if column.null_count else np.ones(len(column), np.bool_)
        counts = range_counts(valid, begins, ends)
        if measure.function == "count":
            return pa.array(counts)
        if measure.function in ("sum", "avg"):
            return _added(measure, column, valid, begins, ends, counts)
        if measure.function in ("first", "last"):
            times = np.asarray(rows[self.query.time].cast(pa.int64()))
            narrowed = np.empty_like(begins), np.empty_like(ends)
            (range_firsts if measure.function == "first" else range_lasts)(times, valid, begins, ends, *narrowed)
            begins, ends = narrowed
        places = range_extremes(_numbers(column), valid, begins, ends, measure.function in ("max", "last"))
        return column.take(pa.array(places, mask=places < 0))


def _is_plain(kind: pa.DataType, measure: Measure) -> bool:
    if measure.function in ("sum", "avg"):
        return bool(pa.types.is_floating(kind) or (pa.types.is_integer(kind) and kind != pa.uint64()))
    return measure.function == "count" or bool(
        pa.types.is_floating(kind) or (pa.types.is_integer(kind) and kind != pa.uint64()) or pa.types.is_timestamp(kind)
    )


def _numbers(column: pa.ChunkedArray) -> NDArray[np.float64] | Numbers:
    return _floats(column) if pa.types.is_floating(column.type) else _integers(column)


def _floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    return np.asarray(column.cast(pa.float64()).fill_null(0.0).to_numpy())


def _integers(column: pa.ChunkedArray) -> Numbers:
    return np.asarray(column.cast(pa.int64()).fill_null(0).to_numpy())


def _added(
    measure: Measure, column: pa.ChunkedArray, valid: NDArray[np.bool_], begins: Numbers, ends: Numbers, counts: Numbers
) -> pa.Array:
    about = range_sums(_floats(column), valid, begins, ends)
    sums: NDArray[np.float64] | Numbers = about
    if not pa.types.is_floating(column.type):
        sums = range_totals(_integers(column), valid, begins, ends)
        if (np.abs(about - sums) > 2.0**62).any():  # an overflow wraps around, far away from the right value
            raise InvalidInput(
                value=f"{measure.text} of a window",
                reason="it overflows bigint, the type of the result",
                remedy="cast the column to decimal(38,0) or double before skytide.stream, or filter out values that cannot be right",
            )
    if measure.function == "sum":
        return pa.array(sums, mask=counts == 0)
    return pa.array(sums / np.maximum(counts, 1), mask=counts == 0)
