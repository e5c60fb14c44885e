"""The window level on several slots of real Spark: the same rows as on one, whatever the query; and slots that follow executors."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from support.engine import QUERIES, InProcess, Outputs, plan_of, tuples

import skytide
from skytide import diff, low
from skytide.lateness import FixedSlack
from skytide.spark.engine.engine import Engine
from skytide.spark.engine.spec import QuerySpec
from skytide.windows import Windows

ASKED: dict[str, Callable[[Any], Any]] = {
    "skyline": lambda windows: windows.skyline(low("a"), low("b")),
    "skyline with diff": lambda windows: windows.skyline(low("a"), diff("g")),
    "dominant": lambda windows: windows.top_delta(low("a"), low("b"), delta=2),
    "groups": lambda windows: windows.group_by("g").agg("count(*) AS n", "sum(a) AS total"),
    "best groups": lambda windows: windows.group_by("g").agg("sum(a) AS total").top_k(2, by="total"),
    "aggregates": lambda windows: windows.aggregate("count(*) AS n", "max(b) AS most"),
    "best": lambda windows: windows.top_k(3, by="b"),
}


@pytest.fixture
def divided() -> Iterator[None]:
    """Let the window level be divided, and leave the driver, however little it has to do."""
    rules, always = QuerySpec.rules, {"spreading_pays_s": 0.0, "driver_pays_s": -1.0}
    with patch.object(QuerySpec, "rules", lambda spec, **chosen: rules(spec, **{**chosen, **always})):
        yield


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six files of ten seconds each."""
    made = tmp_path_factory.mktemp("rows")
    for number in range(6):
        spark.sql(f"""
            SELECT TIMESTAMP '2026-01-01' + make_interval(0, 0, 0, 0, 0, 0, id / 10) AS ts, concat('g', id % 7) AS g,
                   id * 7919 % 101 AS a, (id * 104729 % 1000) / 8D AS b
            FROM range({number * 100}, {number * 100 + 100})""").coalesce(2).write.parquet(str(made / str(number)))
    return made


def rows_of(spark: SparkSession, folder: Path, checkpoint: Path, ask: Callable[[Any], Any], slots: int) -> list[str]:
    schema = "ts timestamp, g string, a bigint, b double"
    rows: DataFrame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 2).parquet(f"{folder}/*")
    windows = skytide.stream(rows, time="ts").window("6 seconds", slide="2 seconds")
    run = ask(windows).start("memory", checkpoint=checkpoint, trigger="availableNow", flush=True, window_slots=slots)
    run.await_termination()
    plan, found = run.status().window_plan, run.results()
    assert isinstance(found, pa.Table) and found.num_rows
    assert ("slots, each with its parts" in plan) == (slots > 1), plan
    return sorted(map(str, found.to_pylist()))


@pytest.mark.usefixtures("divided")
@pytest.mark.parametrize("name", ASKED)
def test_three_slots_answer_as_one_does(spark: SparkSession, folder: Path, tmp_path: Path, name: str) -> None:
    one, three = (rows_of(spark, folder, tmp_path / str(slots), ASKED[name], slots) for slots in (1, 3))
    assert three == one


def test_window_slots_follow_the_cores_until_somebody_resizes_them(tmp_path: Path) -> None:
    class Cluster(InProcess):
        """A cluster of which executors come and go."""

        count = 1

        def cores(self) -> int:
            return self.count

    plan, jobs, used = plan_of(QUERIES[4], str(tmp_path), Windows(4, 2), FixedSlack(0), slots_follow_cores=True), Cluster(), []
    engine = Engine(*plan, Outputs().sinks)
    for number, batch in enumerate(tuples([[[4 * n, 4 * n + 1], [4 * n + 2, 4 * n + 3]] for n in range(6)])):
        jobs.count = [1, 4, 4, 2, 8, 8][number]
        if number == 5:
            engine.resize(window_slots=3)
        engine.run_batch(jobs, batch, number)
        used.append(engine.status().window_slots)
    assert used == [1, 4, 4, 2, 8, 3]
    assert engine.slots.windows == 3
