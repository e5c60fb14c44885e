"""A query of the answers of another, window by window: `.aggregate("sum(size) AS volume", keys="symbol").top_k(3, by="volume")`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from skytide.kernels import Mask
from skytide.queries.aggregate import Result
from skytide.queries.identity import Identity
from skytide.queries.preferences import Expression
from skytide.queries.query import Query, independent_groups


@dataclass(frozen=True)
class Over(Query):
    """Keeps what the first query keeps of panes, and applies the second query to the answer of each window.

    >>> from skytide.queries import Aggregate, Measure, TopK, high
    >>> volume = Aggregate((Measure.parse("sum(size) AS volume"),), keys=("symbol",))
    >>> query = Over(volume, TopK(high("volume"), k=1))
    >>> query.window(query.pane(pa.table({"symbol": ["A", "B", "A"], "size": [1, 3, 4]}))).to_pylist()
    [{'symbol': 'A', 'volume': 5}]
    """

    first: Query
    second: Query
    computed: tuple[Result, ...] = ()
    """Columns that only the second query reads: expressions of the answer of the first."""

    def pane(self, rows: pa.Table) -> pa.Table:
        """Return what the first query keeps."""
        return self.first.pane(rows)

    def merge(self, kept: pa.Table) -> pa.Table:
        """Return what the first query merges."""
        return self.first.merge(kept)

    def window(self, kept: pa.Table) -> pa.Table:
        """Return the second query's answer for the first one's."""
        answer = self._with_computed(self.first.window(kept))
        return self.second.window(self.second.pane(answer)).drop_columns([result.name for result in self.computed])

    def of_groups(self) -> Query:
        """Return the first query, and what the second one keeps of its answers."""
        return _OfGroups(self)

    def from_groups(self, answers: pa.Table) -> pa.Table:
        """Return the second query's answer."""
        return self.second.window(self.second.merge(answers)).drop_columns([result.name for result in self.computed])

    def kept_schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns that the first query keeps."""
        return self.first.kept_schema(rows)

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns of the second query, without those that only it reads."""
        helpers = {result.name for result in self.computed}
        return pa.schema([field for field in self.second.schema(self._between(rows)) if field.name not in helpers])

    def check(self, rows: pa.Schema) -> None:
        """Refuse columns that either query refuses."""
        self.first.check(rows)
        self.second.check(self._between(rows))

    def refused(self, rows: pa.Table) -> Mask | None:
        """Return which rows the first query would refuse."""
        return self.first.refused(rows)

    def expressions(self) -> Iterator[Expression]:
        """Return the expressions of the rows that the first query reads."""
        return self.first.expressions()

    def over(self, names: dict[str, str]) -> Over:
        """Return the same query over named columns."""
        return replace(self, first=self.first.over(names))

    def identity(self) -> Identity:
        """Return the identity of both: the second query continues from what the first one keeps."""
        return self.first.identity().over(
            Identity.of(self.second, repr(self.second), stricter=self.second.stricter(), short=self.second.short())
        )

    def arranged(self, order: tuple[int, ...]) -> Over:
        """Return the same query, with what the first one keeps in another order."""
        return replace(self, first=self.first.arranged(order))

    def routed_by(self) -> tuple[str, ...]:
        """Return the keys of the first query: what it keeps of them is merged before the second one runs."""
        return self.first.routed_by()

    def _between(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns that the second query gets."""
        fields = self._with_computed(self.first.schema(rows).empty_table()).schema
        origins = {field.name: field for field in self.first.schema(rows)}
        return pa.schema([origins.get(field.name, field) for field in fields])

    def _with_computed(self, answer: pa.Table) -> pa.Table:
        for result in self.computed:
            answer = answer.append_column(result.name, result.of(answer))
        return answer


@dataclass(frozen=True)
class _OfGroups(Query):
    """The first query of two, and what the second one keeps of its answers: those of different groups are worked on apart."""

    whole: Over

    def pane(self, rows: pa.Table) -> pa.Table:
        return self.whole.pane(rows)

    def merge(self, kept: pa.Table) -> pa.Table:
        return self.whole.merge(kept)

    def window(self, kept: pa.Table) -> pa.Table:
        return self.whole.second.pane(self.whole._with_computed(self.whole.first.window(kept)))

    def kept_schema(self, rows: pa.Schema) -> pa.Schema:
        return self.whole.kept_schema(rows)

    def schema(self, rows: pa.Schema) -> pa.Schema:
        return self.whole.second.kept_schema(self.whole._between(rows))

    def groups(self) -> tuple[str, ...]:
        return independent_groups(self.whole.first)
