"""Every public name, used as its documentation says. Nothing here runs: a type checker reads it, in its strictest mode."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import assert_type

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import skytide
import skytide.sinks
from skytide import diff, high, low
from skytide.spark import local_session


def preferences() -> Iterator[skytide.queries.Preference]:
    both: skytide.queries.Preference = low("price") * high(F.col("stars")) & low("distance / 2")
    yield both * diff("city")
    what: skytide.queries.Expression = "price"
    yield skytide.low(what)


def rows(spark: SparkSession, hotels: DataFrame) -> None:
    nulls: skytide.queries.Nulls = "drop"
    assert_type(skytide.skyline(hotels, low("price"), high("stars"), distinct=True, nulls=nulls), DataFrame)
    assert_type(skytide.skyline(hotels, "rating", low("price")), DataFrame)
    assert_type(skytide.skyband(hotels, low("price"), k=3), DataFrame)
    assert_type(skytide.levels(hotels, low("price"), up_to=2), DataFrame)
    assert_type(skytide.k_dominant(hotels, low("price"), high("stars"), k=2), DataFrame)
    assert_type(skytide.top_delta(hotels, low("price"), high("stars"), delta=10), DataFrame)
    assert_type(skytide.top_k(hotels, 10, by=high("rating")), DataFrame)
    assert_type(skytide.top_k(hotels, k=10, by=F.col("rating")), DataFrame)
    assert_type(skytide.apply(hotels, Cheapest()), DataFrame)
    skytide.register(spark)


class Cheapest(skytide.Query):
    def pane(self, rows: pa.Table) -> pa.Table:
        return rows.sort_by("price").slice(0, 1)

    def window(self, kept: pa.Table) -> pa.Table:
        return self.pane(kept)


class Total(skytide.Mergeable[float]):
    def start(self) -> float:
        return 0.0

    def add(self, state: float, values: pa.Array) -> float:
        return state + float(sum(values.to_pylist()))

    def merge(self, state: float, other: float) -> float:
        return state + other

    def finish(self, state: float) -> float:
        return state

    def kind(self, values: pa.DataType) -> pa.DataType:
        return pa.float64()


def of_rows(df: DataFrame) -> None:
    stream = skytide.stream(df, time="ts", streaming=False)
    assert_type(stream, skytide.typing.Stream[DataFrame])
    windows = stream.window("1 second", slide=timedelta(milliseconds=200))
    assert_type(windows, skytide.typing.Windowed[DataFrame])
    assert_type(windows.skyline(low("price"), "stars"), DataFrame)
    aggregates = windows.aggregate("count(*)", F.sum("size").alias("volume"), keys=["symbol"])
    assert_type(aggregates, skytide.typing.AggregatedFrame)
    assert_type(aggregates.where("volume > 3"), DataFrame)
    assert_type(aggregates.top_k(3, by="volume"), DataFrame)
    grouped = windows.group_by("symbol", "venue")
    assert_type(grouped, skytide.typing.Grouped[DataFrame])
    assert_type(grouped.agg("count(*)", F.sum("size").alias("volume")), skytide.typing.AggregatedFrame)
    keyed = stream.keyed("symbol")
    assert_type(keyed, skytide.typing.Keyed[DataFrame])
    assert_type(keyed.count_window(100, slide=10).candlesticks(price="price", volume="size"), DataFrame)
    assert_type(keyed.window("1 minute").aggregate("sum(size) AS volume").top_k(3, by="volume"), DataFrame)
    assert_type(stream.count_window(100).top_k(3, by="price"), DataFrame)


def of_streams(df: DataFrame, folder: Path, measure: skytide.queries.Measure, column: Column) -> skytide.Run:
    length: skytide.typing.Duration = "1 second"
    slacks: list[skytide.slacks.Slack] = [
        skytide.slacks.KSlack(),
        skytide.slacks.DropRatio(0.01),
        skytide.slacks.FixedSlack("2 s"),
        skytide.slacks.FixedSlack(0),
    ]
    windows = skytide.stream(df).window(length, slide="200 ms", slack=slacks[0])
    assert_type(windows.skyband(low("price"), k=2), skytide.ContinuousQuery)
    own = skytide.collect(Total(), "price * size", name="total")
    assert_type(own, skytide.queries.Measure)
    aggregates = windows.aggregate("sum(price * size) / sum(size) AS vwap", column, measure, own, keys=("symbol", "venue"))
    assert_type(aggregates, skytide.ContinuousQuery)
    assert_type(aggregates.skyline(high("vwap")), skytide.ContinuousQuery)
    assert_type(windows.groupBy("symbol").agg(column, measure, own), skytide.ContinuousQuery)
    assert_type(skytide.stream(df, order="seq"), skytide.typing.Stream[skytide.ContinuousQuery])
    assert_type(skytide.stream(df, order=("partition", "offset"), streaming=False), skytide.typing.Stream[DataFrame])
    keyed = skytide.stream(df, streaming=True).keyed("symbol").window("1 minute")
    assert_type(keyed, skytide.typing.KeyedWindowed[skytide.ContinuousQuery])
    assert_type(keyed.aggregate("count(*) AS n"), skytide.ContinuousQuery)
    assert_type(keyed.aggregate("count(*) AS n").top_k(3, by="n"), skytide.ContinuousQuery)
    keyed.top_k(3, by="price").start(own_sink, checkpoint=folder / "keyed", slots=4)
    sink: skytide.typing.SinkFunction = own_sink
    late: skytide.typing.SideSink = folder / "late"
    sides = skytide.Sides(late=late, windows=str(folder / "windows"), invalid=own_sink)
    parallelism = skytide.Parallelism(splitting="RATE", pane_slots=4, window_slots=2)
    parquet: skytide.sinks.Sink = skytide.sinks.Parquet(folder / "out", compression="zstd")
    windows.skyline(low("price")).start(parquet, checkpoint=folder / "object", sides=sides, parallelism=parallelism)
    others: list[skytide.sinks.Sink] = [
        skytide.sinks.Files("csv", folder / "csv"),
        skytide.sinks.Memory(),
        skytide.sinks.Console(),
        skytide.sinks.Format("delta", folder / "delta"),
        skytide.sinks.Table("best"),
        skytide.sinks.Function(own_sink),
        Printed(),
    ]
    print(others)
    windows.skyline(low("price")).to_table("best", checkpoint=folder / "table")
    return windows.skyline(low("price")).start(
        sink,
        checkpoint=folder / "checkpoint",
        trigger="500 ms",
        late=late,
        windows=str(folder / "windows"),
        invalid=own_sink,
        name="best",
    )


def with_an_operator(df: DataFrame, operator: skytide.KeyedOperator, splitting: skytide.typing.Splitting, folder: Path) -> None:
    assert_type(skytide.stream(df).keyed("symbol").apply(operator), skytide.ContinuousQuery)
    skytide.stream(df).window("1 s").skyline(low("x")).start("console", checkpoint=folder, splitting=splitting)


class Printed(skytide.sinks.Sink):
    def open(self, schema: pa.Schema, identity: skytide.sinks.CheckpointIdentity) -> None:
        print(schema, identity.checkpoint)

    def publish(self, sequence: int, staged: skytide.sinks.Staged) -> None:
        print(sequence, staged.table().num_rows)


def own_sink(results: DataFrame, sequence: int) -> None:
    results.write.mode("append").parquet(f"out/{sequence}")


def running(run: skytide.Run) -> None:
    status: skytide.typing.Status = run.status()
    print(status.batch)
    run.resize(pane_slots=4)
    assert_type(run.run_id, str)
    assert_type(run.is_active, bool)
    table: skytide.typing.RoutingTable = run.routing()
    print(table)
    assert_type(run.await_termination(10.0), bool)
    run.stop()


def own_sources(spark: SparkSession) -> None:
    tuples: skytide.typing.WorkloadStream = skytide.workload(rate=2_000, delay="300 ms", duration=timedelta(seconds=4))
    assert_type(skytide.stream(tuples).window("1 s").skyline(low("x0")), skytide.ContinuousQuery)
    fleet: skytide.Fleet = skytide.fleet(
        "/data/feeds", schema="id string, ts timestamp, x double", interval="1 s", latency=timedelta(seconds=5)
    )
    assert_type(skytide.stream(fleet).keyed("id").count_window(10).top_k(1, by="x"), skytide.ContinuousQuery)
    assert_type(fleet.load(spark), DataFrame)
    status: skytide.typing.FleetStatus = fleet.status()
    splits: tuple[skytide.typing.SplitStatus, ...] | list[skytide.typing.SplitStatus] = fleet.splits()
    print(status, splits)
    skytide.Profile(max_hz=40, period="1 min")


def scaled(run: skytide.Run) -> None:
    controllers: list[skytide.controllers.Controller] = [
        skytide.controllers.Mpc.latency("2 s", horizon=4),
        skytide.controllers.Mpc.throughput(maximum=8),
        skytide.controllers.Fuzzy(),
        skytide.controllers.UtilisationThresholds(),
        skytide.controllers.Congestion(),
        skytide.controllers.LocalThresholds(),
        skytide.controllers.GlobalThresholds(),
        skytide.controllers.Sarsa(),
        skytide.controllers.Proportional(),
        skytide.controllers.Static(4),
    ]
    seen: list[skytide.typing.ScalingEvent] = []
    scaler: skytide.Scaler = skytide.autoscale(
        run,
        controller=controllers[0],
        executors=(1, 8),
        interval="10 s",
        guard=skytide.Guard(minimum=1, maximum=8),
        on_event=seen.append,
    )
    status: skytide.typing.ScalerStatus = scaler.status()
    history: skytide.typing.History = scaler.history()
    cycles: list[skytide.typing.Cycle] = scaler.cycles()
    print(status, history, cycles)
    scaler.stop()


def refused() -> None:
    try:
        low("")
    except skytide.InvalidInput as error:
        assert_type(error.remedy, str)
        assert isinstance(error, skytide.SkytideError)
    with local_session("typed") as spark:
        rows(spark, spark.range(3).toDF("price"))


def window_rows(found: list[skytide.typing.WindowRow]) -> int:
    return sum(row.kept for row in found)
