"""A job to kill, run as `python fleet_job.py FEEDS OUT SPLITS END`: a fleet into Spark's own Parquet sink and into windows, or the rest of it."""

import sys

import skytide
from skytide.spark.session.local import local_session


def main(feeds: str, out: str, splits: str, end: str) -> None:
    """Run until killed, or to the end of what is there."""
    spark = local_session("a job to kill", cores=int(splits))
    rows = skytide.fleet(feeds, schema="n bigint, ts timestamp", splits=int(splits), interval="100 ms")
    counted = skytide.fleet(feeds, schema="n bigint, ts timestamp", splits=int(splits))
    now = end == "now"
    writer = rows.load(spark, checkpoint=f"{out}/rows.c").writeStream.format("parquet").option("path", f"{out}/rows")
    writer = writer.option("checkpointLocation", f"{out}/rows.c")
    writer = writer.trigger(availableNow=True) if now else writer.trigger(processingTime="100 milliseconds")
    query = writer.start()
    windows = skytide.stream(counted).window("10 s").aggregate("count(*)", "sum(n)", "max(stream) AS last")
    trigger = "availableNow" if now else "100 ms"
    run = windows.start("parquet", path=f"{out}/windows", checkpoint=f"{out}/windows.c", trigger=trigger, flush=now)
    print("ready", flush=True)
    query.awaitTermination()
    run.await_termination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
