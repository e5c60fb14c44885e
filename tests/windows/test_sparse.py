"""Rows that are months apart, and rows whose times are wrong: streamed and not, the same rows give the same windows."""

import itertools
import json
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engine import QUERIES, InProcess, Outputs, micros, plan_of, slacks_drawn, tuples

from skytide.batch.window_rows import MAX_EMPTY_ROWS
from skytide.lateness import DropRatio, FixedSlack, KSlack, Slack
from skytide.spark.engine.engine import Engine
from skytide.windows import Windows

SECOND_US, DAY_US = 1_000_000, 86_400_000_000
YEAR_US = 365 * DAY_US
START_US = 1_700_000_000 * SECOND_US
CENTURY_US = START_US + 100 * YEAR_US
WINDOWS = Windows(SECOND_US, SECOND_US)
COUNTED = QUERIES[3]

gaps = st.one_of(st.integers(0, 5), st.integers(0, 3 * SECOND_US), st.integers(0, 3 * DAY_US), st.integers(0, 3 * YEAR_US))
windows_of_any_length = st.sampled_from(
    [WINDOWS, Windows(500, 200), Windows(7 * DAY_US, DAY_US), Windows(7 * DAY_US, 7 * DAY_US), Windows(DAY_US, DAY_US)]
)


class Played:
    """A query whose batches are lists of times, divided over partitions."""

    def __init__(self, folder: str, windows: Windows, slack: Slack) -> None:
        self.plan, self.out = plan_of(COUNTED, folder, windows, slack), Outputs()
        self.engine = Engine(*self.plan, self.out.sinks)
        self.numbers = itertools.count()
        self.times: list[int] = []

    def batch(self, times: list[int], parts: int = 1) -> None:
        [tables] = tuples([[times[part::parts] for part in range(parts)]])
        self.times += times
        self.engine.run_batch(InProcess(), tables, next(self.numbers))

    def flush(self) -> None:
        self.engine.flush(InProcess())

    def counts(self) -> dict[int, int]:
        """Return the tuples of each window that came out with some, by its start; none may come out twice."""
        rows = [(micros(row["window_start"]), row["count"]) for row in self.out.results.rows()]
        assert len({start for start, _ in rows}) == len(rows)
        return dict(rows)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows about windows; none may be reported twice."""
        rows = sorted(self.out.windows.rows(), key=lambda row: row["window_start"])
        slide_us = self.plan.rules.windows.slide_us
        for row, later in itertools.pairwise(rows):
            assert micros(row["window_start"]) + row["windows"] * slide_us <= micros(later["window_start"])
        return rows

    def aside(self) -> list[int]:
        return [micros(row["ts"]) for sink in (self.out.late, self.out.invalid) for row in sink.rows()]


def counted(times: list[int], windows: Windows) -> dict[int, int]:
    """Return the tuples of each window that holds some, by its start, from the definition."""
    found: dict[int, int] = {}
    for time in times:
        start = time // windows.slide_us * windows.slide_us
        while start + windows.length_us > time:
            found[start] = found.get(start, 0) + 1
            start -= windows.slide_us
    return found


@given(
    first=st.integers(-100 * YEAR_US, 100 * YEAR_US),
    apart=st.lists(gaps, max_size=30),
    cuts=st.lists(st.integers(0, 31), max_size=10),
    parts=st.integers(1, 3),
    windows=windows_of_any_length,
    slack=slacks_drawn,
)
def test_rows_in_order_give_the_same_windows_streamed_and_not(
    first: int, apart: list[int], cuts: list[int], parts: int, windows: Windows, slack: Slack
) -> None:
    times = list(itertools.accumulate(apart, initial=first))
    with tempfile.TemporaryDirectory() as folder:
        played = Played(folder, windows, slack)
        for begin, end in itertools.pairwise([0, *sorted(cuts), len(times)]):
            played.batch(times[begin:end], parts)
        played.flush()
    assert played.counts() == counted(times, windows)
    assert {micros(row["window_start"]): row["tuples"] for row in played.rows() if row["tuples"]} == counted(times, windows)
    assert not played.aside()


@given(
    apart=st.lists(gaps, min_size=1, max_size=30),
    seed=st.integers(0, 1_000),
    size=st.integers(1, 12),
    disorder_us=st.sampled_from([SECOND_US, 7 * DAY_US, YEAR_US]),
    windows=windows_of_any_length,
)
def test_rows_less_out_of_order_than_the_slack_do_too(
    apart: list[int], seed: int, size: int, disorder_us: int, windows: Windows
) -> None:
    random = Random(seed)
    times = [time - random.randint(0, disorder_us) for time in itertools.accumulate(apart, initial=START_US)]
    with tempfile.TemporaryDirectory() as folder:
        played = Played(folder, windows, FixedSlack(f"{disorder_us} us"))
        for begin in range(0, len(times), size):
            played.batch(times[begin : begin + size], parts=2)
        played.flush()
    assert played.counts() == counted(times, windows)
    assert not played.aside()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "gap_us", "windows"), [(60, 30 * DAY_US, Windows(DAY_US, DAY_US)), (400, DAY_US, Windows(7 * DAY_US, 7 * DAY_US))]
)
@pytest.mark.parametrize("size", [1, 7, 400])
def test_monthly_and_daily_rows_are_all_in_windows(tmp_path: Path, rows: int, gap_us: int, windows: Windows, size: int) -> None:
    times = [START_US + number * gap_us for number in range(rows)]
    played = Played(str(tmp_path), windows, KSlack())
    for begin in range(0, rows, size):
        played.batch(times[begin : begin + size])
    played.flush()
    assert (played.counts(), played.aside()) == (counted(times, windows), [])


def second(number: int) -> list[int]:
    """Return ten tuples of a second."""
    return [START_US + number * SECOND_US + tenth * 100_000 for tenth in range(10)]


@pytest.mark.parametrize("slack", [KSlack(), FixedSlack(0), DropRatio(0.01)], ids=repr)
@pytest.mark.parametrize("wrong_us", [0, START_US + 3_600 * SECOND_US, CENTURY_US])
@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_one_wrong_time_neither_stops_a_query_nor_what_follows_its_flush(
    tmp_path: Path, slack: Slack, wrong_us: int, place: str
) -> None:
    """A time ahead of the stream comes out at the flush; the stream goes on behind it, and the window comes out once."""
    played = Played(str(tmp_path), WINDOWS, slack)
    at = {"first": 0, "middle": 10, "last": 19}[place]
    for number in range(20):
        played.batch([*second(number), wrong_us] if number == at else second(number))
    assert played.engine.status().newest_us == second(19)[-1]
    assert len(played.counts()) >= 18
    played.flush()
    late = wrong_us == 0 and at > 0
    assert played.aside() == ([0] if late else [])
    for number in range(20, 40):
        played.batch(second(number))
    played.flush()
    assert played.counts() == counted([time for time in played.times if time or not late], WINDOWS)
    assert len(played.aside()) == late


def test_a_window_that_came_out_ahead_comes_out_once(tmp_path: Path) -> None:
    played = Played(str(tmp_path), Windows(2 * SECOND_US, SECOND_US), FixedSlack(0))
    ahead_us = START_US + DAY_US
    played.batch([*second(0), ahead_us])
    played.flush()
    played.batch(second(2))
    there = [ahead_us - 10 * SECOND_US + tenth * 100_000 for tenth in range(200)]
    played.batch(there)
    played.flush()
    late = [time for time in there if ahead_us - SECOND_US <= time < ahead_us + 2 * SECOND_US]
    assert sorted(played.aside()) == late
    in_time = [time for time in played.times if time not in late]
    assert played.counts() == counted([*in_time, ahead_us], Windows(2 * SECOND_US, SECOND_US))
    assert played.rows()


@pytest.mark.parametrize("windows", [WINDOWS, Windows(2 * SECOND_US, SECOND_US)])
def test_windows_on_both_sides_of_one_that_came_out_ahead_come_out_with_the_next_flush(tmp_path: Path, windows: Windows) -> None:
    played = Played(str(tmp_path), windows, FixedSlack(0))
    ahead_us = START_US + DAY_US
    for number, apart_s in enumerate((0, 10, 20)):
        played.batch([*second(2 * number), *{ahead_us - apart_s * SECOND_US, ahead_us + apart_s * SECOND_US}])
        played.flush()
    assert (played.counts(), played.aside()) == (counted(played.times, windows), [])
    assert {micros(row["window_start"]): row["tuples"] for row in played.rows() if row["tuples"]} == counted(played.times, windows)
    state = played.plan.store.latest()
    assert state.windows_out == sum(row["windows"] for row in played.rows())
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(state.clock.out))


def test_late_tuples_are_reported_even_if_no_window_is_new(tmp_path: Path) -> None:
    """The late tuple comes when the only window that ends came out ahead."""
    played = Played(str(tmp_path), WINDOWS, FixedSlack(0))
    ahead_us = START_US + DAY_US
    played.batch([*second(0), ahead_us])
    played.flush()
    played.batch([ahead_us - SECOND_US] * 4)
    played.batch([ahead_us])
    reported = len(played.rows())
    played.batch([ahead_us + SECOND_US, ahead_us])
    assert (len(played.rows()), played.aside()) == (reported, [ahead_us] * 2)
    played.batch([ahead_us + 2 * SECOND_US])
    assert len(played.rows()) == reported + 1
    assert sum(row["late"] for row in played.rows()) == played.engine.status().late == 2


@pytest.mark.parametrize("right", [1, 2, 10])
@pytest.mark.parametrize("parts", [1, 3])
def test_a_time_that_few_confirm_again_and_again_is_not_believed(tmp_path: Path, right: int, parts: int) -> None:
    """A clock that is wrong by a century, once per batch."""
    played = Played(str(tmp_path), WINDOWS, KSlack())
    for number in range(30):
        played.batch([*second(number)[:right], CENTURY_US + number], parts)
    status = played.engine.status()
    assert (status.newest_us, status.held, status.late, status.invalid) == (second(29)[right - 1], 30, 0, 0)
    played.flush()
    assert played.counts() == counted(played.times, WINDOWS)


@pytest.mark.parametrize("apart_us", [0, 3_600 * SECOND_US], ids=["one time", "different times"])
def test_wrong_times_without_end_do_not_grow_the_state(tmp_path: Path, apart_us: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Age: the size of a manifest does not depend on how many batches had a wrong time, and what is too much is handed to `invalid=`."""
    monkeypatch.setattr("skytide.batch.open_panes.MAX_AHEAD", 20)
    played, sizes = Played(str(tmp_path), WINDOWS, KSlack()), []
    for number in range(150):
        played.batch([*second(number), CENTURY_US + number * apart_us])
        sizes.append(len(json.dumps(played.plan.store.latest().to_json())))
    state, status = played.plan.store.latest(), played.engine.status()
    assert max(sizes[50:]) < 1.2 * max(sizes[:50])
    assert len(state.files()) <= 2 * 21 + 3
    assert (status.newest_us, status.late) == (second(149)[-1], 0)
    assert status.invalid + status.held == 150
    played.flush()
    dropped = played.aside()
    assert len(dropped) == status.invalid >= 100 and min(dropped) >= CENTURY_US
    left = Counter(played.times) - Counter(dropped)
    assert played.counts() == counted(list(left.elements()), WINDOWS)


def test_empty_windows_are_few_rows(tmp_path: Path) -> None:
    """A tuple every quarter of an hour, windows of a second: a batch has a row per window with tuples, and one per run between them."""
    played = Played(str(tmp_path), WINDOWS, FixedSlack(0))
    played.batch([START_US + number * 900 * SECOND_US for number in range(1_000)])
    state = played.plan.store.latest()
    assert len(state.output.rows) <= 2 * 1_000 + 1
    assert len(json.dumps(state.to_json())) < 500_000
    assert sum(row["windows"] for row in played.rows()) == state.windows_out == 900 * 996


def test_a_few_empty_windows_are_a_row_each(tmp_path: Path) -> None:
    played = Played(str(tmp_path), WINDOWS, FixedSlack(0))
    played.batch([START_US, *(START_US + MAX_EMPTY_ROWS * SECOND_US // 20 + number for number in range(5))])
    played.flush()
    assert {row["windows"] for row in played.rows()} == {1}
