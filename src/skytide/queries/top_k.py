"""The best k rows by a score."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skytide.errors import InvalidInput
from skytide.kernels import Indices, Mask, Points
from skytide.queries.preference_query import PreferenceQuery, check_count
from skytide.queries.preferences import chains_of
from skytide.queries.skyline import Skyband


@dataclass(frozen=True)
class TopK(PreferenceQuery):
    """The `k` best rows by one score (ties decided by `&`), and those that tie with the last of them; the best come first.

    Ties are kept because which of them comes first would depend on how the rows were divided. With `diff` columns each group
    has its own k.

    Parameters
    ----------
    preference
        What is better: `low`, `high` and `diff` of columns, combined by `*` or `&`.
    nulls
        What happens to rows with NULL or NaN there: they are an "error", left out ("drop"), or behind all others ("worst").
    k
        How many rows.

    Examples
    --------
    >>> from skytide.queries import high
    >>> TopK(high("score"), k=2).window(pa.table({"score": [8, 7, 9, 8]})).to_pylist()
    [{'score': 9}, {'score': 8}, {'score': 8}]
    """

    k: int = 1

    def __post_init__(self) -> None:
        """Refuse a k that is not a count, and several scores without an order of importance."""
        super().__post_init__()
        check_count("k", self.k)
        if len(chains_of(self.preference)) > 1:
            raise InvalidInput(
                value=f"by={self.preference!r}",
                reason="a top-k needs one score, or scores in an order of importance",
                remedy="combine them into one expression, or with & instead of *",
            )

    def pane(self, rows: pa.Table) -> pa.Table:
        """Return the k best of the rows, and ties."""
        rows, points = self.compared(rows)
        return rows.filter(pa.array(self.within_groups(self._best, rows, points)))

    def window(self, kept: pa.Table) -> pa.Table:
        """Return the k best of what was kept, and ties, the best first."""
        best, points = self.compared(self.pane(kept))
        return best.take(pa.array(np.argsort(points[:, 0], kind="stable"))) if best.num_rows > 1 else best

    def skyband_inside(self) -> Skyband:
        """Return the rows that fewer than k others beat, which are the k best and ties."""
        return Skyband(self.preference, self.nulls, self.k)

    def windows_of_skyband(self, best: pa.Table, counts: Indices) -> tuple[pa.Table, Indices]:
        """Return the rows of each window, the best first."""
        best, points = self.compared(best)
        order = np.lexsort((points[:, 0], np.repeat(np.arange(len(counts)), counts)))
        return best.take(pa.array(order)), counts

    def _best(self, points: Points) -> Mask:
        if len(points) <= self.k:
            return np.ones(len(points), dtype=np.bool_)
        return np.asarray(points[:, 0] <= np.partition(points[:, 0], self.k - 1)[self.k - 1])
