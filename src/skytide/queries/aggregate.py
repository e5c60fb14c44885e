"""Aggregates with keys: COUNT, SUM, AVG, MIN, MAX, FIRST and LAST of a window (P1 section 5)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skytide.errors import InvalidInput
from skytide.queries.extremes import comparable, has_order, original
from skytide.queries.groups import Groups, normalised
from skytide.queries.query import Query
from skytide.queries.sums import addends, adds_up, average, carried, rounded_addends, total, uncarried

FUNCTIONS = ("count", "sum", "avg", "min", "max", "first", "last")
ORIGIN = b"skytide.column"
TOWARDS = {"min": "min", "max": "max", "first": "min", "last": "max"}
CALL = re.compile(r"\s*(\w+)\s*\(\s*(\*|`[^`]+`|\w+)\s*\)(?:\s+as\s+(\w+))?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Measure:
    """One aggregate: a function of a column, and the name of its result."""

    function: str
    column: str
    name: str

    @property
    def text(self) -> str:
        """The aggregate as SQL writes it."""
        return f"{self.function}({self.column})"

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

    Values, types and errors are those of Spark's own functions in its ANSI mode. NULL is left out, as in SQL. Sums of integers and
    decimals are exact, and it is an error if a total does not fit its type; sums of floats are rounded, and may differ in the last
    digits with the way rows were divided. Of several first (or last) rows with the same time the smallest (largest) value counts.

    >>> trades = pa.table({"symbol": ["A", "B", "A"], "size": [1, 2, 3]})
    >>> query = Aggregate((Measure.parse("sum(size)"),), keys=("symbol",))
    >>> query.window(query.pane(trades)).to_pylist()
    [{'symbol': 'A', 'sum_size': 4}, {'symbol': 'B', 'sum_size': 2}]
    """

    measures: tuple[Measure, ...]
    keys: tuple[str, ...] = ()
    time: str = ""
    written: tuple[str, ...] = field(default=(), repr=False)
    """The names of the keys in the result, if they are not those of the columns."""

    def __post_init__(self) -> None:
        """Refuse keys that are not names."""
        for key in self.keys:
            if not isinstance(key, str):
                raise InvalidInput(value=f"key {key!r}", reason="not the name of a column", remedy='name it: keys="symbol"')

    def expressions(self) -> Iterator[Any]:
        """Give the columns, whose names may be written in another case."""
        yield from self.keys
        yield from (measure.column for measure in self.measures if measure.column != "*")

    def over(self, names: dict[str, str]) -> Aggregate:
        """Give the same query of columns as they are written in the rows; results keep the names that were asked for, as in Spark."""

        def found(column: str) -> str:
            name = names.get(column, column)
            return name if name.lower() == column.lower() else column  # not an expression: there is no such column

        measures = tuple(replace(measure, column=found(measure.column)) for measure in self.measures)
        return replace(self, measures=measures, keys=tuple(map(found, self.keys)), written=self.written or self.keys)

    def groups(self) -> tuple[str, ...]:
        """Give the keys."""
        return self.keys

    def check(self, rows: pa.Schema) -> None:
        """Refuse columns that are not there, cannot be added up or compared, or names that are given twice."""
        names = [name.lower() for name in (*(self.written or self.keys), *(measure.name for measure in self.measures))]
        for name in (n for n in names if names.count(n) > 1):
            raise InvalidInput(value=f"result {name}", reason="named twice", remedy='give it another name: "sum(x) AS total"')
        for column in (*self.keys, *(measure.column for measure in self.measures if measure.column != "*")):
            if column not in rows.names:
                close = difflib.get_close_matches(column, rows.names, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(rows.names)}"
                raise InvalidInput(value=column, reason=f"there is no column {column!r}", remedy=hint)
        for key in self.keys:
            if not has_order(rows.field(key).type):
                reason = f"rows cannot be grouped by {rows.field(key).type}"
                raise InvalidInput(value=f"key {key}", reason=reason, remedy="choose fields of it, or cast it to a string first")
        for measure in self.measures:
            kind = None if measure.column == "*" else rows.field(measure.column).type
            if measure.function in ("sum", "avg") and not adds_up(kind):
                raise InvalidInput(value=measure.text, reason=f"{kind} does not add up", remedy="cast the column to a number first")
            if measure.function in TOWARDS and not has_order(kind):
                reason = f"values of type {kind} cannot be compared"
                raise InvalidInput(value=measure.text, reason=reason, remedy="choose a field of it, or cast it to a string first")

    def kept_schema(self, rows: pa.Schema) -> pa.Schema:
        """Give the columns of the partial aggregates."""
        return self.pane(rows.empty_table()).schema

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Give the keys and the aggregates; those whose values come from a column say which one."""
        origins = dict(zip(self.written or self.keys, self.keys, strict=True))
        origins |= {measure.name: measure.column for measure in self.measures if measure.function in TOWARDS}
        found = self.window(self.pane(rows.empty_table())).schema
        return pa.schema([f.with_metadata({ORIGIN: origins[f.name]}) if f.name in origins else f for f in found])

    def pane(self, rows: pa.Table) -> pa.Table:
        """Give the partial aggregates of the rows."""
        parts: dict[str, Any] = {key: normalised(rows[key]) for key in self.keys}
        kinds: dict[str, pa.DataType] = {}
        for i, measure in enumerate(self.measures):
            if measure.column == "*":
                parts[_part("count", i)] = pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)
                continue
            values = rows[measure.column]
            if measure.function in ("count", "avg"):
                parts[_part("count", i)] = pc.is_valid(values).cast(pa.int64())
            if measure.function in ("sum", "avg"):
                kinds[_part("sum", i)] = values.type
                parts[_part("sum", i)] = addends(values) if measure.function == "sum" else rounded_addends(values)
            if measure.function in TOWARDS:
                parts[_part(measure.function, i)] = values
            if measure.function in ("first", "last"):
                parts[_part("time", i)] = rows[self.time].cast(pa.int64())
        return self._reduced(pa.table(parts), kinds)

    def merge(self, kept: pa.Table) -> pa.Table:
        """Put partial aggregates together."""
        kinds: dict[str, pa.DataType] = {}
        for i, measure in enumerate(self.measures):
            if measure.function in ("sum", "avg"):
                name = _part("sum", i)
                kinds[name] = kept[_part("kind", i)].type
                kept = kept.set_column(kept.column_names.index(name), name, uncarried(kept[name], kinds[name]))
        return self._reduced(kept, kinds)

    def _reduced(self, parts: pa.Table, kinds: dict[str, pa.DataType]) -> pa.Table:
        """Give one row a group; `kinds` are the types of the values that each sum is of."""
        groups = Groups.of(parts, self.keys)
        columns = {name: (parts[name], "sum") for name in parts.column_names if name.startswith((_part("count"), _part("sum")))}
        for i, measure in enumerate(self.measures):
            if measure.function in TOWARDS:
                values, towards = comparable(parts[_part(measure.function, i)]), TOWARDS[measure.function]
                if measure.function in ("first", "last"):
                    times = pc.if_else(pc.is_valid(values), parts[_part("time", i)], pa.scalar(None, pa.int64()))
                    columns[_part("time", i)] = (times, towards)
                    values = pc.if_else(groups.are_ends(times, towards), values, pa.scalar(None, values.type))
                columns[_part(measure.function, i)] = (values, towards)
        reduced: dict[str, Any] = {key: groups.first(parts[key]) for key in self.keys}
        for name, found in groups.reduce(columns).items():
            reduced[name] = carried(found, kinds[name]) if name in kinds else original(found, parts[name].type)
        # An empty column says the type of the values, wherever the parts go.
        return pa.table(reduced | {name.replace("sum", "kind"): pa.nulls(groups.count, kind) for name, kind in kinds.items()})

    def window(self, kept: pa.Table) -> pa.Table:
        """Give the aggregates from their parts."""
        merged = self.merge(kept)
        answer: dict[str, Any] = dict(zip(self.written or self.keys, (merged[key] for key in self.keys), strict=True))
        for i, measure in enumerate(self.measures):
            if measure.function not in ("sum", "avg"):
                answer[measure.name] = merged[_part(measure.function, i)]
                continue
            kind = merged[_part("kind", i)].type
            sums = uncarried(merged[_part("sum", i)], kind)
            if measure.function == "sum":
                answer[measure.name] = total(sums, kind, measure.text)
            else:
                answer[measure.name] = average(sums, merged[_part("count", i)].combine_chunks(), kind, measure.text)
        return pa.table(answer)


def _part(what: str, number: int | str = "") -> str:
    """Give the name of a part of a measure, which no column of the rows has."""
    return f"__skytide_{what}{number}"
