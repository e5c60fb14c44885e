"""The base of all queries: what to keep of any set of rows, and the answer of a window from what was kept."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa

from skytide.kernels import Indices, Mask
from skytide.queries.identity import Identity, without_address
from skytide.queries.preferences import Expression

if TYPE_CHECKING:
    from skytide.queries.skyline import Skyband, Skyline


class Query(ABC):
    """Derive from this class to write a query of your own.

    The law that every query obeys (and that `skytide` relies on): split rows in any way, keep `pane(part)` of each part, put
    those together in any order, `merge` some of them if you like; `window` of all of it always returns the same rows.
    Methods are pure: they change neither their arguments nor the query, and may be called from several threads at once.

    Examples
    --------
    >>> class Cheapest(Query):
    ...     def pane(self, rows):
    ...         return rows.sort_by("price").slice(0, 1)
    ...     def window(self, kept):
    ...         return self.pane(kept)
    >>> Cheapest().window(pa.table({"price": [3, 1, 2]})).to_pylist()
    [{'price': 1}]

    More in [skyline.md](skyline.md).
    """

    @abstractmethod
    def pane(self, rows: pa.Table) -> pa.Table:
        """Return what of some rows of a window may still matter to its answer.

        Parameters
        ----------
        rows
            Some rows of a window; the answer is about all of them.
        """

    @abstractmethod
    def window(self, kept: pa.Table) -> pa.Table:
        """Return the answer of a window.

        Parameters
        ----------
        kept
            All that was kept of its rows, in any order.
        """

    def merge(self, kept: pa.Table) -> pa.Table:
        """Return what would have been kept of several parts together, from what was kept of each."""
        return self.pane(kept)

    def kept_schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns that are kept: those of the rows, unless the query keeps something else."""
        return rows

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns of the answer: those of the rows, unless the query returns others."""
        return rows

    def check(self, rows: pa.Schema) -> None:
        """Raise InvalidInput if the query cannot be applied to rows of this schema. Called before anything runs."""

    def refused(self, rows: pa.Table) -> Mask | None:
        """Return which rows `pane` would refuse, or None if it accepts all; a stream can put those aside instead of failing."""
        return None

    def expressions(self) -> Iterator[Expression]:
        """Return the columns and expressions the query reads; those that are not names are computed before it runs."""
        yield from ()

    def over(self, names: dict[str, str]) -> Self:
        """Return the same query with each expression (by its text) replaced by the column that holds it."""
        return self

    def identity(self) -> Identity:
        """Return what has to be the same for the query to continue from a checkpoint: its class and its attributes."""
        return Identity.of(self, repr(self), stricter=self.stricter(), short=self.short())

    def short(self) -> str:
        """Return the query in few words, for people: without default arguments.

        >>> from skytide.queries import Skyline, low
        >>> Skyline(low("x0") * low("x1")).short()
        "Skyline(low('x0') * low('x1'))"
        """
        text = without_address(repr(self))
        for default in ("preference=", ", nulls='error'", ", distinct=False"):
            text = text.replace(default, "")
        return text

    def stricter(self) -> tuple[Self, ...]:
        """Return queries that end with an error where this one has another answer, and are the same otherwise."""
        return ()

    def arranged(self, order: tuple[int, ...]) -> Self:
        """Return the same query, with what it keeps of aggregates in another order."""
        return self

    def groups(self) -> tuple[str, ...]:
        """Return columns by which rows are independent: rows with different values can be processed separately."""
        return ()

    def routed_by(self) -> tuple[str, ...]:
        """Return columns by which tuples may be routed to tasks of the pane level: those of `groups`, unless the query knows better ones."""
        return self.groups()

    def of_groups(self) -> "Query | None":
        """Return the query that answers for some groups of what is kept, if the answers for all of them have to go through `from_groups`."""
        return None

    def from_groups(self, answers: pa.Table) -> pa.Table:
        """Return the answer from those of `of_groups`, one after the other."""
        return answers

    def skyline_inside(self) -> "Skyline | None":
        """Return the skyline whose rows are all that `window` needs, if there is one: it can then be updated cheaply."""
        return None

    def window_of_skyline(self, best: pa.Table) -> pa.Table:
        """Return the same as `window`, from rows that are a skyline already."""
        return self.window(best)

    def skyband_inside(self) -> "Skyband | None":
        """Return the skyband whose rows are all that `window` needs, if there is one: those of many windows can then be found at once."""
        return None

    def windows_of_skyband(self, best: pa.Table, counts: Indices) -> tuple[pa.Table, Indices]:
        """Return the answers of windows from their skybands, one after the other, of which each has so many rows; and how many each answer has."""
        ends = np.cumsum(counts)
        windows = [self.window(best.slice(end - rows, rows)) for end, rows in zip(ends.tolist(), counts.tolist(), strict=True)]
        answers = pa.concat_tables([self.schema(best.schema).empty_table(), *windows])
        return answers, np.array([answer.num_rows for answer in windows], np.int64)

    can_share = False
    share_is_final = True

    def share(self, kept: pa.Table, mine: Mask) -> pa.Table:
        """Return what the rows of `mine` add to the answer of all of `kept`; called only if the query `can_share`.

        All shares together are `window(kept)`, however the rows are divided, after `settle` if `share_is_final` is false.
        """
        return self.window(kept.filter(pa.array(mine)))

    def settle(self, shares: pa.Table) -> pa.Table:
        """Return the answer from all shares."""
        return shares


def stands_for_window(query: Query, method: str, instead_of: str = "window") -> bool:
    """Return whether a method was written for the `window` that the query has: not if a subclass has another `window`, but inherits the method.

    The same goes for another method that it stands instead of.

    >>> from skytide.queries import Skyline, low
    >>> class Cheapest(Skyline):
    ...     def window(self, kept):
    ...         return super().window(kept).slice(0, 1)
    >>> [stands_for_window(kind(low("price")), "window_of_skyline") for kind in (Skyline, Cheapest)]
    [True, False]
    """
    classes = type(query).__mro__
    window_in, written_in = (next(cls for cls in classes if name in vars(cls)) for name in (instead_of, method))
    return written_in is Query or classes.index(written_in) <= classes.index(window_in)  # those of Query itself call `window`


def independent_groups(query: Query) -> tuple[str, ...]:
    """Return columns by which rows can be answered apart: none if a subclass has a `window` of its own, and inherits `groups`.

    >>> from skytide.queries import Aggregate, Measure
    >>> independent_groups(Aggregate((Measure.parse("count(*) AS n"),), keys=("g",)))
    ('g',)
    """
    window_in = next(cls for cls in type(query).__mro__ if "window" in vars(cls))
    is_ours = window_in.__module__.startswith(f"{__name__.rpartition('.')[0]}.")
    return query.groups() if is_ours or stands_for_window(query, "groups") else ()
