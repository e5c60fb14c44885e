"""A stream of a row per second, in files that Spark reads one per batch."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession


def seconds(spark: SparkSession, folder: Path, files: int, rows: int) -> DataFrame:
    """Write files with a row for each of `rows` seconds, and return the stream that reads them."""
    folder.mkdir()
    for number in range(files):
        times = pa.array([n * 1_000_000 for n in range(number * rows, number * rows + rows)], pa.timestamp("us", "UTC"))
        file = folder / f"{number}.parquet"
        pq.write_table(pa.table({"ts": times}), file)
        os.utime(file, (number, number))  # Spark reads the oldest file first
    return spark.readStream.schema("ts timestamp").option("maxFilesPerTrigger", 1).parquet(str(folder))
