"""Going back for real: a query on a folder of files, its checkpoint taken back, and the same rows again."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import skytide
from skytide import low
from skytide.cli import main
from skytide.errors import InvalidInput
from skytide.slacks import FixedSlack
from skytide.spark.checkpoint.back import states_of

FILES, ROWS = 8, 40
SECOND_US = 1_000_000


def write_files(folder: Path) -> None:
    """One file per two seconds; the source reads one per batch, in the order they were written."""
    folder.mkdir()
    for number in range(FILES):
        times = [(2 * number * SECOND_US) + place * 2 * SECOND_US // ROWS for place in range(ROWS)]
        values = {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "a": [time * 7 % 11 for time in times],
            "b": [time * 3 % 7 for time in times],
        }
        pq.write_table(pa.table(values), folder / f"{number}.parquet")


def run(spark: SparkSession, folder: Path, out: str = "out", checkpoint: str = "ck") -> list[dict[str, Any]]:
    """Run the query to the end of its stream, and return all rows that its sink has then."""
    df = spark.readStream.schema("ts timestamp, a long, b long").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    asked = skytide.stream(df).window("1 s", slide="500 ms", slack=FixedSlack("100 ms")).skyline(low("a"), low("b"))
    started = asked.start("parquet", path=folder / out, checkpoint=folder / checkpoint, trigger="availableNow", flush=True)
    started.await_termination()
    read = spark.read.parquet(str(folder / out)).orderBy("window_start", "ts", "a", "b")
    return [row.asDict() for row in read.collect()]


def test_a_query_goes_on_from_an_earlier_state_and_from_a_damaged_one_with_the_same_rows(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_files(tmp_path / "in")
    rows = run(spark, tmp_path)
    assert all(row.reachable for row in states_of(tmp_path / "ck"))
    sequences = [row.sequence for row in states_of(tmp_path / "ck")][-5:]
    assert len(rows) > FILES and len(sequences) == 5
    assert main(["checkpoint", "back", str(tmp_path / "ck"), "--to", str(sequences[1])]) == 0
    assert not any((tmp_path / "out" / f"batch={later}").exists() for later in range(sequences[1] + 1, sequences[-1] + 1))
    assert run(spark, tmp_path) == rows
    assert [row.sequence for row in states_of(tmp_path / "ck")][-5:] == sequences

    latest = tmp_path / "ck" / "skytide" / "manifests" / f"{sequences[-1]:012}.json"
    latest.write_bytes(latest.read_bytes()[:-20])
    before = latest.with_name(f"{sequences[-2]:012}.json")
    before.write_text("garbage")
    assert run(spark, tmp_path) == rows
    assert caplog.text.count("falls back to the state before it") == 2


def test_a_folder_of_results_belongs_to_its_query(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path / "in")
    rows = run(spark, tmp_path)
    with pytest.raises(InvalidInput, match=r"belongs to another query, with the checkpoint file://.*/ck; choose another folder"):
        run(spark, tmp_path, checkpoint="other")
    assert run(spark, tmp_path) == rows
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.parquet").write_text("years of work")
    with pytest.raises(InvalidInput, match="not empty and not a folder of a query"):
        run(spark, tmp_path, out="mine", checkpoint="third")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.parquet"]


def test_a_driver_that_was_killed_while_it_noted_its_first_batch_can_start_again(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path / "in")
    offsets = tmp_path / "ck" / "spark" / "offsets"
    offsets.mkdir(parents=True)
    for name in (".0.54e5125b-dd82-419b-85d2-9063a96d554f.tmp", "..0.54e5125b-dd82-419b-85d2-9063a96d554f.tmp.crc"):
        (offsets / name).touch()
    assert run(spark, tmp_path)
