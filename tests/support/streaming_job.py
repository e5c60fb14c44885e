"""A streaming job to kill, run as `python streaming_job.py CHECKPOINT OUT OPTIONS`: one query over a stream, to its end.

OPTIONS are JSON: `spark`, settings of the session; `files`, a folder to read, unless a workload is played; and `keyed`, to run an operator
on keys over these files, with as many slots as there are cores.
"""

import json
import sys
from typing import Any

import pyarrow as pa

import skytide
from skytide import high, low
from skytide.slacks import DropRatio, FixedSlack
from skytide.spark.session.local import local_session

WORKLOAD: dict[str, Any] = {
    "rate": 4_000,
    "arrivals": "map",
    "dispersion": 50,
    "dimensions": 4,
    "delay": "300 ms",
    "late_share": 0.3,
}
START_US = 1_700_000_000_000_000
COLUMNS = "id bigint, ts timestamp, arrival timestamp, x0 double, x1 double, x2 double, x3 double"


KEYS, COUNTED = 7, (20, 5)


class Numbered:
    """Counts the windows of a key, and returns the tuples of each."""

    def open(self, key: int) -> bytes:
        """Start with no windows."""
        return b""

    def process(self, state: bytes, rows: pa.Table) -> Any:
        """Count one more window."""
        return state + b".", {"number": [len(state)], "ids": [rows["id"].to_pylist()]}

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns of the results."""
        return pa.schema([("number", pa.int64()), ("ids", pa.list_(pa.int64()))])


def main(checkpoint: str, out: str, options: str) -> None:
    """Get ready, wait for a line to come in, and run until the stream has ended."""
    settings = json.loads(options)
    spark = local_session("a job to kill", **settings["spark"])
    print("ready", flush=True)
    if not sys.stdin.readline():
        return
    if settings.get("files"):
        df = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(settings["files"])
        windowed = skytide.stream(df).window("1 s", slide="200 ms", slack=FixedSlack("300 ms"))
    else:
        source = skytide.workload(**WORKLOAD, pace="fast", batch="200 ms", duration="6 s", start=START_US, partitions=2)
        windowed = skytide.stream(source).window("1 s", slide="200 ms", slack=DropRatio(0.02))
    asked = windowed.skyline(low("x0"), low("x1"), high("x2"), high("x3"))
    if settings.get("keyed"):
        keyed = skytide.stream(df.withColumn("k", df.id % KEYS)).keyed("k")
        asked = keyed.count_window(*COUNTED, slack=FixedSlack("300 ms")).apply(Numbered())
    run = asked.start("parquet", path=out, late=f"{out}/_late", checkpoint=checkpoint, trigger="availableNow", flush=True)
    run.await_termination()
    executor = spark.sparkContext._jsc.sc().statusStore().executorList(False).apply(0)
    print("failed tasks:", executor.failedTasks(), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
