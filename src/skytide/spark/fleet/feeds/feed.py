"""The port to whatever has many streams: the driver discovers how far each can be read, and tasks read the records of ranges."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.spark.fleet.formats import Broken
from skytide.spark.fleet.states import StreamStates

Positions = NDArray[np.int64]
"""Where streams stand: three numbers each, such as (byte, 0, 0). The first one is a count."""
Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

STREAM = "stream"
"""The column with the name of each row's stream."""
MAX_AWAY = 10_000
"""How many missing streams keep their position, if fewer are there; otherwise, as many as are there."""
REPLACED, TRUNCATED, TRIMMED, VANISHED = "replaced", "truncated", "trimmed", "vanished"


class UnavailableError(Exception):
    """A folder or server that does not answer now; the message names it and the reason. Nothing follows from that: not that it is empty either."""


class Skipped(NamedTuple):
    """A part of a stream that can no longer be read."""

    stream: str
    reason: str


@dataclass(frozen=True)
class Discovery:
    """What was discovered of all streams at one time; its states are those of the streams that exist now, with all that was known of them."""

    states: StreamStates
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
    """How many streams lost their position: they have been missing for long, and too many are."""
    unknown: Sequence[str] = ()
    """Names of which people want something, but no stream has them."""
    changed: bool = False
    """Whether people want something else of some streams than before."""

    def until(self, earlier: "Discovery") -> "Discovery":
        """Return this discovery without anything that an earlier one did not show."""
        ends = self.states.at.copy()
        for row, name in enumerate(self.states.names):
            before = earlier.states.rows.get(name)
            if before is not None and earlier.states.identity[before] == self.states.identity[row]:
                ends[row] = max(ends[row].tolist(), min(self.ends[row].tolist(), earlier.ends[before].tolist()))
        return replace(self, ends=ends, waiting=np.where((ends == self.states.at).all(axis=1), 0, self.waiting))


@dataclass(frozen=True)
class Cut:
    """What a batch lets in: where streams stand after it, and before."""

    states: StreamStates
    begin: Positions
    begin_tail: Counts
    skipped: tuple[Skipped, ...] = ()
    """Streams that turned out to have lost something: they begin anew with the next batch."""
    unreadable: frozenset[str] = frozenset()

    @staticmethod
    def at(discovery: Discovery, ends: Positions) -> "Cut":
        """Return what is let in of streams that need no closer look."""
        return Cut(discovery.states.with_(at=ends), discovery.states.at, discovery.states.tail)


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
        names = pa.array([wanted.stream for wanted in ranges], pa.string())
        return self.rows.append_column(STREAM, names.take(pa.array(self.ranges)))


class Feed(ABC):
    """A folder or a server with streams. It is sent to the tasks, so it holds no connection."""

    @abstractmethod
    def check(self) -> None:
        """Refuse a folder or server that cannot be read at all, before a query starts."""

    def measured(self, states: StreamStates, rows: Counts, lengths: Counts, tuples: Counts) -> StreamStates:
        """Return where streams stand, with what tasks found out: so many tuples were in ranges of some lengths."""
        return states

    @abstractmethod
    def discover(self, states: StreamStates, *, newest: bool = False) -> Discovery:
        """Return how far all streams can be read; new ones begin with their oldest record, or with what comes from now on.

        Raise `UnavailableError` if that is not possible now.
        """

    @abstractmethod
    def cut(self, discovery: Discovery, take: Counts) -> Cut:
        """Return what is let in if that is `take` tuples of each stream."""

    @abstractmethod
    def read(self, ranges: Sequence[Range]) -> Iterator[Records]:
        """Yield the records of ranges: the same every time."""


def settled(
    states: StreamStates, at: Positions, there: NDArray[np.bool_], begun: dict[int, str]
) -> tuple[StreamStates, NDArray[np.bool_], tuple[Skipped, ...]]:
    """Return where streams stand after a discovery, which of the rows were kept, and what was lost.

    Streams are at new positions, have `begun` anew for a reason, or are missing: those keep their position for a while.
    """
    lost = begun | dict.fromkeys(np.flatnonzero(~there & (states.away == 0) & states.behind).tolist(), VANISHED)
    skipped = tuple(Skipped(states.names[row], reason) for row, reason in lost.items())
    away = np.where(there, 0, states.away + 1).astype(np.int32)
    kept = _kept_rows(away)
    return states.with_(at=at, away=away).keeping(kept), kept, skipped


def _kept_rows(away: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return which streams to keep: of those that are missing, not many more than are there, and those that left last."""
    missing = away > 0
    most = max(MAX_AWAY, int((~missing).sum()))
    if missing.sum() <= most:
        return np.ones(len(away), np.bool_)
    latest = np.sort(away[missing])[most - 1]
    return np.asarray(~missing | (away <= latest))
