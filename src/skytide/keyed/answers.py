"""What answers windows of keys: a query of skytide, aggregates in compiled loops, or a user's own operator."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from skytide.kernels import Mask
from skytide.keyed.chunk import Numbers
from skytide.keyed.operator import Operator
from skytide.queries import Aggregate, Measure, Query
from skytide.queries.functions import Ranges
from skytide.queries.ranges import needed_later, range_answers

Found = tuple[pa.Table, Numbers]
"""Rows of results, one window after the other, and how many each window has."""


class Answer(Protocol):
    """Answers windows from nothing but their rows."""

    @property
    def is_even(self) -> bool:
        """Whether rows cost the same, whatever their key."""
        return False

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
    is_even = False

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
    is_even = False

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
    is_even = True

    @staticmethod
    def can(query: Query, rows: pa.Schema) -> bool:
        """Return whether a query can be answered this way, by the types of its columns alone, so that all batches are treated alike."""
        if not isinstance(query, Aggregate):
            return False
        return all(
            measure.column == "*" or measure.aggregate.does_ranges(rows.field(measure.column).type) for measure in query.measures
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
        return measure.aggregate.of_ranges(Ranges(rows, measure.column, self.query.time, begins, ends), measure)
