"""Some of the parts into which a state is divided, as the bits of a number: what a slot has, and what a file holds."""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


def bits(mask: int, count: int) -> NDArray[np.bool_]:
    """Return the lowest bits of a number, lowest first.

    >>> bits(5, 4).tolist()
    [True, False, True, False]
    """
    data = np.frombuffer((mask & ((1 << count) - 1)).to_bytes(-(-count // 8) or 1, "little"), np.uint8)
    return np.unpackbits(data, bitorder="little")[:count].astype(np.bool_)


def as_bits(which: NDArray[np.bool_]) -> int:
    """Return a number with some bits.

    >>> as_bits(np.array([True, False, True]))
    5
    """
    return int.from_bytes(np.packbits(which, bitorder="little").tobytes(), "little")


def bits_of(numbers: Numbers) -> int:
    """Return the number that has the bits of these numbers.

    >>> bits_of(np.array([0, 2, 2]))
    5
    """
    return as_bits(np.bincount(numbers) > 0)


def ranges(mask: int) -> Numbers:
    """Return where consecutive bits of a number begin and end, a row for each of these runs.

    >>> ranges(0b1101110).tolist(), ranges(0).tolist()
    ([[1, 4], [5, 7]], [])
    """
    which = np.concatenate([[False], bits(mask, mask.bit_length()), [False]])
    return np.flatnonzero(which[1:] != which[:-1]).reshape(-1, 2)


def between(first: int, last: int) -> int:
    """Return the number with the bits from the first to before the last.

    >>> bin(between(1, 4))
    '0b1110'
    """
    return (1 << last) - (1 << first)
