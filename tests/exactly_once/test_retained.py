"""Spark's own notes are kept as long as states are, within bounds."""

import pytest
from pyspark.sql import DataFrame, SparkSession

import skytide
from skytide.spark.api.retained import RETAINED, notes_retained


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load()


@pytest.mark.parametrize(
    ("trigger_us", "retained"), [(None, "1000"), (1, "1000"), (500_000, "1000"), (10_000_000, "365"), (3_600_000_000, "100")]
)
def test_notes_are_kept_for_an_hour_but_not_too_many_nor_fewer(rows: DataFrame, trigger_us: int | None, retained: str) -> None:
    conf = rows.sparkSession.conf
    before = conf.get(RETAINED)
    with notes_retained(rows, trigger_us):
        assert conf.get(RETAINED) == retained
    assert conf.get(RETAINED) == before == "100"


def test_what_an_input_keeps_of_its_own_does_not_grow(rows: DataFrame) -> None:
    late = rows.withWatermark("timestamp", "1 second")
    joined = late.join(late.withColumnRenamed("value", "other"), "timestamp")
    for stateful in (late.dropDuplicatesWithinWatermark(["value"]), late.groupBy("timestamp").count(), rows.distinct(), joined):
        with notes_retained(stateful, None):
            assert rows.sparkSession.conf.get(RETAINED) == "100"


def test_a_query_that_runs_has_the_number(rows: DataFrame, tmp_path_factory: pytest.TempPathFactory) -> None:
    asked = skytide.stream(rows, time="timestamp").window("1 s").aggregate("count(*) AS n")
    run = asked.start(lambda results, number: None, checkpoint=tmp_path_factory.mktemp("ck"), trigger="10 seconds")
    try:
        execution = run.query._jsq.streamingQuery()
        assert execution.sparkSessionForStream().conf().get(RETAINED) == "365"
    finally:
        run.stop()
    assert rows.sparkSession.conf.get(RETAINED) == "100"


def test_spark_has_the_defaults_that_the_docs_name(spark: SparkSession) -> None:
    """Of docs/operating.md: how far back its notes on files go."""
    of_files = "spark.sql.streaming.fileSource.log"
    assert (spark.conf.get(f"{of_files}.cleanupDelay"), spark.conf.get(RETAINED)) == ("600000ms", "100")
    assert (spark.conf.get(f"{of_files}.deletion"), spark.conf.get(f"{of_files}.compactInterval")) == ("true", "10")
