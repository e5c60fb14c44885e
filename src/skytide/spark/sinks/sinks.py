"""Where windows go. A sink gets a batch's results under a number, and the same number again if the batch is repeated."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from skytide.errors import InvalidInput
from skytide.errors.checks import refused
from skytide.spark.checkpoint import place_of
from skytide.spark.sinks.parquet import ParquetSink
from skytide.spark.types import arrow_schema

Sink = Callable[[DataFrame, int], object]
"""A function of a batch's results and its number; called again with the same number, it must do the same again."""
SideSink = Sink | str | os.PathLike[str]
"""A function, or the path of a Parquet folder."""

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


class FormatSink:
    """Any format that Spark can write to.

    Files are written into one folder per batch number, so that each window is there once. Other formats get batches appended, with the
    number as the transaction, which Delta does not apply twice; the rest may have the last batch twice after a crash.
    """

    def __init__(self, format: str, path: str | None, options: Mapping[str, str], application: str) -> None:
        """Write to a format, below a path if it has one; `application` distinguishes our transactions from others."""
        self._format, self._path, self._options, self._application = format, path, dict(options), application

    def __call__(self, results: DataFrame, batch_id: int) -> None:
        """Write a batch, in place of an earlier attempt at it."""
        writer = results.write.format(self._format).options(**self._options)
        if self._format.lower() in FILE_FORMATS:
            writer.mode("overwrite").save(f"{self._path}/batch={batch_id}")
        else:
            writer.options(txnAppId=self._application, txnVersion=str(batch_id)).mode("append").save(self._path)


class TableSink:
    """A table in Spark's catalog, to which batches are appended as in `FormatSink`."""

    def __init__(self, table: str, format: str | None, options: Mapping[str, str], application: str) -> None:
        """Append to a table, which is created in this format if it does not exist."""
        self._table, self._format, self._options, self._application = table, format, dict(options), application

    def __call__(self, results: DataFrame, batch_id: int) -> None:
        """Append a batch."""
        writer = results.write.options(**self._options, txnAppId=self._application, txnVersion=str(batch_id))
        (writer.format(self._format) if self._format else writer).mode("append").saveAsTable(self._table)


def console_sink(results: DataFrame, batch_id: int) -> None:
    """Print the results of a batch, in order of windows."""
    print(f"batch {batch_id}")
    results.orderBy("window_start").show(truncate=False)


def sink_of(
    sink: Any,
    path: str | os.PathLike[str] | None,
    spark: SparkSession,
    options: Mapping[str, str] | None = None,
    application: str = "",
) -> Sink:
    """Return the sink that a user asked for: a function, or a format by name."""
    if callable(sink):
        return sink  # type: ignore[no-any-return]
    if sink == "parquet" and path:
        return _parquet(spark, path, "path")
    if sink == "console":
        return console_sink
    if sink == "memory":
        return MemorySink(spark)
    if sink == "parquet":
        raise InvalidInput(value='sink="parquet"', reason="it needs a folder to write to", remedy='pass path="/data/results"')
    if isinstance(sink, str) and sink.lower() in FILE_FORMATS and not path:
        raise InvalidInput(value=f"sink={sink!r}", reason="it needs a folder to write to", remedy='pass path="/data/results"')
    if isinstance(sink, str) and _is_known(sink, spark):
        return FormatSink(sink, None if path is None else os.fspath(path), options or {}, application)
    raise InvalidInput(
        value=f"sink={sink!r}",
        reason="not a sink, nor a format that this Spark knows",
        remedy=f"pass a function of (results, batch_id), one of {', '.join(map(repr, FORMATS))}, or a format whose package Spark was started with",
    )


def _is_known(format: str, spark: SparkSession) -> bool:
    """Return whether Spark finds a format."""
    try:
        sources = spark._jvm.org.apache.spark.sql.execution.datasources.DataSource  # type: ignore[union-attr]
        sources.lookupDataSource(format, spark._jsparkSession.sessionState().conf())
    except Exception:
        return False
    return True


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


def _parquet(spark: SparkSession, path: Any, name: str) -> ParquetSink:
    place = place_of(spark, path, name)
    return ParquetSink(place.uri, place.options)
