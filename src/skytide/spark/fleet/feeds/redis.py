"""Redis Streams: each key is a stream, and each entry a record. Needs `pip install skytide[redis]`, and Redis 7.

A position is the number of entries so far, and the id of the last one. One script on the server describes hundreds of streams, and another
joins the entries of hundreds: a call per stream would cost ten times as much.
"""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.errors import InvalidInput
from skytide.errors.limits import MAX_COUNT
from skytide.records.secret import Secret
from skytide.spark.fleet.feeds.feed import (
    REPLACED,
    TRIMMED,
    Counts,
    Cut,
    Discovery,
    Feed,
    Positions,
    Range,
    Records,
    Skipped,
    UnavailableError,
    settled,
)
from skytide.spark.fleet.feeds.listing import file_of, stream_of
from skytide.spark.fleet.formats import Cells, Csv, JsonLines, LineFormat
from skytide.spark.fleet.states import StreamStates

KEYS_PER_CALL = 500
ENTRIES_PER_CALL = 20_000
TIMEOUT_S = 60
MIN_VERSION = 7


@dataclass(frozen=True)
class Redis(Feed):
    """The streams of a server whose keys match a pattern. An entry has one field per column, or one field with a JSON object or CSV."""

    url: str
    pattern: str
    schema: pa.Schema
    format: str = Cells.name
    password: Secret | None = None

    parsers: ClassVar[dict[str, type[LineFormat]]] = {parser.name: parser for parser in (Cells, JsonLines, Csv)}

    def check(self) -> None:
        """Refuse a server that does not answer, or is too old."""
        module, server = _module(), _server(self.url, self.password)
        try:
            version = str(server.info("server")["redis_version"])
        except module.exceptions.RedisError as error:
            raise InvalidInput(
                value=f"fleet({self.url!r})",
                reason=f"the server does not answer: {error}",
                remedy="start it, or name another",
            ) from None
        if int(version.split(".", maxsplit=1)[0]) < MIN_VERSION:
            raise InvalidInput(
                value=f"Redis {version}",
                reason="it does not count the entries of a stream",
                remedy=f"use Redis {MIN_VERSION} or newer",
            )

    def discover(self, states: StreamStates, *, newest: bool = False) -> Discovery:
        """Return how far all streams can be read, as the server describes them."""
        module = _module()
        try:
            described = self._describe()
        except module.exceptions.RedisError as error:
            raise UnavailableError(f"cannot list the streams of {self.url}: {error}") from error
        old = len(states.names)
        states = states.joined(sorted(described.keys() - states.rows.keys()))
        numbers = np.array([described.get(name, (-1, 0, 0, 0)) for name in states.names], np.int64).reshape(-1, 4)
        added, length, ends = numbers[:, 0], numbers[:, 1], numbers[:, [0, 2, 3]]
        there, new = added >= 0, np.arange(len(added)) >= old
        at = states.at.copy()
        skipped = dict.fromkeys(np.flatnonzero(there & ((added < at[:, 0]) | _after(at[:, 1:], ends[:, 1:]))).tolist(), REPLACED)
        at[list(skipped)] = 0
        if newest:
            at[new] = ends[new]
        states, kept, lost = settled(states, at, there, skipped)
        ends = np.where(there[kept, None], ends[kept], states.at)
        return replace(self._discovered(states, ends, length[kept], lost), forgotten=int((~kept).sum()))

    def cut(self, discovery: Discovery, take: Counts) -> Cut:
        """Return what is let in up to where as many entries end; of streams that are not let in completely, the server knows."""
        ends = discovery.ends.copy()
        rows = np.flatnonzero(take < discovery.waiting)
        ends[rows] = discovery.states.at[rows]
        for some in _chunks(rows[take[rows] > 0].tolist()):
            names = [discovery.states.names[row] for row in some]
            arguments = [
                text for row in some for text in (_id(discovery.states.at[row]), _id(discovery.ends[row]), str(int(take[row])))
            ]
            for row, answer in zip(some, self._call("cut", names, arguments), strict=True):
                count, last = answer.decode().split(" ")
                ends[row] = (discovery.states.at[row, 0] + int(count), *_numbers(last))
                if int(count) < take[row]:  # there are fewer than were counted: some were deleted
                    ends[row] = discovery.ends[row]
        return Cut.at(discovery, ends)

    def read(self, ranges: Sequence[Range]) -> Iterator[Records]:
        """Yield the records of ranges, hundreds of streams per call."""
        parser = self.parsers[self.format](self.schema)
        for some in _chunks(range(len(ranges))):
            yield from self._read(parser, ranges, some)

    def _read(self, parser: LineFormat, ranges: Sequence[Range], numbers: list[int]) -> Iterator[Records]:
        """Yield records, asking again from where an answer ended, until nothing more comes."""
        after = {number: _id(ranges[number].begin) for number in numbers}
        missing = {number: ranges[number].end[0] - ranges[number].begin[0] for number in numbers}
        left, more = numbers, True
        while left:
            arguments = [self.format, json.dumps(self.schema.names), str(ENTRIES_PER_CALL)]
            arguments += [text for number in left for text in (after[number], _id(ranges[number].end))]
            answers = self._call("read", [ranges[number].stream for number in left], arguments)
            ends = [text.decode().split(" ") for text in answers[1::2]]
            more = sum(int(count) for count, _ in ends) >= ENTRIES_PER_CALL
            for number, (count, last) in zip(left, ends, strict=True):
                missing[number], after[number] = missing[number] - int(count), last
            read = parser.parse(list(zip(left, answers[::2], strict=True)))
            left = [number for number in left if more and after[number] != _id(ranges[number].end)]
            gone = () if left else tuple(Skipped(ranges[number].stream, TRIMMED) for number in numbers if missing[number] > 0)
            yield Records(read.rows, read.parts, read.broken, gone)

    def _discovered(self, states: StreamStates, ends: Positions, length: Counts, skipped: tuple[Skipped, ...]) -> Discovery:
        waiting = np.minimum(ends[:, 0] - states.at[:, 0], length)
        return Discovery(states, ends, waiting, ends[:, 0].copy(), np.ones(len(waiting)), skipped)

    def _describe(self) -> dict[str, tuple[int, ...]]:
        """Return, for each stream, the number of entries ever added, the number that are there, and the last id."""
        described: dict[str, tuple[int, ...]] = {}
        cursor = "0"
        while True:
            answer = self._call("list", [], [cursor, self.pattern, str(KEYS_PER_CALL)])
            cursor, keys, numbers = (text.decode("utf-8", "surrogateescape") for text in answer)
            if numbers:  # Lua does not write an empty list in JSON
                rows = np.array(numbers.split(" "), np.uint64).clip(max=MAX_COUNT).astype(np.int64).reshape(-1, 4)
                described.update(zip(map(stream_of, json.loads(keys)), map(tuple, rows.tolist()), strict=True))
            if cursor == "0":
                return described

    def _call(self, script: str, streams: list[str], arguments: list[str]) -> list[bytes]:
        keys = [os.fsencode(file_of(stream)) for stream in streams]  # a key is bytes, as the name of a file
        answer: list[bytes] = _script(self.url, self.password, script)(keys=keys, args=arguments)
        return answer


def _module() -> Any:
    """Return the module of the client for Redis."""
    try:
        import redis
    except ImportError:
        raise InvalidInput(
            value="a fleet on Redis", reason="its client is not installed", remedy="run `pip install skytide[redis]` on all hosts"
        ) from None
    return redis


@lru_cache(maxsize=8)
def _connected(url: str, password: Secret | None, process: int) -> Any:
    given = {} if password is None else {"password": password.reveal()}
    return _module().Redis.from_url(url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, **given)


def _server(url: str, password: Secret | None) -> Any:
    """Return a connection that this process keeps; a forked process must not use that of its parent."""
    return _connected(url, password, os.getpid())


@lru_cache(maxsize=32)
def _registered(url: str, password: Secret | None, name: str, process: int) -> Any:
    return _server(url, password).register_script(Path(__file__).with_name(f"redis_{name}.lua").read_text())


def _script(url: str, password: Secret | None, name: str) -> Any:
    return _registered(url, password, name, os.getpid())


def _chunks(items: Any) -> Iterator[list[Any]]:
    listed = list(items)
    return (listed[at : at + KEYS_PER_CALL] for at in range(0, len(listed), KEYS_PER_CALL))


def _id(position: Any) -> str:
    """Return the id of a position, as Redis writes it."""
    return f"{position[1]}-{position[2]}"


def _numbers(entry_id: str) -> tuple[int, int]:
    """Return the two numbers of an id; those that are too large for any clock are cut."""
    first, second = entry_id.split("-")
    return min(int(first), MAX_COUNT), min(int(second), MAX_COUNT)


def _after(first: Positions, second: Positions) -> NDArray[np.bool_]:
    """Return where the first ids come after the second ones."""
    return np.asarray((first[:, 0] > second[:, 0]) | ((first[:, 0] == second[:, 0]) & (first[:, 1] > second[:, 1])))
