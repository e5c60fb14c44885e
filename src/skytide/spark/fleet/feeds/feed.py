"""What a place with many streams has to offer: a look at all of them on the driver, and the records of ranges in the tasks."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.spark.fleet.book import Book
from skytide.spark.fleet.formats import Broken

Positions = NDArray[np.int64]
"""Where streams stand: three numbers each, such as (byte, 0, 0). The first one is a count."""
Counts = NDArray[np.int64]

STREAM = "stream"
"""The column with the name of each row's stream."""
MAX_AWAY = 1_000
"""How many missing streams keep their place."""
REPLACED, TRUNCATED, TRIMMED, VANISHED, UNREADABLE = "replaced", "truncated", "trimmed", "vanished", "unreadable"


class Skipped(NamedTuple):
    """A part of a stream that can no longer be read, or not now."""

    stream: str
    reason: str


@dataclass(frozen=True)
class Look:
    """What was seen of all streams at one time; its book has the streams that exist now, with all that was known of them."""

    book: Book
    ends: Positions
    """How far each stream can be read."""
    waiting: Counts
    """About how many tuples that are."""
    arrived: Counts
    """About how many tuples of each have ever come."""
    skipped: tuple[Skipped, ...] = ()
    """Streams that lost something, and begin anew."""

    def with_book(self, book: Book) -> "Look":
        """Return the same with another book of the same streams."""
        return replace(self, book=book)

    def until(self, earlier: "Look") -> "Look":
        """Return this look without anything that an earlier one did not show."""
        ends = self.book.at.copy()
        for row, name in enumerate(self.book.names):
            before = earlier.book.rows.get(name)
            if before is not None and earlier.book.identity[before] == self.book.identity[row]:
                ends[row] = max(ends[row].tolist(), min(self.ends[row].tolist(), earlier.ends[before].tolist()))
        return replace(self, ends=ends, waiting=np.where((ends == self.book.at).all(axis=1), 0, self.waiting))


class Range(NamedTuple):
    """The records of a stream that lie in [begin, end)."""

    stream: str
    begin: tuple[int, int, int]
    end: tuple[int, int, int]
    identity: int
    """What distinguishes the stream from another one of the same name."""
    head: int
    was_behind: bool = False
    """Whether we kept something of the stream waiting before this."""
    is_behind: bool = False
    """Whether something of it is left after this."""


@dataclass(frozen=True)
class Records:
    """Rows of several ranges, with the number of the range that each came from."""

    rows: pa.Table
    ranges: NDArray[np.int64]
    broken: tuple[Broken, ...] = ()
    skipped: tuple[Skipped, ...] = ()

    def named(self, ranges: Sequence[Range]) -> pa.Table:
        """Return the rows with the name of the stream of each."""
        names = pa.array([each.stream for each in ranges], pa.string())
        return self.rows.append_column(STREAM, names.take(pa.array(self.ranges)))


class Feed(ABC):
    """A place with streams. It is sent to the tasks, so it holds no connection."""

    @abstractmethod
    def check(self) -> None:
        """Refuse a place that cannot be read at all, before a query starts."""

    def sampled(self, book: Book) -> "Feed":
        """Return the same place, with what a look into some of its streams shows about their records."""
        return self

    @abstractmethod
    def look(self, book: Book, *, newest: bool = False) -> Look:
        """Return a look at all streams; new ones begin with their oldest record, or with what comes from now on."""

    @abstractmethod
    def cut(self, look: Look, take: Counts) -> Positions:
        """Return where streams stand after `take` tuples of each have been let in."""

    @abstractmethod
    def read(self, ranges: Sequence[Range]) -> Iterator[Records]:
        """Yield the records of ranges: the same every time."""


def settled(
    book: Book, at: Positions, there: NDArray[np.bool_], begun: dict[int, str]
) -> tuple[Book, NDArray[np.bool_], tuple[Skipped, ...]]:
    """Return the book after a look, which of its rows were kept, and what was lost.

    Streams are at new positions, have `begun` anew for a reason, or are missing: those keep their place for a while.
    """
    lost = begun | dict.fromkeys(np.flatnonzero(~there & (book.away == 0) & book.behind).tolist(), VANISHED)
    skipped = tuple(Skipped(book.names[row], reason) for row, reason in lost.items())
    away = np.where(there, 0, book.away + 1).astype(np.int32)
    kept = _kept_rows(away)
    return book.with_(at=at, away=away).keeping(kept), kept, skipped


def _kept_rows(away: NDArray[np.int32], most: int = MAX_AWAY) -> NDArray[np.bool_]:
    """Return which streams to keep: of those that are missing, only the `most` that left last."""
    missing = away > 0
    if missing.sum() <= most:
        return np.ones(len(away), np.bool_)
    latest = np.sort(away[missing])[most - 1]
    return np.asarray(~missing | (away <= latest))
