"""Tuples on their way to the slots of their keys, with the hash of the key in an extra column."""

from dataclasses import dataclass, field, fields

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.errors import InvalidInput
from skytide.kernels import Mask
from skytide.keyed.work import HASH
from skytide.queries import Aggregate, Query
from skytide.routing import key_hashes


@dataclass(frozen=True)
class Tagged(Query):
    """Keeps all tuples, and refuses those without a key, or that the query on windows of keys would refuse.

    Without key columns all tuples have the same key.
    """

    keys: tuple[str, ...]
    seed: int = field(default=0, repr=False)
    """Of the hash; 0 is none."""
    asked: Query | None = field(default=None, repr=False)
    """The query on windows of keys, if it is one of skytide."""

    def pane(self, rows: pa.Table) -> pa.Table:
        """Return the rows with their hashes."""
        check_keys(rows, self.keys)
        refused = self.asked.refused(rows) if self.asked else None
        if self.asked and refused is not None and refused.any():
            self.asked.pane(rows.filter(pa.array(refused)))  # raises now: later, the tuples would be in the checkpoint
        return rows.append_column(HASH, pa.array(hashes_of(rows, self.keys, self.seed).view(np.int64)))

    def merge(self, kept: pa.Table) -> pa.Table:
        """Return all rows."""
        return kept

    def window(self, kept: pa.Table) -> pa.Table:
        """Return all rows."""
        return kept

    def kept_schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns, and that of the hash."""
        return rows.append(pa.field(HASH, pa.int64()))

    def refused(self, rows: pa.Table) -> Mask | None:
        """Return which tuples have no key, or cannot be in a window."""
        masks = without_key(rows, self.keys), self.asked.refused(rows) if self.asked else None
        present = [mask for mask in masks if mask is not None]
        return np.logical_or.reduce(present) if present else None


@dataclass(frozen=True)
class OfEachKey(Aggregate):
    """Aggregates of each key in windows of time: partial results are merged, so no key is bound to a slot. A NULL is not a key here."""

    @staticmethod
    def of(query: Aggregate) -> "OfEachKey":
        """Return the same aggregates."""
        return OfEachKey(**{field.name: getattr(query, field.name) for field in fields(query)})

    def pane(self, rows: pa.Table) -> pa.Table:
        """Return the partial aggregates of the rows."""
        check_keys(rows, self.keys)
        return super().pane(rows)

    def refused(self, rows: pa.Table) -> Mask | None:
        """Return which tuples have no key."""
        return without_key(rows, self.keys)


def without_key(rows: pa.Table, keys: tuple[str, ...]) -> Mask | None:
    """Return which tuples have no key, or None if all have one."""
    missing = [np.asarray(rows[key].is_null()) for key in keys if rows[key].null_count]
    return np.logical_or.reduce(missing) if missing else None


def check_keys(rows: pa.Table, keys: tuple[str, ...]) -> None:
    """Refuse tuples without a key."""
    refused = without_key(rows, keys)
    if refused is not None:
        raise InvalidInput(
            value=f"{int(refused.sum())} tuples without {' or '.join(keys)}",
            reason="a NULL is not a key",
            remedy="filter them out, replace them with coalesce(...), or put them aside with invalid=",
        )


def hashes_of(rows: pa.Table, keys: tuple[str, ...], seed: int = 0) -> NDArray[np.uint64]:
    """Return the hash of the key of each row."""
    if not keys or not rows.num_rows:
        return np.zeros(rows.num_rows, np.uint64)
    return key_hashes([rows[key] for key in keys], seed)
