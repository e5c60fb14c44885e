"""Tuples on the way to the slots of their keys: as they are, with the hash of the key beside them."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.errors import InvalidInput
from skytide.kernels import Mask
from skytide.keyed.work import HASH
from skytide.queries import Query
from skytide.routing import Keys


@dataclass(frozen=True)
class Tagged(Query):
    """Keeps all tuples; those without a key are refused. Without key columns all tuples have the same key."""

    keys: tuple[str, ...]

    def pane(self, rows: pa.Table) -> pa.Table:
        """Add the hashes."""
        refused = self.refused(rows)
        if refused is not None:
            raise InvalidInput(
                value=f"{int(refused.sum())} tuples without {' or '.join(self.keys)}",
                reason="a NULL is no key",
                remedy="filter them out, replace them with coalesce(...), or put them aside with invalid=",
            )
        return rows.append_column(HASH, pa.array(hashes_of(rows, self.keys).view(np.int64)))

    def merge(self, kept: pa.Table) -> pa.Table:
        """Keep all."""
        return kept

    def window(self, kept: pa.Table) -> pa.Table:
        """Keep all."""
        return kept

    def kept_schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns with that of the hash."""
        return rows.append(pa.field(HASH, pa.int64()))

    def refused(self, rows: pa.Table) -> Mask | None:
        """Return which tuples have no key."""
        missing = [np.asarray(rows[key].is_null()) for key in self.keys if rows[key].null_count]
        return np.logical_or.reduce(missing) if missing else None


def hashes_of(rows: pa.Table, keys: tuple[str, ...]) -> NDArray[np.uint64]:
    """Return the hash of the key of each row."""
    if not keys or not rows.num_rows:
        return np.zeros(rows.num_rows, np.uint64)
    return Keys.of([rows[key] for key in keys]).of_tuples()
