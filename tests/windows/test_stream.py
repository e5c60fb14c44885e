"""Continuous queries on Spark: the windows of rows that are all there, for every query, source, slack, trigger and sink."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import skytide
from skytide import InvalidInput, high, low
from skytide.lateness import Slack
from skytide.routing import ByKey, FrequencyAware
from skytide.slacks import DropRatio, FixedSlack, KSlack
from skytide.spark.api.query import ContinuousQuery
from skytide.spark.api.run import Run
from skytide.spark.api.stream import Windowed

START_US = 1_700_000_000_000_000
COLUMNS = "id bigint, ts timestamp, price bigint, stars int, rating double, city string"
DISORDER = FixedSlack("400 ms")  # as much as the files below have
DEADLINE_S = 600


def hotels(first: int, last: int, rows: int = 250) -> list[pa.Table]:
    """Tuples in order of arrival, a table for each second of [first, last), and each tuple up to 400 ms late."""
    tables = []
    for second in range(first, last):
        rng = np.random.default_rng(second)
        arrival = START_US + second * 1_000_000 + np.sort(rng.integers(0, 1_000_000, rows))
        columns = {
            "id": np.arange(second * rows, (second + 1) * rows),
            "ts": pa.array(arrival - rng.integers(0, 400_000, rows)).cast(pa.timestamp("us", "UTC")),
            "price": rng.integers(20, 400, rows),
            "stars": rng.integers(1, 6, rows).astype(np.int32),
            "rating": rng.integers(0, 100, rows) / 4,  # quarters add up exactly, in any order
            "city": rng.choice(["Pisa", "Lucca", "Ilmenau"], rows),
        }
        tables.append(pa.table(columns))
    return tables


def write(folder: Path, tables: list[pa.Table], first: int = 0) -> str:
    """Write files whose times make Spark read them in this order."""
    folder.mkdir(exist_ok=True)
    for number, table in enumerate(tables, first):
        draft = folder / f".{number}"
        pq.write_table(table, draft)
        os.utime(draft, (number, number))
        draft.rename(folder / f"{number}.parquet")
    return str(folder)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("hotels"), hotels(0, 4))


def play(spark: SparkSession, folder: str, columns: str = COLUMNS) -> DataFrame:
    return spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(folder)


def windowed(df: Any, slack: Slack = DISORDER) -> Windowed:
    return skytide.stream(df).window("1 s", slide="300 ms", slack=slack)


def finish(asked: ContinuousQuery, sink: Any, checkpoint: Path, flush: bool = True, **options: Any) -> Run:
    run = asked.start(sink, checkpoint=str(checkpoint), trigger="availableNow", flush=flush, **options)
    assert run.await_termination()
    return run


def rows_of(table: pa.Table | DataFrame) -> list[str]:
    """Return rows to compare: in no order, and times as numbers, whatever the time zone."""
    table = table.toArrow() if isinstance(table, DataFrame) else table
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(place, field.name, table[field.name].cast(pa.timestamp("us", field.type.tz)).cast(pa.int64()))
    return sorted(str(sorted(row.items())) for row in table.to_pylist())


class Kept:
    """A sink that keeps what came under each number, and may be told to fail after it did."""

    def __init__(self) -> None:
        self.batches: dict[int, pa.Table] = {}
        self.second = threading.Event()
        self.fails = False

    def __call__(self, rows: DataFrame, number: int) -> None:
        assert isinstance(rows, DataFrame)
        self.batches[number] = rows.toArrow()
        if len(self.batches) == 2:
            self.second.set()
        if self.fails:
            self.fails = False
            raise RuntimeError("told to fail")

    def table(self) -> pa.Table:
        return pa.concat_tables([self.batches[number] for number in sorted(self.batches)])


class Dearest(skytide.Query):
    """A user's own query: the dearest hotel, of the latest ones by id if there are several."""

    def pane(self, rows: pa.Table) -> pa.Table:
        return rows.sort_by([("price", "descending"), ("id", "descending")]).slice(0, 1)

    def window(self, kept: pa.Table) -> pa.Table:
        return self.pane(kept)


THREE = low("price") * high("stars") * high("rating")
MEASURES = ("count(*)", "sum(price)", "avg(rating)", "min(ts)", "max(stars)", "first(price)", "last(id)")
CHAINS: dict[str, Callable[[Windowed], Any]] = {
    "skyline": lambda w: w.skyline(low("price"), high("stars"), high("rating")),
    "k_dominant": lambda w: w.k_dominant(THREE, high("id"), k=3),
    "top_delta": lambda w: w.top_delta(THREE, delta=3),
    "top_k": lambda w: w.top_k(3, by="rating"),
    "apply": lambda w: w.apply(Dearest()),
    "aggregate": lambda w: w.aggregate(*MEASURES, keys=("city", "stars")),
    "skyband": lambda w: w.skyband(THREE, k=3),
    "levels": lambda w: w.levels(THREE, up_to=2),
    "expressions": lambda w: w.skyline(low("price / stars"), high(F.col("rating") * 2)),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_a_stream_gives_the_windows_of_all_rows(spark: SparkSession, files: str, tmp_path: Path, chain: str) -> None:
    ask = CHAINS[chain]
    at_once = ask(windowed(spark.read.schema(COLUMNS).parquet(files)))
    assert isinstance(at_once, DataFrame)
    run = finish(ask(windowed(play(spark, files))), "memory", tmp_path)
    results = run.results()
    assert results.column_names == at_once.columns
    assert rows_of(results) == rows_of(at_once)
    starts = results["window_start"].to_pylist()
    assert starts == sorted(starts)
    assert len(set(starts)) > 8
    assert (run.status().batch, run.status().tuples, run.status().late) == (3, 1_000, 0)


def workload(partitions: int, **options: Any) -> Any:
    known: dict[str, Any] = {
        "rate": 400,
        "arrivals": "map",
        "dispersion": 30,
        "delay": "300 ms",
        "dimensions": 3,
        "start": START_US,
    }
    return skytide.workload(**{**known, **options}, pace="fast", duration="5 s", partitions=partitions)


def best(w: Windowed) -> Any:
    return w.skyline(low("x0"), low("x1"), high("x2"))


def test_an_own_source_gives_the_same_pushed_down_or_not(spark: SparkSession, tmp_path: Path) -> None:
    tuples = pa.Table.from_batches(workload(1).workload.tuples(0, 500, START_US))
    expected = rows_of(best(windowed(spark.createDataFrame(tuples))))
    for partitions in (1, 3):
        source = workload(partitions, batch="1700 ms")
        for name, df in (("pushed", source), ("mapped", source.load(spark))):
            run = finish(best(windowed(df, FixedSlack("300 ms"))), "memory", tmp_path / f"{name}{partitions}")
            assert rows_of(run.results()) == expected
            assert (run.status().late, run.status().tuples) == (0, tuples.num_rows)


@pytest.mark.parametrize("slack", [KSlack(), pytest.param(DropRatio(0.05), marks=pytest.mark.long)], ids=repr)
def test_partitions_do_not_change_what_is_late(spark: SparkSession, tmp_path: Path, slack: Slack) -> None:
    """Inside a source of our own delays go by the order of arrival, on any other DataFrame by what earlier batches brought."""
    sources = [workload(partitions, batch="800 ms", delays="pareto", late_share=0.2) for partitions in (1, 3)]
    for name, pair in (("pushed", sources), ("mapped", [source.load(spark) for source in sources])):
        seen = []
        for number, df in enumerate(pair):
            late, windows, results = Kept(), Kept(), Kept()
            finish(best(windowed(df, slack)), results, tmp_path / f"{name}{number}", late=late, windows=windows)
            seen.append([rows_of(late.table()), rows_of(windows.table().drop_columns(["latency_s"])), rows_of(results.table())])
        assert seen[0] == seen[1]
        assert all(seen[0])


def test_a_directory_of_files_in_order_needs_no_slack(spark: SparkSession, tmp_path: Path) -> None:
    """Spark reads all files in one batch, the largest first: that is no lateness."""
    minutes = [
        pa.table({"id": range(n), "ts": pa.array(START_US // 60_000_000 * 60_000_000 + minute * 60_000_000 + np.arange(n) * 1_000)})
        for minute, n in ((minute, 100 * (minute + 1)) for minute in range(30))
    ]
    folder = write(tmp_path / "in", [table.set_column(1, "ts", table["ts"].cast(pa.timestamp("us", "UTC"))) for table in minutes])
    df = spark.readStream.schema("id bigint, ts timestamp").parquet(folder)
    run = finish(skytide.stream(df).window("1 minute").aggregate("count(*)"), "memory", tmp_path / "checkpoint", flush=False)
    assert run.status().slack_us == 0
    assert run.results()["count"].to_pylist() == [100 * (minute + 1) for minute in range(28)]  # two wait for a next batch


@pytest.mark.parametrize("splitting", [pytest.param("PB_RR", marks=pytest.mark.long), "AS_PID"])
def test_no_way_to_split_panes_changes_a_result(spark: SparkSession, tmp_path: Path, splitting: str) -> None:
    """Tuples reach their slots inside the source or by a shuffle; slots change while the query runs; late tuples are the same."""
    source = workload(1, batch="800 ms", delays="pareto", late_share=0.2)
    seen = []
    for name, df in (("plain", source), ("pushed", source), ("shuffled", source.load(spark))):
        late, results = Kept(), Kept()
        options: dict[str, Any] = {} if name == "plain" else {"splitting": splitting, "pane_slots": 3, "window_slots": 2}
        asked = best(windowed(df, FixedSlack("50 ms")))
        run = asked.start(results, checkpoint=str(tmp_path / name), trigger="availableNow", flush=True, late=late, **options)
        if name != "plain":
            spreader = run._engine._machine.spreader
            spreader._driver_s, spreader._worth_s = -1.0, 0.0  # as on a cluster with much work
            run.resize(pane_slots=2)
        assert run.await_termination()
        seen.append((rows_of(late.table()), rows_of(results.table())))
        status = run.status()
        assert (status.pane_slots, status.window_plan.startswith("on the driver")) in ((1, True), (2, False), (3, False))
    assert seen[0] == seen[1] == seen[2]
    with pytest.raises(InvalidInput, match="pane_slots=0: out of range; give a whole number"):
        run.resize(pane_slots=0)


def test_tuples_by_key_give_the_same_aggregates(spark: SparkSession, files: str, tmp_path: Path) -> None:
    """Also with slots that change while the query runs, and on from a checkpoint that knows no keys."""
    keys = ("city", "stars")
    asked = windowed(play(spark, files)).aggregate(*MEASURES, keys=keys)
    expected = rows_of(windowed(spark.read.schema(COLUMNS).parquet(files)).aggregate(*MEASURES, keys=keys))
    run = asked.start("memory", checkpoint=str(tmp_path / "a"), trigger="availableNow", flush=True, splitting="KEYS", pane_slots=3)
    run.resize(pane_slots=4)
    assert run.await_termination()
    assert rows_of(run.results()) == expected
    assert run.status().pane_slots in (3, 4)
    known = run._engine.store.latest().router["KEYS"]["keys"]
    assert 0 < len(known["divided"]) <= 100
    assert run.status().splitting_factor >= 1
    before = finish(asked, "memory", tmp_path / "b", flush=False).results()
    after = finish(asked, "memory", tmp_path / "b", splitting=ByKey(FrequencyAware(heaviest=2)), pane_slots=2).results()
    assert rows_of(pa.concat_tables([before, after])) == expected


def test_tuples_by_key_need_keys_and_work_with_an_own_source(spark: SparkSession, tmp_path: Path) -> None:
    source = workload(2, batch="1700 ms")
    with pytest.raises(InvalidInput, match=r"splitting='KEYS': the query has no keys; give it some, as in aggregate"):
        best(windowed(source)).start("memory", checkpoint=str(tmp_path / "none"), splitting="KEYS")
    grouped = windowed(source, FixedSlack("300 ms")).skyline(low("x0"), high("x1"), skytide.diff("id"))
    plain, by_key = (finish(grouped, "memory", tmp_path / str(way), splitting=way).results() for way in (None, "KEYS"))
    assert rows_of(plain) == rows_of(by_key)


def test_sinks_get_the_same_as_functions_and_as_parquet(
    spark: SparkSession, files: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = CHAINS["skyline"](windowed(play(spark, files), FixedSlack("100 ms")))
    results, late, windows = Kept(), Kept(), Kept()
    run = finish(asked, results, tmp_path / "a", late=late, windows=windows)
    out, lost = tmp_path / "out", tmp_path / "late"
    finish(asked, "parquet", tmp_path / "b", path=out, late=lost)
    for kept, path in ((results, out), (late, lost), (windows, out / "_windows")):
        read = spark.read.parquet(str(path)).drop("latency_s")
        numbers = {f"batch={number}" for number in (-1, *kept.batches)}  # an empty table is there from the start
        assert {child.name for child in path.iterdir() if not child.name.startswith(("_", "."))} == numbers
        assert rows_of(read.drop("batch")) == rows_of(kept.table().drop_columns(["latency_s"]) if kept is windows else kept.table())
    assert run.status().late == late.table().num_rows == sum(windows.table()["late"].to_pylist()) > 0
    assert run.status().windows_out == windows.table().num_rows == len(set(windows.table()["window_start"].to_pylist()))
    assert sum(windows.table()["kept"].to_pylist()) == results.table().num_rows
    with pytest.raises(InvalidInput, match=r'results\(\): the results went to the sink; start with sink="memory"'):
        run.results()
    finish(asked, "console", tmp_path / "c")
    printed = capsys.readouterr().out
    assert all(text in printed for text in ("batch 1", "|window_start", f"|{results.table()['id'][0]} "))


def test_an_interval_lets_the_same_windows_out(spark: SparkSession, files: str, tmp_path: Path) -> None:
    asked = CHAINS["skyline"](windowed(play(spark, files)))
    run = asked.start("memory", checkpoint=str(tmp_path / "interval"), trigger="100 ms", name="hotels")
    run.query.processAllAvailable()
    assert (run.query.name, run.query.isActive, run.status().batch) == ("hotels", True, 3)
    assert [row.window_end_us for row in run.windows()] == [START_US + ms * 1_000 for ms in range(-100, 3_600, 300)]
    run.stop()
    assert not run.query.isActive
    assert rows_of(run.results()) == rows_of(finish(asked, "memory", tmp_path / "now", flush=False).results())


def test_stopped_and_failed_queries_go_on_exactly(spark: SparkSession, files: str, tmp_path: Path) -> None:
    asked = CHAINS["top_delta"](windowed(play(spark, files)))
    sink = Kept()
    run = asked.start(sink, checkpoint=str(tmp_path), trigger="10 ms")
    assert sink.second.wait(DEADLINE_S)
    run.stop()
    assert not run.query.isActive
    for _ in range(2):
        sink.fails = True
        with pytest.raises((StreamingQueryException, RuntimeError), match="told to fail"):
            finish(asked, sink, tmp_path)
    finish(asked, sink, tmp_path)
    assert rows_of(sink.table()) == rows_of(CHAINS["top_delta"](windowed(spark.read.parquet(files))))


def test_a_stream_that_does_not_keep_up_stops_soon(spark: SparkSession, tmp_path: Path) -> None:
    endless = skytide.workload(rate=1_000, dimensions=3, pace="fast", partitions=1, start=START_US)
    sink = Kept()
    run = best(windowed(endless)).start(sink, checkpoint=str(tmp_path), trigger="10 ms")
    assert sink.second.wait(DEADLINE_S)
    before = run.status().batch
    run.stop()
    assert run.await_termination()
    assert run.status().batch <= before + 5


@pytest.mark.parametrize("stop", [lambda run: run.stop(), lambda run: run.query.stop()], ids=["run.stop", "run.query.stop"])
def test_a_query_that_was_stopped_keeps_its_last_windows(
    spark: SparkSession, files: str, tmp_path: Path, stop: Callable[[Run], None]
) -> None:
    asked, sink = CHAINS["skyline"](windowed(play(spark, files))), Kept()
    run = asked.start(sink, checkpoint=str(tmp_path), trigger="availableNow", flush=True)
    assert sink.second.wait(DEADLINE_S)
    stop(run)
    run.await_termination()
    finish(asked, sink, tmp_path)
    assert rows_of(sink.table()) == rows_of(CHAINS["skyline"](windowed(spark.read.parquet(files))))


def test_a_stream_goes_on_after_its_last_windows_came_out(spark: SparkSession, tmp_path: Path) -> None:
    folder, checkpoint, sink, late = tmp_path / "in", tmp_path / "checkpoint", Kept(), Kept()
    asked = CHAINS["skyline"](windowed(play(spark, write(folder, hotels(0, 2)))))
    finish(asked, sink, checkpoint, late=late)
    finish(asked, sink, checkpoint, late=late)
    assert sorted(sink.batches) == [0, 1, 2]
    write(folder, hotels(5, 7), first=2)
    write(folder, hotels(2, 3, rows=1), first=4)  # belongs into windows that are out
    finish(asked, sink, checkpoint, late=late)
    in_time = spark.createDataFrame(pa.concat_tables([*hotels(0, 2), *hotels(5, 7)]))
    assert rows_of(sink.table()) == rows_of(CHAINS["skyline"](windowed(in_time)))
    assert late.table().num_rows == 1


def test_two_queries_run_at_once(spark: SparkSession, files: str, tmp_path: Path) -> None:
    names = ("skyline", "top_k")
    asked = {name: CHAINS[name](windowed(play(spark, files))) for name in names}
    now = {"trigger": "availableNow", "flush": True}
    runs = {name: query.start("memory", checkpoint=str(tmp_path / name), name=name, **now) for name, query in asked.items()}
    assert sorted(query.name for query in spark.streams.active) == sorted(names)
    for name, run in runs.items():
        assert run.await_termination()
        assert rows_of(run.results()) == rows_of(CHAINS[name](windowed(spark.read.parquet(files))))


@pytest.fixture
def new_york(spark: SparkSession) -> Iterator[SparkSession]:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", str(zone))


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_time_zones_change_nothing(new_york: SparkSession, tmp_path: Path, kind: str) -> None:
    spark = new_york
    tables = hotels(0, 2)
    expected = rows_of(CHAINS["aggregate"](windowed(spark.createDataFrame(pa.concat_tables(tables)))))
    if kind == "timestamp_ntz":
        tables = [table.set_column(1, "ts", table["ts"].cast(pa.timestamp("us"))) for table in tables]
    df = play(spark, write(tmp_path / "in", tables), COLUMNS.replace("timestamp", kind))
    assert rows_of(finish(CHAINS["aggregate"](windowed(df)), "memory", tmp_path / "memory").results()) == expected
    out = tmp_path / "out"
    finish(CHAINS["aggregate"](windowed(df)), "parquet", tmp_path / "parquet", path=str(out))
    read = spark.read.parquet(str(out))
    assert dict(read.dtypes)["window_start"] == dict(spark.read.parquet(f"{out}/_windows").dtypes)["window_start"] == kind
    assert rows_of(read.drop("batch")) == expected
    windows = Kept()
    finish(CHAINS["aggregate"](windowed(df)), Kept(), tmp_path / "windows", windows=windows)
    written = spark.read.parquet(f"{out}/_windows").drop("batch", "latency_s")
    assert rows_of(windows.table().drop_columns(["latency_s"])) == rows_of(written)


def test_columns_may_have_the_names_that_reports_use(spark: SparkSession, files: str, tmp_path: Path) -> None:
    def named(df: DataFrame) -> Windowed:
        return windowed(df.withColumnsRenamed({"city": "late", "rating": "file", "stars": "kept", "id": "tuples"}))

    for name, ask in {
        "skyline": lambda w: w.skyline(low("price"), high("kept"), high("file")),
        "aggregate": lambda w: w.aggregate("avg(price) AS price", "max(file) AS late", keys="kept"),
    }.items():
        run = finish(ask(named(play(spark, files))), "memory", tmp_path / name)
        assert rows_of(run.results()) == rows_of(ask(named(spark.read.schema(COLUMNS).parquet(files))))


def test_a_changed_query_needs_another_checkpoint(spark: SparkSession, files: str, tmp_path: Path) -> None:
    df = play(spark, files)
    finish(windowed(df).skyline(low("price / stars")), "memory", tmp_path)
    for changed, message in [
        (windowed(df).skyline(low("price * stars")), "query: "),
        (skytide.stream(df).window("1 s", slide="500 ms").skyline(low("price / stars")), "windows: 1 s every 500 ms"),
        (windowed(df.drop("city")).skyline(low("price / stars")), "columns: "),
    ]:
        with pytest.raises(InvalidInput, match="start a changed query with another checkpoint folder") as error:
            finish(changed, "memory", tmp_path)
        assert str(error.value).startswith(message)
    finish(windowed(df, KSlack()).skyline(low("price / stars")), "memory", tmp_path)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda df: skytide.stream(df, time="when"), "time='when': there is no such column; choose one of id, ts"),
        (lambda df: skytide.stream(df, time="price"), "time='price' of type bigint: windows need a timestamp; cast it first"),
        (lambda df: skytide.stream(df).window("1 s", slide="2 s"), "longer than length"),
        (lambda df: skytide.stream(df).window("soon"), "length='soon': not a length of time"),
        (lambda df: skytide.stream(df).window("1 s", slack="1 s"), "slack='1 s': not a slack"),  # type: ignore[arg-type]
        (lambda df: windowed(df).skyline(low("prize")), "did you mean 'price'?"),
        (lambda df: windowed(df).aggregate(), "nothing to aggregate"),
        (lambda df: CHAINS["top_k"](windowed(df.withColumn("window_start", F.lit(1)))), "column window_start: the results have a"),
        (lambda df: CHAINS["top_k"](windowed(df.select("*", "price"))), "column price: several columns have that name; rename or"),
        (
            lambda df: CHAINS["top_k"](windowed(df.withColumn("age", F.expr("INTERVAL '2' YEAR")))),
            "column age: its type interval year has no Arrow form; cast or drop it first",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused(spark: SparkSession, files: str, ask: Callable[[DataFrame], Any], message: str) -> None:
    with pytest.raises(InvalidInput) as error:
        ask(play(spark, files))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("sink", "options", "message"),
    [
        ("memory", {"trigger": "often"}, "trigger='often': not a length of time"),
        ("memory", {"flush": True}, 'flush=True: an endless stream has no last window; use trigger="availableNow"'),
        (
            "kafka",
            {},
            "sink='kafka': not a sink, nor a format that this Spark knows; pass a sink of skytide.sinks, a function of (results, sequence), one of",
        ),
        ("parquet", {}, "sink='parquet': it needs a folder to write to; pass path="),
        ("memory", {"late": 5}, "late=5: not a sink"),
    ],
)
def test_what_cannot_be_started_is_refused(
    spark: SparkSession, files: str, tmp_path: Path, sink: str, options: dict[str, Any], message: str
) -> None:
    asked = CHAINS["skyline"](windowed(play(spark, files)))
    with pytest.raises(InvalidInput) as error:
        asked.start(sink, checkpoint=str(tmp_path), **options)
    assert message in str(error.value)


WRONG_TIMES = {
    "1970": 0,
    "no time": None,
    "an hour ahead": START_US + 3_600_000_000,
    "a century ahead": START_US + 36_524 * 86_400_000_000,
}


@pytest.mark.parametrize(
    ("wrong_us", "slack"),
    [
        pytest.param(wrong_us, slack, id=f"{name}, {slack!r}", marks=() if number % 3 == place else pytest.mark.long)
        for number, (name, wrong_us) in enumerate(WRONG_TIMES.items())
        for place, slack in enumerate([DISORDER, KSlack(), DropRatio(0.01)])
    ],
)
def test_a_wrong_time_does_not_stop_a_query(spark: SparkSession, tmp_path: Path, wrong_us: int | None, slack: Slack) -> None:
    tables = hotels(0, 6)
    wrong = (
        tables[2].slice(100, 1).set_column(0, "id", pa.array([-1])).set_column(1, "ts", pa.array([wrong_us], tables[0]["ts"].type))
    )
    tables[2] = pa.concat_tables([tables[2].slice(0, 100), wrong, tables[2].slice(100)])
    asked = CHAINS["aggregate"](windowed(play(spark, write(tmp_path / "in", tables)), slack))
    late, invalid = Kept(), Kept()
    run = finish(asked, "memory", tmp_path / "checkpoint", late=late, invalid=invalid)
    aside = [row["id"] for kept in (late, invalid) if kept.batches for row in kept.table().to_pylist()]
    ahead = wrong_us is not None and wrong_us > START_US
    assert (-1 in aside, run.status().invalid + run.status().late) == (not ahead, len(aside))
    assert len(aside) <= 1 + 0.01 * 6 * 250
    good = [row for table in tables for row in table.to_pylist() if row["id"] not in aside]
    expected = CHAINS["aggregate"](windowed(spark.createDataFrame(pa.Table.from_pylist(good, hotels(0, 1)[0].schema))))
    assert rows_of(run.results()) == rows_of(expected)


def test_rows_that_the_query_refuses_are_put_aside_on_request(spark: SparkSession, tmp_path: Path) -> None:
    tables = hotels(0, 2)
    ratings = tables[0]["rating"].to_pylist()
    ratings[3], ratings[4] = None, float("nan")
    tables[0] = tables[0].set_column(4, "rating", pa.array(ratings))
    df = play(spark, write(tmp_path / "in", tables))
    with pytest.raises(StreamingQueryException, match='pass nulls="drop"'):
        finish(windowed(df).skyline(high("rating")), "memory", tmp_path / "fails")
    invalid = Kept()
    run = finish(windowed(df).skyline(high("rating")), "memory", tmp_path / "goes on", invalid=invalid)
    assert sorted(invalid.table()["id"].to_pylist()) == [3, 4]
    assert run.status().invalid == 2
    good = pa.concat_tables([tables[0].slice(0, 3), tables[0].slice(5), tables[1]])
    assert rows_of(run.results()) == rows_of(windowed(spark.createDataFrame(good)).skyline(high("rating")))
