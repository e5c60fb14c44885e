import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from skytide.spark.session.local import local_session


def test_workers_run_this_python_on_arrow_batches(spark: SparkSession) -> None:
    def which_python(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = sum(batch.num_rows for batch in batches)
        yield pa.RecordBatch.from_pydict({"python": [sys.prefix], "rows": [rows]})

    answer = spark.range(1000).mapInArrow(which_python, "python string, rows long").toArrow()
    assert set(answer["python"].to_pylist()) == {sys.prefix}
    assert sum(answer["rows"].to_pylist()) == 1000


def test_a_second_call_gives_the_running_session(spark: SparkSession) -> None:
    home = os.environ["JAVA_HOME"]
    assert local_session("again").sparkContext is spark.sparkContext
    assert os.environ["JAVA_HOME"] == home


@pytest.mark.slow
def test_starts_in_silence_and_leaves_nothing_behind(tmp_path: Path) -> None:
    program = """
from skytide.spark.session.local import local_session
session = local_session("silent", **{"spark.sql.shuffle.partitions": "7"})
assert session.conf.get("spark.sql.shuffle.partitions") == "7"
assert session.range(10).mapInArrow(lambda batches: batches, "id long").count() == 10
"""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")
    assert [path.name for path in tmp_path.rglob("*")] == ["tmp"]
