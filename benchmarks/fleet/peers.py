"""What a user would have without a fleet: one task per stream, one reader for all streams, or files that Spark reads once they are closed."""

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
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
    """Bytes of some files, or entries of some keys."""

    ranges: tuple[tuple[str, Any, Any], ...]


class PlainReader(DataSourceStreamReader):
    """A reader as in PySpark's documentation: the offsets of all files are in one dict."""

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


class PlainRedisReader(DataSourceStreamReader):
    """The same for Redis Streams: the last ids of all keys are in one dict, and all keys are read by one pipeline."""

    def __init__(self, url: str, pattern: str, one_each: bool) -> None:
        self.url, self.pattern, self.one_each = url, pattern, one_each

    def initialOffset(self) -> dict[str, str]:
        return {}

    def latestOffset(self) -> dict[str, str]:
        server = self._server()
        keys = [key.decode() for key in server.scan_iter(match=self.pattern, count=5_000)]
        pipe = server.pipeline(transaction=False)
        for key in keys:
            pipe.xrevrange(key, count=1)
        return {key: entries[0][0].decode() for key, entries in zip(keys, pipe.execute(), strict=True)}

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[Ranges]:
        ranges = [(key, start.get(key, "0-0"), last) for key, last in end.items() if last != start.get(key)]
        return [Ranges((each,)) for each in ranges] if self.one_each else [Ranges(tuple(ranges))]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        pipe = self._server().pipeline(transaction=False)
        for key, begin, end in partition.ranges:
            pipe.xrange(key, f"({begin}", end)
        rows = []
        for (key, _, _), entries in zip(partition.ranges, pipe.execute(), strict=True):
            for _, fields in entries:
                values = {name.decode(): value.decode() for name, value in fields.items()}
                at = datetime.fromisoformat(values["ts"])
                rows.append({"id": int(values["id"]), "ts": at, "x": float(values["x"]), "y": float(values["y"]), "stream": key})
        yield pa.RecordBatch.from_pylist(rows, SCHEMA.append(pa.field("stream", pa.string())))

    def _server(self) -> Any:
        import redis

        return redis.Redis.from_url(self.url)


class PlainSource(DataSource):
    """A plain Python data source."""

    @classmethod
    def name(cls) -> str:
        return "plain"

    def schema(self) -> str:
        return f"{COLUMNS}, stream string"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        path, one_each = self.options["path"], self.options["one_each"] == "true"
        return (
            PlainRedisReader(path, self.options["pattern"], one_each) if "pattern" in self.options else PlainReader(path, one_each)
        )


def plain_files(spark: SparkSession, folder: Path, *, one_each: bool = False) -> DataFrame:
    """Return a DataFrame with one partition, or with one per stream."""
    spark.dataSource.register(PlainSource)
    return spark.readStream.format("plain").options(path=str(folder), one_each=one_each).load()


def plain_redis(spark: SparkSession, url: str, pattern: str, *, one_each: bool = False) -> DataFrame:
    """Return the same for Redis Streams."""
    spark.dataSource.register(PlainSource)
    return spark.readStream.format("plain").options(path=url, pattern=pattern, one_each=one_each).load()


def closed_files(spark: SparkSession, folder: Path) -> DataFrame:
    """Return Spark's own source of JSON files, which reads each file once, so that files have to be closed."""
    return spark.readStream.schema(COLUMNS).json(str(folder))
