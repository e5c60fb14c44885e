"""A folder with one growing file per stream, whatever the format. The name of a stream is that of its file without the extension.

A replaced file is recognised by its inode, its size, how it begins, and what comes right before the position: a new file may get the
inode of the one before, and begin with the same header. The driver checks each file of which it lets something in, and each that has
changed and still has the size up to which it was read. So does the task, which also checks what comes right before the end of its range.
"""

import os
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.errors import InvalidInput, SkytideError
from skytide.spark.fleet.feeds.feed import (
    REPLACED,
    TRUNCATED,
    VANISHED,
    Counts,
    Cut,
    Discovery,
    Feed,
    Positions,
    Range,
    Skipped,
    UnavailableError,
    settled,
)
from skytide.spark.fleet.feeds.listing import Listing, Unchanged, file_of
from skytide.spark.fleet.states import StreamStates

HEAD_BYTES, TAIL_BYTES = 64, 256
LENGTH_BITS = 8
"""The last bits of a head: how many bytes it is a checksum of."""
RETRY_S = (0.1, 0.3, 1.0, 3.0)
"""How long a task waits before it tries again to open a file; after that, it fails."""
SAMPLED, SAMPLE_BYTES = 32, 16_384
"""In how many new files a discovery measures records, and in how many bytes of each."""
PRIOR_RECORDS, MIN_RECORD_BYTES = 4.0, 0.1
"""As many records count what was known of a stream's records before."""
LENGTH_MASK = (1 << LENGTH_BITS) - 1
MISSING = (-1, 0, 0)
"""The size, inode and time of change of a file that does not exist."""
INODE_MASK = 2**63 - 1
"""Some file systems use all 64 bits for inodes."""


class RangeLostError(Exception):
    """A range of a file that is gone; the message is the reason."""


@dataclass(frozen=True)
class Folder(Feed):
    """The files of one extension in a folder; names that begin with a dot or an underscore are ignored."""

    path: str
    schema: pa.Schema
    _listing: Listing = field(default_factory=Listing, repr=False, compare=False)
    _unchanged: Unchanged = field(default_factory=Unchanged, repr=False, compare=False)

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

    def discover(self, states: StreamStates, *, newest: bool = False) -> Discovery:
        """Return how far the files of the folder can be read."""
        old = len(states.names)
        try:
            states, sizes, inodes, changed = self._list_files(states)
        except OSError as error:
            raise UnavailableError(f"cannot list {self.path}: {error}") from error
        there, new = sizes >= 0, np.arange(len(sizes)) >= old
        at, identity, head = states.at.copy(), np.where(there, inodes, states.identity), states.head.copy()
        skipped = dict.fromkeys(np.flatnonzero(there & (states.identity != 0) & (identity != states.identity)).tolist(), REPLACED)
        skipped |= {row: TRUNCATED for row in np.flatnonzero(there & (sizes < at[:, 0])).tolist() if row not in skipped}
        read = np.flatnonzero((sizes == at[:, 0]) & (sizes > 0) & (changed != self._unchanged.changed_ns(states.names)))
        skipped |= dict.fromkeys(self._rewritten(states, changed, [row for row in read.tolist() if row not in skipped]), REPLACED)
        tail, record = states.tail.copy(), states.record.copy()
        for row in skipped:
            at[row], head[row], tail[row], record[row] = 0, 0, 0, 0
        if newest:
            at[new, 0] = np.maximum(sizes[new], 0)
        unreadable = self._begin(states, np.flatnonzero(there & (at[:, 0] > 0) & (tail == 0)).tolist(), at)
        unreadable += self._fingerprint(states, sizes, head, record)
        sizes[unreadable] = 0
        names = frozenset(states.names[row] for row in unreadable)
        states, kept, lost = settled(states.with_(identity=identity, head=head, tail=tail, record=record), at, there, skipped)
        ends = states.at.copy()
        ends[:, 0] = np.maximum(sizes[kept], states.at[:, 0])
        self._whole_records(states, ends)
        return replace(self._discovered(states, ends, lost, names), forgotten=int((~kept).sum()))

    def cut(self, discovery: Discovery, take: Counts) -> Cut:
        """Return what is let in if about as many records are; a stream that is let in completely goes to its end."""
        less = take < discovery.waiting
        ends = discovery.ends.copy()
        ends[less, 0] = np.minimum(
            ends[less, 0], discovery.states.at[less, 0] + np.ceil(take[less] * discovery.lengths[less]).astype(np.int64)
        )
        self._whole_records(discovery.states, ends, np.flatnonzero(less))
        return self._checked(discovery, ends)

    def _checked(self, discovery: Discovery, ends: Positions) -> Cut:
        """Return what is let in up to some ends, without files that are no longer the same, or that cannot be read now."""
        states = discovery.states
        begin, identity, head, tail, end_tail = (
            column.copy() for column in (states.at, states.identity, states.head, states.tail, states.tail)
        )
        record = states.record.copy()
        moved, unknown = ends[:, 0] != begin[:, 0], (states.tail == 0) & (begin[:, 0] > 0) & (states.away == 0)
        unknown[[states.rows[name] for name in discovery.unreadable]] = False
        skipped, unreadable = [], set(discovery.unreadable)
        for row in np.flatnonzero(moved | unknown).tolist():
            name = states.names[row]
            wanted = Range(
                name, tuple(begin[row].tolist()), tuple(ends[row].tolist()), int(identity[row]), int(head[row]), (int(tail[row]), 0)
            )
            try:
                number = os.open(self._path(name), os.O_RDONLY)
            except OSError:  # it waits; if it is gone, the next discovery shows it
                ends[row] = begin[row]
                unreadable.add(name)
                continue
            try:
                changed_ns = os.fstat(number).st_ctime_ns
                _check_same(number, wanted)
                tail[row] = wanted.tails[0] or _tail(number, wanted.begin[0])
                end_tail[row] = _tail(number, wanted.end[0])
                self._unchanged.since(name, changed_ns)
            except RangeLostError as error:
                skipped.append(Skipped(name, str(error)))
                begin[row], ends[row], head[row], tail[row], end_tail[row], record[row] = 0, 0, 0, 0, 0, 0
                identity[row] = _inode(os.fstat(number))
            except OSError:
                ends[row] = begin[row]
                unreadable.add(name)
            finally:
                os.close(number)
        states = states.with_(at=ends, identity=identity, head=head, tail=end_tail, record=record)
        return Cut(states, begin, tail, tuple(skipped), frozenset(unreadable))

    def _rewritten(self, states: StreamStates, changed: Counts, rows: list[int]) -> list[int]:
        """Return which files that have just the size up to which they were read are others."""
        begun = []
        for row in rows:
            position = tuple(states.at[row].tolist())
            wanted = Range(
                states.names[row], position, position, int(states.identity[row]), int(states.head[row]), (int(states.tail[row]), 0)
            )
            try:
                number = os.open(self._path(states.names[row]), os.O_RDONLY)
            except OSError:  # the next discovery tries again
                continue
            try:
                _check_same(number, wanted)
                self._unchanged.since(wanted.stream, int(changed[row]))
            except RangeLostError:
                begun.append(row)
            except OSError:
                pass
            finally:
                os.close(number)
        return begun

    def _begin(self, states: StreamStates, rows: list[int], at: Positions) -> list[int]:
        """Move positions of which only the size of the file is known to where a range may begin; return the files that cannot be read now.

        With lines, that is anywhere.
        """
        return []

    def _whole_records(self, states: StreamStates, ends: Positions, rows: NDArray[np.int64] | None = None) -> None:
        """Move the ends of streams to where ranges may end; with lines, that is anywhere."""

    def _discovered(
        self, states: StreamStates, ends: Positions, skipped: tuple[Skipped, ...] = (), unreadable: frozenset[str] = frozenset()
    ) -> Discovery:
        measured = states.record[states.record > 0]
        lengths = np.where(states.record > 0, states.record, measured.mean() if len(measured) else self._usual_length())
        waiting = np.ceil((ends[:, 0] - states.at[:, 0]) / lengths).astype(np.int64)
        return Discovery(states, ends, waiting, ends[:, 0].copy(), lengths, skipped, unreadable)

    def measured(self, states: StreamStates, rows: Counts, lengths: Counts, tuples: Counts) -> StreamStates:
        """Return where streams stand, with the lengths of records that tasks found; a record that had no end is longer than its range."""
        record = states.record.copy()
        before = record[rows]
        usual = np.where(before > 0, PRIOR_RECORDS, 0.0)
        mean = (usual * before + lengths) / np.maximum(usual + tuples, 1.0)
        record[rows] = np.where(tuples > 0, np.maximum(mean, MIN_RECORD_BYTES), np.maximum(before, 2.0 * lengths))
        return states.with_(record=record)

    def _usual_length(self) -> float:
        """Return the assumed length of a record as long as none was seen."""
        return 100.0

    def _length_in(self, data: bytes) -> float:
        """Return the mean length of the records in how a file begins; 0 if that cannot be told."""
        return 0.0

    def _path(self, name: str) -> str:
        return f"{self.path}/{file_of(name)}.{self.extension}"

    def _list_files(self, states: StreamStates) -> tuple[StreamStates, Counts, Counts, Counts]:
        """Return where streams stand, new ones included, and the size, inode and time of change of each stream's file."""
        folder = os.open(self.path, os.O_RDONLY)  # from here, a file is found faster than by its whole path
        try:
            streams = self._listing.streams(folder, self.extension)
            place = _inode(os.fstat(folder))
            if states.place not in (0, place) and not streams:
                raise OSError("it is empty, and not the same folder as before (is it mounted?)")
            states = states.joined(sorted(streams - states.rows.keys()))
            files = [f"{file_of(name)}.{self.extension}" if name in streams else None for name in states.names]
            try:
                stats = [file and os.stat(file, dir_fd=folder) for file in files]
            except OSError:  # one of them was removed
                facts = [_facts_of(file, folder) for file in files]
            else:
                facts = [_facts(file_stat) if file_stat else MISSING for file_stat in stats]
        finally:
            os.close(folder)
        sizes, inodes, changed = np.array(facts, np.int64).reshape(-1, len(MISSING)).T.copy()
        return states.with_(place=place), sizes, inodes, changed

    def _fingerprint(self, states: StreamStates, sizes: Counts, head: Counts, record: NDArray[np.float64]) -> list[int]:
        """Note how files begin, and how long records are in some of them; return which cannot be read."""
        unreadable, samples = [], SAMPLED
        for row in np.flatnonzero((head & LENGTH_MASK) < np.minimum(sizes, HEAD_BYTES)).tolist():
            is_sample = samples > 0 and record[row] == 0
            data = self._first_bytes(states.names[row], SAMPLE_BYTES if is_sample else HEAD_BYTES)
            head[row] = _head(data[:HEAD_BYTES]) if data else 0
            if data is None:
                unreadable.append(row)
            elif is_sample:
                record[row], samples = self._length_in(data), samples - 1
        return unreadable

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
        number = self._open(wanted)
        try:
            _check_same(number, wanted)
            yield number
        except OSError as error:
            raise self._not_now(wanted, error) from error
        finally:
            os.close(number)

    def _open(self, wanted: Range) -> int:
        """Return the open file of a range. Unless it is provably gone, its records are not given up: the task tries again, and then fails."""
        for wait_s in (*RETRY_S, None):
            try:
                return os.open(self._path(wanted.stream), os.O_RDONLY)
            except OSError as error:
                if isinstance(error, FileNotFoundError) and self._is_here(wanted):
                    raise RangeLostError(VANISHED) from None
                if wait_s is None:
                    raise self._not_now(wanted, error) from error
            time.sleep(wait_s)
        raise AssertionError("the last try returns or raises")

    def _is_here(self, wanted: Range) -> bool:
        """Return whether the folder is here, so that a file that is not in it is gone; an unmounted one is empty, and another folder."""
        try:
            return _inode(os.stat(self.path)) == wanted.place or bool(os.listdir(self.path))
        except OSError:
            return False

    def _not_now(self, wanted: Range, error: OSError) -> SkytideError:
        return SkytideError(
            f"cannot read {self._path(wanted.stream)}: {error.strerror}; make it readable, or remove it from its folder if it is not wanted, "
            "and restart the query: it resumes where it was"
        )


def _check_same(number: int, wanted: Range) -> None:
    """Refuse an open file that is not, or no longer, the one of a range."""
    file_stat = os.fstat(number)
    if _inode(file_stat) != wanted.identity or (
        wanted.head and _head(os.pread(number, wanted.head & LENGTH_MASK, 0)) != wanted.head
    ):
        raise RangeLostError(REPLACED)
    if file_stat.st_size < wanted.end[0]:
        raise RangeLostError(TRUNCATED)
    for position, tail in zip((wanted.begin, wanted.end), wanted.tails, strict=True):
        if tail and _tail(number, position[0]) != tail:
            raise RangeLostError(REPLACED)


def _facts_of(name: str | None, folder: int) -> tuple[int, int, int]:
    try:
        return _facts(os.stat(name, dir_fd=folder)) if name else MISSING
    except OSError:  # removed since
        return MISSING


def _facts(file: os.stat_result) -> tuple[int, int, int]:
    return file.st_size, _inode(file), file.st_ctime_ns


def _inode(file: os.stat_result) -> int:
    return file.st_ino & INODE_MASK


def _head(data: bytes) -> int:
    """Return a checksum of how a file begins, with the number of its bytes."""
    return zlib.crc32(data) << LENGTH_BITS | len(data)


def _tail(number: int, at: int) -> int:
    """Return a checksum of what comes right before a position in an open file, which is never 0."""
    begin = max(0, at - TAIL_BYTES)
    return zlib.crc32(os.pread(number, at - begin, begin)) + 1
