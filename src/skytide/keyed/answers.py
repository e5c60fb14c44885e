"""What answers windows of keys: a query of skytide, aggregates in compiled loops, or a user's own operator."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.kernels import EXACT_INTEGER, Mask
from skytide.kernels.window_measures import range_counts, range_extremes, range_firsts, range_lasts, range_sums, range_totals
from skytide.keyed.chunk import Numbers
from skytide.keyed.operator import Operator
from skytide.queries import Aggregate, Measure, Query
from skytide.queries.measure import PLAIN
from skytide.queries.ranges import needed_later, range_answers
from skytide.queries.sums import overflows

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

    def needed(self, rows: pa.Table, starts: Numbers) -> Mask:
        """Return which rows can still matter to windows that hold all later rows of their key; `starts` is where each key begins, and the end."""


@dataclass(frozen=True)
class QueryAnswer:
    """Answers windows by a query."""

    query: Query

    def columns(self, rows: pa.Schema) -> Iterable[str]:
        """Return all columns: a query returns whole rows."""
        return tuple(rows.names)

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns of the query's results."""
        return self.query.schema(rows)

    def windows(self, rows: pa.Table, begins: Numbers, ends: Numbers) -> Found:
        """Return the results of the query."""
        answers = range_answers(self.query, rows, begins, ends)
        return answers.rows, answers.counts

    def needed(self, rows: pa.Table, starts: Numbers) -> Mask:
        """Return the rows that may be in an answer."""
        return needed_later(self.query, rows, starts)


@dataclass(frozen=True)
class OperatorAnswer:
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

    def needed(self, rows: pa.Table, starts: Numbers) -> Mask:
        """Return all rows."""
        return np.ones(rows.num_rows, np.bool_)


@dataclass(frozen=True)
class AggregateAnswer:
    """Answers windows by aggregates without keys of their own, in compiled loops. Values, types and errors are those of `Aggregate`."""

    query: Aggregate

    @staticmethod
    def can(query: Query, rows: pa.Schema) -> bool:
        """Return whether a query can be answered this way, by the types of its columns alone, so that all batches are treated alike."""
        if not isinstance(query, Aggregate):
            return False
        plain = all(measure.plain in PLAIN for measure in query.measures)
        return plain and all(
            measure.column == "*" or _is_plain(rows.field(measure.column).type, measure) for measure in query.measures
        )

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

    def needed(self, rows: pa.Table, starts: Numbers) -> Mask:
        """Return all rows."""
        return np.ones(rows.num_rows, np.bool_)

    def _measured(self, measure: Measure, rows: pa.Table, begins: Numbers, ends: Numbers) -> pa.Array | pa.ChunkedArray:
        if measure.column == "*":
            return pa.array(ends - begins)
        column = rows[measure.column]
        valid = np.asarray(column.is_valid()) if column.null_count else np.ones(len(column), np.bool_)
        counts = range_counts(valid, begins, ends)
        if measure.plain == "count":
            return pa.array(counts)
        if measure.plain in ("sum", "avg"):
            return _added(measure, column, valid, begins, ends, counts)
        if measure.function in ("first", "last"):
            times = np.asarray(rows[self.query.time].cast(pa.int64()))
            narrowed = np.empty_like(begins), np.empty_like(ends)
            (range_firsts if measure.function == "first" else range_lasts)(times, valid, begins, ends, *narrowed)
            begins, ends = narrowed
        places = range_extremes(_numbers(column), valid, begins, ends, measure.function in ("max", "last"))
        return column.take(pa.array(places, mask=places < 0))


def _is_plain(type_: pa.DataType, measure: Measure) -> bool:
    if measure.plain in ("sum", "avg"):
        return bool(pa.types.is_floating(type_) or (pa.types.is_integer(type_) and type_ != pa.uint64()))
    return measure.function == "count" or bool(
        pa.types.is_floating(type_) or (pa.types.is_integer(type_) and type_ != pa.uint64()) or pa.types.is_timestamp(type_)
    )


def _numbers(column: pa.ChunkedArray) -> NDArray[np.float64] | Numbers:
    return _floats(column) if pa.types.is_floating(column.type) else _integers(column)


def _floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    return np.asarray(column.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy())  # integers above 2**53 are rounded


def _integers(column: pa.ChunkedArray) -> Numbers:
    return np.asarray(column.cast(pa.int64()).fill_null(0).to_numpy())


def _added(
    measure: Measure, column: pa.ChunkedArray, valid: NDArray[np.bool_], begins: Numbers, ends: Numbers, counts: Numbers
) -> pa.Array:
    floats = _floats(column)
    about = range_sums(floats, valid, begins, ends)
    if pa.types.is_floating(column.type):
        return pa.array(about if measure.plain == "sum" else about / np.maximum(counts, 1), mask=counts == 0)
    sums = range_totals(_integers(column), valid, begins, ends)
    overflow = np.abs(about - sums) > 2.0**62  # it wraps around, far away from the right value
    if measure.plain == "avg":
        totals = sums.astype(np.float64)
        large = range_counts(valid & (np.abs(floats) >= EXACT_INTEGER), begins, ends) > 0  # perhaps rounded already, as in Spark
        for window in np.flatnonzero(large | overflow):
            inside = slice(begins[window], ends[window])
            totals[window] = math.fsum(floats[inside][valid[inside]])
        return pa.array(totals / np.maximum(counts, 1), mask=counts == 0)
    if overflow.any() and not measure.tries:
        raise overflows(measure, "it overflows bigint", "cast the column to decimal(38,0) or double")
    return pa.array(sums, mask=(counts == 0) | overflow)
