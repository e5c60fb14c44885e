"""Skytide's chain in both forms, and the two peers that a Spark user would write today, all on the same tuples and kernel."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

import skytide
from skytide import low
from skytide.kernels import Mask, Points, skyline
from skytide.spark.sources.workload import WorkloadStream

WINDOW, SLIDE = "1 second", "200 milliseconds"
WINDOW_US, SLIDE_US = 1_000_000, 200_000


Latencies = dict[int, float]  # seconds from the end of each window to its result, by the end in microseconds


@dataclass(frozen=True)
class Started:
    """A running query, and the latencies of the windows so far."""

    query: StreamingQuery
    latencies: Callable[[], Latencies]


class Contestant(Protocol):
    """Starts a query over a workload that writes its windows as Parquet below a folder."""

    def __call__(self, spark: SparkSession, source: WorkloadStream, folder: str, trigger: str) -> Started:
        """Start the query."""


def preferences(source: WorkloadStream) -> list[Any]:
    """Return preferences for low values of all columns."""
    return [low(f"x{i}") for i in range(source.workload.dimensions)]


def skytide_chain(pushed_down: bool, ask: Callable[[Any, WorkloadStream], Any]) -> Contestant:
    """Return skytide, with the pane level inside the source or in mapInArrow."""

    def start(spark: SparkSession, source: WorkloadStream, folder: str, trigger: str) -> Started:
        tuples: Any = source if pushed_down else source.load(spark)
        asked = ask(skytide.stream(tuples, time="ts").window(WINDOW, slide=SLIDE), source)
        run = asked.start("parquet", path=f"{folder}/results", checkpoint=f"{folder}/checkpoint", trigger=trigger)
        return Started(run.query, lambda: {row.window_end_us: row.latency_s for row in run.windows()})

    return start


def recompute(
    spark: SparkSession, source: WorkloadStream, folder: str, trigger: str, kernel: Callable[[Points], Mask] = skyline
) -> Started:
    """Start peer (b): foreachBatch keeps the rows of the last second on the driver, and computes each window anew from its rows."""
    kept: list[pa.Table] = []
    upcoming: list[int] = []
    latencies: Latencies = {}
    names = [f"x{i}" for i in range(source.workload.dimensions)]

    def on_batch(batch: DataFrame, batch_id: int) -> None:
        kept.append(batch.toArrow())
        rows = pa.concat_tables(kept)
        if rows.num_rows == 0:
            return
        times = rows["ts"].cast(pa.int64()).to_numpy()
        start = upcoming.pop() if upcoming else ((int(times.min()) - WINDOW_US) // SLIDE_US + 1) * SLIDE_US
        results = []
        while start + WINDOW_US <= times.max():
            inside = rows.filter(pa.array((times >= start) & (times < start + WINDOW_US)))
            best = inside.filter(pa.array(kernel(np.column_stack([inside[name].to_numpy() for name in names]))))
            results.append(best.append_column("window_start", pa.array([start] * best.num_rows, pa.timestamp("us", "UTC"))))
            start += SLIDE_US
        if results:
            _write(pa.concat_tables(results), folder, batch_id, latencies)
        upcoming.append(start)
        kept[:] = [rows.filter(pa.array(times >= start))]

    return _start(source.load(spark).writeStream.foreachBatch(on_batch), folder, trigger, latencies)


def stateful(spark: SparkSession, source: WorkloadStream, folder: str, trigger: str) -> Started:
    """Start peer (a): a stateful function on groupBy(window(...)) keeps the rows, and answers when the watermark has passed."""
    names = [f"x{i}" for i in range(source.workload.dimensions)]
    row = ", ".join(f"{name} double" for name in names)

    def keep(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        columns = [np.frombuffer(part, np.float64) for part in state.get] if state.exists else [np.empty(0)] * len(names)
        if state.hasTimedOut:
            points = np.column_stack(columns)
            best = pd.DataFrame(points[skyline(points)], columns=names)
            best.insert(0, "window_start", key[0])
            state.remove()
            yield best
            return
        arrived = [frame[names].to_numpy() for frame in frames]
        points = np.concatenate([np.column_stack(columns), *arrived])
        state.update(tuple(np.ascontiguousarray(column).tobytes() for column in points.T))
        state.setTimeoutTimestamp(int(key[0].timestamp() * 1000) + WINDOW_US // 1000)

    latencies: Latencies = {}

    def on_batch(batch: DataFrame, batch_id: int) -> None:
        _write(batch.toArrow(), folder, batch_id, latencies)

    answered = (
        source.load(spark)
        .select("ts", *names)
        .withWatermark("ts", "0 seconds")
        .withColumn("start", F.window("ts", WINDOW, SLIDE)["start"])
        .groupBy("start")
        .applyInPandasWithState(
            keep,
            f"window_start timestamp, {row}",
            ", ".join(f"{name} binary" for name in names),
            "append",
            GroupStateTimeout.EventTimeTimeout,
        )
    )
    return _start(answered.writeStream.foreachBatch(on_batch), folder, trigger, latencies)


def spark_aggregate(spark: SparkSession, source: WorkloadStream, folder: str, trigger: str) -> Started:
    """Start Spark's own sliding window aggregation, a peer of `.aggregate`."""

    latencies: Latencies = {}

    def on_batch(batch: DataFrame, batch_id: int) -> None:
        _write(batch.toArrow(), folder, batch_id, latencies)

    answered = (
        source.load(spark)
        .withWatermark("ts", "0 seconds")
        .groupBy(F.window("ts", WINDOW, SLIDE))
        .agg(F.count("*").alias("count"), F.avg("x0").alias("mean"), F.max("x1").alias("max"))
        .select(F.col("window.start").alias("window_start"), "count", "mean", "max")
    )
    return _start(answered.writeStream.foreachBatch(on_batch).outputMode("append"), folder, trigger, latencies)


def _write(rows: pa.Table, folder: str, batch_id: int, latencies: Latencies) -> None:
    """Write the windows of a batch, and store their latencies."""
    if rows.num_rows == 0:
        return
    Path(folder, "results").mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, f"{folder}/results/{batch_id}.parquet")
    now = time.time()
    for start in np.unique(rows["window_start"].cast(pa.int64()).to_numpy()).tolist():
        latencies[start + WINDOW_US] = now - (start + WINDOW_US) / 1e6


def _start(writer: Any, folder: str, trigger: str, latencies: Latencies) -> Started:
    timed = writer.trigger(availableNow=True) if trigger == "availableNow" else writer.trigger(processingTime=trigger)
    return Started(timed.option("checkpointLocation", f"{folder}/checkpoint").start(), lambda: dict(latencies))


def skyline_of(windowed: Any, source: WorkloadStream) -> Any:
    """Return the query for the skyline."""
    return windowed.skyline(*preferences(source))


def top_hundred(windowed: Any, source: WorkloadStream) -> Any:
    """Return the query for the top-100 dominant rows."""
    return windowed.top_delta(*preferences(source), delta=100)


def aggregate_of(windowed: Any, source: WorkloadStream) -> Any:
    """Return the query for what `spark_aggregate` computes."""
    return windowed.aggregate("count(*)", "avg(x0) AS mean", "max(x1) AS max")
