"""All queries, declared once: DataFrame functions, methods of windows and SQL functions follow from `Queryable`."""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from skytide.queries.columns import Nulls
from skytide.queries.dominant import KDominant, TopDelta
from skytide.queries.preferences import Expression, Preference, combine, high
from skytide.queries.query import Query
from skytide.queries.skyline import Levels, Skyband, Skyline
from skytide.queries.top_k import TopK

Answer = TypeVar("Answer")


class Queryable(ABC, Generic[Answer]):
    """Something with rows, or windows of rows, that queries can be asked of: a DataFrame, windows of a stream, aggregates of windows.

    The functions of the same names in `skytide` take a DataFrame first, and then the same arguments.

    >>> from skytide.queries import low
    >>> class Asked(Queryable[Query]):
    ...     def apply(self, query):
    ...         return query
    >>> Asked().skyband(low("price"), k=2)
    Skyband(preference=low('price'), nulls='error', k=2)

    More in [skyline.md](skyline.md).
    """

    @abstractmethod
    def apply(self, query: Query) -> Answer:
        """Return the answer to any query.

        Parameters
        ----------
        query
            One of `skytide.queries`, or an object of your own class below `skytide.Query`.
        """

    def skyline(self, *preferences: Preference | str, distinct: bool = False, nulls: Nulls = "error") -> Answer:
        """Return the rows that no other row dominates: none is at least as good in all preferences, and better in one.

        Parameters
        ----------
        preferences
            What is better, all of the same importance: `low(...)`, `high(...)` and `diff(...)`, or a text, which means `high`.
        distinct
            Whether to keep only one of the rows that are equal in all preferred columns.
        nulls
            What happens to rows with NULL or NaN in a preferred column: they are an "error", they are left out ("drop"), or they rank
            behind all others ("worst").

        Raises
        ------
        InvalidInput
            If a column does not exist or has no order, is preferred twice, or nothing says which rows are better.

        Examples
        --------
        ```python
        skytide.skyline(hotels, low("price"), high("stars"), diff("city"))
        ```

        More in [skyline.md](skyline.md).
        """
        return self.apply(Skyline(combine(preferences), nulls, distinct))

    def skyband(self, *preferences: Preference | str, k: int, nulls: Nulls = "error") -> Answer:
        """Return the rows that fewer than `k` other rows dominate.

        Parameters
        ----------
        preferences
            What is better, all of the same importance: `low(...)`, `high(...)` and `diff(...)`, or a text, which means `high`.
        k
            How many rows must dominate a row for it to be left out; 1 is the skyline.
        nulls
            What happens to rows with NULL or NaN in a preferred column: they are an "error", they are left out ("drop"), or they rank
            behind all others ("worst").

        Raises
        ------
        InvalidInput
            If `k` is not a count, or the preferences are wrong as for a skyline.

        Examples
        --------
        ```python
        skytide.skyband(hotels, low("price"), high("stars"), k=3)
        ```

        More in [skyline.md](skyline.md).
        """
        return self.apply(Skyband(combine(preferences), nulls, k))

    def levels(self, *preferences: Preference | str, up_to: int | None = None, nulls: Nulls = "error") -> Answer:
        """Return every row with its `level`: 1 for the skyline, 2 for the skyline of the rest, and so on.

        Parameters
        ----------
        preferences
            What is better, all of the same importance: `low(...)`, `high(...)` and `diff(...)`, or a text, which means `high`.
        up_to
            The last level to return; without it, all rows.
        nulls
            What happens to rows with NULL or NaN in a preferred column: they are an "error", they are left out ("drop"), or they rank
            behind all others ("worst").

        Raises
        ------
        InvalidInput
            If `up_to` is not a count, there is a column `level` already, or the preferences are wrong as for a skyline.

        Examples
        --------
        ```python
        skytide.levels(hotels, low("price"), high("stars"), up_to=2)
        ```

        More in [skyline.md](skyline.md).
        """
        return self.apply(Levels(combine(preferences), nulls, up_to))

    def k_dominant(self, *preferences: Preference | str, k: int, nulls: Nulls = "error") -> Answer:
        """Return the rows that no other row beats in any `k` of the preferred columns.

        Of many columns there are fewer of these than rows in a skyline.

        Parameters
        ----------
        preferences
            What is better, all of the same importance: `low(...)`, `high(...)` and `diff(...)`, or a text, which means `high`.
        k
            How many columns a row has to be at least as good in, and better in one of them, to beat another.
        nulls
            What happens to rows with NULL or NaN in a preferred column: they are an "error", they are left out ("drop"), or they rank
            behind all others ("worst").

        Raises
        ------
        InvalidInput
            If `k` is not from 1 to the number of columns, or preferences are combined by `&`.

        Examples
        --------
        ```python
        skytide.k_dominant(hotels, low("price"), high("stars"), low("distance"), k=2)
        ```

        More in [skyline.md](skyline.md).
        """
        return self.apply(KDominant(combine(preferences), nulls, k))

    def top_delta(self, *preferences: Preference | str, delta: int, nulls: Nulls = "error") -> Answer:
        """Return the k-dominant skyline of the smallest k that holds at least `delta` rows, each row with its own `k`.

        Parameters
        ----------
        preferences
            What is better, all of the same importance: `low(...)`, `high(...)` and `diff(...)`, or a text, which means `high`.
        delta
            How many rows there should be at least.
        nulls
            What happens to rows with NULL or NaN in a preferred column: they are an "error", they are left out ("drop"), or they rank
            behind all others ("worst").

        Raises
        ------
        InvalidInput
            If `delta` is not a count, there is a column `k` already, or preferences are combined by `&`.

        Examples
        --------
        ```python
        skytide.top_delta(hotels, low("price"), high("stars"), low("distance"), delta=10)
        ```

        More in [skyline.md](skyline.md).
        """
        return self.apply(TopDelta(combine(preferences), nulls, delta))

    def top_k(self, k: int, *, by: Preference | Expression, nulls: Nulls = "error") -> Answer:
        """Return the `k` best rows by a score, and those that tie with the last of them.

        Parameters
        ----------
        k
            How many rows.
        by
            The score, of which high is best; or a preference: `low(...)`, or several in an order of importance, combined by `&`.
        nulls
            What happens to rows with NULL or NaN in a preferred column: they are an "error", they are left out ("drop"), or they rank
            behind all others ("worst").

        Raises
        ------
        InvalidInput
            If `k` is not a count, or `by` has several scores without an order of importance.

        Examples
        --------
        ```python
        skytide.top_k(hotels, 10, by=low("price") & high("stars"))
        ```

        More in [skyline.md](skyline.md).
        """
        return self.apply(TopK(by if isinstance(by, Preference) else high(by), nulls, k))


QUERIES: dict[str, type[Query]] = {
    "skyline": Skyline,
    "skyband": Skyband,
    "levels": Levels,
    "k_dominant": KDominant,
    "top_delta": TopDelta,
    "top_k": TopK,
}
"""All queries by the names of their functions, methods and SQL functions."""
