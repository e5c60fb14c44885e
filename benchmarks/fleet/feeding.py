"""Streams that grow round by round, and queries whose batches are timed one by one."""

import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

WAIT_S = 600.0


class Files:
    """One growing file per stream, or one new file per stream and round for a source that only reads closed files."""

    def __init__(self, folder: Path, streams: int, *, closed: bool = False) -> None:
        self.folder, self.streams, self.closed = folder, streams, closed
        self.written, self.round = 0, 0
        folder.mkdir(parents=True)

    def write(self, records: int, active: int | None = None) -> None:
        """Append `records` records to each stream, or only to the first `active` ones."""
        for stream in range(self.streams if active is None else active):
            data = "".join(self._record(stream, number) for number in range(records))
            name = f"s{stream}-{self.round}.jsonl" if self.closed else f"s{stream}.jsonl"
            draft = self.folder / f".{name}"
            with (draft if self.closed else self.folder / name).open("a") as file:
                file.write(data)
            if self.closed:
                draft.rename(self.folder / name)
        self.round += 1

    def _record(self, stream: int, number: int) -> str:
        self.written += 1
        return f'{{"id":{self.written},"ts":"2026-01-01T00:00:{number % 60:02}Z","x":{stream * 0.5},"y":{number * 0.25}}}\n'


class RedisKeys:
    """Streams in Redis, one key per stream."""

    def __init__(self, url: str, prefix: str, streams: int) -> None:
        import redis

        self.server, self.prefix, self.streams, self.written = redis.Redis.from_url(url), prefix, streams, 0
        self.pattern = f"{prefix.translate(str.maketrans(dict.fromkeys('()', '?')))}:*"

    def write(self, records: int, active: int | None = None) -> None:
        """Append `records` entries to each stream, or only to the first `active` ones."""
        pipe = self.server.pipeline(transaction=False)
        for stream in range(self.streams if active is None else active):
            for number in range(records):
                self.written += 1
                entry = {"id": self.written, "ts": f"2026-01-01T00:00:{number % 60:02}Z", "x": stream * 0.5, "y": number * 0.25}
                pipe.xadd(f"{self.prefix}:{stream}", entry)
        pipe.execute()


@dataclass
class Timed:
    """A query that is held between batches, so that a round is one batch: from its release until its rows are counted."""

    name: str
    feed: Files | RedisKeys
    df: DataFrame
    read_planning_s: Callable[[], float] | None = None
    planning_s: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    answers: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._go, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._query: Any = None

    def start(self, records: int, active: int | None = None) -> None:
        """Write records and start the query; the first batch is not timed."""
        self.feed.write(records, active)
        self._checkpoint = tempfile.TemporaryDirectory()

        def batch(rows: DataFrame, _: int) -> None:
            count, total = rows.agg(F.count("*"), F.sum("id")).collect()[0]
            self.answers.append((count, total or 0))
            self._done.release()
            self._go.acquire(timeout=WAIT_S)

        writer = self.df.writeStream.foreachBatch(batch).option("checkpointLocation", self._checkpoint.name)
        self._query = writer.start()
        self._wait()

    def round(self, records: int, active: int | None = None) -> None:
        """Write records, and time the batch that reads them."""
        self.feed.write(records, active)
        began = time.perf_counter()
        self._go.release()
        self._wait()
        self.seconds.append(time.perf_counter() - began)
        if self.read_planning_s is not None:
            self.planning_s.append(self.read_planning_s())

    def stop(self) -> None:
        """End the query."""
        self._go.release()
        self._query.stop()
        self._checkpoint.cleanup()

    @property
    def median_s(self) -> float:
        """Return the time of the median round."""
        return median(self.seconds)

    @property
    def median_planning_s(self) -> float:
        """Return the time for listing streams, planning and saving offsets in the median round."""
        return median(self.planning_s)

    def _wait(self) -> None:
        end = time.monotonic() + WAIT_S
        while not self._done.acquire(timeout=0.2):
            if not self._query.isActive or time.monotonic() > end:
                raise RuntimeError(f"{self.name}: {self._query.exception() or 'no batch came'}")
