"""What is remembered of keys: chunks of their rows, each of which continues where earlier ones ended.

A chunk is never changed. Its rows are sorted by the hash of their key, so that those of a few keys are found without reading the others,
and a group of keys is found in it whichever slot wrote it. Each row has the key, too, as keys with the same hash are different keys.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.keyed.key_set import ABSENT, KeySet, known, ranges, union

Hashes = NDArray[np.uint64]
Numbers = NDArray[np.int64]

INDEX = b"skytide.keys"
"""The metadata in which a table stores the keys of its rows."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows of some keys, those of each key together and in order."""

    rows: pa.Table
    hashes: Hashes
    """The hashes of the keys, ascending; rarely, keys have the same."""
    starts: Numbers
    """Where the rows of each key begin, and finally the number of rows."""
    totals: Numbers
    """How many rows of each key there have been in total, up to its last one here."""

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self.hashes)

    @property
    def counts(self) -> Numbers:
        """Return how many rows each key has here."""
        return np.diff(self.starts)

    @property
    def nbytes(self) -> int:
        """Return the approximate size."""
        return int(self.rows.nbytes + self.hashes.nbytes * 3)

    def keys_of_rows(self) -> Numbers:
        """Return for each row the place of its key."""
        return np.repeat(np.arange(len(self)), self.counts)

    def keys(self, columns: pa.Schema) -> KeySet:
        """Return the keys, which are in these columns of the rows; those of a key without rows are not known."""
        return KeySet(self.hashes, self.rows.select(columns.names), np.where(self.counts > 0, self.starts[:-1], ABSENT))

    def to_table(self) -> pa.Table:
        """Return the chunk as one table."""
        index = np.concatenate([self.hashes.view(np.int64), self.starts, self.totals])
        return self.rows.replace_schema_metadata({INDEX: index.tobytes()})

    @staticmethod
    def from_table(table: pa.Table) -> "Chunk":
        """Return the chunk for a result of `to_table`."""
        index = np.frombuffer((table.schema.metadata or {}).get(INDEX, b""), np.int64)
        keys = (len(index) - 1) // 3
        hashes, starts, totals = index[:keys].view(np.uint64), index[keys : 2 * keys + 1], index[2 * keys + 1 :]
        return Chunk(table.replace_schema_metadata(None), hashes, starts, totals)

    def after(self, totals: Numbers) -> "Chunk":
        """Return the same chunk for keys that had `totals` rows before."""
        return Chunk(self.rows, self.hashes, self.starts, self.totals + totals)

    def only(self, keys: NDArray[np.bool_]) -> "Chunk":
        """Return the rows of some keys."""
        if keys.all():
            return self
        counts = self.counts[keys]
        rows = self.rows.take(pa.array(ranges(self.starts[:-1][keys], counts)))
        return Chunk(rows, self.hashes[keys], ends(counts), self.totals[keys])

    def last(self, limit: int) -> "Chunk":
        """Return the last rows of each key."""
        counts = np.minimum(self.counts, limit)
        if (counts == self.counts).all():
            return self
        rows = self.rows.take(pa.array(ranges(self.starts[1:] - counts, counts)))
        return Chunk(rows, self.hashes, ends(counts), self.totals)

    def where(self, kept: NDArray[np.bool_]) -> "Chunk":
        """Return some of the rows, and forget keys without remaining rows."""
        if kept.all() and self.counts.all():
            return self
        counts = np.bincount(self.keys_of_rows()[kept], minlength=len(self))
        some = counts > 0
        return Chunk(self.rows.filter(pa.array(kept)), self.hashes[some], ends(counts[some]), self.totals[some])


Live = Callable[[Hashes], NDArray[np.bool_]]
"""Which of some keys a chunk is still valid for."""


def gathered(
    chunks: Sequence[tuple[Chunk, Live]], keys: KeySet, key: pa.Schema, columns: pa.Schema, limit: int | None = None
) -> Chunk:
    """Return what chunks, oldest first, contain of some keys: the last rows of each, at most `limit`; `key` are the columns of keys.

    Keys that no chunk has have no rows and a total of 0.
    """
    have, totals = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    seen = np.zeros(len(keys), np.bool_)
    parts: list[tuple[pa.Table, Numbers]] = []
    later: list[tuple[KeySet, Live]] = []
    for chunk, live in reversed(chunks):
        theirs = chunk.keys(key)
        places = theirs.find(keys)
        mine = np.flatnonzero(places != ABSENT)
        mine = mine[live(keys.hashes[mine])]
        if not theirs.all_known():
            mine = mine[_meant(theirs, places[mine], later)]
        later.append((theirs, live))
        places = places[mine]
        totals[mine] = np.where(seen[mine], totals[mine], chunk.totals[places])
        seen[mine] = True
        counts = chunk.counts[places]
        if limit is not None:
            counts = np.minimum(counts, limit - have[mine])
        have[mine] += counts
        if counts.any():
            taken = ranges(chunk.starts[places + 1] - counts, counts)
            whole = np.array_equal(taken, np.arange(chunk.rows.num_rows))
            parts.append((chunk.rows if whole else chunk.rows.take(pa.array(taken)), np.repeat(mine, counts)))
    parts.reverse()
    rows = pa.concat_tables([columns.empty_table(), *(table for table, _ in parts)])
    if len(parts) > 1:
        rows = rows.combine_chunks().take(pa.array(np.argsort(np.concatenate([keys for _, keys in parts]), kind="stable")))
    return Chunk(rows, keys.hashes, ends(have), totals)


def _meant(keys: KeySet, places: Numbers, later: Sequence[tuple[KeySet, Live]]) -> NDArray[np.bool_]:
    """Return which matches count: a key that is not known is one key, which is any only while no later chunk knows one with that hash."""
    meant = known(keys.values(places))
    unsure, first = np.unique(np.where(meant, ABSENT, places), return_index=True)
    hashes = keys.hashes[unsure]
    free = unsure != ABSENT
    for theirs, live in later:
        free &= ~(np.isin(hashes, theirs.with_values(hashes)) & live(hashes))
    meant[first[free]] = True
    return meant


def all_keys(chunks: Sequence[tuple[Chunk, Live]], key: pa.Schema) -> KeySet:
    """Return all keys that chunks are valid for, in order."""
    return union([chunk.keys(key).only(live(chunk.hashes)) for chunk, live in chunks], key)


def to_merge(sizes: Sequence[int], added: int) -> int:
    """Return how many of the latest chunks to merge with an added one, so that there are always few.

    Each chunk is at least twice as large as all later ones together, so their number grows with the logarithm of the size, and a row is
    rewritten no more often than that.

    >>> to_merge([1000, 100, 10], 5), to_merge([1000, 100, 10], 10), to_merge([], 5)
    (0, 1, 0)
    """
    merged = 0
    for size in reversed(sizes):
        if size >= 2 * added:
            break
        added += size
        merged += 1
    return merged


def joined(first: Chunk, second: Chunk) -> Chunk:
    """Return the rows of both chunks, which have the same keys: those of the second after those of the first."""
    counts = first.counts + second.counts
    rows = pa.concat_tables([first.rows, second.rows.cast(first.rows.schema)]).combine_chunks()
    order = np.argsort(np.concatenate([first.keys_of_rows(), second.keys_of_rows()]), kind="stable")
    return Chunk(rows.take(pa.array(order)), first.hashes, ends(counts), second.totals)


def ends(counts: Numbers) -> Numbers:
    """Return where parts with these counts begin, and finally the total."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
