"""Skytide and Spark's own windows on the same stream: processor time per row, and whether they keep up."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.state import spark_windows
from benchmarks.state.common import Mark, follow, numbers, started, tuples
from benchmarks.state.memory import Peaks, watched


@dataclass(frozen=True)
class Stream:
    """The tuples, how they are cut into windows, and how many are in a batch."""

    rate_hz: int
    key: str
    batch_s: int
    window: str
    slide: str | None = None

    @property
    def per_batch(self) -> int:
        """How many tuples a batch has."""
        return self.rate_hz * self.batch_s


@dataclass(frozen=True)
class Measured:
    """What some batches cost."""

    batches: int
    rows: int
    seconds: float
    cpu_s: float
    stream_s: float
    """The time that these rows take to come."""
    peaks: Peaks

    @property
    def cpu_per_million_s(self) -> float:
        """The processor seconds of a million rows."""
        return self.cpu_s / self.rows * 1e6

    @property
    def load(self) -> float:
        """The seconds that it takes to process a second of the stream: below 1 it keeps up."""
        return self.seconds / self.stream_s

    def row(self, name: str) -> list[str]:
        """Return a row of a table."""
        memory = [f"{self.peaks.mb.get(kind, 0.0):,.0f}" for kind in ("driver", "Java", "workers")]
        return [name, f"{self.batches:,}", f"{self.rows:,}", f"{self.load:.3f}", f"{self.cpu_per_million_s:.2f}", *memory]

    def figures(self) -> dict[str, float]:
        """Return the numbers for the machine-readable copy."""
        peaks = {f"{kind} MB": mb for kind, mb in self.peaks.mb.items()}
        files = {"files": self.peaks.files, "manifest_kb": self.peaks.manifest_kb}
        cost = {"load": self.load, "cpu_s_per_million": self.cpu_per_million_s}
        return {"batches": self.batches, "rows": self.rows, **cost, **peaks, **files}


COLUMNS = ("contestant", "batches", "rows", "seconds per second", "CPU s/million rows", "driver MB", "Java MB", "workers MB")


def between(marks: Sequence[Mark], stream: Stream, peaks: Peaks) -> Measured:
    """Return what the batches between the first mark and the last cost; if none has ended, what the first has cost so far."""
    first, last = marks[0], marks[-1] if len(marks) > 1 else Mark.now(marks[0].batch)
    batches = max(1, last.batch - first.batch)
    spent = (last.at_s - first.at_s, last.cpu_s - first.cpu_s)
    return Measured(batches, batches * stream.per_batch, *spent, batches * stream.batch_s, peaks)


def skytide_of(spark: SparkSession, stream: Stream, folder: Path, first: int, last: int) -> tuple[Measured, Measured]:
    """Let skytide process the stream until a batch, and return what it took up to batch `first`, and from there to `last`."""
    rows = tuples(numbers(spark, stream.per_batch), stream.rate_hz, stream.key)
    with watched(folder / "checkpoint") as peaks:
        run = started(rows, folder, stream.window, stream.slide)
        filling = follow(run.query, first)
        measured = follow(run.query, last)
        run.stop()
    return between(filling, stream, peaks), between(measured, stream, peaks)


def spark_of(
    spark: SparkSession, stream: Stream, folder: Path, first: int, last: int, seconds: float = float("inf")
) -> tuple[Measured, Measured]:
    """Let Spark process the stream likewise, but for some seconds at most."""
    rows = tuples(numbers(spark, stream.per_batch), stream.rate_hz, stream.key)
    with watched() as peaks:
        query = spark_windows.started(rows, folder, stream.window, stream.slide)
        filling = follow(query, first, seconds)
        left_s = seconds - (filling[-1].at_s - filling[0].at_s)
        measured = follow(query, last, left_s) if filling[-1].batch >= first else filling
        query.stop()
    return between(filling, stream, peaks), between(measured, stream, peaks)
