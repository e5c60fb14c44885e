"""Quotes of any types to draw, and windows over them: one by one and all at once."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

NAN, INF = float("nan"), float("inf")
FLOATS = st.floats(1, 1_000, width=32)
PRICES: dict[Any, st.SearchStrategy[Any]] = {
    pa.float64(): st.one_of(FLOATS, st.sampled_from([NAN, INF, -INF, 100.0])),
    pa.float32(): FLOATS,
    pa.int16(): st.integers(1, 30_000),
    pa.int64(): st.integers(2**53, 2**53 + 5),  # which are equal in float64
    pa.decimal128(9, 2): st.decimals(1, 1_000, places=2),
    pa.decimal128(30, 20): st.decimals(1, 2, places=20),
}
VOLUMES: dict[Any, st.SearchStrategy[Any]] = {
    pa.int32(): st.integers(0, 2**31 - 1),
    pa.int64(): st.integers(2**55, 2**55 + 9),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float64(): st.one_of(st.floats(0, 1e6), st.sampled_from([NAN, INF])),
    pa.decimal128(9, 3): st.decimals(0, 1_000, places=3),
}
TIMES = st.sampled_from([pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("ms"), pa.timestamp("s"), pa.timestamp("us", "UTC")])
START_S = 1_700_000_000
START = datetime(2024, 1, 1, 9, 30, tzinfo=UTC)


@st.composite
def quotes(draw: st.DrawFn) -> pa.Table:
    """Draw plain quotes of one symbol, in order of time."""
    waits = draw(st.lists(st.integers(0, 2_000), min_size=0, max_size=12))
    times = [START + timedelta(milliseconds=int(ms)) for ms in np.cumsum(waits)]
    prices = draw(st.lists(st.integers(90, 110), min_size=len(waits), max_size=len(waits)))
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("price", pa.float64()), ("size", pa.int64())])
    return pa.table({"ts": times, "price": [float(price) for price in prices], "size": prices}, schema)


@dataclass(frozen=True)
class Windows:
    """Rows, and ranges of them."""

    rows: pa.Table
    ranges: list[tuple[int, int]]

    @property
    def bounds(self) -> tuple[Any, Any]:
        begins, ends = np.array(self.ranges, np.int64).reshape(-1, 2).T
        return begins, ends


@st.composite
def windows(draw: st.DrawFn, *, ordered: bool = True) -> Windows:
    """Draw quotes of any types, with gaps that put several into a millisecond, and with NULLs."""
    kind = draw(TIMES)
    gaps = draw(st.lists(st.sampled_from([0, 0, 1, 400, 1_000, 7_000, 250_000, 1_500_000]), min_size=1, max_size=40))
    scale = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[kind.unit]
    stamps: list[int | None] = [(START_S * 1_000_000 + int(at)) * scale // 1_000_000 for at in np.cumsum(gaps)]
    if not ordered:
        stamps = [draw(st.one_of(st.none(), st.just(stamp))) for stamp in draw(st.permutations(stamps))]
    columns = {"ts": pa.array(stamps, pa.int64()).cast(kind)}
    for name, kinds in (("price", PRICES), ("volume", VOLUMES)):
        numbers = draw(st.sampled_from(list(kinds)))
        drawn = st.lists(st.one_of(kinds[numbers], kinds[numbers], st.none()), min_size=len(stamps), max_size=len(stamps))
        columns[name] = pa.array(draw(drawn), numbers)
    bounds = st.tuples(st.integers(0, len(stamps)), st.integers(0, len(stamps))).map(lambda pair: (min(pair), max(pair)))
    return Windows(pa.table(columns), draw(st.lists(bounds, max_size=5)))


def one_by_one(operator: Any, given: Windows) -> list[dict[str, Any]]:
    found = []
    for begin, end in given.ranges:
        state, table = operator.process(operator.open("IBM"), given.rows.slice(begin, end - begin))
        assert state is None and table.schema == operator.schema(given.rows.schema)
        found += table.to_pylist()
    return found


def at_once(operator: Any, given: Windows) -> list[dict[str, Any]]:
    table, counts = operator.process_windows(given.rows, *given.bounds)
    assert table.schema == operator.schema(given.rows.schema)
    assert counts.tolist() == [1] * len(given.ranges) and counts.dtype == np.int64
    table.validate(full=True)
    return list(table.to_pylist())


def stamps(*at_us: int) -> pa.Array:
    return pa.array([START_S * 1_000_000 + at for at in at_us], pa.timestamp("us"))
