"""A query lets go of its checkpoint when it has ended, also by a failure, and not before."""

import threading
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from support.seconds import seconds

import skytide
from skytide.spark.api.query import ContinuousQuery
from skytide.spark.api.run import Run, _active
from skytide.spark.checkpoint import Files
from skytide.spark.checkpoint.owner import IN_USE

DEADLINE_S = 120
FILES, ROWS = 2, 10


def is_free(checkpoint: Path) -> bool:
    """Return whether nobody uses a checkpoint, as whoever wants to go back has to know."""
    try:
        held = Files(str(checkpoint / "skytide")).lock(IN_USE, alone=True)
    except BlockingIOError:
        return False
    assert held is not None
    held.close()
    return True


def asked(df: DataFrame) -> ContinuousQuery:
    return skytide.stream(df).window("15 seconds", slack=skytide.slacks.FixedSlack("0 s")).aggregate("count(*) AS n")


class Counted:
    """A sink that fails where it is told to."""

    def __init__(self, fails: str) -> None:
        self.fails = fails
        self.out: list[int] = []

    def __call__(self, results: DataFrame, batch_id: int) -> None:
        found = [row.n for row in results.collect()]
        if self.fails == ("batch" if found == [15] else "flush"):
            raise RuntimeError("the table is full")
        self.out += found


@pytest.mark.parametrize("fails", ["batch", "flush"])
def test_a_run_that_failed_can_be_started_again(spark: SparkSession, tmp_path: Path, fails: str) -> None:
    df, sink = seconds(spark, tmp_path / "in", FILES, ROWS), Counted(fails)

    def start() -> Run:
        return asked(df).start(sink, checkpoint=tmp_path / "state", trigger="availableNow", flush=True)

    run = start()
    assert not is_free(tmp_path / "state") and run in _active
    for _ in range(2):  # it has failed once and for all
        with pytest.raises((StreamingQueryException, RuntimeError), match="the table is full"):
            run.await_termination(DEADLINE_S)
        assert is_free(tmp_path / "state") and run not in _active
    assert run.status().state == "failed"

    sink.fails = ""
    again = start()
    assert not is_free(tmp_path / "state")
    assert again.await_termination(DEADLINE_S)
    assert is_free(tmp_path / "state") and sink.out == [15, 5]


def test_nobody_needs_to_wait_for_a_run_that_failed(spark: SparkSession, tmp_path: Path) -> None:
    df = seconds(spark, tmp_path / "in", FILES, ROWS)
    run = asked(df).start(Counted("batch"), checkpoint=tmp_path / "state", trigger="availableNow")
    with pytest.raises(StreamingQueryException):
        run.query.awaitTermination(DEADLINE_S)
    assert is_free(tmp_path / "state")
    other = asked(df).start(Counted(""), checkpoint=tmp_path / "other", trigger="availableNow")
    assert run not in _active and other in _active
    assert other.await_termination(DEADLINE_S)


def test_a_start_that_fails_lets_go(spark: SparkSession, tmp_path: Path) -> None:
    """It emits what a flush that was cut off has left."""
    query, sink = asked(seconds(spark, tmp_path / "in", FILES, ROWS)), Counted("flush")
    with pytest.raises(RuntimeError, match="the table is full"):
        query.start(sink, checkpoint=tmp_path / "state", trigger="availableNow", flush=True).await_termination(DEADLINE_S)
    with pytest.raises(RuntimeError, match="the table is full") as failure:
        query.start(sink, checkpoint=tmp_path / "state", trigger="availableNow", flush=True)
    assert is_free(tmp_path / "state"), failure  # which keeps alive whatever was on the stack


def test_a_stop_by_another_thread_waits_for_the_flush(spark: SparkSession, tmp_path: Path) -> None:
    df = seconds(spark, tmp_path / "in", FILES, ROWS)
    runs: list[Run] = []
    asked_spark, started = threading.Event(), threading.Event()
    free: list[bool] = []
    stoppers: list[threading.Thread] = []

    def sink(results: DataFrame, batch_id: int) -> None:
        assert started.wait(DEADLINE_S)
        found = [row.n for row in results.collect()]
        if found == [5]:  # the flush
            stoppers.append(threading.Thread(target=runs[0].stop))
            stoppers[0].start()
            assert asked_spark.wait(DEADLINE_S)
            runs[0].stop()  # the sink itself does not wait
            results.collect()
            free.append(is_free(tmp_path / "state"))

    runs.append(asked(df).start(sink, checkpoint=tmp_path / "state", trigger="availableNow", flush=True))
    stop_query = runs[0]._stop_query

    def stop() -> None:
        stop_query()
        asked_spark.set()

    runs[0]._stop_query = stop
    started.set()
    assert runs[0].await_termination(DEADLINE_S)
    stoppers[0].join(DEADLINE_S)
    assert not stoppers[0].is_alive()
    assert free == [False]
    assert is_free(tmp_path / "state") and runs[0].status().state == "stopped"
