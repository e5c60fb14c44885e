"""Windows wait for a stream that is behind, whatever its records say, and also if nothing of it is let in for a while."""

from pathlib import Path

import numpy as np
import pytest
from fleet_query import SECOND, Query, write_times

from skytide.batch import RunPanes
from skytide.lateness import FixedSlack
from skytide.spark.fleet import reader
from skytide.spark.fleet.channel import Channel, Control
from skytide.spark.fleet.feeds import Range
from skytide.spark.fleet.rows import Holding

YEAR_2099_S = 73 * 366 * 86_400.0
LONG = [at * 0.1 for at in range(2_000)]


def behind(tmp_path: Path, spoiled: dict[int, float | None], hold_us: int | None = None) -> Query:
    """Return a query after four batches of a stream of today, and of one that is behind; some tuples of that have another time."""
    (tmp_path / "channel").mkdir()
    write_times(tmp_path, "long", [spoiled.get(number, time_s) for number, time_s in enumerate(LONG)])
    query = Query(tmp_path, FixedSlack(0), 300, hold_us=hold_us, channel=str(tmp_path / "channel"))
    for batch in range(4):
        write_times(tmp_path, "today", [1_000.0 + 30 * batch + at for at in range(30)])
        query.batch()
    return query


def read_of(query: Query, stream: str) -> int:
    """Return how many lines of a stream were let in."""
    note = query.fleet._entry(query.offset or {})
    end = int(note.states.at[note.states.rows[stream], 0])
    return (query.folder / "feeds" / f"{stream}.jsonl").read_bytes()[:end].count(b"\n")


@pytest.mark.parametrize("place", [50, 400])
@pytest.mark.parametrize("wrong_s", [YEAR_2099_S, None], ids=["2099", "NULL"])
def test_a_single_wrong_time_does_not_let_windows_out(tmp_path: Path, wrong_s: float | None, place: int) -> None:
    query = behind(tmp_path, {place: wrong_s})
    assert place < read_of(query, "long") < 2_000
    assert (query.punctuation_s() or 0) <= LONG[read_of(query, "long")]
    while query.batch():
        pass
    assert not query.outputs.late.rows()


@pytest.mark.parametrize("hold_s", [None, 40])
def test_a_batch_without_any_time_holds_windows_where_they_are(tmp_path: Path, hold_s: int | None) -> None:
    query = behind(tmp_path, dict.fromkeys(range(20, 2_000), None), hold_s and hold_s * SECOND)
    if hold_s is None:
        assert (query.punctuation_s() or 0) <= LONG[20]
    else:  # the newest tuple of the batch before, less the hold
        assert query.punctuation_s() == 1_000 + 2 * 30 + 29 - hold_s
    assert query.fleet_status().waits_for == "long"


def test_one_stream_that_is_behind_by_months_does_not_let_go_what_another_holds(tmp_path: Path) -> None:
    write_times(tmp_path, "ages ago", [at * 0.1 - 90 * 86_400 for at in range(2_000)])
    query = behind(tmp_path, {})
    assert (query.punctuation_s() or 0) <= LONG[read_of(query, "long")]


def test_in_which_order_streams_are_read_says_nothing_about_their_times() -> None:
    """If the newer tuples come first, that more than a few are behind them does not make them odd."""
    plan = RunPanes(sequence=0, newest_us=None, punctuation_us=None, leap_us=60 * SECOND, slots=1)
    ranges = [Range(stream, (0, 0, 0), (1, 0, 0), 0, 0, is_behind=True) for stream in ("new", "old")]
    numbers, times_s = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1]), np.array([600, 600, 800, 800, 0, 0, 0, 0, 0])
    for order in (slice(None), slice(None, None, -1)):
        holding = Holding(ranges, plan)
        holding.add(numbers[order], times_s[order] * SECOND, np.zeros(9, np.bool_))
        assert holding.hold_us() == 0


@pytest.mark.parametrize("hold_s", [None, 40])
def test_streams_of_which_nothing_is_let_in_hold_windows_back(tmp_path: Path, hold_s: int | None) -> None:
    """So many streams are behind that a batch takes a tuple of only some of them, first of those of today."""
    (tmp_path / "channel").mkdir()
    for number in range(100):
        write_times(tmp_path, f"today{number:02}", [1_000.0 + at for at in range(3)])
    write_times(tmp_path, "yesterday", [float(at) for at in range(100)])
    query = Query(tmp_path, FixedSlack(0), 10, hold_us=hold_s and hold_s * SECOND, channel=str(tmp_path / "channel"))
    for _ in range(2):
        query.batch()
    assert read_of(query, "yesterday") == 0
    if hold_s is None:
        assert query.punctuation_s() is None
    else:  # the newest tuple of the batch before, less the hold
        assert query.punctuation_s() == 1_000 - hold_s
    assert query.fleet_status().waits_for
    while query.batch():
        pass
    assert len(query.outputs.late.rows()) == (0 if hold_s is None else 100)


def test_a_batch_that_lets_nothing_in_holds_windows_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That a stream is suspended is noted by a batch of its own."""
    query = behind(tmp_path, {})
    before_s = query.punctuation_s()
    Channel(str(tmp_path / "channel")).write_control(Control(suspended={"today": True}))
    monkeypatch.setattr(reader, "admit", lambda waiting, *_, **__: waiting * 0)
    assert query.batch()
    assert query.punctuation_s() == before_s
    assert query.fleet_status().waits_for == "long"
