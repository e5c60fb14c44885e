"""A query as if there were no panes: every window from all of its tuples. The obvious way, to compare with."""

from dataclasses import dataclass

import pyarrow as pa

from skytide.queries.query import Query


@dataclass(frozen=True)
class Unshared(Query):
    """Asks another query of whole windows; nothing that was found for one window helps the next.

    >>> from skytide.queries import Skyline, low
    >>> Unshared(Skyline(low("price"))).window(pa.table({"price": [3, 1, 2]})).to_pylist()
    [{'price': 1}]
    """

    query: Query

    def pane(self, rows: pa.Table) -> pa.Table:
        """Keep everything."""
        return rows

    def window(self, kept: pa.Table) -> pa.Table:
        """Ask for the whole window."""
        return self.query.window(self.query.pane(kept))

    def check(self, rows: pa.Schema) -> None:
        """Refuse what the other query refuses."""
        self.query.check(rows)

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns of the other query."""
        return self.query.schema(rows)
