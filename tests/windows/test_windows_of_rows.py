"""A window query on a batch DataFrame: each window from all of its rows, however many panes it has."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skytide
from skytide import high, low
from skytide.queries import Aggregate, Measure, Query, Skyline
from skytide.spark.api.windows_of_rows import STRETCH, StretchTask
from skytide.windows import sliding

START_US = 1_700_000_000_000_000
DAY_US = 86_400_000_000
BEST = low("price") * high("stars")
COUNTED = ("count(*)", "sum(price)", "max(stars)")


def hotels(rows: int, span_us: int) -> pa.Table:
    rng = np.random.default_rng(rows)
    return pa.table(
        {
            "id": np.arange(rows),
            "ts": pa.array(START_US + rng.integers(0, span_us, rows)).cast(pa.timestamp("us", "UTC")),
            "price": rng.integers(20, 400, rows),
            "stars": rng.integers(1, 60, rows),
            "city": rng.choice(["Pisa", "Lucca", "Ilmenau"], rows),
        }
    )


def expected(table: pa.Table, query: Query, start_us: int, length_us: int) -> list[dict[str, Any]]:
    times = table["ts"].cast(pa.int64()).to_numpy()
    inside = table.filter(pa.array((times >= start_us) & (times < start_us + length_us)))
    return query.window(query.pane(inside)).to_pylist()


def ordered(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(str(sorted((name, value) for name, value in row.items() if name != "ts")) for row in rows)


QUERIES: dict[str, tuple[Any, Query]] = {
    "skyline": (lambda w: w.skyline(BEST), Skyline(BEST)),
    "aggregate": (lambda w: w.aggregate(*COUNTED, keys="city"), Aggregate(tuple(map(Measure.parse, COUNTED)), keys=("city",))),
}


@pytest.mark.parametrize("kind", QUERIES)
def test_a_day_by_a_second(spark: SparkSession, kind: str) -> None:
    chain, query = QUERIES[kind]
    table = hotels(1_000, 2 * DAY_US)
    asked: DataFrame = chain(skytide.stream(spark.createDataFrame(table).repartition(3)).window("1 day", slide="1 s"))
    starts_us = [START_US + offset * 1_000_000 for offset in (-86_399, -20_000, 0, 50_000, 86_400, 2 * 86_400 - 200)]
    found = asked.withColumn("start_us", F.unix_micros("window_start")).withColumn("end_us", F.unix_micros("window_end"))
    found = found.drop("window_start", "window_end").cache()
    shown = found.where(F.col("start_us").isin(starts_us)).toArrow().to_pylist()
    for start_us in starts_us:
        right = [row | {"start_us": start_us, "end_us": start_us + DAY_US} for row in expected(table, query, start_us, DAY_US)]
        assert ordered([row for row in shown if row["start_us"] == start_us]) == ordered(right)
    times = np.sort(table["ts"].cast(pa.int64()).to_numpy() // 1_000_000)
    assert found.select("start_us").distinct().count() == times[-1] - times[0] + 86_400  # no gap of a day: none is empty
    found.unpersist()


@pytest.mark.parametrize(("window", "slide"), [("1 s", "333 ms"), ("1 s", "333333 us"), ("1 s", "200 ms"), ("1 s", "1 s")])
def test_any_window_and_slide(spark: SparkSession, window: str, slide: str) -> None:
    table, windows = hotels(600, 6_000_000), sliding(window, slide)
    asked = skytide.stream(spark.createDataFrame(table).repartition(2)).window(window, slide=slide).skyline(BEST)
    rows = asked.withColumn("start_us", F.unix_micros("window_start")).toArrow().drop_columns(["window_start", "window_end"])
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows.to_pylist():
        found.setdefault(row.pop("start_us"), []).append(row)
    times = table["ts"].cast(pa.int64()).to_numpy()
    first, last = (windows.pane_of(int(time)) for time in (times.min(), times.max()))
    starts = [windows.start_us(w) for w in range(windows.first_of_pane(first), windows.last_of_pane(last) + 1)]
    for start_us in starts:
        assert ordered(found.pop(start_us, [])) == ordered(expected(table, Skyline(BEST), start_us, windows.length_us))
    assert not found


def test_a_pane_is_sent_at_most_twice() -> None:
    table = hotels(300, 2 * DAY_US)
    for window, slide in (("1 day", "1 s"), ("1 day", "7 s"), ("1 s", "200 ms"), ("1 s", "1 s")):
        windows = sliding(window, slide)
        task = StretchTask(Skyline(BEST), windows, table.schema, "ts")
        sent = pa.Table.from_batches(list(task.keep(iter(table.to_batches()))))
        assert sent.num_rows <= (2 if slide != window else 1) * table.num_rows
        assert sent.group_by(["id", STRETCH]).aggregate([]).num_rows == sent.num_rows
