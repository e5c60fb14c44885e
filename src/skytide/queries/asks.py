"""All queries, declared once: DataFrame functions, methods of windows and SQL functions follow from `Asks`."""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from skytide.queries.columns import Nulls
from skytide.queries.dominant import KDominant, TopDelta
from skytide.queries.preferences import Expression, Preference, combine, high
from skytide.queries.query import Query
from skytide.queries.skyline import Levels, Skyband, Skyline
from skytide.queries.top_k import TopK

Answer = TypeVar("Answer")


class Asks(ABC, Generic[Answer]):
    """Something with rows, or windows of rows, that can be queried.

    Preferences (`low`, `high`, `diff`) take a column's name, an SQL expression or a Column; a text alone means `high`. `nulls` says what happens to rows with NULL
    or NaN there: an "error", "drop", or "worst".
    """

    @abstractmethod
    def apply(self, query: Query) -> Answer:
        """Return the answer to any query, which may be your own."""

    def skyline(self, *preferences: Preference | str, distinct: bool = False, nulls: Nulls = "error") -> Answer:
        """Return the rows that no other row dominates; `distinct` keeps only one of those that are equal in all preferred columns."""
        return self.apply(Skyline(combine(preferences), nulls, distinct))

    def skyband(self, *preferences: Preference | str, k: int, nulls: Nulls = "error") -> Answer:
        """Return the rows that fewer than `k` other rows dominate."""
        return self.apply(Skyband(combine(preferences), nulls, k))

    def levels(self, *preferences: Preference | str, up_to: int | None = None, nulls: Nulls = "error") -> Answer:
        """Return every row with its `level`: 1 for the skyline, 2 for the skyline of the rest, and so on, to `up_to` if given."""
        return self.apply(Levels(combine(preferences), nulls, up_to))

    def k_dominant(self, *preferences: Preference | str, k: int, nulls: Nulls = "error") -> Answer:
        """Return the rows that no other row beats in any `k` of the preferred columns."""
        return self.apply(KDominant(combine(preferences), nulls, k))

    def top_delta(self, *preferences: Preference | str, delta: int, nulls: Nulls = "error") -> Answer:
        """Return the k-dominant skyline of the smallest k that holds at least `delta` rows, each row with its own `k`."""
        return self.apply(TopDelta(combine(preferences), nulls, delta))

    def top_k(self, k: int, *, by: Preference | Expression, nulls: Nulls = "error") -> Answer:
        """Return the `k` best rows by a score, and those that tie with the last; `by` is a preference, or a score of which high is best."""
        return self.apply(TopK(by if isinstance(by, Preference) else high(by), nulls, k))


QUERIES = ("skyline", "skyband", "levels", "k_dominant", "top_delta", "top_k")
