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
"""Where streams stand: three numbers each, such as (byte, 0, 0). The first counts."""
Counts = NDArray[np.int64]

STREAM = "stream"
"""The column with the name of each row's stream."""
MAX_AWAY = 1_000
REPLACED, TRUNCATED, TRIMMED, VANISHED, UNREADABLE = "replaced", "truncated", "trimmed", "vanished", "unreadable"


class Skipped(NamedTuple):
    """Something of a stream that cannot be read any more, or not now."""

    stream: str
    reason: str


@dataclass(frozen=True)
class Look:
    """What was seen of all streams at one time; its book has the streams that are there now, with all that was known of them."""

    book: Book
    ends: Positions
    """How far each stream can be read."""
    waiting: Counts
    """About how many tuples that is."""
    arrived: Counts
    """About how many tuples have ever come of each."""
    skipped: tuple[Skipped, ...] = ()
    """Streams of which something was lost, and which begin anew."""

    def with_book(self, book: Book) -> "Look":
        """Return the same with another book of the same streams."""
        return replace(self, book=book)

    def until(self, earlier: "Look") -> "Look":
        """Return this look, but with nothing that an earlier one did not show."""
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
    """What tells the stream from another one of the same name."""
    head: int
    was_behind: bool = False
    """Something of the stream was kept waiting by us before this."""
    is_behind: bool = False
    """Something is after this."""


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
    """A place with streams. It travels to the tasks, so it holds no connection."""

    @abstractmethod
    def check(self) -> None:
        """Refuse a place that cannot be read at all, before a query starts."""

    def sampled(self, book: Book) -> "Feed":
        """Return the same place, with what a look into some of its streams tells of their records."""
        return self

    @abstractmethod
    def look(self, book: Book, *, newest: bool = False) -> Look:
        """Look at all streams; those that are new begin with their oldest record, or with what comes from now on."""

    @abstractmethod
    def cut(self, look: Look, take: Counts) -> Positions:
        """Return where streams stand when so many tuples of each have been let in."""

    @abstractmethod
    def read(self, ranges: Sequence[Range]) -> Iterator[Records]:
        """Return the records of ranges: the same every time."""


def settled(
    book: Book, at: Positions, there: NDArray[np.bool_], begun: dict[int, str]
) -> tuple[Book, NDArray[np.bool_], tuple[Skipped, ...]]:
    """Return the book after a look, which of its rows were kept, and what was lost.

    Streams are at new positions, `begun` anew for a reason, or missing: those keep their place for a while.
    """
    lost = begun | dict.fromkeys(np.flatnonzero(~there & (book.away == 0) & book.behind).tolist(), VANISHED)
    skipped = tuple(Skipped(book.names[row], reason) for row, reason in lost.items())
    away = np.where(there, 0, book.away + 1).astype(np.int32)
    kept = _fewest_missing(away)
    return book.with_(at=at, away=away).keeping(kept), kept, skipped


def _fewest_missing(away: NDArray[np.int32], most: int = MAX_AWAY) -> NDArray[np.bool_]:
    """Say which streams to keep: of those that are missing only so many, the ones that left last."""
    missing = away > 0
    if missing.sum() <= most:
        return np.ones(len(away), np.bool_)
    latest = np.sort(away[missing])[most - 1]
    return np.asarray(~missing | (away <= latest))
