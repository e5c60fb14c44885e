"""Keys as numbers: the same 64-bit hash for the same key on every machine, computed over whole columns.

Without a seed, two keys with the same hash are easily made. With one, texts are hashed by a sum of their bytes times numbers that depend on
the seed, of which the upper bits count (Lemire and Kaser, "Strongly universal string hashing is fast", 2014): whoever does not know the seed
finds such keys by chance only, once in 2**56 pairs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
Codes = NDArray[np.int64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio
BASE = np.uint64(0x100000001B3)  # of the polynomial over the bytes of a text
NULL = np.uint64(0x6E756C6C)
BYTE = np.uint64(8)  # bits
READ_BYTES = 64  # of each text in a row


def mixed(numbers: Hashes) -> Hashes:
    """Return numbers whose bits depend on all bits of the given ones: the last steps of splitmix64, a bijection.

    >>> [hex(number) for number in mixed(np.array([0, 1], np.uint64)).tolist()]
    ['0x0', '0x5692161d100b05e5']
    """
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


@dataclass(frozen=True, eq=False)
class Keys:
    """The keys of some tuples: the number of each tuple's key, and the hash of each key.

    >>> keys = Keys.of([pa.chunked_array([["a", "b", "a"]])])
    >>> keys.codes.tolist(), len(keys.hashes)
    ([0, 1, 0], 2)
    """

    codes: Codes
    hashes: Hashes

    @staticmethod
    def of(columns: Sequence[pa.ChunkedArray], seed: int = 0) -> "Keys":
        """Return the keys of rows in one or several columns; each different value is hashed once. A seed of 0 is none."""
        return _encoded(columns[0], np.uint64(seed)) if len(columns) == 1 else Keys.of_hashes(key_hashes(columns, seed))

    @staticmethod
    def of_hashes(rows: Hashes) -> "Keys":
        """Return the keys of tuples whose hashes are known."""
        encoded = pa.array(rows).dictionary_encode()
        return Keys(_codes(encoded), np.asarray(encoded.dictionary))

    def __len__(self) -> int:
        """Return the number of tuples."""
        return len(self.codes)

    def of_tuples(self) -> Hashes:
        """Return the hash of the key of each tuple."""
        return self.hashes[self.codes]

    def counts(self) -> Codes:
        """Return how many tuples each key has."""
        return np.bincount(self.codes, minlength=len(self.hashes))


def key_hashes(columns: Sequence[pa.ChunkedArray], seed: int = 0) -> Hashes:
    """Return the hash of the key of each row, as `Keys` has it.

    >>> key_hashes([pa.chunked_array([[7, 8, 7]])]).tolist() == Keys.of([pa.chunked_array([[7, 8, 7]])]).of_tuples().tolist()
    True
    """
    first, *others = (_of_tuples(column, np.uint64(seed)) for column in columns)
    for other in others:
        first = mixed(first * GOLDEN + other)
    return first


def row_hashes(rows: pa.Table) -> Hashes:
    """Return a hash of the content of each row, for all that needs a number that is the same whenever and wherever the row is seen.

    Of long texts it reads the beginning, and of lists and structs nothing: rows that differ only there, or not at all, have one hash.

    >>> first, second, third = row_hashes(pa.table({"a": [0.0, 1.0, -0.0], "b": ["x", "x", "x"]})).tolist()
    >>> first == third, first == second
    (True, False)
    """
    hashes = np.zeros(rows.num_rows, np.uint64)
    for column in rows.columns:
        values = column.combine_chunks()
        if pa.types.is_nested(values.type) or pa.types.is_interval(values.type):
            continue
        if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
            values = pc.binary_slice(values.cast(pa.binary()), 0, READ_BYTES)
        hashes = mixed(hashes * GOLDEN + _hashed(values, np.uint64(0)))
    return hashes


def _of_tuples(column: pa.ChunkedArray, seed: np.uint64) -> Hashes:
    """Return the hash of each value: a number is hashed faster than it is looked up, a text is not."""
    numbers = pa.types.is_primitive(column.type)
    return _hashed(_whole(column), seed) if numbers else _encoded(column, seed).of_tuples()


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _encoded(column: pa.ChunkedArray, seed: np.uint64) -> Keys:
    encoded = pc.dictionary_encode(_whole(column), null_encoding="encode")
    return Keys(_codes(encoded), _hashed(encoded.dictionary, seed))


def _codes(encoded: pa.DictionaryArray) -> Codes:
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False)).astype(np.int64)


def _hashed(values: pa.Array, seed: np.uint64) -> Hashes:
    """Return the hash of each value."""
    value_type = values.type
    if pa.types.is_null(value_type):
        return np.full(len(values), mixed(np.array([NULL]))[0])
    if pa.types.is_floating(value_type):
        floats = np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False)) + 0.0  # one zero
        hashes = mixed(np.where(np.isnan(floats), np.nan, floats).view(np.uint64) + (GOLDEN ^ seed))
    elif pa.types.is_integer(value_type) or pa.types.is_boolean(value_type) or pa.types.is_temporal(value_type):
        hashes = mixed(_integers(values).view(np.uint64) + (GOLDEN ^ seed))
    else:
        hashes = _of_bytes(values, seed)
    if values.null_count:
        hashes = np.where(np.asarray(values.is_null()), mixed(np.array([NULL])), hashes)
    return hashes


def _integers(values: pa.Array) -> Codes:
    value_type = values.type
    if pa.types.is_date32(value_type) or pa.types.is_time32(value_type):
        values = values.cast(pa.int32())
    if pa.types.is_uint64(value_type):
        values = values.view(pa.int64())
    return np.asarray(values.cast(pa.int64()).fill_null(0))


def _of_bytes(values: pa.Array, seed: np.uint64) -> Hashes:
    """Return a sum over the bytes of each value: without a seed a polynomial; decimals are written as texts first."""
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.string())
    starts, letters = _bytes(values.cast(pa.large_binary()))
    lengths = np.diff(starts)
    places = np.arange(len(letters)) - np.repeat(starts[:-1], lengths)
    longest = int(lengths.max(initial=0)) + 1
    factors = mixed(np.arange(1, longest + 1, dtype=np.uint64) * GOLDEN + seed) if seed else np.cumprod(np.full(longest, BASE))
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum((letters + np.uint64(1)) * factors[places])])
    sums = total[starts[1:]] - total[starts[:-1]]
    return mixed(sums >> BYTE if seed else sums + (lengths.astype(np.uint64) + np.uint64(1)) * GOLDEN)


def _bytes(values: pa.Array) -> tuple[Codes, NDArray[np.uint8]]:
    """Return where each value begins and the last one ends, and the bytes of all values."""
    if not len(values):
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    _, offsets, letters = values.buffers()
    starts = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
    inside = np.frombuffer(letters, np.uint8)[starts[0] : starts[-1]] if letters else np.zeros(0, np.uint8)
    return starts - starts[0], inside
