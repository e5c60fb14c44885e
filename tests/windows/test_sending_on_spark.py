"""Tuples that are sent to slots by an expression of Spark, and whole queries on streams with one partition."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skytide
from skytide.errors import InvalidInput
from skytide.queries import high, low
from skytide.routing import Owners
from skytide.spark.engine.panes import PARTITION, SLOT
from skytide.spark.engine.sending import with_slots
from skytide.windows import Windows

TIMES = [-7_000_001, -1, 0, 1, 999_999, 1_000_000, 2_999_999, 3_000_000, 123_456_789_012_345]
OWNERS = Owners(tuple((slot,) * 4 for slot in (2, 0, 1)))  # a slot for each of three panes in turn
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("id", pa.int64()), ("x", pa.float64()), ("y", pa.float64())])


@pytest.mark.parametrize("windows", [Windows(3_000_000, 1_000_000), Windows(5_000_000, 3_000_000)], ids=["whole", "two panes"])
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_a_tuple_has_a_slot_of_its_pane(spark: SparkSession, windows: Windows, kind: str) -> None:
    rows = spark.createDataFrame([(time_us,) for time_us in TIMES], "us bigint")
    time = F.timestamp_micros("us")
    if kind == "timestamp_ntz":
        time = F.expr("timestampadd(MICROSECOND, us, timestamp_ntz'1970-01-01')")
    sent = with_slots(rows.withColumn("ts", time), OWNERS, "ts", windows).select("us", SLOT).collect()
    assert {row["us"]: row[SLOT] for row in sent} == {time_us: OWNERS.rows[windows.pane_of(time_us) % 3][0] for time_us in TIMES}


def test_rows_of_any_type_are_spread_and_each_has_one_slot(spark: SparkSession) -> None:
    rows = spark.range(4_000).selectExpr(
        "timestamp_millis(id % 50) AS ts", "id AS `a.b`", "cast(id AS string) AS `te``xt`", "cast(id AS decimal(20, 2)) AS d",
        "date_add(date'2026-01-01', cast(id % 9 AS int)) AS day", "id % 2 = 0 AS even", "cast('x' AS binary) AS raw",
        "map('k', id) AS m", "struct(id) AS s", "array(id) AS l", "INTERVAL 1 DAY AS i", "if(id % 5 = 0, NULL, id / 7) AS half",
    )  # fmt: skip
    owners = Owners.of({0: {0: 1.0, 1: 1.0, 2: 2.0}}, grains=64)
    found = []
    for parts in (1, 3):
        sent = with_slots(rows.repartition(parts), owners, "ts", Windows(1_000_000, 1_000_000))
        table = sent.select(F.col("`a.b`").alias("id"), SLOT, PARTITION).toArrow()
        found.append(dict(zip(table["id"].to_pylist(), table[SLOT].to_pylist(), strict=True)))
        assert set(table[PARTITION].to_pylist()) == set(range(parts))
    assert found[0] == found[1]
    shares = [sum(slot == number for slot in found[0].values()) / 4_000 for number in range(3)]
    assert shares == pytest.approx([0.25, 0.25, 0.5], abs=0.03)


def test_without_a_time_there_is_a_slot_all_the_same(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(None, 1)], "ts timestamp, id int")
    assert with_slots(rows, OWNERS, "ts", Windows(1_000, 1_000)).first()[SLOT] in (0, 1, 2)  # type: ignore[index]


def files(spark: SparkSession, folder: Path, partitions: int) -> DataFrame:
    """Return a stream whose batches have all tuples in one partition, or as many in each of several."""
    folder.mkdir()
    for batch in range(6):
        for part in range(partitions):
            ids = range(batch * 600 + part, (batch + 1) * 600, partitions)
            columns: dict[str, Any] = {
                "ts": [1_750_000_000_000_000 + number * 1_000 for number in ids],
                "id": list(ids),
                "x": [float(number * 7_919 % 1_009) for number in ids],
                "y": [float(number * 104_729 % 997) for number in ids],
            }
            pq.write_table(pa.table(columns, schema=SCHEMA), folder / f"{batch}-{part}.parquet")
    return (
        spark.readStream.schema("ts timestamp, id bigint, x double, y double")
        .option("maxFilesPerTrigger", partitions)
        .parquet(str(folder))
    )


@pytest.mark.parametrize(("splitting", "slots"), [("EVEN", 4), ("TB_RR", 8), ("PB_RR", 3), ("AS_PID", 4), ("auto", 4)])
def test_slots_that_are_asked_for_are_used_or_it_is_said_why_not(
    spark: SparkSession, tmp_path: Path, splitting: Any, slots: int
) -> None:
    rows = files(spark, tmp_path / "in", 1)
    asked = skytide.stream(rows).window("500 ms", slide="100 ms").skyline(low("x") * high("y"))
    run = asked.start(
        "memory", checkpoint=tmp_path / "c", trigger="availableNow", flush=True, splitting=splitting, pane_slots=slots
    )
    run.await_termination()
    plan = run.status().pane_plan
    if splitting == "auto":
        assert plan.startswith("in place: ") and "sending would take" in plan, "little work: sending takes longer than all of it"
    else:
        assert (run.status().pane_slots, plan) == (slots, f"sent to {slots} slots by {splitting}")
    plain = asked.start("memory", checkpoint=tmp_path / "d", trigger="availableNow", flush=True, splitting="IN_PLACE")
    plain.await_termination()
    assert plain.status().pane_plan == "in place, as asked"
    as_text = [sorted(map(str, each.results().to_pylist())) for each in (run, plain)]
    assert as_text[0] == as_text[1] != []


def test_what_a_splitting_cannot_do_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    asked = skytide.stream(files(spark, tmp_path / "in", 1)).window("500 ms").skyline(low("x"))
    with pytest.raises(InvalidInput, match=r'pane_slots=4: tuples are worked on in place.* splitting="auto"'):
        asked.start("memory", checkpoint=tmp_path / "c", splitting="IN_PLACE", pane_slots=4)
