"""Aggregates of a window, with keys: COUNT, SUM, AVG, MIN, MAX, FIRST and LAST (P1 section 5), spreads, sketches, and expressions of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skytide.errors import InvalidInput
from skytide.queries.arithmetic import NoResult
from skytide.queries.columns import missing_column, named_twice
from skytide.queries.described import described
from skytide.queries.expressions import Expression, evaluate
from skytide.queries.extremes import comparable, has_order, original
from skytide.queries.groups import Groups, normalised
from skytide.queries.identity import Identity
from skytide.queries.measure import SPREADS, Measure
from skytide.queries.moments import Moments, can_spread, from_columns
from skytide.queries.query import Query
from skytide.queries.sums import addends, adds_up, average, carried, rounded_addends, total, uncarried

ORIGIN = b"skytide.column"
TOWARDS = {"min": "min", "max": "max", "first": "min", "last": "max"}
Reduce = Callable[[Groups], dict[str, Any]]


@dataclass(frozen=True)
class Result:
    """A column of the answer that is an expression of measures and keys, with its original text."""

    name: str
    expression: Expression = field(repr=False)
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
        code = " ".join(each.code for each in kept if each.code)
        exact = replace(self, measures=(), results=(), written=())
        return Identity.of(exact, repr(self), tuple(each.text for each in kept), code, short=self.short())

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
        names = (*(self.written or self.keys), *(each.name for each in self.results or self.measures))
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
            _check_kind(measure, None if measure.column == "*" else rows.field(measure.column).type)

    def kept_schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns of the partial aggregates."""
        return self.pane(rows.empty_table()).schema

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the keys and the aggregates; those whose values come from a column have it in their metadata."""
        origins = dict(zip(self.written or self.keys, self.keys, strict=True))
        if not self.results:
            origins |= {measure.name: measure.column for measure in self.measures if measure.plain in TOWARDS}
        found = self.window(self.pane(rows.empty_table())).schema
        return pa.schema([f.with_metadata({ORIGIN: origins[f.name]}) if f.name in origins else f for f in found])

    def pane(self, rows: pa.Table) -> pa.Table:
        """Return the partial aggregates of the rows."""
        parts: dict[str, Any] = {key: normalised(rows[key]) for key in self.keys}
        kinds: dict[str, pa.DataType] = {}
        reduce: list[Reduce] = []
        for i, measure in enumerate(self.measures):
            if measure.column == "*":
                parts[_part("count", i)] = pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)
                continue
            values = rows[measure.column]
            if measure.mergeable is not None:
                kinds[_part("state", i)] = values.type
                reduce.append(_states_of(measure, values, i))
            elif measure.plain in SPREADS:
                reduce.append(_moments(Moments.of(values), i))
            if measure.plain in ("count", "avg"):
                parts[_part("count", i)] = pc.is_valid(values).cast(pa.int64())
            if measure.plain in ("sum", "avg"):
                kinds[_part("sum", i)] = values.type
                parts[_part("sum", i)] = addends(values) if measure.plain == "sum" else rounded_addends(values)
            if measure.plain in TOWARDS:
                parts[_part(measure.function, i)] = values
            if measure.plain in ("first", "last"):
                parts[_part("time", i)] = rows[self.time].cast(pa.int64())
        return self._reduced(parts, rows.num_rows, kinds, reduce)

    def merge(self, kept: pa.Table) -> pa.Table:
        """Return partial aggregates merged into one row per group."""
        kinds: dict[str, pa.DataType] = {}
        reduce: list[Reduce] = []
        for i, measure in enumerate(self.measures):
            if measure.mergeable is not None:
                kinds[_part("state", i)] = kept[_part("kind", i)].type
                reduce.append(_merged(measure, kept[_part("state", i)], i))
            elif measure.plain in SPREADS:
                reduce.append(_moments(from_columns(*(kept[_part(what, i)] for what in MOMENTS)), i))
            elif measure.plain in ("sum", "avg"):
                name = _part("sum", i)
                kinds[name] = kept[_part("kind", i)].type
                kept = kept.set_column(kept.column_names.index(name), name, uncarried(kept[name], kinds[name]))
        return self._reduced({name: kept[name] for name in kept.column_names}, kept.num_rows, kinds, reduce)

    def _reduced(self, parts: dict[str, Any], rows: int, kinds: dict[str, pa.DataType], reduce: list[Reduce]) -> pa.Table:
        """Return one row per group; `kinds` are the types of the values of each sum or state."""
        table = pa.table(parts) if parts else pa.table({"": pa.nulls(rows)})
        groups = Groups.of(table, self.keys)
        columns = {name: (table[name], "sum") for name in table.column_names if name.startswith((_part("count"), _part("sum")))}
        for i, measure in enumerate(self.measures):
            if measure.plain in TOWARDS:
                values, towards = comparable(table[_part(measure.function, i)]), TOWARDS[measure.function]
                if measure.plain in ("first", "last"):
                    times = pc.if_else(pc.is_valid(values), table[_part("time", i)], pa.scalar(None, pa.int64()))
                    columns[_part("time", i)] = (times, towards)
                    values = pc.if_else(groups.are_ends(times, towards), values, pa.scalar(None, values.type))
                columns[_part(measure.function, i)] = (values, towards)
        reduced: dict[str, Any] = {key: groups.first(table[key]) for key in self.keys}
        for name, found in groups.reduce(columns).items():
            reduced[name] = carried(found, kinds[name]) if name in kinds else original(found, table[name].type)
        for each in reduce:
            reduced |= each(groups)
        # A column of NULLs carries the type of the values along with the parts.
        known = {name.replace("sum", "kind").replace("state", "kind"): pa.nulls(groups.count, kind) for name, kind in kinds.items()}
        return pa.table(reduced | known)

    def window(self, kept: pa.Table) -> pa.Table:
        """Return the aggregates from their parts, or the expressions of them."""
        merged = self.merge(kept)
        keys: dict[str, Any] = dict(zip(self.written or self.keys, (merged[key] for key in self.keys), strict=True))
        measured = {measure.name: self._finished(measure, merged, i) for i, measure in enumerate(self.measures)}
        return self.answer(pa.table(keys | measured))

    def answer(self, measured: pa.Table) -> pa.Table:
        """Return the columns of the answer, from keys and measures."""
        if not self.results:
            return measured
        keys = {name: measured[name] for name in self.written or self.keys}
        return pa.table(keys | {result.name: result.of(measured) for result in self.results})

    def _finished(self, measure: Measure, merged: pa.Table, i: int) -> pa.Array | pa.ChunkedArray:
        if measure.mergeable is not None:
            return measure.mergeable.results(merged[_part("state", i)], merged[_part("kind", i)].type)
        if measure.plain in SPREADS:
            return from_columns(*(merged[_part(what, i)] for what in MOMENTS)).results(measure.function)
        if measure.plain not in ("sum", "avg"):
            return merged[_part(measure.function, i)]
        kind = merged[_part("kind", i)].type
        sums = uncarried(merged[_part("sum", i)], kind)
        if measure.plain == "sum":
            return total(sums, kind, measure)
        return average(sums, merged[_part("count", i)].combine_chunks(), kind, measure)


MOMENTS = ("values", "mean", "squares")


def _check_kind(measure: Measure, kind: pa.DataType | None) -> None:
    reason, remedy = "", "cast the column to a number first"
    if measure.mergeable is not None:
        measure.mergeable.kind(kind)
    elif measure.plain in ("sum", "avg") and not adds_up(kind):
        reason = f"{kind} does not add up"
    elif measure.plain in SPREADS and not can_spread(kind):
        reason = f"values of type {kind} have no distances"
    elif measure.plain in TOWARDS and not has_order(kind):
        reason, remedy = f"values of type {kind} cannot be compared", "choose a field of it, or cast it to a string first"
    if reason:
        raise InvalidInput(value=measure.text, reason=reason, remedy=remedy)


def _states_of(measure: Measure, values: pa.ChunkedArray, number: int) -> Reduce:
    mergeable = measure.mergeable
    assert mergeable is not None
    return lambda groups: {_part("state", number): mergeable.states_of(values, groups)}


def _merged(measure: Measure, states: pa.ChunkedArray, number: int) -> Reduce:
    mergeable = measure.mergeable
    assert mergeable is not None
    return lambda groups: {_part("state", number): mergeable.merged(states, groups)}


def _moments(moments: Moments, number: int) -> Reduce:
    def reduce(groups: Groups) -> dict[str, Any]:
        merged = moments.merged(groups)
        columns = (merged.counts, merged.means, merged.squares)
        return {_part(what, number): pa.array(column, pa.float64()) for what, column in zip(MOMENTS, columns, strict=True)}

    return reduce


def _part(what: str, number: int | str = "") -> str:
    """Return a name for a part of a measure that no column of the rows has."""
    return f"__skytide_{what}{number}"
