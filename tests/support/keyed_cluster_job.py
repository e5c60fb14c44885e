"""An operator on keys on a real cluster, run as `python keyed_cluster_job.py FOLDER`: executors come, one is killed, one is released.

The findings are in FOLDER/found.json.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import skytide
from skytide.spark.scaling.gateway import SparkCluster
from skytide.spark.session.cluster import LocalCluster
from skytide.spark.session.local import local_session
from support.classes import archive
from support.streaming_job import COUNTED, KEYS, Numbered

START_US = 1_700_000_000_000_000
FILES, ROWS = 30, 400
DEADLINE_S = 240.0


def main(folder: Path) -> None:
    """Run the query, disturb it, and write down what happened."""
    feed, out = folder / "in", folder / "out"
    feed.mkdir()
    with LocalCluster(4, hosts=4, classes=archive()) as local:
        # With dynamic allocation a standalone cluster starts with one executor.
        dynamic = {"enabled": "true", "shuffleTracking.enabled": "true", "initialExecutors": "1"}
        dynamic = {f"spark.dynamicAllocation.{name}": value for name, value in dynamic.items()}
        path = {"spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path)}
        executors = local.settings(memory="1200m")  # more than a gigabyte per core is no reason for fewer executors
        spark = local_session("keys on a cluster", **executors, **dynamic, **path)
        spark.sparkContext._jsc.sc().executorAllocationManager().get().stop()
        cluster = SparkCluster(spark)
        df = spark.readStream.schema("id bigint, ts timestamp").option("maxFilesPerTrigger", 1).parquet(str(feed))
        keyed = skytide.stream(df.withColumn("k", df.id % KEYS)).keyed("k")
        asked = keyed.count_window(*COUNTED, slack=skytide.slacks.FixedSlack("300 ms")).apply(Numbered())
        write(feed, 0)
        run = asked.start("parquet", path=out, checkpoint=folder / "c", trigger="200 ms", slots=1)
        found: dict[str, Any] = {"slots": [], "memory": [], "executors": []}

        def after(batch: int) -> None:
            until(lambda: run.status().batch >= batch, run)
            status = run.status()
            found["slots"].append(status.slots)
            found["memory"].append(status.found_in_memory)
            found["executors"].append(len(active()))

        def active() -> list[Any]:
            return [each for each in cluster.executors() if each.active]

        for number in range(1, FILES):
            after(number - 1)
            if number == 6:
                cluster.request(3)
                until(lambda: len(active()) == 3, run)
                run.resize(slots=3)
            if number == 14:
                cluster.kill(active()[0].id)  # with whatever it had in memory
            if number == 20:
                cluster.request(1)
                run.resize(slots=2)
                for gone in active()[1:]:
                    cluster.decommission(gone.id)
            write(feed, number)
        after(FILES - 1)
        found["seconds"] = [each["durationMs"]["triggerExecution"] / 1e3 for each in run.query.recentProgress]
        run.stop()
        run = asked.start("parquet", path=out, checkpoint=folder / "c", trigger="availableNow", flush=True, slots=2)
        run.await_termination()
        found |= {"moved": run.status().moved_groups, "tuples": run.status().tuples, "late": run.status().late}
        spark.stop()
    (folder / "found.json").write_text(json.dumps(found))


def write(feed: Path, number: int) -> None:
    """Add a file with the next tuples, some of them out of order."""
    ids = range(number * ROWS, (number + 1) * ROWS)
    times = [START_US + each * 1_000 - (each % 5) * 20_000 for each in ids]
    table = pa.table({"id": pa.array(ids, pa.int64()), "ts": pa.array(times, pa.timestamp("us", "UTC"))})
    pq.write_table(table, feed / f".{number}")
    os.utime(feed / f".{number}", (1_000 + number, 1_000 + number))
    (feed / f".{number}").rename(feed / f"{number}.parquet")


def until(reached: Callable[[], bool], run: Any) -> None:
    """Wait for something, as long as the query runs."""
    deadline = time.monotonic() + DEADLINE_S
    while not reached():
        if not run.query.isActive or time.monotonic() > deadline:
            raise RuntimeError(f"it never came: {run.query.exception()}; {run.status()}")
        run.query.awaitTermination(0.05)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to end"))  # so that the cluster ends, too
    main(Path(sys.argv[1]))
