"""What comes to the query of a case: a DataFrame with whatever Spark does before us, skytide's own source, or a fleet."""

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skytide
from campaign import cases, streams
from campaign.feeding import RIGHT, SECOND_FOLDER

SHUFFLED = 3
PROVIDERS = "org.apache.spark.sql.execution.streaming.state"
CAPACITY_HZ = 400.0


def source(spark: SparkSession, case: cases.Case, life: cases.Life, folder: Path) -> Any:
    """Return the stream of the case, divided as in this life."""
    stream = case.stream
    if isinstance(stream, cases.Workload):
        return streams.workload(stream, partitions=max(1, life.partitions))
    if isinstance(stream, cases.Fleet):
        limits: dict[str, Any] = {"splits": life.pane_slots[0], "interval": "100 ms", "latency": "1 s", "capacity_hz": CAPACITY_HZ}
        return skytide.fleet(folder / "in", schema=streams.SPARK_COLUMNS, format=stream.format, **limits)
    use_store(spark, stream)
    df = prepared(_files(spark, stream, life, folder / "in"), stream, lambda: _files(spark, stream, life, folder / SECOND_FOLDER))
    return df.repartition(life.partitions) if life.partitions and stream.input != "shuffled" else df


def use_store(spark: SparkSession, stream: cases.Files) -> None:
    """Choose where Spark keeps the state of operators of its own; RocksDB with checkpoints that have ids."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", f"{PROVIDERS}.{stream.state_store}")
    rocks = stream.state_store == cases.STATE_STORES[1]
    spark.conf.set("spark.sql.streaming.stateStore.checkpointFormatVersion", "2" if rocks else "1")


def _files(spark: SparkSession, stream: cases.Files, life: cases.Life, folder: Path) -> DataFrame:
    reader = spark.readStream.schema(streams.SPARK_COLUMNS).option("maxFilesPerTrigger", life.files_per_batch)
    return reader.format(stream.format).load(str(folder))


def prepared(df: DataFrame, stream: cases.Files, second: Any) -> DataFrame:
    """Return the files as the query gets them."""
    names, late = df.columns, f"{streams.watermark_us(stream)} microseconds"
    if stream.input == "shuffled":
        return df.repartition(SHUFFLED, "id")
    if stream.input == "not null":
        zeros = {"id": 0, "a": 0, "b": 0.0, "c": 0, "g": ""}
        return df.select(*(F.coalesce(name, F.lit(zeros[name])).alias(name) if name in zeros else name for name in names))
    if stream.input == "deduplicated":
        return df.withWatermark("ts", late).dropDuplicatesWithinWatermark(["id"])
    if stream.input == "joined":
        right = second().select(F.col("id").alias("other"), *RIGHT)
        return df.drop(*RIGHT).join(right, F.col("id") == F.col("other")).select(*names)
    if stream.input == "aggregated":
        groups = df.withWatermark("ts", late).groupBy(F.window("ts", f"{stream.group_us} microseconds"), "g")
        highest = {"id": F.min, "ts": F.max, "a": F.max, "b": F.max, "c": F.min, "d": F.count}
        return groups.agg(*(of(name).alias(name) for name, of in highest.items())).select(*names)
    return df
