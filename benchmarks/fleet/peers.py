"""What a user would have without a fleet: a task for each stream, one reader for all, or files that Spark reads when they are closed."""

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.json as pa_json
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

COLUMNS = "id bigint, ts timestamp, x double, y double"
SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("x", pa.float64()), ("y", pa.float64())])


@dataclass(frozen=True)
class Ranges(InputPartition):
    """Bytes of some files."""

    ranges: tuple[tuple[str, int, int], ...]


class PlainReader(DataSourceStreamReader):
    """As the documentation of PySpark shows it: offsets of all files in one dict."""

    def __init__(self, folder: str, one_each: bool) -> None:
        self.folder, self.one_each = folder, one_each

    def initialOffset(self) -> dict[str, int]:
        return {}

    def latestOffset(self) -> dict[str, int]:
        with os.scandir(self.folder) as listing:
            return {entry.name: entry.stat().st_size for entry in listing}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Ranges]:
        ranges = [(name, start.get(name, 0), size) for name, size in end.items() if size > start.get(name, 0)]
        return [Ranges((each,)) for each in ranges] if self.one_each else [Ranges(tuple(ranges))]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        for name, begin, end in partition.ranges:
            with open(os.path.join(self.folder, name), "rb") as file:
                file.seek(begin)
                data = file.read(end - begin)
            options = pa_json.ParseOptions(explicit_schema=SCHEMA)
            table = pa_json.read_json(io.BytesIO(data), parse_options=options)
            yield from table.append_column("stream", pa.array([name.removesuffix(".jsonl")] * table.num_rows)).to_batches()


class PlainSource(DataSource):
    """A plain Python data source."""

    @classmethod
    def name(cls) -> str:
        return "plain"

    def schema(self) -> str:
        return f"{COLUMNS}, stream string"

    def streamReader(self, schema: StructType) -> PlainReader:
        return PlainReader(self.options["path"], self.options["one_each"] == "true")


def a_task_each(spark: SparkSession, folder: str) -> DataFrame:
    """Return a DataFrame with a partition for each stream."""
    return _plain(spark, folder, "true")


def one_reader(spark: SparkSession, folder: str) -> DataFrame:
    """Return a DataFrame with one partition."""
    return _plain(spark, folder, "false")


def closed_files(spark: SparkSession, folder: str) -> DataFrame:
    """Return Spark's own source of JSON files: it reads each file once, so they have to be closed."""
    return spark.readStream.schema(COLUMNS).json(folder)


def _plain(spark: SparkSession, folder: str, one_each: str) -> DataFrame:
    spark.dataSource.register(PlainSource)
    return spark.readStream.format("plain").options(path=folder, one_each=one_each).load()
