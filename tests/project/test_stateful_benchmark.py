"""The benchmark of queries with state: that its queries and what it expects of them agree, and a run of a toy size."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from benchmarks.scaling.stateful import KINDS, collected, least_share, rows_of, turns
from skytide.records import Allocation, Observation

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 570


@pytest.mark.parametrize("name", [name for name in KINDS if name != "transformWithState"])  # whose function is of this process only
def test_what_is_expected_is_what_a_batch_query_returns(name: str, spark: SparkSession) -> None:
    kind = KINDS[name]
    rows = pa.concat_tables([rows_of(range(1_500), 7), rows_of(range(1_500, 3_000), 13), rows_of(range(3_000, 24_500), 25)])
    got: Counter[tuple[int, ...]] = Counter()
    collected(got, kind.updates)(kind.query(spark.createDataFrame(rows)), 0)
    assert got == kind.expected(rows)
    assert len(got) > 1_000
    assert got != kind.expected(rows.slice(1_000))  # a row that is lost is noticed


def test_updates_replace_and_appended_rows_add_up(spark: SparkSession) -> None:
    updated: Counter[tuple[int, ...]] = Counter()
    appended: Counter[tuple[int, ...]] = Counter()
    for number, count in enumerate((1, 3)):
        batch = spark.createDataFrame(pa.table({"key": [5], "n": [count]}))
        collected(updated, updates=True)(batch, number)
        collected(appended, updates=False)(batch, number)
    assert (updated, appended) == ({(5,): 3}, {(5,): 4})


def test_sizes_that_go_up_and_down_again_turn_once() -> None:
    assert [turns(sizes) for sizes in ([1, 2, 4, 4, 3, 1], [1, 2, 1, 2, 2], [3], [])] == [1, 2, 0, 0]


def test_an_executor_without_work_shows() -> None:
    def seen(workers: int, *loads: float) -> Observation:
        return Observation(60, 10, Allocation(workers), 9, 9, 0.5, loads=tuple((str(n), load) for n, load in enumerate(loads)))

    assert least_share([seen(1, 0.7)]) is None
    assert least_share([seen(2, 0.7, 0.0), seen(1, 0.9, 0.1)]) == 0
    assert least_share([seen(2, 0.6, 0.6), seen(2, 0.9, 0.3)]) == pytest.approx(0.75)


@pytest.mark.long
def test_a_query_with_state_grows_and_loses_nothing() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "benchmarks.scaling.stateful", "--toy", "dropDuplicates"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    assert "Goal reached: kinds of queries with the results that are expected: 1.00" in done.stdout, done.stdout
    assert "Goal reached: most executors, of the kind that came to the fewest: 2.00" in done.stdout, done.stdout
    assert "tasks with state wait 100ms" in done.stdout.replace("\n", " "), done.stdout
