"""A flush closes the last windows of what was read to its end, and of nothing else."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from support.seconds import seconds

import skytide
from skytide.spark.api.run import Run

DEADLINE_S = 60
FILES, ROWS = 5, 10


@pytest.mark.parametrize(
    "stop",
    [lambda spark, run: spark.streams.get(run.id).stop(), lambda spark, run: run.query.stop()],
    ids=["by Spark's own handle", "by the run's"],
)
def test_a_stopped_query_keeps_its_open_window(
    spark: SparkSession, tmp_path: Path, stop: Callable[[SparkSession, Run], None]
) -> None:
    counted: dict[int, list[int]] = {}
    late: list[int] = []
    busy = threading.Event()
    runs: list[Run] = []

    def waits(results: DataFrame, batch_id: int) -> None:
        """Let the second batch end only once somebody has stopped the query."""
        counted[batch_id] = [row.n for row in results.collect()]
        if batch_id == 1:
            busy.set()
            until = time.monotonic() + DEADLINE_S
            while runs[0].isActive and time.monotonic() < until:
                threading.Event().wait(0.01)

    asked = (
        skytide.stream(seconds(spark, tmp_path / "in", FILES, ROWS))
        .window("15 seconds", slack=skytide.slacks.FixedSlack("0 s"))
        .aggregate("count(*) AS n")
    )

    def start() -> Run:
        return asked.start(
            waits,
            checkpoint=tmp_path / "state",
            trigger="availableNow",
            flush=True,
            late=lambda rows, batch_id: late.append(rows.count()),
        )

    runs.append(start())
    assert busy.wait(DEADLINE_S)
    stop(spark, runs[0])
    assert runs[0].await_termination()
    assert counted == {1: [15]}
    assert start().await_termination()
    whole = dict(counted)
    assert [n for number in sorted(whole) for n in whole[number]] == [15, 15, 15, 5]
    assert sum(late) == 0
    assert start().await_termination()  # nothing new, nothing twice
    assert counted == whole
