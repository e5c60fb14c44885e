"""Rows with NULL or NaN that a query on windows of keys cannot compare: put aside, or an error before anything is recorded."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support import keyed
from support.engine import COLUMNS, InProcess, Outputs, Plan

import skytide
from skytide import low
from skytide.errors import InvalidInput
from skytide.keyed import CountWindows, QueryAnswer, TimeWindows
from skytide.lateness import FixedSlack
from skytide.queries import Query, Skyline, TopK
from skytide.spark.engine.engine import Engine
from skytide.spark.sinks.roles import Sinks
from skytide.windows import Windows

WINDOWS = {"by number": CountWindows(3, 2), "by time": TimeWindows(Windows(1_000, 500))}
MISSING = {3: None, 8: float("nan"), 9: None, 14: None}
"""The values that cannot be compared, by row."""


def rows(left_out: bool = False) -> pa.Table:
    """Return twenty rows of two keys, with values that are missing, or without those rows."""
    ids = [number for number in range(20) if not (left_out and number in MISSING)]
    values = {
        "ts": pa.array([number * 130 for number in ids], COLUMNS.field("ts").type),
        "a": [number % 2 for number in ids],
        "b": pa.array([MISSING.get(number, float(number * 7 % 11)) for number in ids], pa.float64()),
        "id": ids,
    }
    return pa.table(values, COLUMNS)


def plan_of(folder: Path, kind: str, query: Query) -> Plan:
    return keyed.plan_of(keyed.step(WINDOWS[kind], QueryAnswer(query)), str(folder), FixedSlack(0))


def run(plan: Plan, sinks: Sinks, table: pa.Table) -> Engine:
    engine = Engine(*plan, sinks)
    engine.run_batch(InProcess(), [table.slice(0, 10), table.slice(10)], 0)
    engine.flush(InProcess())
    return engine


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("query", [Skyline(low("b")), TopK(low("b"), k=1)], ids=repr)
def test_they_are_put_aside_and_the_others_are_answered_as_if_they_had_not_come(tmp_path: Path, kind: str, query: Query) -> None:
    out, expected = Outputs(), Outputs()
    engine = run(plan_of(tmp_path / "all", kind, query), out.sinks, rows())
    run(plan_of(tmp_path / "without", kind, query), expected.sinks, rows(left_out=True))
    assert sorted(row["id"] for row in out.invalid.rows()) == sorted(MISSING)
    assert engine.status().invalid == len(MISSING)
    assert out.results.rows() == expected.results.rows() != []


@pytest.mark.parametrize("kind", WINDOWS)
def test_without_a_place_for_them_nothing_is_recorded_and_invalid_may_be_added(tmp_path: Path, kind: str) -> None:
    out, plan = Outputs(), plan_of(tmp_path, kind, Skyline(low("b")))
    with pytest.raises(InvalidInput, match='cannot compare it; pass nulls="drop"'):
        run(plan.but(invalid_wanted=False), replace(out.sinks, invalid=None), rows())
    run(plan, out.sinks, rows())
    assert sorted(row["id"] for row in out.invalid.rows()) == sorted(MISSING)


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("nulls", ["drop", "worst"])
def test_a_query_that_takes_them_gets_them(tmp_path: Path, kind: str, nulls: Any) -> None:
    out = Outputs()
    run(plan_of(tmp_path, kind, Skyline(low("b"), nulls=nulls)), out.sinks, rows())
    assert not out.invalid.rows()
    assert sum(row["tuples"] for row in out.windows.rows()) == 20


def test_on_spark_they_are_put_aside_too(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(rows(), tmp_path / "in" / "rows.parquet")
    stream = spark.readStream.schema(spark.read.parquet(str(tmp_path / "in")).schema).parquet(str(tmp_path / "in"))
    asked = skytide.stream(stream, time="ts").keyed("a").count_window(3).skyline(low("b + 1"))
    aside = tmp_path / "aside"
    started = asked.start("memory", checkpoint=tmp_path / "c", trigger="availableNow", invalid=aside, flush=True)
    started.await_termination()
    assert started.status().invalid == len(MISSING)
    assert sorted(row["id"] for row in spark.read.parquet(str(aside)).collect()) == sorted(MISSING)
