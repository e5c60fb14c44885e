"""Continuous queries on real data, as late as it was: every window as the oracle computes it from its tuples."""

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.engine import oracle

import skytide
from skytide import FixedSlack, KSlack, high, low
from skytide.lateness import Slack
from skytide.queries import Skyline
from skytide.queries.preferences import Preference
from skytide.spark.checkpoint import Store
from skytide.spark.engine import Plan
from skytide.spark.window_level import with_bounds
from skytide.windows import Windows

BATCHES = 5
DISORDER = high("seq") * low("arrival")
FOOTBALL = high("speed") * high("energy") * low("total_distance")


def football(data_dir: Path) -> pa.Table:
    """Players of a match, made late by the delays of phones: a composite of two data sets."""
    match, phones = pq.read_table(data_dir / "soccer_zxy.parquet").slice(0, 60_000), pq.read_table(data_dir / "disorder_d3.parquet")
    delays = np.resize((phones["arrival"].to_numpy() - phones["ts"].to_numpy()), match.num_rows)
    return match.take(pa.array(np.argsort(match["ts"].to_numpy() + delays, kind="stable")))


def cut(rows: pa.Table) -> list[pa.Table]:
    """Cut rows in order of arrival into batches, most of which begin with a tuple that lies far behind."""
    times = rows["ts"].cast(pa.int64()).to_numpy()
    behind = np.maximum.accumulate(times) - times
    cuts = {0, len(rows) // 3}
    for place in np.argsort(-behind, kind="stable").tolist():
        if len(cuts) < BATCHES and min(abs(place - other) for other in cuts) > 200:
            cuts.add(place)
    bounds = [*sorted(cuts), len(rows)]
    return [rows.slice(first, last - first) for first, last in pairwise(bounds)]


@pytest.mark.parametrize("slack", [KSlack(), FixedSlack("1 s")], ids=repr)
@pytest.mark.parametrize(
    ("name", "preference"), [("football", FOOTBALL), *((f"disorder_d{number}", DISORDER) for number in (1, 2, 3))]
)
def test_windows_of_real_data_are_the_oracles(
    spark: SparkSession, data_dir: Path, tmp_path: Path, name: str, preference: Preference, slack: Slack
) -> None:
    rows = football(data_dir) if name == "football" else pq.read_table(data_dir / f"{name}.parquet")
    rows = rows.replace_schema_metadata().cast(pa.schema([(f.name, _plain(f.type)) for f in rows.schema]))
    parts = cut(rows)
    (tmp_path / "in").mkdir()
    for number, part in enumerate(parts):
        file = tmp_path / "in" / f"{number}.parquet"
        pq.write_table(part, file)
        os.utime(file, (number, number))  # so that Spark reads them in this order
    df = spark.readStream.schema(spark.read.parquet(str(file)).schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    asked = skytide.stream(df).window("5 s", slide="2 s", slack=slack).skyline(preference)
    out = tmp_path / "out"
    run = asked.start("parquet", path=out, checkpoint=str(tmp_path / "checkpoint"), trigger="availableNow", flush=True)
    assert run.await_termination()
    plan = Plan(Skyline(preference), Windows(5_000_000, 2_000_000), slack, "ts", rows.schema, (), Store(str(tmp_path)))
    expected, late = oracle([[part] for part in parts], plan)
    answers = pa.concat_tables([with_bounds(answer, plan.windows, window, rows["ts"].type) for window, answer in expected])
    assert _rows(pq.read_table(out)) == _rows(answers)
    windows = pq.read_table(out / "_windows").sort_by("window_start")
    assert windows["window_start"].cast(pa.int64()).to_pylist() == [plan.windows.start_us(window) for window, _ in expected]
    assert windows["kept"].to_pylist() == [answer.num_rows for _, answer in expected]
    assert run.status().late == late > 0


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_large_string(kind) else kind


def _rows(table: pa.Table) -> list[str]:
    names = sorted(name for name in table.column_names if name != "batch")
    return sorted(map(str, table.select(names).to_pylist()))
