"""The base of all queries by a preference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.errors import InvalidInput
from skytide.errors.checks import check_integer, refused
from skytide.kernels import Mask, Points, by_group
from skytide.queries.columns import NULLS, Nulls, group_numbers, is_ordered, matrix, missing, missing_column, without_missing
from skytide.queries.preferences import Attribute, Expression, Preference, Prioritised, chains_of, combine, groups_of
from skytide.queries.query import Query


@dataclass(frozen=True)
class PreferenceQuery(Query):
    """A query that compares rows by a preference, with a rule for NULL and NaN."""

    preference: Preference
    nulls: Nulls = "error"

    def __post_init__(self) -> None:
        """Refuse what is wrong whatever the rows are."""
        combine((self.preference,))
        if not isinstance(self.nulls, str) or self.nulls not in NULLS:
            raise refused("nulls", self.nulls, "not a rule for NULL and NaN", "choose one of " + ", ".join(map(repr, NULLS)))

    def expressions(self) -> Iterator[Expression]:
        """Return the columns of the preference."""
        return (attribute.what for attribute in self.preference.attributes())

    def over(self, names: dict[str, str]) -> Self:
        """Return the same query over named columns."""
        return replace(self, preference=self.preference.over(lambda what: names[str(what)]))

    def groups(self) -> tuple[str, ...]:
        """Return the `diff` columns."""
        return groups_of(self.preference)

    def check(self, rows: pa.Schema) -> None:
        """Refuse columns that do not exist or have no order."""
        for attribute in self.preference.attributes():
            _check_column(attribute, rows)
        for added in set(self.schema(rows).names[len(rows.names) :]):
            for own in (name for name in rows.names if name.lower() == added.lower()):
                raise InvalidInput(
                    value=f"column {own}",
                    reason=f"{type(self).__name__} adds a column of that name to its result",
                    remedy=f'rename yours first, for instance .withColumnRenamed("{own}", "{own}_1")',
                )

    def stricter(self) -> tuple[Self, ...]:
        """Return the query to which NULL and NaN are errors: nothing that it kept has them."""
        return () if self.nulls == "error" else (replace(self, nulls="error"),)

    def refused(self, rows: pa.Table) -> Mask | None:
        """Return which rows have NULL or NaN where that is an error."""
        return missing(rows, tuple(self.preference.attributes())) if self.nulls == "error" else None

    def compared(self, rows: pa.Table) -> tuple[pa.Table, Points]:
        """Return the rows that take part, and their points."""
        rows = without_missing(rows, tuple(self.preference.attributes()), self.nulls)
        return rows, matrix(rows, chains_of(self.preference))

    def within_groups(self, kernel: Any, rows: pa.Table, points: Points) -> NDArray[Any]:
        """Return the results of a kernel for the points, within each group of equal `diff` columns."""
        groups = self.groups()
        if not groups or not rows.num_rows:
            return np.asarray(kernel(points))
        return by_group(kernel, points, group_numbers(rows, groups))


def plain_dimensions(query: PreferenceQuery, why: str) -> int:
    """Return the number of compared columns of a preference; refuse one with priorities."""
    parts = getattr(query.preference, "parts", (query.preference,))
    if isinstance(query.preference, Prioritised) or any(isinstance(part, Prioritised) for part in parts):
        raise InvalidInput(
            value=repr(query.preference),
            reason=f"{why} counts columns, and is not defined for priorities",
            remedy="use * only",
        )
    return len(chains_of(query.preference))


def check_count(name: str, value: Any, maximum: int | None = None) -> None:
    """Refuse a count that is not a whole number from 1 to `maximum`."""
    check_integer(name, value, 1, maximum)


def _check_column(attribute: Attribute, rows: pa.Schema) -> None:
    if attribute.what not in rows.names:
        raise missing_column(repr(attribute), str(attribute.what), rows)
    if rows.names.count(attribute.what) > 1:
        raise InvalidInput(
            value=repr(attribute), reason="several columns have that name", remedy="rename or drop all but one first"
        )
    kind = rows.field(attribute.what).type
    if attribute.kind == "diff" and pa.types.is_nested(kind):
        raise InvalidInput(
            value=f"{attribute} of type {kind}",
            reason="rows cannot be grouped by it",
            remedy="choose fields of it, or cast it to a string first",
        )
    if attribute.kind != "diff" and not is_ordered(kind):
        raise InvalidInput(
            value=f"{attribute} of type {kind}",
            reason="only numbers, dates, times and booleans are ordered",
            remedy=f"cast it, prefer an expression of it, or use diff({attribute.what!r}) to compare only rows with equal values",
        )
