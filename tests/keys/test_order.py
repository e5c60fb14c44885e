"""The order of tuples of a key with equal times: by the columns that a user names, however tuples arrive."""

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skytide.errors import InvalidInput
from skytide.keyed import Candlesticks
from skytide.keyed.ordering import order_of_ties
from skytide.queries import Aggregate, Measure
from skytide.slacks import FixedSlack
from skytide.testing import Runner, run

Row = dict[str, Any]
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("key", pa.string()),
        ("id", pa.int64()),
        ("partition", pa.int64()),
        ("offset", pa.float64()),
    ]
)


class Trail:
    """The rows of a key as they come, each with the one before: an operator whose results depend on the order."""

    def open(self, key: Any) -> bytes:
        return b"-1"

    def process(self, state: bytes, rows: pa.Table) -> Any:
        ids = rows["id"].to_pylist()
        return str(ids[-1]).encode() if ids else state, {"id": ids, "before": [int(state), *ids[:-1]] if ids else []}

    def schema(self, rows: pa.Schema) -> pa.Schema:
        return pa.schema([("id", pa.int64()), ("before", pa.int64())])


class Listed:
    """The rows of a window, as a text."""

    def open(self, key: Any) -> None:
        return None

    def process(self, state: None, rows: pa.Table) -> Any:
        return state, {"ids": [" ".join(map(str, rows["id"].to_pylist()))]}


def rank(row: Row) -> tuple[Any, ...]:
    """The oracle's order: NULL, then numbers, then NaN."""
    numbers = (row["partition"], row["offset"])
    return (row["ts"], *((0, 0.0) if n is None else (2, 0.0) if math.isnan(n) else (1, n) for n in numbers))


def by_key(rows: list[Row]) -> dict[str, list[Row]]:
    return {key: sorted((row for row in rows if row["key"] == key), key=rank) for key in {row["key"] for row in rows}}


@st.composite
def inputs(draw: st.DrawFn) -> tuple[list[Row], list[list[list[Row]]]]:
    """Draw rows, many with equal times, no two with equal order; and batches of partitions that have them in any order."""
    places = st.tuples(
        st.integers(0, 3),
        st.sampled_from("ab"),
        st.sampled_from([None, 0, 1]),
        st.sampled_from([None, -1.5, 0.0, 2.0, math.inf, math.nan]),
    )
    drawn = draw(st.lists(places, min_size=1, max_size=25, unique_by=repr))
    ids = draw(st.permutations(range(len(drawn))))  # by their values, rows would be in an order that has no sense
    rows = [
        {"ts": ts, "key": key, "id": number, "partition": partition, "offset": offset}
        for number, (ts, key, partition, offset) in zip(ids, drawn, strict=True)
    ]
    arrived = sorted(draw(st.permutations(rows)), key=lambda row: row["ts"] // 2)  # a slack of 2 s waits for all
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    batches = [arrived[start:end] for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    parts = draw(st.integers(1, 3))
    return rows, [[batch[part::parts] for part in range(parts)] for batch in batches]


def fed(asked: Any, batches: list[list[list[Row]]], restart: int, **options: Any) -> list[Row]:
    """Return what comes out, with a restart and other slots after a batch."""
    slack = FixedSlack("2 s")
    with Runner(asked, keys="key", order=("partition", "offset"), schema=SCHEMA, slack=slack, **options) as runner:
        for number, partitions in enumerate(batches):
            runner.feed(*partitions)
            if number == restart:
                runner.restart()
                runner.resize(3)
        runner.flush()
        assert not runner.outputs.late.num_rows
        return list(runner.outputs.results.to_pylist())


@given(given_rows=inputs(), restart=st.integers(0, 3))
@settings(deadline=None)
def test_an_operator_gets_tuples_of_equal_times_in_the_order_that_was_named(given_rows: Any, restart: int) -> None:
    rows, batches = given_rows
    results = fed(Trail(), batches, restart)
    for key, mine in by_key(rows).items():
        ids = [row["id"] for row in mine]
        assert [(row["id"], row["before"]) for row in results if row["key"] == key] == list(zip(ids, [-1, *ids[:-1]], strict=True))
    assert len(results) == len(rows)


@given(given_rows=inputs(), restart=st.integers(0, 3), length=st.integers(1, 4), slide=st.integers(1, 4))
@settings(deadline=None)
def test_windows_by_number_hold_the_tuples_that_the_order_puts_there(
    given_rows: Any, restart: int, length: int, slide: int
) -> None:
    rows, batches = given_rows
    slide = min(slide, length)
    expected = {
        (key, start): [row["id"] for row in mine[start : start + length]]
        for key, mine in by_key(rows).items()
        for start in range(0, len(mine) - length + 1, slide)
    }
    listed = fed(Listed(), batches, restart, window=length, slide=slide)
    assert {(row["key"], row["row_start"]): [int(each) for each in row["ids"].split()] for row in listed} == expected
    total = Aggregate((Measure("sum", "id", "total"),), time="ts")
    sums = fed(total, batches, restart, window=length, slide=slide)
    assert {(row["key"], row["row_start"]): row["total"] for row in sums} == {at: sum(ids) for at, ids in expected.items()}


@given(given_rows=inputs(), restart=st.integers(0, 3))
@settings(deadline=None)
def test_windows_of_time_have_their_tuples_in_that_order(given_rows: Any, restart: int) -> None:
    rows, batches = given_rows
    expected = sorted(
        " ".join(str(row["id"]) for row in mine if row["ts"] // 2 == number)
        for mine in by_key(rows).values()
        for number in {row["ts"] // 2 for row in mine}
    )
    assert sorted(row["ids"] for row in fed(Listed(), batches, restart, window="2 s")) == expected


def test_an_order_that_leaves_ties_leaves_them_to_the_values() -> None:
    rows = pa.table({"seq": [1, 0, 1, 0], "value": [3, 9, 2, 8]})
    runs = pa.array([1, 1, 1, 1]).to_numpy()
    assert order_of_ties(rows, runs, ("seq",)).tolist() == [3, 1, 2, 0]
    assert order_of_ties(rows, runs, ("value",)).tolist() == [2, 0, 3, 1]
    assert order_of_ties(rows, runs, ()).tolist() == [3, 1, 2, 0]


def test_zeros_and_nan_are_ordered_as_spark_does() -> None:
    rows = pa.table({"x": [math.nan, 0.0, None, -0.0, -math.inf, math.inf]})
    assert order_of_ties(rows, pa.array([1] * 6).to_numpy(), ("x",)).tolist() == [2, 4, 3, 1, 5, 0]


def test_open_and_close_of_candlesticks_follow_the_order_and_first_and_last_do_not() -> None:
    quotes = [{"ts": 0, "seq": seq, "price": price, "volume": 1} for seq, price in enumerate([5, 9, 1, 7])]
    candles = Candlesticks(price="price", volume="volume")
    [candle] = run(candles, quotes, window=4, order="seq").results.select(["open", "high", "low", "close"]).to_pylist()
    assert candle == {"open": 5, "high": 9, "low": 1, "close": 7}
    ends = Aggregate((Measure("first", "price", "first"), Measure("last", "price", "last")), time="ts")
    [row] = run(ends, quotes, window=4, order="seq").results.select(["first", "last"]).to_pylist()
    assert row == {"first": 1, "last": 9}  # the smallest and the largest of equal times


LIST = pa.list_(pa.int64())
ODD = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("seq", pa.int64()),
        ("list", LIST),
        ("void", pa.null()),
        ("nested", pa.struct({"list": LIST})),
    ]
)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (3, "order=3: not names of columns"),
        ({"seq"}, "order={'seq'}: not names of columns"),
        ("", "order='': not a text, or an empty one"),
        (["seq", 3], "order=3: not a text"),
        ("sequence", "order='sequence': there is no such column; choose one of ts, seq, list, void, nested"),
        ("ts", "order='ts': that is the time of the tuples, which orders them already; leave it out"),
        (("seq", "seq"), "order='seq': named twice; name each column once"),
        (("seq", "list"), "order='list': a list<.*> has no order; choose fields of it"),
        ("nested", "order='nested': a struct<.*> has no order; choose fields of it"),
        ("void", "order='void': a null has no order"),
    ],
)
def test_what_cannot_order_tuples_is_refused(order: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        run(Trail(), schema=ODD, order=order)


@pytest.mark.parametrize(
    ("before", "now", "message"),
    [
        ((), "id", r"order=\('id',\): .* with no order of tuples with equal times; leave order= out, or start a changed query"),
        ("id", (), r"no order: .* with order=\('id',\) of .*; pass order=\('id',\) to skytide.stream again, or start"),
        ("id", "partition", r"order=\('partition',\): .* with order=\('id',\)"),
        (("id", "partition"), ("partition", "id"), r"order=\('partition', 'id',\): .* with order=\('id', 'partition',\)"),
    ],
)
def test_a_checkpoint_of_another_order_is_refused(tmp_path: Path, before: Any, now: Any, message: str) -> None:
    rows = [{"ts": 0, "key": "a", "id": 0, "partition": 0, "offset": 0.0}]
    with Runner(Trail(), keys="key", order=before, schema=SCHEMA, checkpoint=tmp_path) as runner:
        runner.feed(rows)
    other = Runner(Trail(), keys="key", order=now, schema=SCHEMA, checkpoint=tmp_path)
    with other as runner, pytest.raises(InvalidInput, match=message):
        runner.feed(rows)
    with Runner(Trail(), keys="key", order=before, schema=SCHEMA, checkpoint=tmp_path) as runner:
        runner.feed([{**rows[0], "ts": 9}])
        assert runner.flush().results["before"].to_pylist()[-1] == 0


def test_without_an_order_a_checkpoint_says_nothing_of_it(tmp_path: Path) -> None:
    with Runner(Trail(), keys="key", schema=SCHEMA, checkpoint=tmp_path) as runner:
        runner.feed([{"ts": 0, "key": "a", "id": 0, "partition": 0, "offset": 0.0}])
    assert not any(b'"order"' in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
