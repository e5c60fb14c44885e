"""Bad input that only Spark shows to be bad: refused before a job runs; and odd input that is none, which works."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from support.bad_input import INF, NAN, NO_BOOL, NO_LENGTH, NO_WHOLE, Case, Opaque, each

import skytide
from skytide import InvalidInput, high, low


@dataclass(frozen=True)
class World:
    """What cases are about."""

    spark: SparkSession
    rows: DataFrame
    """Columns id, x, ts and word."""
    stream: DataFrame
    """The same, without an end."""
    run: Any
    """A query that runs."""
    folder: Path

    def named(self, *names: str) -> DataFrame:
        """Return the rows with some more columns."""
        return self.rows.select("*", *(F.col("x").alias(name) for name in names))

    def windowed(self, df: DataFrame | None = None) -> Any:
        """Return windows of the stream."""
        return skytide.stream(self.stream if df is None else df).window("1 s")

    def start(self, sink: Any = "memory", df: DataFrame | None = None, **options: Any) -> Any:
        """Start a query; it never comes to that."""
        return self.windowed(df).skyline(low("x")).start(sink, **{"checkpoint": str(self.folder / "never"), **options})


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    rows = spark.range(4).selectExpr("id", "id % 2 AS x", "timestamp_seconds(id) AS ts", "'w' AS word")
    numbers = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    stream = numbers.selectExpr("value AS id", "value % 2 AS x", "timestamp AS ts", "'w' AS word")
    folder = tmp_path_factory.mktemp("bad")
    run = skytide.stream(stream).window("1 s").skyline(low("x")).start(
        lambda rows, number: None, checkpoint=str(folder / "runs"), trigger="1 hour", name="runs"
    )  # fmt: skip
    yield World(spark, rows, stream, run, folder)
    run.stop()


NO_FRAME: list[Any] = [None, 3, "rows", "", [], {}, [{"x": 1}], DataFrame, Opaque()]
NO_QUERY: list[Any] = [None, 3, "skyline", [], low("x"), skytide.Query, Opaque()]
PLAIN: list[tuple[str, Any]] = [
    ("skyline", lambda w, df: skytide.skyline(df, low("x"))),
    ("skyband", lambda w, df: skytide.skyband(df, low("x"), k=2)),
    ("levels", lambda w, df: skytide.levels(df, low("x"))),
    ("k_dominant", lambda w, df: skytide.k_dominant(df, low("x"), k=1)),
    ("top_delta", lambda w, df: skytide.top_delta(df, low("x"), delta=1)),
    ("top_k", lambda w, df: skytide.top_k(df, 1, by="x")),
    ("stream", lambda w, df: skytide.stream(df)),
]
NAMES = ["__skytide_0", "__SKYTIDE_slot", "__skytide_owner", "__skytide_window", "x", "X"]

CASES = [
    *(case for name, call in PLAIN for case in each(f"{name}.df", call, NO_FRAME, "=")),
    *(each(f"{name} of a stream", lambda w, c: c(w, w.stream), [call], "ask for windows")[0] for name, call in PLAIN[:-1]),
    *(
        each(f"{name}.columns", lambda w, own, call=call: call(w, w.named(own)), NAMES, "column ")[number]
        for name, call in PLAIN[:-1]
        for number in range(len(NAMES))
    ),
    *each("levels.columns", lambda w, own: skytide.levels(w.named(own), low("id")), ["level", "LEVEL", "Level"], "adds a column"),
    *each("top_delta.columns", lambda w, own: skytide.top_delta(w.named(own), low("id"), delta=1), ["k", "K"], "adds a column"),
    *each("apply.query", lambda w, query: skytide.apply(w.rows, query), NO_QUERY, "query="),
    *each("skyline.preferences", lambda w, what: skytide.skyline(w.rows, what), [None, 3, [], low, Opaque()], "preference"),
    Case("skyline of a Column", lambda w: skytide.skyline(w.rows, F.col("x")), "not a preference"),
    Case("low of a Column that is not there", lambda w: skytide.skyline(w.rows, low(F.col("nope"))), "nope"),
    Case("low of an aggregate", lambda w: skytide.skyline(w.rows, low(F.sum("x"))), "sum"),
    Case("stream.time as a Column", lambda w: skytide.stream(w.stream, time=F.col("ts")), "time="),  # type: ignore[arg-type]
    Case("skyline of nothing", lambda w: skytide.skyline(w.rows), "nothing says which rows are better"),
    *each("low", lambda w, what: skytide.skyline(w.rows, low(what)), [
        "price", "x +", "nope + 1", "word", "count(x)", "x; drop", "ts.year", "`x", "sum(x) OVER (",
    ], ""),
    Case("the same column twice in other case", lambda w: skytide.skyline(w.rows, low("x"), high("X")), "preferred twice"),
    *each("nulls", lambda w, nulls: skytide.skyline(w.rows, low("x"), nulls=nulls), [None, "", "keep", 3], "nulls="),
    *each("distinct", lambda w, distinct: skytide.skyline(w.rows, low("x"), distinct=distinct), NO_BOOL, "distinct="),
    *each("skyband.k", lambda w, k: skytide.skyband(w.rows, low("x"), k=k), [*NO_WHOLE, None], "k"),
    *each("skyband.first", lambda w, k: skytide.skyband(w.rows, k, low("x"), k=2), [0, -1, 2**70, True, 1.5, "3", None], ""),
    *each("levels.up_to", lambda w, k: skytide.levels(w.rows, low("x"), up_to=k), NO_WHOLE, "up_to="),
    *each("k_dominant.k", lambda w, k: skytide.k_dominant(w.rows, low("x"), k=k), [*NO_WHOLE, None, 2], "k"),
    *each("top_delta.delta", lambda w, k: skytide.top_delta(w.rows, low("x"), delta=k), [*NO_WHOLE, None], "delta"),
    *each("top_k.k", lambda w, k: skytide.top_k(w.rows, k, by="x"), [*NO_WHOLE, None], "k="),
    *each("top_k.by", lambda w, by: skytide.top_k(w.rows, 1, by=by), [None, "", 3, [], "nope", "word", low("x") * high("id"), True], ""),
    *each("stream.time", lambda w, time: skytide.stream(w.stream, time=time), [None, "", "x", "nope", 3, [], "TS "], "time="),
    *each("window.length", lambda w, length: skytide.stream(w.stream).window(length), NO_LENGTH, "length="),
    *each("window.slide", lambda w, slide: skytide.stream(w.stream).window("1 s", slide), [v for v in NO_LENGTH if v is not None], "slide="),
    *each("window.slack", lambda w, slack: skytide.stream(w.stream).window("1 s", slack=slack), [3, "2 s", 0, False, skytide.slacks.KSlack, []], "slack="),
    *each("windows.columns", lambda w, own: w.windowed(w.named(own)).skyline(low("id")),
        ["window_start", "WINDOW_END", "__skytide_x", "x", "X", "TS"], "column "),
    *each("windows.apply", lambda w, query: w.windowed().apply(query), NO_QUERY, "query="),
    *each("windows.skyline", lambda w, what: w.windowed().skyline(what), [None, 3, low("nope"), low("word")], ""),
    *each("windows.skyband", lambda w, k: w.windowed().skyband(low("x"), k=k), [*NO_WHOLE, None], "k"),
    *each("windows.levels", lambda w, k: w.windowed().levels(low("x"), up_to=k), NO_WHOLE, "up_to="),
    *each("windows.k_dominant", lambda w, k: w.windowed().k_dominant(low("x"), k=k), [*NO_WHOLE, None], "k"),
    *each("windows.top_delta", lambda w, k: w.windowed().top_delta(low("x"), delta=k), [*NO_WHOLE, None], "delta"),
    *each("windows.top_k", lambda w, k: w.windowed().top_k(k, by="x"), [*NO_WHOLE, None], "k="),
    *each("aggregate", lambda w, measure: w.windowed().aggregate(measure), [None, "", "x", "sum(nope)", "sum(word)", "median(x)", 3, []], ""),
    *each("aggregate.keys", lambda w, keys: w.windowed().aggregate("count(*)", keys=keys), ["nope", ["x", "x"], 3, None, [None], [""]], ""),
    Case("aggregate of nothing", lambda w: w.windowed().aggregate(), "nothing to aggregate"),
    *each("start.sink", lambda w, sink: w.start(sink), [None, "", "kafka", 3, [], "parquet"], "sink="),
    *each("start.trigger", lambda w, trigger: w.start(trigger=trigger), [v for v in NO_LENGTH if v != ""], "trigger="),
    *each("start.flush", lambda w, flush: w.start(trigger="availableNow", flush=flush), NO_BOOL, "flush="),
    Case("start.flush of a stream that goes on", lambda w: w.start(flush=True), "has no last window"),
    *each("start.name", lambda w, name: w.start(name=name), ["", " ", 3, [], "runs"], "name="),
    *each("start.splitting", lambda w, way: w.start(splitting=way), ["", "fair", 3, [], 0, "KEYS"], "splitting="),
    *each("start.pane_slots", lambda w, slots: w.start(pane_slots=slots), NO_WHOLE, "pane_slots="),
    *each("start.window_slots", lambda w, slots: w.start(window_slots=slots), NO_WHOLE, "window_slots="),
    *each("start.late", lambda w, late: w.start(late=late), [3, []], "late="),
    *each("start.windows", lambda w, windows: w.start(windows=windows), [3, []], "windows="),
    *each("start.columns", lambda w, own: w.start("parquet", w.stream.withColumn(own, F.col("x")), path=str(w.folder / "p")), ["batch", "BATCH"], "batches in folders"),
    Case("start.late columns", lambda w: w.start(df=w.stream.withColumn("batch", F.col("x")), late=str(w.folder / "l")), "batches in folders"),
    *each("resize", lambda w, slots: w.run.resize(slots), NO_WHOLE, "pane_slots="),
    *each("resize.windows", lambda w, slots: w.run.resize(window_slots=slots), NO_WHOLE, "window_slots="),
    *each("await_termination", lambda w, timeout: w.run.await_termination(timeout), [0, -1, NAN, INF, "1", True, []], "timeout="),
    Case("results of another sink", lambda w: w.run.results(), "went to the sink"),
    *each("register", lambda w, spark: skytide.register(spark), [None, 3, "spark", SparkSession, Opaque()], "spark="),
    *each("autoscale.query", lambda w, query: skytide.autoscale(query), [None, 3, "query", [], Opaque()], "query="),
    *each("autoscale.controller", lambda w, c: skytide.autoscale(w.run, c), [None, "", "clever", 3, skytide.controllers.Mpc, []], "controller"),
    *each("autoscale.executors", lambda w, e: skytide.autoscale(w.run, executors=e), [4, (1,), (1, 2, 3), ("1", "2"), (1.0, 2), (True, 3), (0, 3), (3, 1), "12", [], {1: 2}], ""),
    *each("autoscale.interval", lambda w, i: skytide.autoscale(w.run, interval=i), [v for v in NO_LENGTH if v is not None], "interval="),
    *each("autoscale.mode", lambda w, mode: skytide.autoscale(w.run, mode=mode), [None, "", "watch", 3, []], "mode="),
    *each("autoscale.guard", lambda w, guard: skytide.autoscale(w.run, guard=guard), [3, "guard", (1, 8), skytide.Guard, False, {}], "guard="),
    *each("autoscale.store", lambda w, store: skytide.autoscale(w.run, store=store), [3, "", [], b"x", "/dev/null/x", "a\0b"], "store="),
    *each("autoscale.on_event", lambda w, on_event: skytide.autoscale(w.run, on_event=on_event), [3, "print", [], 0], "on_event="),
    *each("autoscale.warm", lambda w, warm: skytide.autoscale(w.run, warm=warm), NO_BOOL, "warm="),
    *each("autoscale.power", lambda w, power: skytide.autoscale(w.run, power=power), NO_BOOL, "power="),
]  # fmt: skip


def jobs(spark: SparkSession) -> set[int]:
    """Return the jobs that ran so far, of the tests' own group or of none."""
    tracker = spark.sparkContext.statusTracker()
    return {*tracker.getJobIdsForGroup("bad input"), *tracker.getJobIdsForGroup(None)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_bad_input_is_refused_before_a_job_runs(world: World, case: Case) -> None:
    world.spark.sparkContext.setJobGroup("bad input", case.id)
    before = jobs(world.spark)
    case.refused(world)
    assert jobs(world.spark) == before
    assert not (world.folder / "never" / "skytide").exists()


def test_a_job_would_have_been_noticed(world: World) -> None:
    world.spark.sparkContext.setJobGroup("bad input", "guilty")
    before = jobs(world.spark)
    world.rows.count()
    assert jobs(world.spark) > before


def test_there_are_hundreds_of_cases() -> None:
    assert len(CASES) > 300


STATEMENTS = [
    ("skyline(TABLE(bad), 'nope MIN')", "there is no column 'nope'"),
    ("skyline(TABLE(bad), 'x')", "not a preference"),
    ("skyline(TABLE(bad), '')", "preferences=''"),
    ("skyline(TABLE(bad), NULL)", "preferences=None"),
    ("skyline(TABLE(bad), 3)", "preferences=3"),
    ("skyline(TABLE(bad))", "missing a required argument"),
    ("skyline(TABLE(bad), 'x MIN', nulls => 'keep')", "nulls='keep'"),
    ("skyline(TABLE(bad), 'x MIN', distinct => 'no')", "distinct='no'"),
    ("skyline(TABLE(bad), 'x MIN', speed => 3)", "unexpected keyword argument"),
    ("skyline(TABLE(bad), 'word MIN')", "are ordered"),
    ("skyband(TABLE(bad), 'x MIN')", "missing a required argument"),
    ("skyband(TABLE(bad), 'x MIN', 0)", "k=0"),
    ("skyband(TABLE(bad), 'x MIN', -1)", "k=-1"),
    ("skyband(TABLE(bad), 'x MIN', 'two')", "k='two'"),
    ("skyband(TABLE(bad), 'x MIN', NULL)", "k=None"),
    ("levels(TABLE(bad), 'x MIN', up_to => 0)", "up_to=0"),
    ("levels(TABLE(SELECT *, 1 AS LEVEL FROM bad), 'x MIN')", "adds a column"),
    ("k_dominant(TABLE(bad), 'x MIN', 2)", "k=2"),
    ("top_delta(TABLE(bad), 'x MIN', true)", "delta=True"),
    ("top_k(TABLE(bad), 'x MIN, id MAX', 1)", "one score"),
    ("skyline(TABLE(SELECT *, 1 AS __skytide_row FROM bad), 'x MIN')", "a name that skytide uses"),
]


@pytest.mark.parametrize(("call", "part"), STATEMENTS, ids=[call for call, _ in STATEMENTS])
def test_sql_is_refused_when_it_is_analysed(world: World, call: str, part: str) -> None:
    skytide.register(world.spark)
    world.rows.createOrReplaceTempView("bad")
    before = jobs(world.spark)
    with pytest.raises(AnalysisException) as caught:
        world.spark.sql(f"SELECT * FROM {call}")
    assert "InvalidInput" in str(caught.value) and part in str(caught.value)
    assert jobs(world.spark) == before


ODD = [
    "a.b",
    "a b",
    "ä ö ü",
    "价格",
    "a`b",
    "it's",
    'say "x"',
    "select",
    "a,b",
    "1st",
    "a(b)",
    "a=b",
    "batch",
    "window",
    "%x",
    "x" * 300,
]


@pytest.mark.parametrize("name", ODD)
def test_odd_names_work(world: World, name: str) -> None:
    rows = world.spark.createDataFrame([(1, 4, 0), (2, 2, 0), (3, 3, 1), (2, 5, 0)], "id int, y int, g int").withColumnsRenamed(
        {"id": name, "g": f"{name} g"}
    )
    timed = rows.selectExpr("*", "TIMESTAMP '2026-01-01 00:00:00' AS `the.time`")
    best = {(1, 4, 0), (2, 2, 0)}
    assert {tuple(row) for row in skytide.skyline(rows, low(name), low("y")).collect()} == best
    grouped = skytide.skyline(rows, low(name), low("y"), skytide.diff(f"{name} g"))
    assert {tuple(row) for row in grouped.collect()} == {*best, (3, 3, 1)}
    windows = skytide.stream(timed, time="the.time").window("1 s", "500 ms").skyline(low(name), low("y"))
    assert {tuple(row)[2:5] for row in windows.collect()} == best
    levels = skytide.levels(rows, low(name), low("y")).collect()
    assert sorted(row["level"] for row in levels) == [1, 1, 2, 2]


def test_odd_names_work_in_sql(world: World) -> None:
    skytide.register(world.spark)
    rows = world.spark.createDataFrame([(1, 4, 0), (2, 2, 0), (3, 3, 1)], "a int, y int, g int")
    rows.withColumnsRenamed({"a": "a.b", "g": "g`,h"}).createOrReplaceTempView("odd")
    found = world.spark.sql("SELECT * FROM skyline(TABLE(odd), '`a.b` MIN, y MIN, `g``,h` DIFF')").collect()
    assert {tuple(row) for row in found} == {(1, 4, 0), (2, 2, 0), (3, 3, 1)}


def test_odd_names_work_on_a_stream(world: World, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    odd = {"x": "a.b", "y": "c`d e", "ts": "the time"}
    rows = world.spark.createDataFrame([(1, 4, 0), (2, 2, 0), (3, 3, 0)], "x int, y int, s int").selectExpr(
        "x", "y", "timestamp_seconds(s) AS ts"
    )
    rows.write.mode("overwrite").json(str(tmp_path / "in"))
    read = world.spark.readStream.schema("x int, y int, ts timestamp").json(str(tmp_path / "in")).withColumnsRenamed(odd)
    asked = skytide.stream(read, time="the time").window("1 s").skyline(low("a.b"), low("c`d e"))
    run = asked.start("memory", checkpoint=str(tmp_path / "c"), trigger="availableNow", flush=True, late=lambda rows, number: None)
    run.await_termination()
    assert {(row["a.b"], row["c`d e"]) for row in run.results().to_pylist()} == {(1, 4), (2, 2)}


def test_a_workload_streams_from_any_thread(spark: SparkSession) -> None:
    found: list[Any] = []

    def ask() -> None:
        try:
            found.append(skytide.stream(skytide.workload(rate=10, dimensions=2)).window("1 s").skyline(low("x0")))
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert found[0].rows.columns == ["id", "ts", "arrival", "x0", "x1"]


def test_a_workload_without_a_session_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", None)
    monkeypatch.setattr("pyspark.core.context.SparkContext._active_spark_context", None)
    with pytest.raises(InvalidInput, match="start a SparkSession first"):
        skytide.stream(skytide.workload(rate=10))
