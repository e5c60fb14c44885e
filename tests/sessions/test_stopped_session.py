"""A query whose Spark is stopped: everybody who looks sees that it has stopped, and nobody waits for ever."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

DEADLINE_S = 300
PROGRAM = """
import sys, threading, time, urllib.request
import skytide
from skytide.spark.session.local import local_session

spark = local_session("stopped")
rows = spark.readStream.schema("ts timestamp").parquet(sys.argv[1])
busy = threading.Event()

def waits(results, batch_id):
    busy.set()
    results.sparkSession.range(1).mapInArrow(sleeps, "id long").collect()

def sleeps(batches):
    threading.Event().wait(120)
    yield from batches

asked = skytide.stream(rows).window("5 seconds", slack=skytide.slacks.FixedSlack("0 s")).aggregate("count(*) AS n")
idle = asked.start("memory", checkpoint=sys.argv[2] + "/idle", trigger="100 ms", name="idle")
until = time.monotonic() + 200
while idle.status().state != "idle":
    assert time.monotonic() < until
    threading.Event().wait(0.05)
inside = asked.start(waits, checkpoint=sys.argv[2] + "/inside", trigger="100 ms", name="inside")
assert busy.wait(200)
metrics = idle.metrics(port=0)
spark.stop()
for run in (idle, inside):
    print(run.name, run.isActive, run.status().state, repr(run.status().failure), run.await_termination(60), run.status().state)
    run.stop()
print([line for line in urllib.request.urlopen(metrics.url).read().decode().splitlines() if line.startswith("skytide_query_running{")])
metrics.stop()
"""


@pytest.mark.slow
def test_queries_of_a_stopped_session_have_stopped(tmp_path: Path) -> None:
    """One waits for its next batch, the other is inside a batch. A process of its own, as all other tests need their session."""
    (tmp_path / "in").mkdir()
    times = pa.array([n * 1_000_000 for n in range(20)], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"ts": times}), tmp_path / "in" / "0.parquet")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "in"), str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, env=os.environ, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "idle False stopped '' True stopped" in ran.stdout
    assert "inside False stopped '' True stopped" in ran.stdout
    assert "skytide_query_running" in ran.stdout and "} 0.0" in ran.stdout
