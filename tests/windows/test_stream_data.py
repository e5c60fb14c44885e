"""Continuous queries on real data, as late as it was: every window as the oracle computes it from its tuples."""

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support import oracle
from support.oracle import Preference, Row

import skytide
from skytide import high, low
from skytide.lateness import Slack
from skytide.slacks import FixedSlack, KSlack

BATCHES = 5
DISORDER: list[Preference] = [("high", "seq"), ("low", "arrival")]
FOOTBALL: list[Preference] = [("high", "speed"), ("high", "energy"), ("low", "total_distance")]


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


@pytest.mark.parametrize(
    ("name", "preferences", "slack"),
    [
        ("football", FOOTBALL, KSlack()),
        ("disorder_d3", DISORDER, FixedSlack("1 s")),
        pytest.param("football", FOOTBALL, FixedSlack("1 s"), marks=pytest.mark.long),
        pytest.param("disorder_d3", DISORDER, KSlack(), marks=pytest.mark.long),
        *(
            pytest.param(f"disorder_d{number}", DISORDER, slack, marks=pytest.mark.long)
            for number in (1, 2)
            for slack in (KSlack(), FixedSlack("1 s"))
        ),
    ],
)
def test_windows_of_real_data_are_the_oracles(
    spark: SparkSession, data_dir: Path, tmp_path: Path, name: str, preferences: list[Preference], slack: Slack
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
    asked = (
        skytide.stream(df)
        .window("5 s", slide="2 s", slack=slack)
        .skyline(*({"low": low, "high": high}[kind](what) for kind, what in preferences))
    )
    out, dropped = tmp_path / "out", tmp_path / "late"
    run = asked.start(
        "parquet", path=out, late=dropped, checkpoint=str(tmp_path / "checkpoint"), trigger="availableNow", flush=True
    )
    assert run.await_termination()
    late = _rows(dropped)
    expected = oracle.windows_of(oracle.accepted(oracle.rows_of(rows), late), 5_000_000, 2_000_000, oracle.skyline(*preferences))
    bounds = {start: {"window_start": start, "window_end": start + 5_000_000} for start in expected}
    answers = [{**bounds[start], **row} for start, window in expected.items() for row in window.rows]
    assert oracle.multiset(_rows(out)) == oracle.multiset(answers)
    windows = sorted(_rows(out / "_windows"), key=lambda row: row["window_start"])
    assert [row["window_start"] for row in windows] == list(expected)
    assert [(row["tuples"], row["kept"]) for row in windows] == [(window.tuples, len(window.rows)) for window in expected.values()]
    assert run.status().late == len(late)
    if isinstance(slack, FixedSlack):
        assert late
        assert oracle.multiset(late) == oracle.multiset(later_than(1_000_000, parts))


def later_than(slack_us: int, parts: list[pa.Table]) -> list[Row]:
    """Return the tuples that are older than the newest of the batches before theirs by more than a slack."""
    newest, found = None, []
    for part in map(oracle.rows_of, parts):
        found += [row for row in part if newest is not None and row["ts"] < newest - slack_us]
        newest = max(row["ts"] for row in (*part, *([{"ts": newest}] if newest is not None else [])))
    return found


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_large_string(kind) else kind


def _rows(folder: Path) -> list[Row]:
    """Return the rows that were written, without the number of their batch."""
    tables = [pq.ParquetFile(file).read() for file in sorted(folder.glob("batch=*/*.parquet"))]
    return [row for table in tables for row in oracle.rows_of(table)]
