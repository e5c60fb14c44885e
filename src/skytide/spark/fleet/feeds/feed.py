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
Floats = NDArray[np.float64]

STREAM = "stream"
"""The column with the name of each row's stream."""
MAX_AWAY = 10_000
"""How many missing streams keep their place, if fewer are there; otherwise, as many as are there."""
REPLACED, TRUNCATED, TRIMMED, VANISHED = "replaced", "truncated", "trimmed", "vanished"


class NotNowError(Exception):
    """A place that cannot be looked at now; the message says which, and why. Nothing follows from that: not that it is empty either."""


class Skipped(NamedTuple):
    """A part of a stream that can no longer be read."""

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
    reached: Counts
    """How far each stream has come, in the unit of positions."""
    lengths: Floats
    """About how long a tuple of each is in that unit."""
    skipped: tuple[Skipped, ...] = ()
    """Streams that lost something, and begin anew."""
    unreadable: frozenset[str] = frozenset()
    """Streams that cannot be read now: they wait."""
    forgotten: int = 0
    """How many streams lost their place: they have been missing for long, and too many are."""
    unknown: Sequence[str] = ()
    """Names of which people want something, but no stream has them."""
    changed: bool = False
    """Whether people want something else of some streams than before."""

    def until(self, earlier: "Look") -> "Look":
        """Return this look without anything that an earlier one did not show."""
        ends = self.book.at.copy()
        for row, name in enumerate(self.book.names):
            before = earlier.book.rows.get(name)
            if before is not None and earlier.book.identity[before] == self.book.identity[row]:
                ends[row] = max(ends[row].tolist(), min(self.ends[row].tolist(), earlier.ends[before].tolist()))
        return replace(self, ends=ends, waiting=np.where((ends == self.book.at).all(axis=1), 0, self.waiting))


@dataclass(frozen=True)
class Cut:
    """What a batch lets in: the book after it, and where each stream stands before."""

    book: Book
    begin: Positions
    begin_tail: Counts
    skipped: tuple[Skipped, ...] = ()
    """Streams that turned out to have lost something: they begin anew with the next batch."""
    unreadable: frozenset[str] = frozenset()

    @staticmethod
    def at(look: Look, ends: Positions) -> "Cut":
        """Return what is let in of streams that need no closer look."""
        return Cut(look.book.with_(at=ends), look.book.at, look.book.tail)


class Range(NamedTuple):
    """The records of a stream that lie in [begin, end)."""

    stream: str
    begin: tuple[int, int, int]
    end: tuple[int, int, int]
    identity: int
    """What distinguishes the stream from another one of the same name."""
    head: int
    tails: tuple[int, int] = (0, 0)
    """Checksums of what comes right before its begin and its end; 0 if nothing is known."""
    place: int = 0
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

    def measured(self, book: Book, rows: Counts, lengths: Counts, tuples: Counts) -> Book:
        """Return the book with what tasks found out: so many tuples were in ranges of some lengths."""
        return book

    @abstractmethod
    def look(self, book: Book, *, newest: bool = False) -> Look:
        """Return a look at all streams; new ones begin with their oldest record, or with what comes from now on.

        Raise `NotNowError` if that is not possible now.
        """

    @abstractmethod
    def cut(self, look: Look, take: Counts) -> Cut:
        """Return what is let in if that is `take` tuples of each stream."""

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


def _kept_rows(away: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return which streams to keep: of those that are missing, not many more than are there, and those that left last."""
    missing = away > 0
    most = max(MAX_AWAY, int((~missing).sum()))
    if missing.sum() <= most:
        return np.ones(len(away), np.bool_)
    latest = np.sort(away[missing])[most - 1]
    return np.asarray(~missing | (away <= latest))
