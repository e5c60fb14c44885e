"""What is remembered of panes: the incremental memory against recomputing each window, and against all rows."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.queries import ALL, PREFERENCE, SCHEMA, same, tables

from skytide.queries import Incremental, Query, Recompute, Skyline, Sliding, sliding_memory


def answers(sliding: Sliding, panes: list[pa.Table], length: int) -> list[pa.Table]:
    """Slide a window of `length` panes by one pane."""
    memory, out = sliding.empty(SCHEMA), []
    for number, rows in enumerate(panes):
        if rows.num_rows:
            memory = sliding.add(memory, number, sliding.query.pane(rows))
        window = range(number - length + 1, number + 1)
        memory = sliding.forget(memory, window.start)
        out.append(sliding.answer(memory, window))
    return out


@pytest.mark.parametrize("query", ALL, ids=repr)
@given(panes=st.lists(tables(most=8), min_size=1, max_size=7), length=st.integers(1, 4))
def test_each_window_is_the_answer_of_all_its_rows(query: Query, panes: list[pa.Table], length: int) -> None:
    expected = [query.window(query.pane(pa.concat_tables(panes[max(0, i - length + 1) : i + 1]))) for i in range(len(panes))]
    for found, right in zip(answers(sliding_memory(query), panes, length), expected, strict=True):
        assert same(found, right)


@given(panes=st.lists(tables(most=12), min_size=1, max_size=7), length=st.integers(1, 4))
def test_the_incremental_memory_is_its_twin(panes: list[pa.Table], length: int) -> None:
    query = Skyline(PREFERENCE)
    for fast, slow in zip(answers(Incremental(query), panes, length), answers(Recompute(query), panes, length), strict=True):
        assert same(fast, slow)


def test_a_row_comes_back_when_its_dominator_has_left() -> None:
    # pane      0        1        2
    # row     best     second
    # window  [-----------------)         only the best
    #                  [------------      the second is back
    def pane(a: int) -> pa.Table:
        return pa.Table.from_pylist([{"a": a, "b": 0.0, "c": 0, "g": "x", "id": a}], SCHEMA)

    out = answers(Incremental(Skyline(PREFERENCE)), [pane(1), pane(2), SCHEMA.empty_table()], length=2)
    assert [table["id"].to_pylist() for table in out] == [[1], [1], [2]]


class Forgetful(Incremental):
    """The guilty specimen: drops a row that any other dominates, also an older one that leaves first."""

    def add(self, memory: pa.Table, pane: int, kept: pa.Table) -> pa.Table:
        both = super().add(memory, pane, kept)
        return both.filter(pa.compute.less(both["__skytide_blocked"], 0))


def test_the_twin_catches_a_memory_that_forgets_too_much() -> None:
    def pane(a: int) -> pa.Table:
        return pa.Table.from_pylist([{"a": a, "b": 0.0, "c": 0, "g": "x", "id": a}], SCHEMA)

    panes = [pane(1), pane(2), SCHEMA.empty_table()]
    query = Skyline(PREFERENCE)
    guilty, right = answers(Forgetful(query), panes, 2), answers(Recompute(query), panes, 2)
    assert not all(same(a, b) for a, b in zip(guilty, right, strict=True))
