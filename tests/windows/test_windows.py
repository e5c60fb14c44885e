"""Windows and panes, with drawings, and durations."""

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skytide.errors import InvalidInput
from skytide.windows import Windows, duration_us, pane_bounds, sliding, tuples_per_window, windows_with_panes


def test_a_window_of_five_seconds_every_two() -> None:
    # panes     0   1   2   3   4   5   6   7
    # window 0  [-------------------)
    # window 1          [-------------------)
    windows = sliding("5 s", slide="2 s")
    assert (windows.panes_per_slide, windows.panes_per_window) == (2, 5)
    assert [windows.pane_start_us(pane) for pane in (0, 1, 2, 3)] == [0, 1_000_000, 2_000_000, 3_000_000]
    assert windows.panes_of(0) == range(5)
    assert windows.panes_of(1) == range(2, 7)
    assert [windows.first_of_pane(pane) for pane in (0, 1, 4, 5, 6)] == [-2, -1, 0, 1, 1]
    assert [windows.last_of_pane(pane) for pane in (0, 1, 2, 5)] == [0, 0, 1, 2]
    assert [windows.last_ended_by(t) for t in (4_999_999, 5_000_000, 6_999_999, 7_000_000)] == [-1, 0, 0, 1]


lengths = st.integers(1, 60)


@given(lengths, lengths, st.integers(-1000, 1000))
def test_a_pane_is_in_exactly_the_windows_that_cover_it(a: int, b: int, pane: int) -> None:
    windows = Windows(length_us=max(a, b), slide_us=min(a, b))
    start, end = windows.pane_start_us(pane), windows.pane_start_us(pane + 1)
    assert {windows.pane_of(time) for time in (start, (start + end) // 2, end - 1)} == {pane}
    assert windows.pane_of(np.array([start, end])).tolist() == [pane, pane + 1]
    inside = range(windows.first_of_pane(pane), windows.last_of_pane(pane) + 1)
    for window in range(inside.start - 3, inside.stop + 3):
        covers = windows.start_us(window) <= start and end <= windows.end_us(window)
        disjoint = end <= windows.start_us(window) or windows.end_us(window) <= start
        assert covers != disjoint
        assert covers == (window in inside) == (pane in windows.panes_of(window))


@given(lengths, lengths)
def test_panes_are_cut_where_windows_start_and_end_and_nowhere_else(a: int, b: int) -> None:
    windows = Windows(length_us=max(a, b), slide_us=min(a, b))
    cuts = {cut for window in range(-200, 200) for cut in (windows.start_us(window), windows.end_us(window))}
    starts = {windows.pane_start_us(pane) for pane in range(-20, 20)}
    assert starts == {cut for cut in cuts if min(starts) <= cut <= max(starts)}
    assert windows.panes_per_window <= 2 * -(-windows.length_us // windows.slide_us)


few_panes = st.lists(st.integers(-60, 60), unique=True, max_size=12).map(sorted)
stretches_of_windows = st.tuples(st.integers(-90, 90), st.integers(0, 90)).map(lambda given: range(given[0], sum(given)))


@given(lengths, lengths, few_panes, stretches_of_windows)
def test_the_windows_that_hold_some_panes_are_those_of_the_obvious_loop(a: int, b: int, panes: list[int], among: range) -> None:
    windows = Windows(length_us=max(a, b), slide_us=min(a, b))
    obvious = [window for window in among if any(pane in windows.panes_of(window) for pane in panes)]
    assert windows_with_panes(windows, np.array(panes, np.int64), among).tolist() == obvious


@given(lengths, lengths, few_panes, stretches_of_windows)
def test_the_tuples_of_windows_are_those_of_the_obvious_loop(a: int, b: int, panes: list[int], among: range) -> None:
    windows = Windows(length_us=max(a, b), slide_us=min(a, b))
    tuples = {pane: 7 + pane % 5 for pane in panes}
    obvious = [sum(tuples.get(pane, 0) for pane in windows.panes_of(window)) for window in among]
    wanted = np.array(among, np.int64)
    counts = np.array(list(tuples.values()), np.int64)
    assert tuples_per_window(windows, np.array(panes, np.int64), counts, wanted).tolist() == obvious
    start, stop = pane_bounds(windows, wanted)
    assert [range(*bounds) for bounds in zip(start, stop, strict=True)] == [windows.panes_of(window) for window in among]


def test_a_day_by_a_second_is_no_matter_of_all_pairs_of_panes_and_windows() -> None:
    # Each of these panes is in 86,400 windows: pair by pane that would be 7 billion.
    windows, panes = sliding("1 day", slide="1 s"), np.arange(86_400)
    assert windows.panes_per_window == 86_400
    holding = windows_with_panes(windows, panes, range(-(10**6), 10**6))
    assert (holding[0], holding[-1], len(holding)) == (-86_399, 86_399, 172_799)
    assert tuples_per_window(windows, panes, np.ones_like(panes), holding).max() == 86_400


def test_lengths_of_time() -> None:
    for text in ("1500 ms", "1.5 s", "1.5 seconds", "1500000us", "0.025 min"):
        assert duration_us(text, "x") == 1_500_000
    assert duration_us(timedelta(milliseconds=3), "x") == 3_000
    for wrong in ("", "fast", "3", "3 parsecs", "-1 s", "0 s", "0.5 us", 7, None):
        with pytest.raises(InvalidInput, match="x="):
            duration_us(wrong, "x")


def test_a_slide_longer_than_its_window_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r'slide="3 s": longer than length="2 s".*choose slide <= length'):
        sliding("2 s", slide="3 s")
