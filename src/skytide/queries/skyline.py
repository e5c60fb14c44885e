"""The skyline, and what is just behind it: the k-skyband and the levels."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from skytide.errors.checks import check_bool
from skytide.kernels import Indices, Mask, Points, count_dominators, skyline, skyline_levels
from skytide.queries.columns import group_numbers, one_of_equals
from skytide.queries.preference_query import PreferenceQuery, check_count

ALL_LEVELS = 2**62


@dataclass(frozen=True)
class Skyline(PreferenceQuery):
    """The rows that no other row dominates; `distinct` keeps one of those that are equal in all preferred columns.

    Parameters
    ----------
    preference
        What is better: `low`, `high` and `diff` of columns, combined by `*` or `&`.
    nulls
        What happens to rows with NULL or NaN there: they are an "error", left out ("drop"), or behind all others ("worst").
    distinct
        Whether to keep only one of the rows that are equal in all preferred columns.

    Examples
    --------
    >>> from skytide.queries import high, low
    >>> hotels = pa.table({"price": [50, 60, 70], "stars": [3, 5, 4]})
    >>> Skyline(low("price") * high("stars")).window(hotels).to_pylist()
    [{'price': 50, 'stars': 3}, {'price': 60, 'stars': 5}]
    """

    distinct: bool = False
    can_share = True

    def __post_init__(self) -> None:
        """Refuse values that are not booleans."""
        super().__post_init__()
        check_bool("distinct", self.distinct)

    def pane(self, rows: pa.Table) -> pa.Table:
        """Return the skyline of the rows: a row that is dominated here is dominated in every window."""
        rows, points = self.compared(rows)
        best = self.within_groups(skyline, rows, points)
        return self._one_each(rows.filter(pa.array(best)), points[best])

    def window(self, kept: pa.Table) -> pa.Table:
        """Return the skyline of what was kept."""
        return self.pane(kept)

    def window_of_skyline(self, best: pa.Table) -> pa.Table:
        """Return the rows, or one of those that are equal."""
        return self._one_each(*self.compared(best))

    def share(self, kept: pa.Table, mine: Mask) -> pa.Table:
        """Return the rows of `mine` that none of `kept` dominates."""
        kept, points = self.compared(kept)
        best = mine & (count_dominators(points, limit=1, tested=mine) == 0)
        return self._one_each(kept.filter(pa.array(best)), points[best])

    def skyline_inside(self) -> "Skyline":
        """Return itself, with all duplicates."""
        return replace(self, distinct=False)

    def skyband_inside(self) -> "Skyband":
        """Return the skyband with k = 1."""
        return Skyband(self.preference, self.nulls, k=1)

    def windows_of_skyband(self, best: pa.Table, counts: Indices) -> tuple[pa.Table, Indices]:
        """Return the skybands, or one of the rows that are equal."""
        return super().windows_of_skyband(best, counts) if self.distinct else (best, counts)

    def _one_each(self, rows: pa.Table, points: Points) -> pa.Table:
        if not self.distinct or rows.num_rows == 0:
            return rows
        if self.groups():
            points = np.column_stack([points, group_numbers(rows, self.groups())])
        return rows.filter(pa.array(one_of_equals(rows, points)))


@dataclass(frozen=True)
class Skyband(PreferenceQuery):
    """The rows that fewer than `k` other rows dominate; k = 1 is the skyline.

    Parameters
    ----------
    preference
        What is better: `low`, `high` and `diff` of columns, combined by `*` or `&`.
    nulls
        What happens to rows with NULL or NaN there: they are an "error", left out ("drop"), or behind all others ("worst").
    k
        How many rows must dominate a row for it to be left out.

    Examples
    --------
    >>> from skytide.queries import low
    >>> Skyband(low("price"), k=2).window(pa.table({"price": [50, 60, 70]})).to_pylist()
    [{'price': 50}, {'price': 60}]
    """

    k: int = 1
    can_share = True

    def __post_init__(self) -> None:
        """Refuse a k that is not a count."""
        super().__post_init__()
        check_count("k", self.k)

    def pane(self, rows: pa.Table) -> pa.Table:
        """Return the k-skyband of the rows: no other rows matter to the rest of the window either."""
        rows, points = self.compared(rows)
        counts = self.within_groups(partial(count_dominators, limit=self.k), rows, points)
        return rows.filter(pa.array(counts < self.k))

    def window(self, kept: pa.Table) -> pa.Table:
        """Return the k-skyband of what was kept."""
        return self.pane(kept)

    def skyband_inside(self) -> "Skyband":
        """Return itself."""
        return self

    def windows_of_skyband(self, best: pa.Table, counts: Indices) -> tuple[pa.Table, Indices]:
        """Return the skybands."""
        return best, counts

    def share(self, kept: pa.Table, mine: Mask) -> pa.Table:
        """Return the rows of `mine` that fewer than k of `kept` dominate."""
        kept, points = self.compared(kept)
        return kept.filter(pa.array(mine & (count_dominators(points, limit=self.k, tested=mine) < self.k)))


@dataclass(frozen=True)
class Levels(PreferenceQuery):
    """Every row with its level: 1 for the skyline, 2 for the skyline of the rest, and so on, to `up_to` if given.

    Parameters
    ----------
    preference
        What is better: `low`, `high` and `diff` of columns, combined by `*` or `&`.
    nulls
        What happens to rows with NULL or NaN there: they are an "error", left out ("drop"), or behind all others ("worst").
    up_to
        The last level to return; without it, all rows.

    Examples
    --------
    >>> from skytide.queries import low
    >>> Levels(low("price"), up_to=2).window(pa.table({"price": [60, 50, 70]})).to_pylist()
    [{'price': 60, 'level': 2}, {'price': 50, 'level': 1}]
    """

    up_to: int | None = None

    def __post_init__(self) -> None:
        """Refuse a depth that is not a count."""
        super().__post_init__()
        if self.up_to is not None:
            check_count("up_to", self.up_to)

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns with the level."""
        return rows.append(pa.field("level", pa.int32()))

    def pane(self, rows: pa.Table) -> pa.Table:
        """Return the rows of the first levels: a row that is deeper here is deeper in every window."""
        rows, points = self.compared(rows)
        if self.up_to is None:
            return rows
        return rows.filter(pa.array(self._levels(rows, points) <= self.up_to))

    def window(self, kept: pa.Table) -> pa.Table:
        """Return what was kept with its levels."""
        kept, points = self.compared(kept)
        levels = self._levels(kept, points)
        answer = kept.append_column("level", pa.array(levels, pa.int32()))
        return answer if self.up_to is None else answer.filter(pa.array(levels <= self.up_to))

    def _levels(self, rows: pa.Table, points: Points) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return self.within_groups(partial(skyline_levels, up_to=self.up_to or ALL_LEVELS), rows, points)
