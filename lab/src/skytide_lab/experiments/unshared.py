"""A query as if there were no panes: every window is computed from all of its tuples. The obvious way, for comparison."""

from dataclasses import dataclass

import pyarrow as pa

from skytide.queries.query import Query


@dataclass(frozen=True)
class Unshared(Query):
    """Applies another query to whole windows; windows share nothing.

    >>> from skytide.queries import Skyline, low
    >>> Unshared(Skyline(low("price"))).window(pa.table({"price": [3, 1, 2]})).to_pylist()
    [{'price': 1}]
    """

    query: Query

    def pane(self, rows: pa.Table) -> pa.Table:
        """Return all rows."""
        return rows

    def window(self, kept: pa.Table) -> pa.Table:
        """Return the answer for the whole window."""
        return self.query.window(self.query.pane(kept))

    def check(self, rows: pa.Schema) -> None:
        """Refuse columns that the other query refuses."""
        self.query.check(rows)

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns of the other query."""
        return self.query.schema(rows)
