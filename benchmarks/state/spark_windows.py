"""The same windows by Spark's own `groupBy(window(...))`, with its state in RocksDB."""

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery


def started(rows: DataFrame, folder: Path, window: str, slide: str | None = None) -> StreamingQuery:
    """Start Spark's aggregates of the windows of keys, as Parquet files; a window comes out when the watermark has passed its end."""
    windows = F.window("ts", window, slide)
    measures = (F.count("*").alias("n"), F.sum("v").alias("total"), F.max("v").alias("top"))
    answered = rows.withWatermark("ts", "0 seconds").groupBy(windows, "key").agg(*measures)
    named = answered.select(F.col("window.start").alias("window_start"), "key", "n", "total", "top")
    writer = named.writeStream.format("parquet").outputMode("append").trigger(processingTime="0 seconds")
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start(str(folder / "out"))
