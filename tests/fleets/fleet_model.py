"""A fleet without Spark: a reader that is called as Spark calls it, and what it has returned so far."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from places import COLUMNS
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StringType, StructField, StructType

from skytide.spark.fleet.channel import Channel, Control
from skytide.spark.fleet.reader import FleetReader
from skytide.spark.fleet.settings import Settings

SPARK_SCHEMA = StructType([StructField("n", LongType()), StructField("pad", StringType()), StructField("stream", StringType())])


class Asked:
    """Plays Spark: keeps the log of offsets, runs batches, and may be cut off at any point."""

    def __init__(self, notes: Path | None, **settings: Any) -> None:
        self.notes, self.settings = notes, settings
        self.log: list[dict[str, Any]] = []
        self.committed = 0
        self.given: dict[str, list[int]] = {}
        self.now_s = 1_000.0
        self.start()

    def start(self, **settings: Any) -> None:
        """Start a new reader, as after a crash."""
        self.settings |= settings
        known = Settings(schema=COLUMNS, notes=self.notes and str(self.notes), **self.settings)
        self.reader = FleetReader(known, known.feed(SPARK_SCHEMA), lambda: self.now_s)

    def batch(self, *, crash: str = "") -> int:
        """Run a batch: the one that was cut off, or the next one. Return how many rows came out."""
        if self.committed == len(self.log):
            start = self.log[-1] if self.log else _noted(self.reader.initialOffset())
            end = _noted(self.reader.latestOffset(start, ReadAllAvailable()))
            if end == start or crash == "before the log":
                return 0
            self.log.append(end)
        start = self.log[self.committed - 1] if self.committed else _noted(self.reader.initialOffset())
        rows = self.rows(start, self.log[self.committed])
        if crash == "before the commit":
            return 0
        for stream, n in rows:
            self.given.setdefault(stream, []).append(n)
        self.reader.commit(self.log[self.committed])
        self.committed += 1
        self.now_s += 1.0
        return len(rows)

    def rows(self, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[str, int]]:
        """Read a batch."""
        parts = self.reader.partitions(start, end)
        tables = [pa.Table.from_batches([batch]) for part in parts for batch in self.reader.read(part)]
        return [(row["stream"], row["n"]) for table in tables for row in table.to_pylist()]

    def all(self, most: int = 1_000) -> None:
        """Run batches until nothing is left."""
        for _ in range(most):
            before = self.committed
            self.batch()
            if self.committed == before:
                return
        raise AssertionError("there is no end to it")


def _noted(offset: dict[str, Any]) -> dict[str, Any]:
    """Return an offset as Spark stores it: as a text."""
    found: dict[str, Any] = json.loads(json.dumps(offset))
    return found


def record(n: int, pad: str = "") -> bytes:
    return json.dumps({"n": n, "pad": pad}).encode() + b"\n"


def write(asked: Asked, stream: str, *numbers: int) -> Path:
    """Append records to the file of a stream, and return it."""
    path = Path(asked.settings["place"]) / f"{stream}.jsonl"
    with path.open("ab") as file:
        file.write(b"".join(map(record, numbers)))
    return path


def status(asked: Asked) -> dict[str, Any]:
    """Return how the fleet is doing."""
    found = asked.reader._channel and asked.reader._channel.status()
    assert found
    return found


def rate_hz(asked: Asked, stream: str, column: str = "rate_hz") -> float:
    """Return the rate of a stream as the fleet has observed it, or the one that it expects."""
    streams = asked.reader._channel and asked.reader._channel.streams()
    assert streams is not None
    return float(dict(zip(streams["stream"].to_pylist(), streams[column].to_pylist(), strict=True))[stream])


def suspend(asked: Asked, suspended: dict[str, bool]) -> None:
    """Suspend streams, or let them in again."""
    Channel(asked.settings["channel"]).write_control(Control(suspended=suspended))
