"""Keys in the order of their hashes. Those with the same hash are told apart by their values, so a hash only has to find them quickly."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]
ABSENT = -1


@dataclass(frozen=True, eq=False)
class KeySet:
    """Different keys: their hashes, ascending, and for each a row with its values.

    A NULL is a value that is not known, as earlier versions stored no keys beside states: it equals any other.
    """

    hashes: Hashes
    rows: pa.Table
    """Rows with the columns of the key."""
    at: Numbers
    """The row of each key, or ABSENT if there is none."""

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self.hashes)

    def values(self, places: Numbers) -> pa.Table:
        """Return the values of some keys."""
        at = self.at[places]
        return self.rows.take(pa.array(at, mask=at == ABSENT))

    def only(self, kept: Mask) -> "KeySet":
        """Return some of the keys."""
        return KeySet(self.hashes[kept], self.rows, self.at[kept])

    def all_known(self) -> bool:
        """Return whether the values of all keys are known."""
        return not (
            any(column.null_count for column in self.rows.columns) or (self.rows.column_names and (self.at == ABSENT).any())
        )

    def with_values(self, hashes: Hashes) -> Hashes:
        """Return those of some hashes that keys with known values have."""
        first = np.searchsorted(self.hashes, hashes)
        some = ranges(first, np.searchsorted(self.hashes, hashes, side="right") - first)
        return self.hashes[some][known(self.values(some))]

    def find(self, wanted: "KeySet") -> Numbers:
        """Return where each of other keys is here, or ABSENT."""
        places = np.searchsorted(self.hashes, wanted.hashes)
        after = np.searchsorted(self.hashes, wanted.hashes, side="right")
        hits = np.flatnonzero(after > places)
        matches = np.full(len(wanted), ABSENT)
        matches[hits] = places[hits]
        if not self.rows.column_names:  # all rows have the same key
            return matches
        sure = (after[hits] - places[hits] == 1) & equal(self.values(places[hits]), wanted.values(hits))
        for key in hits[~sure].tolist():
            matches[key] = self._search(int(places[key]), int(after[key]), wanted, key)
        return matches

    def _search(self, first: int, stop: int, wanted: "KeySet", key: int) -> int:
        """Return which of the keys from `first` on is the wanted one: if none is, one whose values are not known may be."""
        some = np.arange(first, stop)
        mine, other = self.values(some), wanted.values(np.full(stop - first, key))
        same, sure = equal(mine, other), known(mine)
        for candidates in (some[same & sure], some[same]):
            if len(candidates):
                return int(candidates[0])
        return ABSENT


def union(sets: Sequence[KeySet], columns: pa.Schema) -> KeySet:
    """Return all keys of several sets, each once."""
    values = pa.concat_tables([columns.empty_table(), *(keys.values(np.arange(len(keys))) for keys in sets)])
    hashes = np.concatenate([np.empty(0, np.uint64), *(keys.hashes for keys in sets)])
    order = np.lexsort((~known(values), hashes)) if columns.names else np.argsort(hashes, kind="stable")
    starts, order = key_starts(values, hashes, order)
    return KeySet(hashes[order[starts]], values, order[starts])


def key_starts(keys: pa.Table, hashes: Hashes, order: Numbers) -> tuple[Numbers, Numbers]:
    """Return where keys begin in rows in an order by hash, and an order in which those of each key are together, otherwise as given."""
    new = np.concatenate([np.ones(min(len(order), 1), np.bool_), hashes[order[1:]] != hashes[order[:-1]]])
    collides = ~new[1:] & ~equal(_taken(keys, order[1:]), _taken(keys, order[:-1])) if keys.column_names else np.zeros(0, np.bool_)
    if not collides.any():
        return np.flatnonzero(new), order
    mixed = np.isin(hashes[order], np.unique(hashes[order[1:]][collides]))
    rows = order[mixed]
    codes, ranks = np.zeros(len(hashes), np.int64), np.empty(len(hashes), np.int64)
    codes[rows] = _codes(_taken(keys, rows), hashes[rows])
    ranks[order] = np.arange(len(order))
    order = np.lexsort((ranks, codes, hashes))
    new = np.concatenate(
        [np.ones(1, np.bool_), (hashes[order[1:]] != hashes[order[:-1]]) | (codes[order[1:]] != codes[order[:-1]])]
    )
    return np.flatnonzero(new), order


def equal(one: pa.Table, other: pa.Table) -> Mask:
    """Return in which rows keys are the same, as far as they are known: NaN is a value like any other."""
    agree = np.ones(one.num_rows, np.bool_)
    for name in one.column_names:
        mine, theirs = one[name].combine_chunks(), other[name].combine_chunks()
        same = pc.equal(mine, theirs)
        if pa.types.is_floating(mine.type):
            same = pc.or_(same, pc.and_(pc.is_nan(mine), pc.is_nan(theirs)))
        agree &= np.asarray(pc.fill_null(same, True).to_numpy(zero_copy_only=False))
    return agree


def known(keys: pa.Table) -> Mask:
    """Return which keys are known."""
    valid = np.ones(keys.num_rows, np.bool_)
    for column in keys.columns:
        valid &= np.asarray(column.is_valid().to_numpy(), np.bool_)
    return valid


def ranges(begins: Numbers, counts: Numbers) -> Numbers:
    """Return all numbers in some ranges.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    before = np.cumsum(counts) - counts
    return np.asarray(np.arange(int(counts.sum())) + np.repeat(begins - before, counts))


def _taken(keys: pa.Table, places: Numbers) -> pa.Table:
    return keys.take(pa.array(places))


def _codes(keys: pa.Table, hashes: Hashes) -> Numbers:
    """Return a number for each key, the same for the same key; what is not known counts as the first key with that hash."""
    rows = [tuple(map(_plain, row)) for row in zip(*(column.to_pylist() for column in keys.columns), strict=True)]
    number = {row: place for place, row in enumerate(sorted({row for row in rows if None not in row}))}
    first: dict[int, int] = {}
    for key, row in zip(hashes.tolist(), rows, strict=True):
        if None not in row:
            first[key] = min(first.get(key, number[row]), number[row])
    return np.array(
        [first.get(key, 0) if None in row else number[row] for key, row in zip(hashes.tolist(), rows, strict=True)], np.int64
    )


def _plain(value: Any) -> str | None:
    """Return a text that is the same for the same key."""
    return None if value is None else repr(value + 0.0) if isinstance(value, float) else repr(value)
