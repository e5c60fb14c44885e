"""The query of P1 (§1.1), end to end: where cars are slow, and where queues end, from cabs that report where they are.

    python examples/traffic.py FOLDER

    SELECT area, count(*), avg(speed), max(speed), isQueueEnd(*)
    FROM reports [RANGE 60 MINUTE SLIDE 1 MINUTE] WHERE ride GROUP BY area

FOLDER/cabs has a file of JSON lines for each cab: {"ts": "2008-05-20T17:00:00Z", "lat": 37.78, "lon": -122.41, "occupied": true}. All that is
there is read; started again with longer files, it goes on where it was. The operator, the aggregate and the grid are in `skytide_lab.traffic`.
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

import skytide
from skytide.slacks import FixedSlack
from skytide_lab.traffic import QUEUE_INPUT, QueueEnd, Speeds, area

folder = Path(sys.argv[1])
spark = SparkSession.builder.master("local[2]").appName("traffic").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")

# Each cab is a stream, and few tasks read them all. An operator on keys turns the positions of a cab into speeds; reports may come two minutes late.
cabs = skytide.fleet(folder / "cabs", schema="ts timestamp, lat double, lon double, occupied boolean", splits=4)
speeds = (
    skytide.stream(cabs)
    .keyed("stream")
    .apply(Speeds(), tick="1 minute", slack=FixedSlack("2 minutes"))
    .start("parquet", path=folder / "speeds", checkpoint=folder / "state" / "speeds", trigger="availableNow", slots=2)
)
speeds.await_termination()
print(speeds)

# What it wrote is a stream again. It comes in order of time, so there is nothing to wait for. The centre of a city has most of the reports: the areas that
# come most often are divided among slots.
reports = spark.readStream.schema(
    "stream string, ts timestamp, lat double, lon double, ride boolean, speed double, before double"
).parquet(str(folder / "speeds"))
areas = (
    skytide.stream(reports.where("ride").selectExpr("*", f"{area(500)} AS area").where("area IS NOT NULL"))
    .window("60 minutes", slide="1 minute", slack=FixedSlack("0 s"))
    .group_by("area")
    .agg("count(*) AS reports", "avg(speed) AS mean_kmh", "max(speed) AS max_kmh", skytide.collect(QueueEnd(), QUEUE_INPUT, name="queue_end"))
    .start(
        "parquet", path=folder / "areas", checkpoint=folder / "state" / "areas", trigger="availableNow",
        splitting="KEYS", pane_slots=2, window_slots=2,
    )
)  # fmt: skip
areas.await_termination()
print(areas)

spark.read.parquet(str(folder / "areas")).where("queue_end").orderBy("window_end", "area").show(20, truncate=False)
spark.stop()
