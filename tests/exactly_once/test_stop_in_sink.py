"""A sink may end its query: its batch ends in good order, and a later start continues after it."""

import threading
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from support.seconds import seconds

import skytide
from skytide.spark.api.run import Run

DEADLINE_S = 120
FILES, ROWS = 3, 10


def test_a_sink_that_stops_its_query_loses_and_doubles_nothing(spark: SparkSession, tmp_path: Path) -> None:
    counted: dict[int, list[int]] = {}
    runs: list[Run] = []
    stopped_in: list[tuple[Run, int]] = []
    started = threading.Event()

    def stops(results: DataFrame, batch_id: int) -> None:
        assert started.wait(DEADLINE_S)
        until = time.monotonic() + DEADLINE_S
        while stopped_in and stopped_in[-1][0] is runs[-1] and runs[-1].isActive:  # Spark began another batch before it was stopped
            assert time.monotonic() < until
            threading.Event().wait(0.01)
        runs[-1].stop()
        stopped_in.append((runs[-1], batch_id))
        assert runs[-1].status().state in ("stopping", "stopped")
        counted[batch_id] = [row.n for row in results.collect()]  # Spark still works for the batch

    asked = (
        skytide.stream(seconds(spark, tmp_path / "in", FILES, ROWS))
        .window("5 seconds", slack=skytide.slacks.FixedSlack("0 s"))
        .aggregate("count(*) AS n")
    )
    while sum(map(len, counted.values())) < FILES * ROWS // 5:
        assert len(runs) < 2 * FILES
        started.clear()
        runs.append(asked.start(stops, checkpoint=tmp_path / "state", trigger="availableNow", flush=True))
        started.set()
        assert runs[-1].await_termination(DEADLINE_S)
        assert (runs[-1].status().state, runs[-1].status().failure) == ("stopped", "")
    assert [n for batch in sorted(counted) for n in counted[batch]] == [5] * (FILES * ROWS // 5)
    assert len(runs) > 1  # the first one left the rest
    assert [run for run, batch in stopped_in if batch == 0] == [runs[0]]  # its batch was committed: nobody got it again
