"""A fleet with a password on a real cluster, run as `python secret_cluster_job.py FOLDER`; the address with the password comes by standard input.

What the cluster leaves behind is copied into FOLDER: logs of executors, Spark's log of events, and the command lines of all processes.
"""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import skytide
from skytide.spark.session.cluster import LocalCluster
from skytide.spark.session.local import local_session
from support.classes import archive


def main(folder: Path, address: str) -> None:
    """Run two queries, one of them by plain Spark, and write down what they found."""
    events = folder / "events"
    events.mkdir()
    with LocalCluster(2, classes=archive()) as local:
        log = {"enabled": "true", "dir": events.as_uri(), "compress": "false"}
        path = {"spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path)}
        spark = local_session(
            "secret", **local.settings(), **{f"spark.eventLog.{name}": value for name, value in log.items()}, **path
        )
        fleet = skytide.fleet(address, schema="ts timestamp, x double", streams="sensor:*")
        inside = skytide.stream(fleet, time="ts").window("10 seconds").aggregate("count(*) AS n")
        run = inside.start("parquet", path=folder / "out", checkpoint=folder / "state", trigger="availableNow", flush=True)
        run.await_termination()
        plain = fleet.load(spark).writeStream.format("noop").option("checkpointLocation", str(folder / "plain"))
        query = plain.trigger(availableNow=True).start()
        query.awaitTermination()
        rows = sum(progress["numInputRows"] for progress in query.recentProgress)
        commands = [file.read_bytes() for file in Path("/proc").glob("[0-9]*/cmdline") if file.exists()]
        (folder / "commands").write_bytes(b"\n".join(commands))
        found = {"tuples": run.status().tuples, "rows": rows}
        spark.stop()
        shutil.copytree(local._folder.name, folder / "executors", ignore_dangling_symlinks=True)
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to end"))  # so that the cluster ends, too
    main(Path(sys.argv[1]), sys.stdin.readline().strip())
