"""Sinks as objects, and one of a user's own that stages in tasks."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import skytide
from skytide import InvalidInput, Parallelism, Sides, low
from skytide.sinks import CheckpointIdentity, Files, Format, Memory, Parquet, Sink, Staged, Table
from skytide.slacks import FixedSlack

SECOND_US = 1_000_000


@pytest.fixture
def asked(spark: SparkSession, tmp_path: Path) -> Any:
    times = pa.array([second * SECOND_US for second in range(30)], pa.timestamp("us", "UTC"))
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"ts": times, "x": [second % 7 for second in range(30)]}), tmp_path / "in" / "a.parquet")
    df = spark.readStream.schema("ts timestamp, x long").parquet(str(tmp_path / "in"))
    return skytide.stream(df).window("10 seconds", slack=FixedSlack("0 s")).skyline(low("x"))


class JsonLines(Sink):
    """Writes lines in tasks, and shows them by a rename."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, schema: pa.Schema, identity: CheckpointIdentity) -> None:
        self.columns = schema.names
        self.folder.mkdir(exist_ok=True)

    def stage(self, rows: pa.Table, sequence: int, part: int) -> str:
        name = f".{sequence}-{part}.json"
        (self.folder / name).write_text("".join(f"{json.dumps(row, default=str)}\n" for row in rows.to_pylist()))
        return name

    def publish(self, sequence: int, staged: Staged) -> None:
        for name in staged.names:
            (self.folder / name).rename(self.folder / name[1:])


def test_objects_and_names_mean_the_same(asked: Any, tmp_path: Path) -> None:
    now: dict[str, Any] = {"trigger": "availableNow", "flush": True}
    memory, mine = Memory(), JsonLines(tmp_path / "mine")
    sides = Sides(late=Parquet(tmp_path / "late"))
    parquet = Parquet(tmp_path / "out", compression="zstd")
    asked.start(parquet, checkpoint=tmp_path / "a", sides=sides, parallelism=Parallelism("RATE", 2), **now).await_termination()
    run = asked.start(memory, checkpoint=tmp_path / "b", **now)
    run.await_termination()
    asked.start(mine, checkpoint=tmp_path / "c", **now).await_termination()
    asked.to_table("sink_objects", checkpoint=tmp_path / "d", **now).await_termination()
    rows = sorted((row["window_start"], row["x"]) for row in run.results().to_pylist())
    files = [pq.ParquetFile(file).read() for file in (tmp_path / "out").glob("batch=[0-9]*/*.parquet")]
    assert sorted((row["window_start"], row["x"]) for table in files for row in table.to_pylist()) == rows
    lines = [json.loads(line) for file in (tmp_path / "mine").glob("*.json") for line in file.read_text().splitlines()]
    assert sorted(line["x"] for line in lines) == sorted(x for _, x in rows)
    assert memory.table().num_rows == len(rows) == asked.rows.sparkSession.table("sink_objects").count()
    assert (tmp_path / "late" / "_skytide").exists() and run.run_id == run.runId and run.is_active is False
    with pytest.raises(InvalidInput, match="this query is not partitioned by key"):
        run.routing()
    with pytest.raises(InvalidInput, match="this sink would ignore it"):
        asked.start(Memory(), path=tmp_path / "x", checkpoint=tmp_path / "e")
    for unknown in (Format("nonsense"), Files("nonsense", tmp_path / "x"), Table("best", format="nonsense")):
        with pytest.raises(InvalidInput, match="format='nonsense': not a format that this Spark knows"):
            asked.start(unknown, checkpoint=tmp_path / "e")
    with pytest.raises(InvalidInput, match="the same object is the sink of something else"):
        asked.start(memory, late=memory, checkpoint=tmp_path / "e")
    assert not (tmp_path / "e").exists() and not (tmp_path / "x").exists()
    asked.rows.sparkSession.sql("DROP TABLE sink_objects")
