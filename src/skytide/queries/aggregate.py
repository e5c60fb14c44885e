"""Aggregates with keys: COUNT, SUM, AVG, MIN, MAX, FIRST and LAST of a window (P1 section 5)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skytide.errors import InvalidInput
from skytide.kernels import Indices
from skytide.queries.columns import group_numbers
from skytide.queries.query import Query

FUNCTIONS = ("count", "sum", "avg", "min", "max", "first", "last")
GROUP = "__skytide_group"
CALL = re.compile(r"\s*(\w+)\s*\(\s*(\*|`[^`]+`|\w+)\s*\)(?:\s+as\s+(\w+))?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Measure:
    """One aggregate: a function of a column, and the name of its result."""

    function: str
    column: str
    name: str

    @staticmethod
    def parse(text: str) -> Measure:
        """Read an aggregate as SQL writes it.

        >>> Measure.parse("avg(price) AS mean")
        Measure(function='avg', column='price', name='mean')
        >>> Measure.parse("COUNT(*)").name
        'count'
        """
        found = CALL.fullmatch(text) if isinstance(text, str) else None
        if not found or found[1].lower() not in FUNCTIONS or (found[2] == "*" and found[1].lower() != "count"):
            raise InvalidInput(
                value=repr(text),
                reason="not an aggregate",
                remedy=f'write one of {", ".join(FUNCTIONS)} of a column: "sum(size) AS total", or "count(*)"',
            )
        function, column = found[1].lower(), found[2].strip("`")
        return Measure(function, column, found[3] or (function if column == "*" else f"{function}_{column}"))


@dataclass(frozen=True)
class Aggregate(Query):
    """Aggregates of all rows, or of the rows of each combination of keys; first and last go by the column `time`.

    NULL is left out, as in SQL. Sums of integers are exact; sums of floats are rounded, and may differ in the last digits with the
    way rows were divided. Of several first (or last) rows with the same time the smallest (largest) value counts.

    >>> trades = pa.table({"symbol": ["A", "B", "A"], "size": [1, 2, 3]})
    >>> query = Aggregate((Measure.parse("sum(size)"),), keys=("symbol",))
    >>> query.window(query.pane(trades)).to_pylist()
    [{'symbol': 'A', 'sum_size': 4}, {'symbol': 'B', 'sum_size': 2}]
    """

    measures: tuple[Measure, ...]
    keys: tuple[str, ...] = ()
    time: str = ""

    def expressions(self) -> Iterator[Any]:
        """Give the keys: what rows are divided by."""
        return iter(self.keys)

    def groups(self) -> tuple[str, ...]:
        """Give the keys."""
        return self.keys

    def check(self, rows: pa.Schema) -> None:
        """Refuse columns that are not there, cannot be added up, or names that are given twice."""
        names = [*self.keys, *(measure.name for measure in self.measures)]
        for name in (n for n in names if names.count(n) > 1):
            raise InvalidInput(value=f"result {name}", reason="named twice", remedy='give it another name: "sum(x) AS total"')
        for column in (*self.keys, *(measure.column for measure in self.measures if measure.column != "*")):
            if column not in rows.names:
                close = difflib.get_close_matches(column, rows.names, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(rows.names)}"
                raise InvalidInput(value=column, reason=f"there is no column {column!r}", remedy=hint)
        for measure in self.measures:
            if measure.function in ("sum", "avg") and not _adds_up(rows.field(measure.column).type):
                raise InvalidInput(
                    value=f"{measure.function}({measure.column})",
                    reason=f"{rows.field(measure.column).type} does not add up",
                    remedy="cast the column to a number first",
                )

    def kept_schema(self, rows: pa.Schema) -> pa.Schema:
        """Give the columns of the partial aggregates."""
        return self.pane(rows.empty_table()).schema

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Give the keys and the aggregates."""
        return self.window(self.pane(rows.empty_table())).schema

    def pane(self, rows: pa.Table) -> pa.Table:
        """Give the partial aggregates of the rows."""
        parts: dict[str, Any] = {key: rows[key] for key in self.keys}
        for i, measure in enumerate(self.measures):
            if measure.column == "*":
                parts[f"count{i}"] = pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)
                continue
            values = rows[measure.column]
            if measure.function in ("count", "avg"):
                parts[f"count{i}"] = pc.is_valid(values).cast(pa.int64())
            if measure.function in ("sum", "avg"):
                parts[f"sum{i}"] = _wide(values)
            if measure.function in ("min", "max", "first", "last"):
                parts[f"{measure.function}{i}"] = values
            if measure.function in ("first", "last"):
                parts[f"time{i}"] = rows[self.time].cast(pa.int64())
        return self.merge(pa.table(parts))

    def merge(self, kept: pa.Table) -> pa.Table:
        """Put partial aggregates together."""
        numbers = group_numbers(kept, self.keys) if self.keys else np.zeros(kept.num_rows, dtype=np.int64)
        numbered = kept.append_column(GROUP, pa.array(numbers))
        merged: dict[str, Any] = {key: kept[key].take(pa.array(np.unique(numbers, return_index=True)[1])) for key in self.keys}
        for name in kept.column_names[len(self.keys) :]:
            function, i = name.rstrip("0123456789"), name.lstrip("abcdefghijklmnopqrstuvwxyz")
            if function in ("first", "last"):
                direction = "ascending" if function == "first" else "descending"
                ordered = numbered.filter(pc.is_valid(kept[name])).sort_by([(f"time{i}", direction), (name, direction)])
                merged |= {column: _by_group(ordered, column, "first", numbers) for column in (name, f"time{i}")}
            elif function != "time":
                merged[name] = _by_group(numbered, name, {"count": "sum"}.get(function, function), numbers)
        return pa.table(merged).select(kept.column_names).cast(kept.schema)

    def window(self, kept: pa.Table) -> pa.Table:
        """Give the aggregates from their parts."""
        merged = self.merge(kept)
        answer: dict[str, Any] = {key: merged[key] for key in self.keys}
        for i, measure in enumerate(self.measures):
            if measure.function == "avg":
                count = merged[f"count{i}"]
                some = pc.if_else(pc.equal(count, 0), pa.scalar(None, pa.int64()), count)
                answer[measure.name] = pc.divide(merged[f"sum{i}"].cast(pa.float64()), some.cast(pa.float64()))
            else:
                answer[measure.name] = merged[f"{measure.function}{i}"]
        return pa.table(answer)


def _by_group(rows: pa.Table, column: str, function: str, numbers: Indices) -> pa.Array:
    """Aggregate a column within each group, with NULL for groups of which no row is there."""
    found = rows.group_by(GROUP, use_threads=False).aggregate([(column, function)])
    places = np.full(int(numbers.max(initial=-1)) + 1, -1, dtype=np.int64)
    places[found[GROUP].to_numpy()] = np.arange(found.num_rows)
    return found[f"{column}_{function}"].take(pa.array(places, mask=places < 0))


def _adds_up(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _wide(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Give values in the type of their sum, so that sums of sums have the same."""
    kind = values.type
    if pa.types.is_integer(kind):
        return values.cast(pa.int64())
    return values.cast(pa.decimal128(38, kind.scale) if pa.types.is_decimal(kind) else pa.float64())
