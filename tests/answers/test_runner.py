"""`skytide.testing`: queries, operators and sinks on the engine, in one process."""

import datetime
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from skytide.errors import InvalidInput, SkytideError
from skytide.lateness import FixedSlack
from skytide.queries import Aggregate, Measure, Query, Skyline, TopK, high, low
from skytide.spark.sinks.base import CheckpointIdentity, Promise, Sink, Staged
from skytide.spark.sinks.memory import Memory
from skytide.spark.sinks.parquet import Parquet
from skytide.testing import ManualClock, Outputs, Runner, run

HOTELS = [
    {"ts": 0.5, "price": 50, "stars": 3},
    {"ts": 1.0, "price": 60, "stars": 5},
    {"ts": 1.5, "price": 70, "stars": 4},
    {"ts": 12.0, "price": 90, "stars": 1},
]
BEST = Skyline(low("price") * high("stars"))


class Total:
    """Adds up amounts, row by row."""

    version = 1

    def open(self, key: Any) -> Any:
        return np.zeros(1)

    def process(self, state: Any, rows: pa.Table) -> Any:
        sums = state[0] + np.cumsum(rows["amount"].to_numpy())
        return sums[-1:] if len(sums) else state, {"total": sums}


class TotalInCents(Total):
    """The next version, which knows what the one before stored."""

    version = 2

    def upgrade(self, state: Any, version: int) -> Any:
        return state * 100

    def process(self, state: Any, rows: pa.Table) -> Any:
        sums = state[0] + 100 * np.cumsum(rows["amount"].to_numpy())
        return sums[-1:] if len(sums) else state, {"total": sums}


TotalInCents.__name__ = "Total"
PAID = [{"ts": second, "user": "ab"[second % 2], "amount": float(second)} for second in range(8)]


def prices(outputs: Outputs) -> list[int]:
    return [row["price"] for row in outputs.results.to_pylist()]


def test_windows_of_a_query_come_out_with_their_bounds() -> None:
    found = run(BEST, HOTELS, window="10 s", slide="5 s")
    starts = [row["window_start"].timestamp() for row in found.results.to_pylist()]
    assert list(zip(starts, prices(found), strict=True)) == [(-5, 50), (-5, 60), (0, 50), (0, 60), (5, 90), (10, 90)]
    assert found.windows["tuples"].to_pylist() == [3, 3, 1, 1]
    assert found.late.num_rows == found.invalid.num_rows == 0


@pytest.mark.parametrize(
    "rows",
    [
        HOTELS,
        pa.Table.from_pylist(HOTELS),
        pa.RecordBatch.from_pylist(HOTELS),
        pd.DataFrame(HOTELS),
        {name: [row[name] for row in HOTELS] for name in HOTELS[0]},
        [{**row, "ts": datetime.datetime.fromtimestamp(row["ts"], datetime.UTC)} for row in HOTELS],
        [{**row, "ts": datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=row["ts"])} for row in HOTELS],
    ],
    ids=["dicts", "table", "record batch", "pandas", "columns", "times in a zone", "times without a zone"],
)
def test_rows_may_be_written_in_many_ways(rows: Any) -> None:
    assert prices(run(BEST, rows, window="10 s")) == [50, 60, 90]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (3, "not rows"),
        ([1, 2], "not rows"),
        ([], "they have no columns"),
        ([{"at": 1}], "there is no such column"),
        ([{"ts": "noon", "price": 1, "stars": 1}], "windows need a timestamp"),
        ([{"ts": 1, "price": 1}], "no column 'stars'"),
    ],
)
def test_what_are_no_rows_is_refused(rows: Any, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        run(BEST, rows, window="10 s")


@pytest.mark.parametrize(
    ("asked", "options", "reason"),
    [
        (BEST, {}, "a query on a stream answers windows"),
        (Total(), {"slide": "1 s"}, "there is nothing to slide"),
        (Total, {}, "a class, not an object"),
        ("sum(a)", {}, "not an operator on keys"),
        (Total(), {"keys": "customer"}, "there is no such column"),
        (BEST, {"window": "soon"}, "not a length of time"),
        (BEST, {"window": 0}, "length=0"),
        (Total(), {"keys": "user", "sink": Memory}, "sink=Memory: a class, not a sink"),
        (Total(), {"keys": "user", "sink": "memory"}, "it cannot be called"),
    ],
)
def test_what_cannot_be_run_is_refused(asked: Any, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        run(asked, PAID, **options)


def test_an_operator_gets_the_rows_of_each_key_in_order_of_time() -> None:
    found = run(Total(), PAID[4:][::-1], PAID[:4][::-1], keys="user", slack=FixedSlack("1 minute"))
    assert [row["total"] for row in found.results.to_pylist() if row["user"] == "a"] == [0.0, 2.0, 6.0, 12.0]
    assert [row["total"] for row in found.results.to_pylist() if row["user"] == "b"] == [1.0, 4.0, 9.0, 16.0]


@pytest.mark.parametrize("slots", [1, 3])
def test_windows_of_keys_may_be_of_rows_or_of_time(slots: int) -> None:
    by_rows = run(Total(), PAID, keys="user", window=2, slots=slots).results.to_pylist()
    assert sorted((row["user"], row["row_end"], row["total"]) for row in by_rows if row["total"] > 9) == [
        ("a", 4, 12.0),
        ("b", 4, 16.0),
    ]
    by_time = run(TopK(high("amount"), k=1), PAID, keys=["user"], window="4 s", slots=slots).results.to_pylist()
    assert sorted((row["user"], row["amount"]) for row in by_time) == [("a", 2.0), ("a", 6.0), ("b", 3.0), ("b", 7.0)]
    sums = Aggregate((Measure.parse("sum(amount) AS total"),), keys=("user",))
    assert sorted(row["total"] for row in run(sums, PAID, window="1 minute").results.to_pylist()) == [12.0, 16.0]


def test_batch_by_batch_with_late_and_invalid_rows() -> None:
    with Runner(BEST, window="10 s", slack=FixedSlack(0)) as runner:
        assert prices(runner.feed(HOTELS[:3], HOTELS[3:])) == [50, 60]
        second = runner.feed([{"ts": 2.0, "price": 1, "stars": 5}, {"ts": 13.0, "price": 80, "stars": 2}, {"price": 7, "stars": 5}])
        assert [row["price"] for row in second.late.to_pylist()] == [1]
        assert [row["price"] for row in second.invalid.to_pylist()] == [7]
        assert not runner.feed().results.num_rows
        assert prices(runner.flush()) == [80]
        assert prices(runner.outputs) == [50, 60, 80]
        assert (runner.status.late, runner.status.invalid, runner.status.windows_out) == (1, 1, 2)


def test_restarts_and_other_numbers_of_slots_change_nothing() -> None:
    plain = run(Total(), *([row] for row in PAID), keys="user").results
    with Runner(Total(), keys="user") as runner:
        for number, row in enumerate(PAID):
            runner.feed([row])
            runner.restart()
            runner.resize(1 + number % 3)
        runner.flush()
        assert sorted(map(str, runner.outputs.results.to_pylist())) == sorted(map(str, plain.to_pylist()))


def test_another_version_continues_from_the_states_of_the_one_before() -> None:
    rows = [{"ts": second, "user": "a", "amount": 1.0} for second in range(10)]
    with Runner(Total(), keys="user", slack=FixedSlack(0)) as runner:
        runner.feed(rows[:6])
        runner.restart(TotalInCents())
        runner.feed(rows[6:])
        runner.flush()
        assert runner.outputs.results["total"].to_pylist()[-1] == 1_000.0
        with pytest.raises(InvalidInput, match="version 2 wrote"):
            runner.restart(Total())


def test_the_checkpoint_of_another_query_is_refused(tmp_path: Any) -> None:
    with Runner(BEST, window="10 s", checkpoint=tmp_path) as runner:
        runner.feed(HOTELS)
    with pytest.raises(InvalidInput, match="belongs to a query"), Runner(BEST, window="5 s", checkpoint=tmp_path) as runner:
        runner.feed(HOTELS)


def test_the_clock_dates_what_comes_out() -> None:
    clock = ManualClock(30.0)
    with Runner(BEST, window="10 s", slack=FixedSlack(0), clock=clock) as runner:
        assert runner.feed(HOTELS).windows["latency_s"].to_pylist() == [20.0]
        clock.advance("12 s")
        assert runner.flush().windows["latency_s"].to_pylist() == [22.0]


def test_a_clock_does_not_go_back() -> None:
    for by in (-1, "-1 s", float("nan")):
        with pytest.raises(InvalidInput):
            ManualClock().advance(by)


class Flaky:
    """A sink that fails once, after it has kept something."""

    def __init__(self) -> None:
        self.kept: dict[int, list[Any]] = {}
        self.fails = True

    def __call__(self, results: pa.Table, number: int) -> None:
        self.kept[number] = results.to_pylist()
        if self.fails:
            self.fails = False
            raise OSError("disk full")


def test_a_batch_that_a_sink_failed_on_is_repeated_with_the_same_results() -> None:
    sink = Flaky()
    with Runner(BEST, window="10 s", slack=FixedSlack(0), sink=sink) as runner:
        with pytest.raises(OSError, match="disk full"):
            runner.feed(HOTELS)
        before = dict(sink.kept)
        runner.restart()
        assert prices(runner.feed(HOTELS[:1])) == [50, 60]  # decided by the first try
        assert sink.kept == before


def test_another_runner_continues_from_a_checkpoint(tmp_path: Path) -> None:
    with Runner(BEST, window="10 s", slack=FixedSlack(0), sink=Flaky(), checkpoint=tmp_path) as runner, pytest.raises(OSError):
        runner.feed(HOTELS)
    sink = Flaky()
    sink.fails = False
    with Runner(BEST, window="10 s", slack=FixedSlack(0), sink=sink, checkpoint=tmp_path) as runner:
        assert prices(runner.feed(HOTELS[:1])) == [50, 60]  # the batch that was cut off
        assert prices(runner.feed([{"ts": 25.0, "price": 1, "stars": 1}])) == [90]
    with Runner(BEST, window="10 s", slack=FixedSlack(0), checkpoint=tmp_path) as runner:
        assert prices(runner.feed([{"ts": 26.0, "price": 2, "stars": 2}])) == []
        assert prices(runner.flush()) == [1, 2]
    with Runner(BEST, window="10 s", slack=FixedSlack(0), checkpoint=tmp_path) as runner:
        runner.feed([{"ts": 45.0, "price": 3, "stars": 3}])
        assert prices(runner.flush()) == [3]


class Kept(Sink):
    """A sink that stages by itself."""

    promise: Promise = "exactly once"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.batches: dict[int, list[Any]] = {}

    def open(self, schema: pa.Schema, identity: CheckpointIdentity) -> None:
        self.columns = schema.names

    def stage(self, rows: pa.Table, sequence: int, part: int) -> str:
        pq.write_table(rows.select(self.columns), self.folder / f"{sequence}-{part}")
        self.batches[sequence] = ["lost, as this is a copy"]
        return f"{sequence}-{part}"

    def publish(self, sequence: int, staged: Staged) -> None:
        assert sequence not in self.batches
        self.batches[sequence] = [row for name in staged.names for row in pq.read_table(self.folder / name).to_pylist()]


@pytest.mark.parametrize("keys", [(), "user"])
def test_a_sink_gets_what_came_out(keys: Any, tmp_path: Path) -> None:
    sink = Kept(tmp_path)
    best = TopK(high("amount"), k=1)
    found = run(best, PAID[:4], PAID[4:], keys=keys, window="2 s", slack=FixedSlack(0), sink=sink).results.to_pylist()
    assert len(sink.batches) == 3 and len(found) == 4 * (1 + len(keys) // 4)
    assert [row for number in sorted(sink.batches) for row in sink.batches[number]] == found


def test_a_sink_needs_only_publish_and_may_be_frozen() -> None:
    @dataclass(frozen=True)
    class Rows(Sink):
        got: dict[int, int] = field(default_factory=dict)

        def open(self, schema: pa.Schema, identity: CheckpointIdentity) -> None:
            self.got[-1] = len(schema)

        def publish(self, sequence: int, staged: Staged) -> None:
            self.got[sequence] = staged.table().num_rows

    sink = Rows()
    assert run(BEST, HOTELS, window="10 s", sink=sink).results.num_rows == sum(
        rows for number, rows in sink.got.items() if number >= 0
    )


@pytest.mark.parametrize("name", [None, "", 3, ("a",), b"a"])
def test_rows_that_a_sink_stages_need_a_name(name: Any, tmp_path: Path) -> None:
    class Nameless(Kept):
        def stage(self, rows: pa.Table, sequence: int, part: int) -> str:
            return cast(str, name)

    state = tmp_path / "state"
    with (
        Runner(BEST, window="10 s", slack=FixedSlack(0), sink=Nameless(tmp_path), checkpoint=state) as runner,
        pytest.raises(SkytideError, match=r"stage of Nameless returned .*; it has to return a name"),
    ):
        runner.feed(HOTELS)
    with Runner(BEST, window="10 s", slack=FixedSlack(0), sink=Kept(tmp_path), checkpoint=state) as mended:
        mended.feed(HOTELS)
        mended.flush()
        assert mended.outputs.results["price"].to_pylist() == [50, 60, 90]


def test_memory_has_the_results_of_one_query(tmp_path: Path) -> None:
    sink = Memory()
    run(BEST, HOTELS, window="10 s", sink=sink)
    assert sink.table()["price"].to_pylist() == [50, 60, 90]
    with Runner(BEST, window="10 s", slack=FixedSlack(0), checkpoint=tmp_path / "other") as other:
        other.feed(HOTELS)  # its checkpoint goes beyond what the first query let out
        other.feed([{"ts": 30.0, "price": 1, "stars": 1}])
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("price", pa.int64()), ("stars", pa.int64())])
    with Runner(BEST, window="10 s", slack=FixedSlack(0), checkpoint=tmp_path / "other", sink=sink, schema=schema) as other:
        other.flush()
        assert sink.table()["price"].to_pylist() == [1]
        other.restart()
        assert sink.table()["price"].to_pylist() == [1]


def test_a_folder_gets_what_came_out(tmp_path: Any) -> None:
    found = run(BEST, HOTELS, window="10 s", sink=Parquet(tmp_path / "out")).results
    assert ds.dataset(tmp_path / "out").to_table()["price"].to_pylist() == found["price"].to_pylist() == [50, 60, 90]


def test_what_an_operator_raises_names_the_key() -> None:
    class Broken(Total):
        def process(self, state: Any, rows: pa.Table) -> Any:
            if rows.num_rows > 1:
                raise ValueError("too many")
            return super().process(state, rows)

    with pytest.raises(SkytideError, match="raised ValueError for the key 'a': too many"):
        run(Broken(), PAID[::2], keys="user")


def test_neither_a_session_nor_java_is_needed() -> None:
    program = """
import os, sys
os.environ["PATH"], os.environ["JAVA_HOME"] = "", "/nowhere"
from skytide.queries import TopK, high
from skytide.testing import run
assert run(TopK(high("a"), k=1), {"ts": [1, 2], "a": [3, 4]}, window="1 minute").results["a"].to_pylist() == [4]
from pyspark import SparkContext
assert SparkContext._gateway is None
assert "hypothesis" not in sys.modules
"""
    found = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr


def test_a_query_of_ones_own() -> None:
    class Cheapest(Query):
        def pane(self, rows: pa.Table) -> pa.Table:
            return rows.sort_by("price").slice(0, 1)

        def window(self, kept: pa.Table) -> pa.Table:
            return self.pane(kept)

    assert prices(run(Cheapest(), HOTELS, window="10 s")) == [50, 90]
