"""Where windows go. A sink gets a batch's results under a number, and the same number again if the batch is repeated."""

import os
import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from skytide.errors import InvalidInput
from skytide.spark.store import Store

Sink = Callable[[DataFrame, int], Any]

FORMATS = ("parquet", "console", "memory")


class ParquetSink:
    """One folder a batch: `path/batch=12`. A repeated batch writes over its folder, so each window is there once.

    The task of the window level writes it itself: rows that are in Arrow already need not cross into the JVM for that.
    """

    def __init__(self, path: str) -> None:
        """Write below a path."""
        self.path, self.files = path, Store(path)

    def __call__(self, results: DataFrame, batch_id: int) -> None:
        """Write a batch of a DataFrame."""
        results.write.mode("overwrite").parquet(f"{self.path}/batch={batch_id}")

    def write(self, results: pa.Table, batch_id: int) -> None:
        """Write a batch."""
        self.files.write_parquet(f"batch={batch_id}/part-00000.parquet", results)

    def stage(self, results: pa.Table, batch_id: int) -> str:
        """Make results ready under a name of this attempt's own."""
        name = f"_skytide/{batch_id}-{uuid.uuid4().hex}.parquet"
        self.files.write_parquet(name, results)
        return name

    def publish(self, staged: str, batch_id: int) -> None:
        """Let readers see what was made ready."""
        target = self.files._path(f"batch={batch_id}/part-00000.parquet")
        if self.files._fs.get_file_info(self.files._path(staged)).type != 0:
            self.files._fs.create_dir(self.files._path(f"batch={batch_id}"), recursive=True)
            self.files._fs.move(self.files._path(staged), target)

    def clear(self, batch_id: int) -> None:
        """Remove what an earlier try of a batch wrote that now has nothing to write."""
        self.files.delete(f"batch={batch_id}")


class MemorySink:
    """Keeps all results on the driver, for tests and first steps."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._batches: dict[int, pa.Table] = {}

    def __call__(self, results: DataFrame, batch_id: int) -> None:
        """Keep a batch, in place of an earlier try."""
        self._batches[batch_id] = results.toArrow()

    def table(self) -> pa.Table:
        """Give all results so far, in the order they came out."""
        return pa.concat_tables([self._batches[number] for number in sorted(self._batches)]) if self._batches else pa.table({})


def console_sink(results: DataFrame, batch_id: int) -> None:
    """Print a batch."""
    print(f"batch {batch_id}")
    results.orderBy("window_start").show(truncate=False)


def sink_of(sink: Any, path: str | os.PathLike[str] | None) -> Sink:
    """Give the sink that a user asked for: a function, or a format by name."""
    if callable(sink):
        return sink  # type: ignore[no-any-return]
    if sink == "parquet" and path:
        return ParquetSink(os.fspath(path))
    if sink == "console":
        return console_sink
    if sink == "memory":
        return MemorySink()
    if sink == "parquet":
        raise InvalidInput(value='sink="parquet"', reason="it needs a folder to write to", remedy='pass path="/data/results"')
    raise InvalidInput(
        value=f"sink={sink!r}",
        reason="not a sink",
        remedy=f"pass a function of (results, batch_id), or one of {', '.join(map(repr, FORMATS))}",
    )


def side_sink_of(sink: Any, name: str) -> Sink | None:
    """Give the sink of a side output: a function, or the path of a Parquet folder."""
    if sink is None:
        return None
    if callable(sink):
        return sink  # type: ignore[no-any-return]
    if isinstance(sink, str | os.PathLike):
        return ParquetSink(os.fspath(sink))
    raise InvalidInput(
        value=f"{name}={sink!r}", reason="not a sink", remedy="pass a function of (rows, batch_id), or the path of a Parquet folder"
    )
