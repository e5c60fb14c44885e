"""Where windows go. A sink gets a batch's results under a number, and the same number again if the batch is repeated."""

import os
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from skytide.errors import InvalidInput
from skytide.spark.checkpoint import place_of
from skytide.spark.parquet_sink import ParquetSink

Sink = Callable[[DataFrame, int], object]
"""A function of a batch's results and its number, which does the same again if called again with the same number."""
SideSink = Sink | str | os.PathLike[str]
"""A function, or the path of a Parquet folder."""

FORMATS = ("parquet", "console", "memory")


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


def sink_of(sink: Any, path: str | os.PathLike[str] | None, spark: SparkSession) -> Sink:
    """Give the sink that a user asked for: a function, or a format by name."""
    if callable(sink):
        return sink  # type: ignore[no-any-return]
    if sink == "parquet" and path:
        return _parquet(spark, path, "path")
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


def side_sink_of(sink: Any, name: str, spark: SparkSession) -> Sink | None:
    """Give the sink of a side output: a function, or the path of a Parquet folder."""
    if sink is None:
        return None
    if callable(sink):
        return sink  # type: ignore[no-any-return]
    if isinstance(sink, str | os.PathLike):
        return _parquet(spark, sink, name)
    raise InvalidInput(
        value=f"{name}={sink!r}", reason="not a sink", remedy="pass a function of (rows, batch_id), or the path of a Parquet folder"
    )


def _parquet(spark: SparkSession, path: Any, name: str) -> ParquetSink:
    place = place_of(spark, path, name)
    return ParquetSink(place.uri, place.options)
