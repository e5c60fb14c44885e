"""Many ranges of rows answered at once, against each range on its own."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from support import reference
from support.examples import examples
from support.queries import ALL, PREFERENCE, tables

from skytide.errors import InvalidInput
from skytide.kernels import bands, range_bands
from skytide.queries import PreferenceQuery, Query, Skyband, Skyline, TopK, diff, high, low, ranges
from skytide.queries.ranges import answers_one_by_one, needed_later, range_answers, skyband_of

tiny = arrays.arrays(np.float64, st.tuples(st.integers(0, 30), st.integers(1, 3)), elements=st.integers(0, 4).map(float))
MISSING = pa.schema([("a", pa.int64()), ("b", pa.float64()), ("g", pa.int64()), ("id", pa.int64())])


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few rows be so many that they are reduced first, or need more room."""
    monkeypatch.setattr(ranges, "LARGE", 3)


@st.composite
def bounds(draw: st.DrawFn, rows: int) -> tuple[Any, Any]:
    """Return ranges: in any order, or forward, as those of windows."""
    pairs = draw(st.lists(st.tuples(st.integers(0, rows), st.integers(0, rows)), max_size=12))
    first, last = (np.array([pick(pair) for pair in pairs], np.int64) for pick in (min, max))
    return (np.sort(first), np.sort(last)) if draw(st.booleans()) else (first, last)


@given(points=tiny, k=st.integers(1, 4), later=st.booleans(), data=st.data())
def test_the_skyband_of_each_range(points: Any, k: int, later: bool, data: st.DataObject) -> None:
    begins, ends = data.draw(bounds(len(points)))
    places, counts, firsts = range_bands(points, begins, ends, k, later=later)
    each = np.split(places, np.cumsum(counts)[:-1]) if len(counts) else []
    found = [each[np.searchsorted(firsts, window, side="right") - 1].tolist() for window in range(len(begins))]
    expected = []
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        rows = [tuple(point) for point in points[begin:end]]
        others = [rows[place:] if later else rows for place in range(len(rows))]
        beaten = [sum(reference.dominates(o, row) for o in mine) for row, mine in zip(rows, others, strict=True)]
        expected.append([begin + place for place, count in enumerate(beaten) if count < k])
    assert found == expected


def test_there_is_room_for_any_number_of_rows() -> None:
    count = 5 * bands.ROOM
    falling = np.arange(count, dtype=float)[:, None]  # each row is worse than all before it, so all may still matter
    begins, ends = np.arange(count), np.full(count, count)
    places, counts, _ = range_bands(falling, begins, ends, 2)
    assert counts.tolist() == [*[2] * (count - 1), 1]
    assert places[:4].tolist() == [0, 1, 1, 2]
    assert range_bands(falling, np.array([0]), np.array([count]), 1, later=True)[0].tolist() == list(range(count))


@pytest.mark.parametrize("query", ALL, ids=repr)
@given(rows=tables(most=20), data=st.data())
@settings(max_examples=examples(30))
def test_at_once_is_one_by_one(query: Query, rows: pa.Table, data: st.DataObject) -> None:
    """Not only the rows are the same, but also their order."""
    begins, ends = data.draw(bounds(rows.num_rows))
    fast, slow = range_answers(query, rows, begins, ends), answers_one_by_one(query, rows, begins, ends)
    assert fast.counts.tolist() == slow.counts.tolist()
    assert fast.rows.schema == slow.rows.schema
    assert fast.rows.to_pylist() == slow.rows.to_pylist()


@st.composite
def with_missing(draw: st.DrawFn) -> pa.Table:
    number = st.none() | st.integers(0, 3)
    rows = draw(st.lists(st.tuples(number, st.none() | st.sampled_from([0.0, 1.0, float("nan")]), number), max_size=15))
    columns = [*zip(*rows, strict=True)] or [(), (), ()]
    return pa.table({"a": columns[0], "b": columns[1], "g": columns[2], "id": range(len(rows))}, MISSING)


BEST = low("a") * high("b")
PREFERENCES: list[PreferenceQuery] = [
    Skyline(BEST), Skyline(BEST, distinct=True), Skyband(BEST * diff("g"), k=2), TopK(high("b") & low("a"), k=2),
]  # fmt: skip


@pytest.mark.parametrize("query", PREFERENCES, ids=repr)
@given(rows=with_missing(), nulls=st.sampled_from(["error", "drop", "worst"]), data=st.data())
def test_rows_with_missing_values(query: PreferenceQuery, rows: pa.Table, nulls: Any, data: st.DataObject) -> None:
    query = replace(query, nulls=nulls)
    begins, ends = data.draw(bounds(rows.num_rows))
    try:
        slow = answers_one_by_one(query, rows, begins, ends)
    except InvalidInput as refused:
        with pytest.raises(InvalidInput, match="cannot compare it") as again:
            range_answers(query, rows, begins, ends)
        assert again.value.remedy == refused.remedy
    else:
        fast = range_answers(query, rows, begins, ends)
        assert (repr(fast.rows.to_pylist()), fast.counts.tolist()) == (repr(slow.rows.to_pylist()), slow.counts.tolist())


@pytest.mark.parametrize("query", PREFERENCES, ids=repr)
@given(rows=with_missing(), more=with_missing(), nulls=st.sampled_from(["drop", "worst"]), data=st.data())
def test_what_is_not_needed_later_changes_no_answer(
    query: PreferenceQuery, rows: pa.Table, more: pa.Table, nulls: Any, data: st.DataObject
) -> None:
    """Whatever rows follow, and from wherever a window starts, as long as it holds all later rows."""
    query = replace(query, nulls=nulls)
    needed = needed_later(query, rows, np.array([0, rows.num_rows]))
    begin = data.draw(st.integers(0, rows.num_rows))
    whole, few = (pa.concat_tables([part, more]) for part in (rows.slice(begin), rows.filter(pa.array(needed)).filter(
        pa.compute.field("id") >= begin)))  # fmt: skip
    assert repr(query.window(query.pane(few)).to_pylist()) == repr(query.window(query.pane(whole)).to_pylist())
    assert (few.num_rows > more.num_rows) == (begin < rows.num_rows)  # a window that has rows keeps some


def test_keys_do_not_compete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "LARGE", 10)
    rows = pa.table({"a": [3, 1, 2, 2, 3]})
    assert needed_later(TopK(low("a"), k=1), rows, np.array([0, 1, 5])).tolist() == [True, True, True, True, True]
    assert needed_later(TopK(high("a"), k=1), rows, np.array([0, 2, 5])).tolist() == [True, True, False, False, True]


class Lowest(TopK):
    """Has a `window` of its own."""

    def window(self, kept: pa.Table) -> pa.Table:
        return super().window(kept).slice(0, 1)


class Positive(TopK):
    """Has a `pane` of its own."""

    def pane(self, rows: pa.Table) -> pa.Table:
        return super().pane(rows.filter(pa.compute.field("a") > 0))


@pytest.mark.parametrize("kind", [Lowest, Positive])
def test_a_subclass_is_asked_for_its_own_answer(kind: type[TopK]) -> None:
    rows, begins, ends = pa.table({"a": [0, 1, 1, 2]}), np.array([0, 1]), np.array([3, 4])
    assert skyband_of(kind(low("a"), k=2)) is None
    assert skyband_of(TopK(low("a"), k=2)) is not None
    answers = range_answers(kind(low("a"), k=2), rows, begins, ends)
    assert answers.rows["a"].to_pylist() == ([0, 1] if kind is Lowest else [1, 1, 1, 1])


def test_a_huge_k_is_answered_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "MAX_REMEMBERED", 10)
    rows, begins, ends = pa.table({"a": [3, 1, 2, 0]}), np.array([0, 0]), np.array([4, 3])
    assert range_answers(TopK(low("a"), k=4), rows, begins, ends).counts.tolist() == [4, 3]


def test_the_law_finds_a_query_with_another_skyband() -> None:
    class Wrong(Skyline):
        def pane(self, rows: pa.Table) -> pa.Table:
            return super().pane(rows)

        def window(self, kept: pa.Table) -> pa.Table:
            return super().window(kept)

        def skyband_inside(self) -> Skyband:
            return Skyband(self.preference, self.nulls, k=2)

        def windows_of_skyband(self, best: pa.Table, counts: Any) -> tuple[pa.Table, Any]:
            return best, counts

    rows = pa.table({"a": [1, 2], "b": [0.0, 0.0], "c": [0, 0]})
    asked = (rows, np.array([0]), np.array([2]))
    assert range_answers(Wrong(PREFERENCE), *asked).counts.tolist() != answers_one_by_one(Wrong(PREFERENCE), *asked).counts.tolist()
