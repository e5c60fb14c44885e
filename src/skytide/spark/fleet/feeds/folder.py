"""A folder with one growing file per stream, whatever the format. The name of a stream is that of its file without the extension.

A replaced file is recognised by its inode, its size, and how it begins: a new file may get the inode of the one before.
"""

import logging
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.errors import InvalidInput
from skytide.spark.fleet.book import Book
from skytide.spark.fleet.feeds.feed import (
    REPLACED,
    TRUNCATED,
    UNREADABLE,
    VANISHED,
    Counts,
    Feed,
    Look,
    Positions,
    Range,
    Skipped,
    settled,
)
from skytide.spark.fleet.feeds.listing import Listing

HEAD_BYTES = 64
LENGTH_BITS = 8
"""The last bits of a head: how many bytes it is a checksum of."""
MAX_CHECKED = 256
"""How many files that have grown are checked each time; tasks check all that they read."""
LENGTH_MASK = (1 << LENGTH_BITS) - 1
MISSING = (-1, 0)
"""The size and inode of a file that does not exist."""
_log = logging.getLogger(__name__)


class NotThereError(Exception):
    """A range that cannot be read; the message is the reason."""


@dataclass(frozen=True)
class Folder(Feed):
    """The files of one extension in a folder; names that begin with a dot or an underscore are ignored."""

    path: str
    schema: pa.Schema
    record_bytes: float = 100.0
    """The mean length of a record, to estimate tuples from bytes."""
    _listing: Listing = field(default_factory=Listing, repr=False, compare=False)

    extension: ClassVar[str]

    def check(self) -> None:
        """Refuse a folder that cannot be read."""
        try:
            os.scandir(self.path).close()
        except OSError as error:
            raise InvalidInput(
                value=f"fleet({self.path!r})",
                reason=f"not a folder that can be read: {error.strerror}",
                remedy="name a folder with one file per stream",
            ) from None

    def look(self, book: Book, *, newest: bool = False) -> Look:
        """Return a look at the files of the folder."""
        known = len(book.names)
        try:
            book, sizes, inodes = self._found(book)
        except OSError as error:  # nothing is lost by waiting
            _log.warning("%s cannot be listed now: %s", self.path, error)
            return self._seen(book, book.at, ())
        there, new = sizes >= 0, np.arange(len(sizes)) >= known
        at, identity, head = book.at.copy(), np.where(there, inodes, book.identity), book.head.copy()
        skipped = dict.fromkeys(np.flatnonzero(there & ~new & (identity != book.identity)).tolist(), REPLACED)
        skipped |= {row: TRUNCATED for row in np.flatnonzero(there & (sizes < at[:, 0])).tolist() if row not in skipped}
        skipped |= {row: REPLACED for row in self._replaced(book, sizes) if row not in skipped}
        for row in skipped:
            at[row], head[row] = 0, 0
        if newest:
            at[new, 0] = sizes[new]
        self._fingerprint(book, sizes, head)
        book, kept, lost = settled(book.with_(identity=identity, head=head), at, there, skipped)
        ends = book.at.copy()
        ends[:, 0] = np.maximum(sizes[kept], book.at[:, 0])
        self._whole_records(book, ends)
        return self._seen(book, ends, lost)

    def cut(self, look: Look, take: Counts) -> Positions:
        """Return where about as many records end; a stream that is let in completely goes to its end."""
        less = take < look.waiting
        ends = look.ends.copy()
        ends[less, 0] = np.minimum(ends[less, 0], look.book.at[less, 0] + np.ceil(take[less] * self.record_bytes).astype(np.int64))
        self._whole_records(look.book, ends, np.flatnonzero(less))
        return ends

    def _whole_records(self, book: Book, ends: Positions, rows: NDArray[np.int64] | None = None) -> None:
        """Move the ends of streams to where ranges may end; with lines, that is anywhere."""

    def _seen(self, book: Book, ends: Positions, skipped: tuple[Skipped, ...]) -> Look:
        return Look(book, ends, self._tuples(ends[:, 0] - book.at[:, 0]), self._tuples(ends[:, 0]), skipped)

    def _tuples(self, lengths: Counts) -> Counts:
        found: Counts = np.ceil(lengths / self.record_bytes).astype(np.int64)
        return found

    def _path(self, name: str) -> str:
        return f"{self.path}/{name}.{self.extension}"

    def _found(self, book: Book) -> tuple[Book, Counts, Counts]:
        """Return the book with the streams that have joined, and the size and inode of each stream's file."""
        place = os.open(self.path, os.O_RDONLY)  # from here, a file is found faster than by its whole path
        try:
            book = book.joined(sorted(self._listing.streams(place, self.extension) - book.rows.keys()))
            files = [f"{name}.{self.extension}" for name in book.names]
            try:
                found = [os.stat(file, dir_fd=place) for file in files]
            except OSError:  # one of them was removed
                pairs = [_measured(file, place) for file in files]
            else:
                pairs = [(each.st_size, each.st_ino) for each in found]
        finally:
            os.close(place)
        sizes, inodes = np.array(pairs, np.int64).reshape(-1, 2).T
        return book, sizes, inodes

    def _replaced(self, book: Book, sizes: Counts) -> list[int]:
        """Return which files no longer begin as before, of some that have grown, each time others."""
        grown = np.flatnonzero((sizes > book.at[:, 0]) & (book.head != 0))
        turn = int(book.at[:, 0].sum()) // MAX_CHECKED
        some = np.roll(grown, -turn * MAX_CHECKED)[:MAX_CHECKED] if len(grown) > MAX_CHECKED else grown
        return [row for row in some.tolist() if not self._begins_with(book.names[row], int(book.head[row]))]

    def _fingerprint(self, book: Book, sizes: Counts, head: NDArray[np.int64]) -> None:
        for row in np.flatnonzero((head & LENGTH_MASK) < np.minimum(sizes, HEAD_BYTES)).tolist():
            data = self._first_bytes(book.names[row], HEAD_BYTES)
            head[row] = _head(data) if data else 0

    def _begins_with(self, name: str, head: int) -> bool:
        data = self._first_bytes(name, head & LENGTH_MASK)
        return data is None or _head(data) == head  # what cannot be read now may be readable again

    def _first_bytes(self, name: str, count: int) -> bytes | None:
        try:
            number = os.open(self._path(name), os.O_RDONLY)
        except OSError:
            return None
        try:
            return os.read(number, count)
        except OSError:
            return None
        finally:
            os.close(number)

    @contextmanager
    def _opened(self, wanted: Range) -> Iterator[int]:
        """Yield the open file of a range, if it is still the same file."""
        try:
            number = os.open(self._path(wanted.stream), os.O_RDONLY)
        except FileNotFoundError:
            raise NotThereError(VANISHED) from None
        except OSError:
            raise NotThereError(UNREADABLE) from None
        try:
            known = os.fstat(number)
            if known.st_ino != wanted.identity or (
                wanted.head and _head(os.pread(number, wanted.head & LENGTH_MASK, 0)) != wanted.head
            ):
                raise NotThereError(REPLACED)
            if known.st_size < wanted.end[0]:
                raise NotThereError(TRUNCATED)
            yield number
        except OSError:
            raise NotThereError(UNREADABLE) from None
        finally:
            os.close(number)


def _measured(name: str, place: int) -> tuple[int, int]:
    try:
        found = os.stat(name, dir_fd=place)
    except OSError:  # removed since
        return MISSING
    return found.st_size, found.st_ino


def _head(data: bytes) -> int:
    """Return a checksum of how a file begins, with the number of its bytes."""
    return zlib.crc32(data) << LENGTH_BITS | len(data)
