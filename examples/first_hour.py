"""The first hour with skytide: a directory of trades, two continuous queries, a sink of one's own, and an auto-scaler that only recommends.

    python examples/first_hour.py FOLDER

Files with trades come into FOLDER/trades. Ctrl-C ends it after the batch at hand; started again it goes on where it was.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import skytide
from skytide import high, low

folder = Path(sys.argv[1])
spark = SparkSession.builder.master("local[2]").appName("first hour").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
trades = spark.readStream.schema("ts timestamp, symbol string, price double, size bigint").parquet(str(folder / "trades"))
minutes = skytide.stream(trades, time="ts").window("1 minute")


def write(results: DataFrame, sequence: int) -> None:
    """Write a file for each batch: the same batch again writes the same file again."""
    rows = [row.asDict() for row in results.collect()]
    (folder / "largest").mkdir(exist_ok=True)
    (folder / "largest" / f"{sequence}.json").write_text(json.dumps(rows, default=str))
    for row in rows:
        print(f"{row['window_start']} {row['symbol']:>5} {row['volume']:>7} shares at {row['vwap']:.2f}", flush=True)


bargains = minutes.skyline(low("price"), high("size")).start(
    "parquet", path=folder / "bargains", late=folder / "late", checkpoint=folder / "state" / "bargains", name="bargains"
)
largest = (
    minutes.aggregate("sum(size) AS volume", "sum(price * size) / sum(size) AS vwap", keys="symbol")
    .top_k(3, by="volume")
    .start(write, checkpoint=folder / "state" / "largest", name="largest")
)
scaler = skytide.autoscale(
    largest, skytide.controllers.Mpc.latency("2 s"), (2, 4), interval="1 s", mode="recommend", on_event=print
)

largest.await_termination()
print(largest)
scaler.stop()
print(scaler)
bargains.stop()
if scaler.history():
    scaler.history().save(folder / "metrics.parquet")
spark.stop()
