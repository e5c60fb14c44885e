"""k-dominant skyline and top-delta dominant: fewer rows than a skyline of many columns (Chan et al. 2006)."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skytide.kernels import Indices, Mask, Points, count_dominators, smallest_k
from skytide.queries.preference_query import PreferenceQuery, check_count, plain_dimensions
from skytide.queries.skyline import Skyband, Skyline


@dataclass(frozen=True)
class _KDominance(PreferenceQuery):
    """k-dominance is not transitive, so only the plain skyline can be kept; it suffices as rivals, as any row that k-dominates
    another is in the skyline, or is dominated by one that k-dominates the other as well."""

    def __post_init__(self) -> None:
        super().__post_init__()
        plain_dimensions(self, "k-dominance")

    def pane(self, rows: pa.Table) -> pa.Table:
        """Return the skyline of the rows."""
        return self.skyline_inside().pane(rows)

    def skyline_inside(self) -> Skyline:
        """Return the plain skyline."""
        return Skyline(self.preference, self.nulls)

    def skyband_inside(self) -> Skyband:
        """Return the plain skyline as a skyband."""
        return self.skyline_inside().skyband_inside()

    def window(self, kept: pa.Table) -> pa.Table:
        """Return the answer from the skyline of what was kept."""
        return self.window_of_skyline(self.pane(kept))

    def _smallest_k(self, best: pa.Table) -> Indices:
        """Return for each row of a skyline the smallest k at which it stays."""
        _, points = self.compared(best)
        return self.within_groups(lambda part: smallest_k(part, part, undominated=True), best, points)

    def _share_with_k(self, kept: pa.Table, mine: Mask) -> tuple[pa.Table, Indices]:
        kept, points = self.compared(kept)
        best = mine & (count_dominators(points, limit=1, tested=mine) == 0)
        return kept.filter(pa.array(best)), smallest_k(points[best], points, undominated=True)


@dataclass(frozen=True)
class KDominant(_KDominance):
    """The rows that no other row beats in any `k` columns.

    Parameters
    ----------
    preference
        What is better: `low`, `high` and `diff` of columns, combined by `*` or `&`.
    nulls
        What happens to rows with NULL or NaN there: they are an "error", left out ("drop"), or behind all others ("worst").
    k
        How many columns a row has to be at least as good in, and better in one of them, to beat another.

    Examples
    --------
    >>> from skytide.queries import low
    >>> trio = pa.table({"a": [1, 2, 9], "b": [5, 2, 1], "c": [5, 2, 9]})
    >>> KDominant(low("a") * low("b") * low("c"), k=2).window(trio).to_pylist()
    [{'a': 2, 'b': 2, 'c': 2}]
    """

    k: int = 1
    can_share = True

    def __post_init__(self) -> None:
        """Refuse a k that is not between 1 and the number of columns."""
        super().__post_init__()
        check_count("k", self.k, maximum=plain_dimensions(self, "k-dominance"))

    def window_of_skyline(self, best: pa.Table) -> pa.Table:
        """Return the rows that stay at k."""
        return best.filter(pa.array(self._smallest_k(best) <= self.k))

    def share(self, kept: pa.Table, mine: Mask) -> pa.Table:
        """Return the rows of `mine` that stay at k against all of `kept`."""
        rows, smallest = self._share_with_k(kept, mine)
        return rows.filter(pa.array(smallest <= self.k))


@dataclass(frozen=True)
class TopDelta(_KDominance):
    """The k-dominant skyline of the smallest `k` that holds at least `delta` rows, each with its own smallest k.

    With `diff` columns each group has its own top delta.

    Parameters
    ----------
    preference
        What is better: `low`, `high` and `diff` of columns, combined by `*` or `&`.
    nulls
        What happens to rows with NULL or NaN there: they are an "error", left out ("drop"), or behind all others ("worst").
    delta
        How many rows there should be at least.

    Examples
    --------
    >>> from skytide.queries import low
    >>> trio = pa.table({"a": [1, 2, 9], "b": [5, 2, 1], "c": [5, 2, 9]})
    >>> TopDelta(low("a") * low("b") * low("c"), delta=1).window(trio).to_pylist()
    [{'a': 2, 'b': 2, 'c': 2, 'k': 2}]
    """

    delta: int = 1
    can_share = True
    share_is_final = False

    def __post_init__(self) -> None:
        """Refuse a delta that is not a count."""
        super().__post_init__()
        check_count("delta", self.delta)

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns with `k`."""
        return rows.append(pa.field("k", pa.int32()))

    def window_of_skyline(self, best: pa.Table) -> pa.Table:
        """Return the rows up to the smallest k that suffices."""
        return self._up_to_delta(best, self._smallest_k(best))

    def share(self, kept: pa.Table, mine: Mask) -> pa.Table:
        """Return the rows of `mine` up to the smallest k that suffices for them alone: all of these may be needed, but no others."""
        return self._up_to_delta(*self._share_with_k(kept, mine))

    def settle(self, shares: pa.Table) -> pa.Table:
        """Return the rows of all shares up to the smallest k that suffices."""
        return self._up_to_delta(shares.drop_columns(["k"]), shares["k"].to_numpy())

    def _up_to_delta(self, rows: pa.Table, smallest: Indices) -> pa.Table:
        enough = self.within_groups(lambda part: _first(part, self.delta), rows, smallest[:, None].astype(np.float64))
        return rows.append_column("k", pa.array(smallest, pa.int32())).filter(pa.array(enough))


def _first(smallest: Points, delta: int) -> Mask:
    """Return which rows have at most the smallest k that `delta` rows reach."""
    if len(smallest) <= delta:
        return np.ones(len(smallest), dtype=np.bool_)
    return np.asarray(smallest[:, 0] <= np.partition(smallest[:, 0], delta - 1)[delta - 1])
