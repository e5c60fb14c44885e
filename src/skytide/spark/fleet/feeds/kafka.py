"""Topics of Kafka: each partition is a stream, and the value of each message a record. Needs `pip install skytide[kafka]`."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from skytide.errors import InvalidInput, SkytideError
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
from skytide.spark.fleet.formats import Csv, JsonLines, LineFormat
from skytide.spark.fleet.states import StreamStates

CHUNK_MESSAGES = 20_000
TIMEOUT_S = 60.0
"""How long a server may take to answer, or to send the next message."""
CHECK_TIMEOUT_S = 15.0
"""The same before a query starts."""
POLL_S = 0.1
POLLED = 1_000
"""The maximum number of messages of one poll."""
FETCH_WAIT_MS = 20


@dataclass(frozen=True)
class Kafka(Feed):
    """The partitions of some topics, separated by commas. A stream is named `topic-partition`; a position is an offset."""

    servers: str
    topics: str
    schema: pa.Schema
    format: str = JsonLines.name

    parsers: ClassVar[dict[str, type[LineFormat]]] = {parser.name: parser for parser in (JsonLines, Csv)}

    def check(self) -> None:
        """Refuse servers that do not answer, and topics that do not exist."""
        try:
            topics = self._admin().list_topics(timeout=CHECK_TIMEOUT_S).topics
        except _module().KafkaException as error:
            reason = f"no broker answers: {error.args[0].str()}"
            raise InvalidInput(
                value=f"fleet('kafka://{self.servers}')", reason=reason, remedy="start one, or name another"
            ) from None
        for topic in self._topics():
            if topic not in topics or topics[topic].error is not None:
                remedy = f"choose from {', '.join(sorted(topics))}" if topics else "create it first: the server has no topic"
                raise InvalidInput(value=f"topics={self.topics!r}", reason=f"there is no topic {topic}", remedy=remedy)

    def discover(self, states: StreamStates, *, newest: bool = False) -> Discovery:
        """Return how far every partition can be read, by its first and last offset."""
        try:
            offsets = self._offsets()
        except _module().KafkaException as error:
            raise UnavailableError(f"cannot list the offsets of kafka://{self.servers}: {error.args[0].str()}") from error
        old = len(states.names)
        states = states.joined(sorted(offsets.keys() - states.rows.keys()))
        seen = np.array([offsets.get(name, (-1, -1)) for name in states.names], np.int64).reshape(-1, 2)
        low, high = seen[:, 0], seen[:, 1]
        there, new = high >= 0, np.arange(len(high)) >= old
        at = states.at.copy()
        skipped = dict.fromkeys(np.flatnonzero(there & (high < at[:, 0])).tolist(), REPLACED)
        skipped |= dict.fromkeys(np.flatnonzero(there & ~new & (low > at[:, 0])).tolist(), TRIMMED)
        at[:, 0] = np.where(there & ((at[:, 0] < low) | (at[:, 0] > high)), low, at[:, 0])
        if newest:
            at[new, 0] = high[new]
        states, kept, lost = settled(states, at, there, skipped)
        ends = states.at.copy()
        ends[:, 0] = np.maximum(high[kept], states.at[:, 0])
        return replace(self._discovered(states, ends, lost), forgotten=int((~kept).sum()))

    def cut(self, discovery: Discovery, take: Counts) -> Cut:
        """Return what is let in up to offsets that are further by as many tuples, or the ends."""
        ends = discovery.ends.copy()
        ends[:, 0] = np.minimum(ends[:, 0], discovery.states.at[:, 0] + take)
        return Cut.at(discovery, ends)

    def read(self, ranges: Sequence[Range]) -> Iterator[Records]:
        """Yield the records of all ranges, read by one consumer, some messages at a time."""
        parser = self.parsers[self.format](self.schema)
        numbers = {_partition(wanted.stream): number for number, wanted in enumerate(ranges)}
        reading = _Reading(self.servers, {partition: ranges[number] for partition, number in numbers.items()})
        parts: dict[int, list[bytes]] = {}
        count = 0
        for partition, value in reading.values():
            parts.setdefault(numbers[partition], []).append(value)
            count += 1
            if count >= CHUNK_MESSAGES:
                yield _records(parser, parts, ())
                parts, count = {}, 0
        gone = tuple(Skipped(ranges[numbers[partition]].stream, TRIMMED) for partition in reading.trimmed)
        yield _records(parser, parts, gone)

    def _discovered(self, states: StreamStates, ends: Positions, skipped: tuple[Skipped, ...]) -> Discovery:
        return Discovery(states, ends, ends[:, 0] - states.at[:, 0], ends[:, 0].copy(), np.ones(len(ends)), skipped)

    def _topics(self) -> list[str]:
        return [topic.strip() for topic in self.topics.split(",")]

    def _offsets(self) -> dict[str, tuple[int, int]]:
        """Return the first and last offset of each partition."""
        kafka, admin = _module(), self._admin()
        listed = admin.list_topics(timeout=TIMEOUT_S).topics
        topics = [listed[topic] for topic in self._topics() if topic in listed]
        for topic in topics:
            error = topic.error
            if error is not None and error.code() != kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:  # its partitions are unknown now
                raise kafka.KafkaException(error)
        partitions = [kafka.TopicPartition(topic.topic, number) for topic in topics for number in topic.partitions]
        bounds = []
        for spec in (kafka.admin.OffsetSpec.earliest(), kafka.admin.OffsetSpec.latest()):
            answers = admin.list_offsets(dict.fromkeys(partitions, spec), request_timeout=TIMEOUT_S)
            bounds.append({f"{of.topic}-{of.partition}": answer.result().offset for of, answer in answers.items()})
        return {name: (low, bounds[1][name]) for name, low in bounds[0].items()}

    def _admin(self) -> Any:
        return _admin(self.servers, os.getpid())


class _Reading:
    """Reads ranges of partitions. Offsets may have gaps, so only the position of the consumer shows when a range has ended."""

    def __init__(self, servers: str, ranges: dict[tuple[str, int], Range]) -> None:
        self._consumer, self._ranges = _consumer(servers, os.getpid()), ranges
        self._left = set(ranges)
        self._first: dict[tuple[str, int], int] = {}

    @property
    def trimmed(self) -> list[tuple[str, int]]:
        """The partitions whose first messages were gone."""
        return [
            partition for partition, wanted in self._ranges.items() if self._first.get(partition, wanted.end[0]) > wanted.begin[0]
        ]

    def values(self) -> Iterator[tuple[tuple[str, int], bytes]]:
        """Yield the values of all messages, in order within each partition."""
        kafka = _module()
        starts = [kafka.TopicPartition(*partition, wanted.begin[0]) for partition, wanted in self._ranges.items()]
        self._consumer.assign(starts)
        self._consumer.resume(starts)  # those of an earlier batch stay paused
        heard_s = time.monotonic()
        while self._left:
            messages = self._consumer.consume(POLLED, POLL_S)
            for message in messages:
                if message.error() is None:
                    heard_s = time.monotonic()
                    yield from self._value(message)
                elif message.error().code() != kafka.KafkaError._PARTITION_EOF:
                    raise SkytideError(f"{message.topic()}-{message.partition()}: {message.error().str()}")
            if len(messages) < POLLED:
                self._note_ends(kafka)
            if time.monotonic() - heard_s > TIMEOUT_S:
                partition = "-".join(map(str, min(self._left)))
                raise SkytideError(f"partition {partition}: no message for {TIMEOUT_S:.0f} s; check the load of the brokers")
        self._consumer.unassign()

    def _value(self, message: Any) -> Iterator[tuple[tuple[str, int], bytes]]:
        partition = message.topic(), message.partition()
        if partition in self._left:
            self._first.setdefault(partition, message.offset())
            if message.offset() < self._ranges[partition].end[0] and message.value() is not None:
                yield partition, message.value()
            if message.offset() >= self._ranges[partition].end[0] - 1:
                self._end(partition)

    def _note_ends(self, kafka: Any) -> None:
        """End ranges whose last offsets hold no message."""
        for position in self._consumer.position([kafka.TopicPartition(*partition) for partition in self._left]):
            partition = position.topic, position.partition
            if position.offset >= self._ranges[partition].end[0]:
                self._end(partition)

    def _end(self, partition: tuple[str, int]) -> None:
        self._left.discard(partition)
        self._consumer.pause([_module().TopicPartition(*partition)])


def _records(parser: LineFormat, parts: dict[int, list[bytes]], skipped: tuple[Skipped, ...]) -> Records:
    """Return messages parsed as lines; a line break within one is a space to JSON, and breaks a record of CSV."""
    lines = [(number, b"".join(value.strip().replace(b"\n", b" ") + b"\n" for value in values)) for number, values in parts.items()]
    read = parser.parse(lines)
    return Records(read.rows, read.parts, read.broken, skipped)


def _partition(stream: str) -> tuple[str, int]:
    topic, _, number = stream.rpartition("-")
    return topic, int(number)


def _module() -> Any:
    """Return the module of Kafka's client."""
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError:
        raise InvalidInput(
            value="a fleet on Kafka", reason="its client is not installed", remedy="run `pip install skytide[kafka]` on all hosts"
        ) from None
    return confluent_kafka


@lru_cache(maxsize=8)
def _admin(servers: str, process: int) -> Any:
    """Return a client that this process keeps; a forked process must not use that of its parent."""
    return _module().admin.AdminClient({"bootstrap.servers": servers, "log_level": 0})


@lru_cache(maxsize=8)
def _consumer(servers: str, process: int) -> Any:
    return _module().Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "skytide",  # the client requires it; nothing is committed under it
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": FETCH_WAIT_MS,
            "log_level": 0,
        }
    )
