"""What a query is: what to keep of any set of rows, and the answer of a window from what was kept."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from skytide.kernels import Mask
from skytide.queries.preferences import Expression

if TYPE_CHECKING:
    from skytide.queries.skyline import Skyline


class Query(ABC):
    """Derive from this to bring a query of your own.

    The law that every query obeys (and that `skytide` builds on): split rows in any way, keep `pane(part)` of each part, put
    those together in any order, `merge` some of them if you like; `window` of it all is always the same rows.

    >>> class Cheapest(Query):
    ...     def pane(self, rows):
    ...         return rows.sort_by("price").slice(0, 1)
    ...     def window(self, kept):
    ...         return self.pane(kept)
    >>> Cheapest().window(pa.table({"price": [3, 1, 2]})).to_pylist()
    [{'price': 1}]
    """

    @abstractmethod
    def pane(self, rows: pa.Table) -> pa.Table:
        """Return the rows that can still matter to a window, of some rows of it."""

    @abstractmethod
    def window(self, kept: pa.Table) -> pa.Table:
        """Return the answer, from all that was kept."""

    def merge(self, kept: pa.Table) -> pa.Table:
        """Reduce what was kept of several parts to what would have been kept of them together."""
        return self.pane(kept)

    def kept_schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns of what is kept: those of the rows, unless the query keeps something else."""
        return rows

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns of the answer: those of the rows, unless the query adds some or gives something else."""
        return rows

    def check(self, rows: pa.Schema) -> None:
        """Raise InvalidInput if rows of this schema cannot be asked. Called before anything runs."""

    def refused(self, rows: pa.Table) -> Mask | None:
        """Return which rows `pane` would refuse, or None if it takes all; a stream can put those aside instead of failing."""
        return None

    def expressions(self) -> Iterator[Expression]:
        """Return the columns and expressions the query reads; those that are not names are computed before it runs."""
        yield from ()

    def over(self, names: dict[str, str]) -> Self:
        """Return the same query with each expression (by its text) replaced by the column that holds it."""
        return self

    def groups(self) -> tuple[str, ...]:
        """Return columns whose values never meet: rows with different values can be worked on apart."""
        return ()

    def routed_by(self) -> tuple[str, ...]:
        """Return columns by which tuples may be sent to tasks of the pane level: those of `groups`, unless the query knows better ones."""
        return self.groups()

    def skyline_inside(self) -> "Skyline | None":
        """Return the skyline whose rows are all that `window` needs, if there is one: it can then be kept up to date cheaply."""
        return None

    can_share = False
    share_is_final = True

    def share(self, kept: pa.Table, mine: Mask) -> pa.Table:
        """Return what the rows of `mine` add to the answer, against all `kept`; asked only of a query that `can_share`.

        All shares together are `window(kept)`, however the rows were divided, after `settle` if `share_is_final` is false.
        """
        return self.window(kept.filter(pa.array(mine)))

    def settle(self, shares: pa.Table) -> pa.Table:
        """Return the answer from all shares."""
        return shares
