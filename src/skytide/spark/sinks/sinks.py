"""Where windows go. A sink gets a batch's results under a number, and the same number again if the batch is repeated."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql.types import StructType

from skytide.errors import InvalidInput
from skytide.errors.checks import refused
from skytide.records.secret import hidden, revealed
from skytide.spark.arrow import arrow_schema
from skytide.spark.checkpoint import Place, place_of
from skytide.spark.checkpoint.folder import OwnedFolder, folder_of
from skytide.spark.compat import short_name
from skytide.spark.sinks.parquet import ParquetSink, codec_of

Sink = Callable[[DataFrame, int], object]
"""A function of a batch's results and its number; called again with the same number, it must do the same again."""
SideSink = Sink | str | os.PathLike[str]
"""A function, or the path of a Parquet folder."""

REDACTED = "spark.sql.redaction.options.regex"
FORMATS = ("parquet", "console", "memory")
FILE_FORMATS = ("avro", "csv", "json", "orc", "text", "xml")


class MemorySink:
    """Keeps all results on the driver, for tests and first steps."""

    def __init__(self, spark: SparkSession) -> None:
        """Start without results."""
        self._spark = spark
        self._batches: dict[int, pa.Table] = {}
        self._columns, self._name = StructType(), ""

    def begin(self, columns: StructType, name: str | None) -> None:
        """Start with an empty table of these columns; SQL knows it by the name, if one is given."""
        self._columns, self._name = columns, name or ""
        try:
            self._show()
        except PySparkException:
            remedy = 'use letters, digits and underscores, as in "best_hotels"'
            raise refused("name", name, "not a name for a table, which the sink memory makes", remedy) from None

    def __call__(self, results: DataFrame, batch_id: int) -> None:
        """Keep a batch, in place of an earlier attempt at it."""
        self._batches[batch_id] = results.toArrow()
        self._show()

    def table(self) -> pa.Table:
        """Return all results so far, in the order they came out."""
        batches = [self._batches[number] for number in sorted(self._batches)]
        return pa.concat_tables(batches) if batches else arrow_schema(self._columns).empty_table()

    def frame(self) -> DataFrame:
        """Return all results so far as a DataFrame."""
        return self._spark.createDataFrame(self.table(), self._columns)

    def _show(self) -> None:
        if self._name:
            self.frame().createOrReplaceTempView(self._name)


class FileSink(OwnedFolder):
    """Files of any format that Spark can write, in one folder per batch number, so that each window is there once."""

    def __init__(self, place: Place, format: str, options: Mapping[str, str]) -> None:
        """Write to a place in a format."""
        super().__init__(place.uri, place.options)
        self._format, self._options = format, hidden(options)

    def __call__(self, results: DataFrame, batch_id: int) -> None:
        """Write a batch, in place of an earlier attempt at it."""
        writer = results.write.format(self._format).options(**revealed(self._options))
        with _unprinted(results.sparkSession):
            writer.mode("overwrite").save(f"{self.path}/{folder_of(batch_id)}")


class Appending:
    """Batches that are appended, with the number as the transaction, which Delta does not apply twice; others may have the last batch twice after a crash."""

    def __init__(self, kind: str, options: Mapping[str, str]) -> None:
        """Use options of the format; `kind` is for people."""
        self._options, self.identity, self.kind = hidden(options), "", kind
        """What distinguishes our transactions from others, even of an earlier checkpoint in the same folder."""

    def _writer(self, results: DataFrame, batch_id: int) -> DataFrameWriter:
        writer = results.write.option("txnAppId", self.identity).options(**revealed(self._options))
        return writer.option("txnVersion", str(batch_id)).mode("append")


class FormatSink(Appending):
    """Any format that Spark can write to, other than files."""

    def __init__(self, format: str, path: str | None, options: Mapping[str, str]) -> None:
        """Append to a format, at a path if it has one."""
        super().__init__(f"format {format}", options)
        self._format, self._path = format, path

    def __call__(self, results: DataFrame, batch_id: int) -> None:
        """Append a batch."""
        with _unprinted(results.sparkSession):
            self._writer(results, batch_id).format(self._format).save(self._path)


class TableSink(Appending):
    """A table in Spark's catalog."""

    def __init__(self, table: str, format: str | None, options: Mapping[str, str]) -> None:
        """Append to a table, which is created in this format if it does not exist."""
        super().__init__(f"table {table}", options)
        self._table, self._format = table, format

    def __call__(self, results: DataFrame, batch_id: int) -> None:
        """Append a batch."""
        writer = self._writer(results, batch_id)
        with _unprinted(results.sparkSession):
            (writer.format(self._format) if self._format else writer).saveAsTable(self._table)


@contextmanager
def _unprinted(spark: SparkSession) -> Iterator[None]:
    """Let no option appear in Spark's plans, whatever its name is; this is the session of the batch."""
    before = spark.conf.get(REDACTED)
    spark.conf.set(REDACTED, "(?s).*")
    try:
        yield
    finally:
        spark.conf.set(REDACTED, before or "")


def console_sink(results: DataFrame, batch_id: int) -> None:
    """Print the results of a batch, in order of windows if it has some."""
    print(f"batch {batch_id}")
    (results.orderBy("window_start") if "window_start" in results.columns else results).show(truncate=False)


def sink_named(sink: Any, spark: SparkSession) -> Any:
    """Return what a user asked for: a function as it is, a format by the name that Spark has for it."""
    if callable(sink):
        return sink
    name = sink.lower() if isinstance(sink, str) else ""
    found = name if name in FORMATS else short_name(spark, sink) if name else None
    if found is None:
        raise InvalidInput(
            value=f"sink={sink!r}",
            reason="not a sink, nor a format that this Spark knows",
            remedy=f"pass a function of (results, batch_id), one of {', '.join(map(repr, FORMATS))}, or a format whose package Spark was started with",
        )
    return found


def sink_of(sink: Any, path: str | os.PathLike[str] | None, spark: SparkSession, options: Mapping[str, str] | None = None) -> Sink:
    """Return the sink that a user asked for, by its name as `sink_named` returns it."""
    given = dict(options or {})
    in_folder = sink == "parquet" or sink in FILE_FORMATS
    if callable(sink) or sink in ("console", "memory"):
        for argument in (name for name, value in (("path", path), ("options", options)) if value):
            remedy = f'leave {argument} out, or choose a sink that takes it, such as "parquet"'
            raise InvalidInput(value=f"{argument}=...", reason="this sink would ignore it", remedy=remedy)
    if in_folder and not path:
        raise InvalidInput(value=f"sink={sink!r}", reason="it needs a folder to write to", remedy='pass path="/data/results"')
    if callable(sink):
        return sink  # type: ignore[no-any-return]
    if sink == "console":
        return console_sink
    if sink == "memory":
        return MemorySink(spark)
    if sink == "parquet":
        return _parquet(spark, path, "path", codec_of(given))
    if in_folder:
        return FileSink(place_of(spark, path, "path"), sink, given)
    return FormatSink(sink, None if path is None else os.fspath(path), given)


def side_sink_of(sink: Any, name: str, spark: SparkSession) -> Sink | None:
    """Return the sink for a side output: a function, or the path of a Parquet folder."""
    if sink is None:
        return None
    if callable(sink):
        return sink  # type: ignore[no-any-return]
    if isinstance(sink, str | os.PathLike):
        return _parquet(spark, sink, name)
    raise InvalidInput(
        value=f"{name}={sink!r}", reason="not a sink", remedy="pass a function of (rows, batch_id), or the path of a Parquet folder"
    )


def _parquet(spark: SparkSession, path: Any, name: str, codec: str = "snappy") -> ParquetSink:
    place = place_of(spark, path, name)
    return ParquetSink(place.uri, place.options, compression=codec)
