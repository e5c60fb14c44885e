"""Queries on DataFrames and in SQL: the same rows as the pure query, for any partitioning, and clear errors before any job."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from support import reference

import skytide
from skytide import InvalidInput, diff, high, low
from skytide.queries import KDominant, Levels, Query, Skyband, Skyline, TopDelta, TopK
from skytide.spark.api import dataframe

ROWS = 3_000


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few rows be answered as many are: in stages."""
    monkeypatch.setattr(dataframe, "SMALL_BYTES", 0)


@pytest.fixture(scope="module")
def hotels(spark: SparkSession) -> DataFrame:
    rng = np.random.default_rng(7)
    rows = spark.createDataFrame(
        pa.table(
            {
                "id": np.arange(ROWS),
                "price": rng.integers(20, 400, ROWS),
                "stars": rng.integers(1, 6, ROWS).astype(np.int32),
                "rating": rng.random(ROWS).round(2),
                "city": rng.choice(["Pisa", "Lucca", "Ilmenau"], ROWS),
            }
        )
    ).cache()
    rows.count()  # what a cache holds is known once it is filled
    return rows


def rows_of(df: DataFrame) -> list[str]:
    return sorted(str(row.asDict()) for row in df.collect())


def answer(query: Query, df: DataFrame) -> list[str]:
    return sorted(map(str, query.window(query.pane(df.toArrow())).to_pylist()))


THREE = low("price") * high("stars") * high("rating")
CASES: list[tuple[Callable[[DataFrame], DataFrame], Query]] = [
    (lambda df: skytide.skyline(df, low("price"), high("stars"), high("rating")), Skyline(THREE)),
    (lambda df: skytide.skyline(df, THREE, diff("city")), Skyline(THREE * diff("city"))),
    (
        lambda df: skytide.skyline(df, low("price"), high("stars"), distinct=True),
        Skyline(low("price") * high("stars"), distinct=True),
    ),
    (lambda df: skytide.skyline(df, low("price") & high("stars")), Skyline(low("price") & high("stars"))),
    (lambda df: skytide.skyband(df, THREE, k=3), Skyband(THREE, k=3)),
    (lambda df: skytide.skyband(df, THREE, k=2), Skyband(THREE, k=2)),
    (lambda df: skytide.levels(df, THREE, up_to=3), Levels(THREE, up_to=3)),
    (lambda df: skytide.levels(df, low("price"), diff("city")), Levels(low("price") * diff("city"))),
    (lambda df: skytide.k_dominant(df, THREE, k=2), KDominant(THREE, k=2)),
    (lambda df: skytide.top_delta(df, THREE, delta=4), TopDelta(THREE, delta=4)),
    (lambda df: skytide.top_delta(df, THREE, diff("city"), delta=2), TopDelta(THREE * diff("city"), delta=2)),
    (lambda df: skytide.top_k(df, 5, by="rating"), TopK(high("rating"), k=5)),
    (lambda df: skytide.top_k(df, 5, by=low("price") & high("rating")), TopK(low("price") & high("rating"), k=5)),
]


@pytest.mark.parametrize(("ask", "query"), CASES, ids=[repr(query) for _, query in CASES])
@pytest.mark.parametrize("partitions", [1, 5])
def test_a_dataframe_gives_the_rows_of_the_pure_query(
    hotels: DataFrame, ask: Callable[[DataFrame], DataFrame], query: Query, partitions: int
) -> None:
    asked = ask(hotels.repartition(partitions))
    assert asked.columns == query.schema(hotels.toArrow().schema).names
    assert rows_of(asked) == answer(query, hotels)


@pytest.mark.parametrize(("ask", "query"), CASES, ids=[repr(query) for _, query in CASES])
def test_few_rows_are_answered_in_one_task(
    hotels: DataFrame, monkeypatch: pytest.MonkeyPatch, ask: Callable[[DataFrame], DataFrame], query: Query
) -> None:
    stages = ask(hotels)
    monkeypatch.undo()
    asked = ask(hotels)
    plans = [each._jdf.queryExecution().simpleString() for each in (stages, asked)]
    assert ["Exchange" in plan for plan in plans] == [True, False]
    assert rows_of(asked) == answer(query, hotels)


@pytest.mark.parametrize(
    ("make", "in_one"),
    [
        (lambda df: df.where("price > 30").select("price", F.col("stars") + 1), True),
        (lambda df: df.select("price", "stars").union(df.select("price", "stars")), True),
        (lambda df: df.withColumn("stars", F.udf(lambda stars: stars, "int")("stars")).select("price", "stars"), False),
        (lambda df: df.mapInArrow(lambda batches: batches, df.schema).select("price", "stars"), False),
        (lambda df: df.select("price", "stars", F.explode(F.sequence(F.lit(1), F.lit(9))).alias("of"))[["price", "stars"]], False),
        (lambda df: df.repartition(3).select("price", "stars"), False),
    ],
    ids=["filter", "union", "udf", "map", "explode", "repartition"],
)
def test_few_rows_that_take_work_keep_their_tasks(
    hotels: DataFrame, monkeypatch: pytest.MonkeyPatch, make: Callable[[DataFrame], DataFrame], in_one: bool
) -> None:
    monkeypatch.undo()
    rows = make(hotels).toDF("price", "stars")
    asked = skytide.skyline(rows, low("price"), high("stars"))
    assert in_one_task(asked) == in_one
    assert rows_of(asked) == answer(Skyline(low("price") * high("stars")), rows)


def in_one_task(asked: DataFrame) -> bool:
    return "Coalesce 1" in asked._jdf.queryExecution().simpleString()


def test_few_rows_with_a_function_in_the_preference_keep_their_tasks(hotels: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    same_stars = F.udf(lambda stars: stars, "int")("stars")
    asked = skytide.skyline(hotels, low("price"), high(same_stars))
    assert not in_one_task(asked)
    assert in_one_task(skytide.skyline(hotels, low("price"), high("stars + 0")))
    assert rows_of(asked) == answer(Skyline(low("price") * high("stars")), hotels)


def test_a_cache_that_is_not_filled_keeps_its_tasks(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    rows = spark.range(100).mapInArrow(lambda batches: batches, "id long").cache()
    try:
        asked = skytide.skyline(rows, low("id"))
        assert not in_one_task(asked)
        assert [row.id for row in asked.collect()] == [0]
        rows.count()
        assert in_one_task(skytide.skyline(rows, low("id")))
    finally:
        rows.unpersist()


def test_a_checkpoint_keeps_its_tasks(hotels: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert not in_one_task(skytide.skyline(hotels.localCheckpoint(eager=False), low("price")))


def test_many_files_keep_their_tasks(hotels: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    spark = hotels.sparkSession
    for files in (2, dataframe.MAX_FILES + 1):
        hotels.repartition(files).write.parquet(str(tmp_path / str(files)))
    few, many = (spark.read.parquet(str(tmp_path / str(files))) for files in (2, dataframe.MAX_FILES + 1))
    assert in_one_task(skytide.skyline(few, THREE))
    assert not in_one_task(skytide.skyline(many, THREE))
    assert not in_one_task(skytide.skyline(few.union(many), THREE))
    assert rows_of(skytide.skyline(many, THREE)) == rows_of(skytide.skyline(few, THREE)) == answer(Skyline(THREE), hotels)


@pytest.mark.parametrize(
    ("query", "in_one"),
    [
        (Skyline(low("price") * high("stars")), True),
        (TopDelta(low("price") * high("stars"), delta=2), True),
        (Skyline(THREE), False),
        (Skyband(low("price") * high("stars"), k=3), False),  # of which many rows may be kept
    ],
    ids=repr,
)
def test_one_task_merges_what_is_kept_of_two_columns(hotels: DataFrame, query: Query, in_one: bool) -> None:
    asked = dataframe.apply(hotels.repartition(5), query)
    assert (dataframe.SLOT not in asked._jdf.queryExecution().simpleString()) == in_one
    assert rows_of(asked) == answer(query, hotels)


def test_the_rows_agree_with_the_definition(hotels: DataFrame) -> None:
    rows = [row.asDict() for row in hotels.limit(300).collect()]
    some = hotels.sparkSession.createDataFrame(rows, hotels.schema)
    expected = [row for row in rows if not any(reference.better(THREE, other, row) for other in rows)]
    assert rows_of(skytide.skyline(some, THREE)) == sorted(map(str, expected))


def test_expressions_are_columns_too(hotels: DataFrame) -> None:
    expected = rows_of(skytide.skyline(hotels.withColumn("x", F.col("price") / F.col("stars")), low("x"), high("rating")).drop("x"))
    assert rows_of(skytide.skyline(hotels, low(F.col("price") / F.col("stars")), high("rating"))) == expected
    assert rows_of(skytide.skyline(hotels, low("price / stars"), high("RATING"))) == expected


def test_missing_values(spark: SparkSession) -> None:
    df = spark.createDataFrame([(1, 5.0), (2, None), (3, float("nan")), (None, 1.0)], "id int, x double")
    with pytest.raises(PythonException, match=r'(NULL|NaN) in column x, in . of . rows.*nulls="drop"'):
        skytide.skyline(df, low("x")).collect()
    assert [row.id for row in skytide.skyline(df.na.drop(subset=["id"]), low("x"), nulls="drop").collect()] == [1]
    assert [row.id for row in skytide.levels(df, low("x"), nulls="worst").where("level = 3").orderBy("id").collect()] == [2, 3]


def test_no_rows_and_no_partitions_give_no_rows(spark: SparkSession, hotels: DataFrame) -> None:
    empty = hotels.where("false")
    for ask, _ in CASES:
        assert ask(empty).count() == 0
    assert skytide.skyline(spark.createDataFrame([], hotels.schema), low("price")).count() == 0


def test_equal_zeros_of_either_sign_are_one_point(spark: SparkSession) -> None:
    df = spark.createDataFrame([(0.0, 1), (-0.0, 2), (0.0, 3)], "x double, id int").repartition(3)
    assert skytide.skyline(df, low("x"), high("x + 0 * x"), distinct=True).count() == 1


def test_asking_runs_no_job_and_a_result_never_visits_the_driver(spark: SparkSession, hotels: DataFrame) -> None:
    context = spark.sparkContext
    context.setJobGroup("asking", "no job may run here")
    try:
        for ask, _ in CASES:
            ask(hotels)
        for wrong in (lambda: skytide.skyline(hotels, low("prize")), lambda: skytide.skyline(hotels)):
            with pytest.raises(InvalidInput):
                wrong()
        assert list(context.statusTracker().getJobIdsForGroup("asking")) == []
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda df: skytide.skyline(df, low("prize")), "did you mean 'price'?"),
        (lambda df: skytide.skyline(df, low("city")), "only numbers, dates, times and booleans are ordered"),
        (lambda df: skytide.skyline(df, low("price / prize")), "use columns of id, price"),
        (lambda df: skytide.skyline(df, low("price /")), "use columns of id, price"),
        (lambda df: skytide.skyline(df, low(42)), "not a column"),
        (lambda df: skytide.skyline(df, low("price"), nulls="ignore"), "choose one of 'error', 'drop', 'worst'"),
        (lambda df: skytide.skyband(df, 3, low("price"), k=2), "3: not a preference; give a count by its name: k=3"),
        (lambda df: skytide.top_delta(df, low("price"), delta=0), "delta=0"),
        (lambda df: skytide.levels(df.withColumn("level", F.lit(1)), low("price")), "rename yours first"),
        (lambda df: skytide.skyline(df.withColumnRenamed("id", "price"), low("price")), "several columns have that name"),
    ],
)
def test_what_cannot_be_asked_is_refused(hotels: DataFrame, ask: Callable[[DataFrame], DataFrame], message: str) -> None:
    with pytest.raises(InvalidInput) as error:
        ask(hotels)
    assert message in str(error.value)


def test_a_stream_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidInput, match="rows never end"):
        skytide.skyline(spark.readStream.format("rate").load(), low("value"))


class Oldest(skytide.Query):
    """A user's own query."""

    def pane(self, rows: pa.Table) -> pa.Table:
        return rows.sort_by("id").slice(0, 1)

    def window(self, kept: pa.Table) -> pa.Table:
        return self.pane(kept)


def test_a_users_own_query(hotels: DataFrame) -> None:
    assert [row.id for row in skytide.apply(hotels.repartition(4), Oldest()).collect()] == [0]


class FirstOfSkyline(Skyline):
    """A user's own query, derived from one of ours."""

    def window(self, kept: pa.Table) -> pa.Table:
        return super().window(kept).sort_by("id").slice(0, 1)


def test_the_window_of_a_subclass_is_its_own(hotels: DataFrame) -> None:
    query = FirstOfSkyline(THREE)
    found = rows_of(skytide.apply(hotels.repartition(4), query))
    assert len(found) == 1 and found == answer(query, hotels)


SQL: list[tuple[str, Callable[[DataFrame], DataFrame]]] = [
    (
        "skyline(TABLE(hotels), 'price MIN, stars MAX, city DIFF')",
        lambda df: skytide.skyline(df, low("price"), high("stars"), diff("city")),
    ),
    (
        "skyline(TABLE(hotels), 'price MIN, stars MAX', distinct => true)",
        lambda df: skytide.skyline(df, low("price"), high("stars"), distinct=True),
    ),
    ("skyband(TABLE(hotels), 'price MIN, stars MAX', 3)", lambda df: skytide.skyband(df, low("price"), high("stars"), k=3)),
    ("levels(TABLE(hotels), 'price MIN', up_to => 2)", lambda df: skytide.levels(df, low("price"), up_to=2)),
    ("k_dominant(TABLE(hotels), 'price MIN, stars MAX, rating MAX', k => 2)", lambda df: skytide.k_dominant(df, THREE, k=2)),
    ("top_delta(TABLE(hotels), 'price MIN, stars MAX, rating MAX', 4)", lambda df: skytide.top_delta(df, THREE, delta=4)),
    ("top_k(TABLE(hotels), 'rating MAX', k => 3, nulls => 'drop')", lambda df: skytide.top_k(df, 3, by="rating")),
]


@pytest.mark.parametrize(("text", "ask"), SQL, ids=[text for text, _ in SQL])
def test_sql(hotels: DataFrame, text: str, ask: Callable[[DataFrame], DataFrame]) -> None:
    spark = hotels.sparkSession
    skytide.register(spark)
    hotels.createOrReplaceTempView("hotels")
    assert rows_of(spark.sql(f"SELECT * FROM {text}")) == rows_of(ask(hotels))


def test_sql_says_what_is_wrong(hotels: DataFrame) -> None:
    spark = hotels.sparkSession
    skytide.register(spark)
    hotels.createOrReplaceTempView("hotels")
    for text, message in (("'prize MIN'", "did you mean 'price'"), ("'price LOW'", "write columns with MIN, MAX or DIFF")):
        with pytest.raises(AnalysisException, match=message):
            spark.sql(f"SELECT * FROM skyline(TABLE(hotels), {text})")


def test_nba(spark: SparkSession, data_dir: Path) -> None:
    df = spark.read.parquet(str(data_dir / "nba_8d.parquet"))
    assert skytide.skyline(df, *map(low, df.columns)).count() == 1_796


def test_every_exported_name_exists() -> None:
    for module in (skytide, skytide.queries, skytide.kernels, skytide.spark):
        exported: Any = module
        assert all(hasattr(exported, name) for name in exported.__all__)
