"""Memories of panes: that of a skyline, and panes with blocks of them, each against all rows of each window."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.queries import ALL, PREFERENCE, SCHEMA, same, tables

from skytide.queries import (
    Aggregate,
    Answers,
    Blocks,
    Incremental,
    Measure,
    Panes,
    Query,
    Skyline,
    TopDelta,
    blocks,
    high,
    incremental,
    low,
)
from skytide.queries.blocks import InMemory
from skytide.windows import Windows, pane_bounds, windows_with_panes


class Sliding:
    """Slides over panes with the memory that suits a query."""

    def __init__(self, query: Query, threads: int = 1) -> None:
        self.query, self.segments = query, InMemory()
        self.skyline = Incremental(query, threads) if query.skyline_inside() is not None else None
        self.memory = self.skyline.empty(SCHEMA) if self.skyline else None

    def slide(self, panes: Panes, windows: Windows, wanted: np.ndarray) -> Answers:
        if self.skyline:
            out, self.memory = self.skyline.slide(self.memory, panes, windows, wanted)
            return out
        start, stop = pane_bounds(windows, wanted)
        parts, new = Blocks(self.query, SCHEMA).slide(self.segments, panes, windows, wanted, int(stop[-1]))
        found = list(parts)
        self.segments.add(new, int(start[-1]) + windows.panes_per_slide)
        return Answers(pa.concat_tables([one.rows for one in found]), np.concatenate([one.counts for one in found]))


def answers(query: Query, panes: list[pa.Table], length: int) -> list[pa.Table]:
    """Slide a window of `length` panes by one pane."""
    sliding, out = Sliding(query), []
    windows = Windows(length_us=length, slide_us=1)
    for number, rows in enumerate(panes):
        new = [(number, query.pane(rows))] if rows.num_rows else []
        out += sliding.slide(new, windows, np.array([number - length + 1])).tables()
    return out


def one_by_one(sliding: Incremental, panes: list[pa.Table], length: int) -> list[pa.Table]:
    """Slide a window of `length` panes by one pane, one pane at a time."""
    memory, out = sliding.empty(SCHEMA), []
    for number, rows in enumerate(panes):
        if rows.num_rows:
            memory = sliding.add(memory, number, sliding.query.pane(rows))
        window = range(number - length + 1, number + 1)
        memory = sliding.forget(memory, window.start)
        out.append(sliding.answer(memory, window))
    return out


def obvious(query: Query, panes: list[pa.Table], length: int) -> list[pa.Table]:
    """Answer each window from all its rows."""
    return [query.window(query.pane(pa.concat_tables(panes[max(0, i - length + 1) : i + 1]))) for i in range(len(panes))]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few panes have several levels of blocks, and come in several groups."""
    monkeypatch.setattr(blocks, "FANOUT", 2)
    monkeypatch.setattr(incremental, "ROWS_AT_ONCE", 5)
    monkeypatch.setattr(incremental, "ROWS_PER_THREAD", 2)


@pytest.mark.parametrize("query", ALL, ids=repr)
@given(panes=st.lists(tables(most=8), min_size=1, max_size=7), length=st.integers(1, 4))
def test_each_window_is_the_answer_of_all_its_rows(query: Query, panes: list[pa.Table], length: int) -> None:
    for found, right in zip(answers(query, panes, length), obvious(query, panes, length), strict=True):
        assert same(found, right)


@given(panes=st.lists(tables(most=12), min_size=1, max_size=7), length=st.integers(1, 4))
def test_the_incremental_memory_is_its_twin(panes: list[pa.Table], length: int) -> None:
    query = Skyline(PREFERENCE)
    for fast, slow in zip(one_by_one(Incremental(query), panes, length), obvious(query, panes, length), strict=True):
        assert same(fast, slow)


class BestFirst(Skyline):
    """A user's own query, which returns one row of the skyline."""

    def window(self, kept: pa.Table) -> pa.Table:
        return super().window(kept).sort_by([(name, "ascending") for name in kept.column_names]).slice(0, 1)


class Worst(TopDelta):
    """A user's own query, which returns the row with the largest k."""

    def window(self, kept: pa.Table) -> pa.Table:
        found = super().window(kept)
        return found.sort_by([("k", "descending"), *((name, "ascending") for name in kept.column_names)]).slice(0, 1)


@pytest.mark.parametrize("query", [BestFirst(PREFERENCE), Worst(low("a") * high("b") * low("c"), delta=2)], ids=repr)
@given(panes=st.lists(tables(most=8).filter(lambda rows: rows.num_rows > 0), min_size=1, max_size=7), length=st.integers(1, 4))
def test_the_window_of_a_subclass_is_its_own(query: Query, panes: list[pa.Table], length: int) -> None:
    windows = Windows(length_us=length, slide_us=1)
    wanted = np.arange(-length + 1, len(panes) - length + 1)
    kept = [(number, query.pane(rows)) for number, rows in enumerate(panes)]
    at_once, expected = Sliding(query).slide(kept, windows, wanted), obvious(query, panes, length)
    each = one_by_one(Incremental(query), panes, length) if query.skyline_inside() else answers(query, panes, length)
    for alone, together, right in zip(each, at_once.tables(), expected, strict=True):
        assert same(alone, right) and same(together, right)


@st.composite
def layouts(draw: st.DrawFn) -> Windows:
    slide = draw(st.integers(1, 4))
    return Windows(length_us=draw(st.integers(slide, 16)), slide_us=slide)


@st.composite
def streams(draw: st.DrawFn) -> list[tuple[int, pa.Table]]:
    """Draw panes with rows, with gaps between them."""
    numbers = sorted(draw(st.sets(st.integers(-5, 30), min_size=1, max_size=10)))
    return [(number, draw(tables(most=4).filter(lambda rows: rows.num_rows > 0))) for number in numbers]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("query", ALL, ids=repr)
@given(windows=layouts(), panes=streams(), cuts=st.sets(st.integers(1, 80), max_size=3), threads=st.integers(1, 3))
def test_many_windows_at_once_are_the_windows_of_all_their_rows(
    query: Query, windows: Windows, panes: list[tuple[int, pa.Table]], cuts: set[int], threads: int
) -> None:
    numbers = np.array([number for number, _ in panes])
    wanted = windows_with_panes(windows, numbers, range(-100, 100))
    sliding, found, done = Sliding(query, threads), [], 0
    for some in np.split(wanted, sorted(cut for cut in cuts if cut < len(wanted))):  # as batches of a stream let them out
        closed = int(np.searchsorted(numbers, pane_bounds(windows, some[-1:])[1][0]))
        new = [(number, query.pane(rows)) for number, rows in panes[done:closed]]
        out = sliding.slide(new, windows, some)
        assert out.rows.schema == query.schema(SCHEMA)
        found += out.tables()
        done = closed
    for window, answer in zip(wanted.tolist(), found, strict=True):
        held = pa.concat_tables([rows for number, rows in panes if number in windows.panes_of(window)])
        assert same(answer, query.window(query.pane(held)))


def test_a_row_comes_back_when_its_dominator_has_left() -> None:
    # pane      0        1        2
    # row     best     second
    # window  [-----------------)         only the best
    #                  [------------      the second is back
    def pane(a: int) -> pa.Table:
        return pa.Table.from_pylist([{"a": a, "b": 0.0, "c": 0, "g": "x", "id": a}], SCHEMA)

    out = one_by_one(Incremental(Skyline(PREFERENCE)), [pane(1), pane(2), SCHEMA.empty_table()], length=2)
    assert [table["id"].to_pylist() for table in out] == [[1], [1], [2]]


class Forgetful(Incremental):
    """The guilty specimen: drops a row that any other dominates, even an older one that leaves first."""

    def add(self, memory: pa.Table, pane: int, kept: pa.Table) -> pa.Table:
        both = super().add(memory, pane, kept)
        return both.filter(pa.compute.less(both["__skytide_blocked"], 0))


def test_the_twin_catches_a_memory_that_forgets_too_much() -> None:
    def pane(a: int) -> pa.Table:
        return pa.Table.from_pylist([{"a": a, "b": 0.0, "c": 0, "g": "x", "id": a}], SCHEMA)

    panes = [pane(1), pane(2), SCHEMA.empty_table()]
    query = Skyline(PREFERENCE)
    guilty, right = one_by_one(Forgetful(query), panes, 2), obvious(query, panes, 2)
    assert not all(same(a, b) for a, b in zip(guilty, right, strict=True))


@given(panes=st.lists(tables(most=6), max_size=6), cut=st.integers(0, 6))
def test_work_that_is_spread_over_tasks_gives_the_same_memory(panes: list[pa.Table], cut: int) -> None:
    sliding = Incremental(Skyline(PREFERENCE))
    numbered = [(3 * number, sliding.query.pane(rows)) for number, rows in enumerate(panes)]
    memory = sliding.empty(SCHEMA)
    for pane, kept in numbered[:cut]:
        memory = sliding.add(memory, pane, kept)
    in_turn = memory
    for pane, kept in numbered[cut:]:
        in_turn = sliding.add(in_turn, pane, kept)
    half = memory.num_rows // 2
    slices = [sliding.compare(part, numbered[cut:]) for part in (memory.slice(0, half), memory.slice(half))]
    killed, blocked = sliding.among(numbered[cut:])
    together = sliding.assemble(
        memory,
        numbered[cut:],
        np.concatenate([*(dropped for dropped, _ in slices), killed]),
        np.max([blocked, *(blocks for _, blocks in slices)], axis=0),
    )
    assert same(sliding.at(together, range(incremental.ALIVE)), in_turn)


DAY_S = 86_400
A_DAY_BY_A_SECOND = Windows(length_us=DAY_S * 1_000_000, slide_us=1_000_000)


def two_days(tuples: int = 1_000) -> list[tuple[int, pa.Table]]:
    rng = np.random.default_rng(7)
    columns = {"a": rng.integers(0, 500, tuples), "b": rng.random(tuples), "c": np.zeros(tuples), "id": np.arange(tuples)}
    rows = pa.table({**columns, "g": rng.choice(["x", "y", "z"], tuples)}).select(SCHEMA.names).cast(SCHEMA)
    seconds = np.sort(rng.choice(2 * DAY_S, tuples, replace=False)).tolist()
    return [(second, rows.slice(place, 1)) for place, second in enumerate(seconds)]


KEYED = Aggregate((Measure.parse("count(*)"), Measure.parse("sum(a)"), Measure.parse("max(b)")), keys=("g",))


class Counting(Aggregate):
    """Counts the rows that are merged."""

    merged = 0

    def merge(self, kept: pa.Table) -> pa.Table:
        Counting.merged += kept.num_rows
        return super().merge(kept)


def test_a_day_by_a_second_merges_far_less_than_all_panes_of_each_window() -> None:
    rows = two_days()
    panes = [(pane, KEYED.pane(each)) for pane, each in rows]
    query = Counting(KEYED.measures, KEYED.keys)
    sliding, Counting.merged = Sliding(query), 0
    wanted = np.arange(DAY_S // 2, DAY_S)
    out = sliding.slide(panes, A_DAY_BY_A_SECOND, wanted)
    numbers = np.array([pane for pane, _ in rows])
    every = (np.searchsorted(numbers, wanted + DAY_S) - np.searchsorted(numbers, wanted)).sum()
    assert Counting.merged < every / 100
    remembered = sum(each.num_rows for pane, each in panes if pane >= DAY_S)
    assert remembered < sliding.segments.rows < 1.2 * remembered  # blocks add little to the panes
    assert out.counts.sum() == len(out.rows) == 3 * len(wanted)
    for place in range(0, len(wanted), 9_001):
        answer = out.rows.slice(out.counts[:place].sum(), out.counts[place])
        assert same(answer, KEYED.window(KEYED.pane(rows_of_window(rows, int(wanted[place])))))


def rows_of_window(rows: list[tuple[int, pa.Table]], window: int) -> pa.Table:
    return pa.concat_tables([SCHEMA.empty_table(), *(each for pane, each in rows if window <= pane < window + DAY_S)])


def test_a_day_by_a_second_of_a_skyline_takes_few_calls_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def counted(*arguments: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        return kernel(*arguments, **options)  # type: ignore[arg-type]

    kernel = incremental.first_dominators
    monkeypatch.setattr(incremental, "first_dominators", counted)
    query = Skyline(low("a") * high("b"))
    panes = [(pane, query.pane(rows)) for pane, rows in two_days()]
    sliding = Incremental(query)
    wanted = np.arange(-DAY_S + 1, 2 * DAY_S)
    out, _ = sliding.slide(sliding.empty(SCHEMA), panes, A_DAY_BY_A_SECOND, wanted)
    assert calls < len(panes) // 50  # one by one each pane would ask about each pane in the memory
    for place in range(0, len(wanted), DAY_S // 5):
        answer = out.rows.slice(out.counts[:place].sum(), out.counts[place])
        assert same(answer, query.pane(rows_of_window(two_days(), int(wanted[place]))))
    before = calls
    memory = sliding.empty(SCHEMA)
    for pane, kept in panes[:200]:
        memory = sliding.add(memory, pane, kept)
    assert calls - before == 2 * 200  # whatever the number of panes that are remembered
