"""The queries that windows can be asked, the same for windows of all tuples and for those of each key."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from skytide.errors import InvalidInput
from skytide.errors.checks import words
from skytide.queries import Aggregate, KDominant, Levels, Measure, Nulls, Query, Skyband, Skyline, TopDelta, TopK, combine, high
from skytide.queries.preferences import Preference
from skytide.spark.dataframe import count_of
from skytide.spark.window_level import BOUNDS


class Asking(ABC):
    """What has windows to ask."""

    @abstractmethod
    def apply(self, query: Query) -> Any:
        """Ask any query, also one of your own."""

    def skyline(self, *preferences: Preference, distinct: bool = False, nulls: Nulls = "error") -> Any:
        """Ask for the skyline of each window."""
        return self.apply(Skyline(combine(preferences), nulls, distinct))

    def skyband(self, *preferences: Preference | int, k: int | None = None, nulls: Nulls = "error") -> Any:
        """Ask for the rows of each window that fewer than k others dominate."""
        count, rest = count_of("k", k, preferences)
        return self.apply(Skyband(combine(rest), nulls, count))

    def levels(self, *preferences: Preference, up_to: int | None = None, nulls: Nulls = "error") -> Any:
        """Ask for the skyline levels of each window."""
        return self.apply(Levels(combine(preferences), nulls, up_to))

    def k_dominant(self, *preferences: Preference | int, k: int | None = None, nulls: Nulls = "error") -> Any:
        """Ask for the k-dominant skyline of each window."""
        count, rest = count_of("k", k, preferences)
        return self.apply(KDominant(combine(rest), nulls, count))

    def top_delta(self, *preferences: Preference | int, delta: int | None = None, nulls: Nulls = "error") -> Any:
        """Ask for the top-delta dominant rows of each window, each with its k."""
        count, rest = count_of("delta", delta, preferences)
        return self.apply(TopDelta(combine(rest), nulls, count))

    def top_k(self, k: int, *, by: Any, nulls: Nulls = "error") -> Any:
        """Ask for the k best rows of each window by a score, and ties."""
        return self.apply(TopK(by if isinstance(by, Preference) else high(by), nulls, k))

    def _aggregate(self, measures: Sequence[str], keys: tuple[str, ...], time: str) -> Aggregate:
        """Return the aggregates that were written."""
        for measure in measures:
            words("measures", measure, "count(*)")
        if not measures:
            raise InvalidInput(value="aggregate()", reason="nothing to aggregate", remedy='name some: aggregate("count(*)")')
        asked = tuple(map(Measure.parse, measures))
        for named in (measure for measure in asked if measure.name.lower() in BOUNDS):
            reason, remedy = "the results have a column of that name themselves", 'give it another name: "min(ts) AS earliest"'
            raise InvalidInput(value=f"result {named.name}", reason=reason, remedy=remedy)
        return Aggregate(asked, keys, time)
