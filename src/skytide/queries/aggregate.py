"""Aggregates of a window, with keys: COUNT, SUM, AVG, MIN, MAX, FIRST and LAST (P1 section 5), spreads, sketches, and expressions of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from skytide.errors import InvalidInput
from skytide.queries.arithmetic import NoResult
from skytide.queries.columns import missing_column, named_twice, normalised
from skytide.queries.described import described
from skytide.queries.extremes import has_order
from skytide.queries.formula import Formula, evaluate
from skytide.queries.functions import Parts, Reduction
from skytide.queries.groups import Groups
from skytide.queries.identity import Identity
from skytide.queries.measure import Measure
from skytide.queries.query import Query

ORIGIN = b"skytide.column"


@dataclass(frozen=True)
class Result:
    """A column of the answer that is an expression of measures and keys, with its original text."""

    name: str
    expression: Formula = field(repr=False)
    text: str

    def of(self, rows: pa.Table) -> pa.Array:
        """Return the values."""
        try:
            return evaluate(self.expression, rows)
        except NoResult as error:
            raise InvalidInput(value=f"{self.text} of a window", reason=error.reason, remedy=error.remedy) from None


@dataclass(frozen=True)
class Aggregate(Query):
    """Aggregates of all rows, or of the rows of each combination of keys; FIRST and LAST are by the column `time`.

    Values, types and errors are those of Spark's own functions in its ANSI mode. NULLs are ignored, as in SQL. Sums of integers and
    decimals are exact, and a total that does not fit its type is an error; sums of floats are rounded, and their last digits may depend
    on how rows were divided. Of several first (or last) rows with the same time the smallest (largest) value counts.

    >>> trades = pa.table({"symbol": ["A", "B", "A"], "size": [1, 2, 3]})
    >>> query = Aggregate((Measure.parse("sum(size)"),), keys=("symbol",))
    >>> query.window(query.pane(trades)).to_pylist()
    [{'symbol': 'A', 'sum_size': 4}, {'symbol': 'B', 'sum_size': 2}]
    """

    measures: tuple[Measure, ...]
    keys: tuple[str, ...] = ()
    time: str = ""
    written: tuple[str, ...] = ()
    """The names of the keys in the result, if they differ from those of the columns."""
    results: tuple[Result, ...] = ()
    """The columns of the answer besides the keys, if they are not the measures themselves."""

    def __repr__(self) -> str:
        """Return the query as a text; checkpoints identify a query by it."""
        over = f", results={self.results!r}" if self.results else ""
        return f"Aggregate(measures={self.measures!r}, keys={self.keys!r}, time={self.time!r}{over})"

    def __post_init__(self) -> None:
        """Refuse keys that are not names."""
        for key in self.keys:
            if not isinstance(key, str):
                raise InvalidInput(value=f"key {key!r}", reason="not the name of a column", remedy='name it: keys="symbol"')

    def expressions(self) -> Iterator[str]:
        """Yield the columns, whose names may be written in another case, and the expressions inside aggregates."""
        yield from self.keys
        yield from (measure.column for measure in self.measures if measure.column != "*")

    def over(self, names: dict[str, str]) -> Aggregate:
        """Return the same query with columns as they are written in the rows; results keep the names of the query, as in Spark."""

        def key(column: str) -> str:
            name = names.get(column, column)
            return name if name.lower() == column.lower() else column  # not an expression: there is no such column

        measures = tuple(replace(measure, column=names.get(measure.column, measure.column)) for measure in self.measures)
        return replace(self, measures=measures, keys=tuple(map(key, self.keys)), written=self.written or self.keys)

    def identity(self) -> Identity:
        """Return what is kept: results may be other expressions of the same measures."""
        kept = [described(measure.kept) for measure in self.measures]
        code = " ".join(part.code for part in kept if part.code)
        exact = replace(self, measures=(), results=(), written=())
        return Identity.of(exact, repr(self), tuple(part.text for part in kept), code, short=self.short())

    def short(self) -> str:
        """Return the aggregates as SQL writes them.

        >>> Aggregate((Measure.parse("avg(price) AS mean"),), keys=("symbol",), time="ts").short()
        'avg(price) AS mean by symbol'
        """
        columns = ", ".join(f"{column.text} AS {column.name}" for column in self.results or self.measures)
        return columns + (f" by {', '.join(self.keys)}" if self.keys else "")

    def arranged(self, order: tuple[int, ...]) -> Aggregate:
        """Return the same query, with its measures in another order; results do not depend on it."""
        return replace(self, measures=tuple(self.measures[place] for place in order))

    def groups(self) -> tuple[str, ...]:
        """Return the keys."""
        return self.keys

    def check(self, rows: pa.Schema) -> None:
        """Refuse columns that do not exist, or cannot be summed or compared, and duplicate names."""
        if key := named_twice(self.keys, rows):
            raise InvalidInput(value=f"key {key}", reason="named twice", remedy="name each column once")
        names = (*(self.written or self.keys), *(result.name for result in self.results or self.measures))
        if name := named_twice(names, rows):
            raise InvalidInput(value=f"result {name}", reason="named twice", remedy='give it another name: "sum(x) AS total"')
        for column in (*self.keys, *(measure.column for measure in self.measures if measure.column != "*")):
            if column not in rows.names:
                raise missing_column(column, column, rows)
        for key in self.keys:
            if not has_order(rows.field(key).type):
                reason = f"rows cannot be grouped by {rows.field(key).type}"
                raise InvalidInput(value=f"key {key}", reason=reason, remedy="choose fields of it, or cast it to a string first")
        for measure in self.measures:
            if measure.column != "*":
                measure.aggregate.check(measure, rows.field(measure.column).type)
            elif not measure.aggregate.takes_rows:
                raise InvalidInput(value=measure.text, reason="not a column", remedy="name one, or write count(*)")

    def kept_schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns of the partial aggregates."""
        return self.pane(rows.empty_table()).schema

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the keys and the aggregates; those whose values come from a column have it in their metadata."""
        origins = dict(zip(self.written or self.keys, self.keys, strict=True))
        if not self.results:
            origins |= {measure.name: measure.column for measure in self.measures if measure.aggregate.returns_values}
        fields = self.window(self.pane(rows.empty_table())).schema
        return pa.schema([f.with_metadata({ORIGIN: origins[f.name]}) if f.name in origins else f for f in fields])

    def pane(self, rows: pa.Table) -> pa.Table:
        """Return the partial aggregates of the rows."""
        groups = Groups({key: normalised(rows[key]) for key in self.keys}, rows.num_rows)
        reductions, types = [], {}
        for i, measure in enumerate(self.measures):
            function = measure.aggregate
            values = None if measure.column == "*" else rows[measure.column]
            times = rows[self.time].cast(pa.int64()) if function.by_time else None
            reductions.append(function.of_values(values, times, groups))
            if function.keeps_type:
                types[i] = rows.schema.field(measure.column).type
        return self._reduced(groups, reductions, types)

    def merge(self, kept: pa.Table) -> pa.Table:
        """Return partial aggregates merged into one row per group."""
        groups = Groups({key: kept[key] for key in self.keys}, kept.num_rows)
        types = {i: kept[_part("kind", i)].type for i, measure in enumerate(self.measures) if measure.aggregate.keeps_type}
        reductions = [
            measure.aggregate.of_parts(_parts(measure, kept, i), types.get(i), groups) for i, measure in enumerate(self.measures)
        ]
        return self._reduced(groups, reductions, types)

    def _reduced(self, groups: Groups, reductions: list[Reduction], types: dict[int, pa.DataType]) -> pa.Table:
        """Return one row per group, with its columns in the order that checkpoints have; `types` are those of the values."""
        order = sorted(range(len(reductions)), key=lambda i: self.measures[i].aggregate.place)
        keys, by_arrow = groups.reduce(
            {_part(name, i): reductions[i].columns[name] for i in order for name in reductions[i].columns}
        )
        reduced: Parts = dict(keys)
        for i in order:
            kept = reductions[i].keep({name: by_arrow[_part(name, i)] for name in reductions[i].columns})
            reduced |= {_part(name, i): column for name, column in kept.items()}
        count = len(next(iter(reduced.values()), ()))
        # A column of NULLs carries the type of the values along with the parts.
        reduced |= {_part("kind", i): pa.nulls(count, values) for i, values in types.items()}
        return pa.table(reduced)

    def window(self, kept: pa.Table) -> pa.Table:
        """Return the aggregates from their parts, or the expressions of them."""
        merged = self.merge(kept)
        keys: dict[str, Any] = dict(zip(self.written or self.keys, (merged[key] for key in self.keys), strict=True))
        measured: Parts = {}
        for i, measure in enumerate(self.measures):
            values = merged[_part("kind", i)].type if measure.aggregate.keeps_type else None
            measured[measure.name] = measure.aggregate.result(_parts(measure, merged, i), values, measure)
        return self.answer(pa.table(keys | measured))

    def answer(self, measured: pa.Table) -> pa.Table:
        """Return the columns of the answer, from keys and measures."""
        if not self.results:
            return measured
        keys = {name: measured[name] for name in self.written or self.keys}
        return pa.table(keys | {result.name: result.of(measured) for result in self.results})


def _parts(measure: Measure, kept: pa.Table, number: int) -> Parts:
    return {name: kept[_part(name, number)] for name in measure.aggregate.parts}


def _part(what: str, number: int) -> str:
    """Return a name for a part of a measure that no column of the rows has."""
    return f"__skytide_{what}{number}"
