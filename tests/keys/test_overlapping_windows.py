"""Windows of time of keys that overlap a thousandfold: what a batch asks and remembers does not grow with the windows of a tuple."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.engine import COLUMNS
from support.keyed import step

from skytide.keyed import Chunk, KeyedStep, QueryAnswer, TimeWindows, gathered, hashes_of
from skytide.keyed.chunk import all_keys
from skytide.keyed.work import Chunks
from skytide.queries import PreferenceQuery, Skyband, Skyline, TopK, high, low
from skytide.windows import Windows

SECOND_US = 1_000_000
HOUR_S = 3_600
ROWS, KEYS = 300, 4
QUERIES: list[PreferenceQuery] = [TopK(high("b"), k=3), Skyline(low("id") * high("b")), Skyband(low("id") * high("b"), k=2)]


def some(count: int, from_s: int, span_s: int, keys: int = KEYS) -> pa.Table:
    draw = np.random.default_rng(from_s)
    times = pa.array(draw.integers(from_s * SECOND_US, (from_s + span_s) * SECOND_US, count), pa.timestamp("us", "UTC"))
    columns = {"ts": times, "a": draw.integers(0, keys, count), "b": draw.integers(0, 50, count).astype(float)}
    return pa.table({**columns, "id": draw.permutation(count)}, COLUMNS)


def made(query: PreferenceQuery, slide_s: int) -> KeyedStep:
    return step(TimeWindows(Windows(HOUR_S * SECOND_US, slide_s * SECOND_US)), QueryAnswer(query))


def asked(made: KeyedStep, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how often a batch of an hour computes a pane or a window of its own."""
    calls: Counter[str] = Counter()
    assert isinstance(made.answer, QueryAnswer)
    kind = type(made.answer.query)
    for name in ("pane", "window"):
        method = getattr(kind, name)

        def counted(self: Any, rows: pa.Table, name: str = name, method: Any = method) -> pa.Table:
            calls[name] += 1
            return method(self, rows)

        monkeypatch.setattr(kind, name, counted)
    rows = some(ROWS, 0, HOUR_S)
    done = made.work(rows, hashes_of(rows, ("a",)), [], [], None, 2**60)
    assert done.windows > KEYS * HOUR_S / 60
    return calls.total()


@pytest.mark.parametrize("slide_s", [60, 6, 1])
@pytest.mark.parametrize("query", QUERIES, ids=lambda query: type(query).__name__)
def test_no_window_is_computed_on_its_own(query: PreferenceQuery, slide_s: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(made(query, slide_s), monkeypatch) == 0


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: type(query).__name__)
def test_each_window_has_the_answer_of_its_rows(query: PreferenceQuery) -> None:
    rows = some(40, 0, HOUR_S)
    found = made(query, 30).work(rows, hashes_of(rows, ("a",)), [], [], None, 2**60).results
    times = rows["ts"].cast(pa.int64()).to_numpy()
    expected = []
    for key in range(KEYS):
        for start_s in range(-HOUR_S, HOUR_S, 30):
            held = (times >= start_s * SECOND_US) & (times < (start_s + HOUR_S) * SECOND_US) & (rows["a"].to_numpy() == key)
            window = rows.filter(pa.array(held)).sort_by("ts")
            ids = query.window(query.pane(window))["id"].to_pylist()
            expected += [(key, start_s * SECOND_US, row) for row in ids]
    starts = found["window_start"].cast(pa.int64()).to_pylist()
    mine = list(zip(found["a"].to_pylist(), starts, found["id"].to_pylist(), strict=True))
    assert sorted(mine) == sorted(expected)
    for key in range(KEYS):  # in order within a key
        assert [row for row in mine if row[0] == key] == [row for row in expected if row[0] == key]


def alive(hashes: Any) -> Any:
    return np.ones(len(hashes), np.bool_)


def in_batches(made: KeyedStep, batches: list[pa.Table], ends_us: list[int]) -> tuple[list[Any], int]:
    """Return the rows of all results in order within a key, and how many rows are remembered in the end, in one chunk."""
    log: Chunks = []
    results, since_us = [], None
    for rows, until_us in zip(batches, ends_us, strict=True):
        done = made.work(rows, hashes_of(rows, ("a",)), log, [], since_us, until_us)
        results += done.results.to_pylist()
        known: Chunks = [*log, *([] if done.rows is None else [(done.rows, alive)])]
        whole: Chunk = gathered(known, all_keys(known, made.key), made.key, made.remembered)
        log, since_us = [(made.condensed(whole, until_us), alive)], until_us
    return sorted(results, key=lambda row: (row["a"], row["window_start"])), log[0][0].rows.num_rows


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: type(query).__name__)
def test_few_rows_are_remembered_and_no_result_changes(query: PreferenceQuery) -> None:
    length_s, batches = HOUR_S // 10, 20
    parts = [some(200, number * length_s, length_s, keys=2) for number in range(batches)]
    ends_us = [(number + 1) * length_s * SECOND_US for number in range(batches)]
    asked = made(query, 60)
    found, remembered = in_batches(asked, parts, ends_us)
    at_once, _ = in_batches(asked, [pa.concat_tables(parts)], ends_us[-1:])
    assert [repr(row) for row in found] == [repr(row) for row in at_once]
    assert remembered < 0.1 * 200 * HOUR_S / length_s  # of the rows of a window
