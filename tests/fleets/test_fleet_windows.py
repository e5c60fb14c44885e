"""Windows over a fleet without Spark: streams that are kept waiting lose nothing, and the windows of others wait for them."""

import tempfile
from pathlib import Path

import pytest
from fleet_query import SECOND, FromSource, Query, write_times
from hypothesis import given
from hypothesis import strategies as st
from support import oracle

from skytide.lateness import FixedSlack, KSlack, Slack

streams = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 120), st.sampled_from([0.1, 1.0, 7.0])), min_size=1, max_size=5)


@pytest.mark.slow
@given(
    streams,
    st.sampled_from([KSlack(), FixedSlack(0), FixedSlack("20 s")]),
    st.sampled_from([5, 20, 100, 10_000]),
    st.booleans(),
)
def test_history_is_read_whole_however_little_a_batch_takes(
    spans: list[tuple[int, int, float]], slack: Slack, capacity_hz: float, restarts: bool
) -> None:
    """Streams begin, end and are as dense as they like; short ones are read at once, and long ones over many batches."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [
            row
            for number, (begin, count, step) in enumerate(spans)
            for row in write_times(folder, f"s{number}", [begin + at * step for at in range(count)])
        ]
        query = Query(folder, slack, capacity_hz)
        while query.batch():
            if restarts:
                query.start()
        query.engine.flush(FromSource())
        want = {start: window.tuples for start, window in oracle.windows_of(rows, 10 * SECOND, 5 * SECOND, lambda rows: []).items()}
        assert not query.outputs.late.rows() and not query.outputs.invalid.rows()
        assert query.windows() == want


def test_what_holds_the_windows_back_lets_go_when_it_has_caught_up(tmp_path: Path) -> None:
    write_times(tmp_path, "short", [100 + at for at in range(10)])
    write_times(tmp_path, "long", [at * 0.1 for at in range(1_000)])
    query = Query(tmp_path, KSlack(), 300)
    query.batch()
    held = query.engine.status()
    assert held.windows_out < 10
    while query.batch():
        pass
    assert query.engine.status().slack_us == 0, "that we kept a stream waiting is no delay of its tuples"
    write_times(tmp_path, "short", [130.0 + at for at in range(5)])
    query.batch()
    assert max(query.windows()) > min(query.windows()) + 100 * SECOND
    assert query.engine.status().late == 0


@pytest.mark.parametrize("hold_us", [None, 40 * SECOND])
def test_a_stream_that_is_behind_holds_windows_back_by_no_more_than_the_hold(tmp_path: Path, hold_us: int | None) -> None:
    """A week of history comes along with streams of today: without a hold, the windows of today wait for all of it."""
    (tmp_path / "channel").mkdir()
    today_s = 7 * 86_400.0
    write_times(tmp_path, "history", [at * 60.0 for at in range(2_000)])
    query = Query(tmp_path, FixedSlack(0), 300, hold_us=hold_us, channel=str(tmp_path / "channel"))
    for batch in range(4):
        write_times(tmp_path, "live", [today_s + batch * 30.0 + at for at in range(30)])
        query.batch()
    reached_s = query.punctuation_s()
    assert reached_s is not None
    if hold_us is None:
        assert reached_s < today_s - 86_400
    else:  # the newest tuple of the batch before, less the hold
        assert reached_s == today_s + 2 * 30 + 29 - 40
    seen = query.fleet_status()
    assert seen.waits_for == "history" and seen.waits_s > 86_400
    assert "wait for history, which is" in str(seen)
    assert seen.seen_s == query.now_s > 0


def test_the_stream_that_is_waited_for_is_forgotten_once_it_has_caught_up(tmp_path: Path) -> None:
    (tmp_path / "channel").mkdir()
    write_times(tmp_path, "long", [at * 0.1 for at in range(1_000)])
    query = Query(tmp_path, KSlack(), 300, channel=str(tmp_path / "channel"))
    seen = []
    while query.batch():
        assert query.fleet._channel is not None
        seen.append((query.fleet._channel.status() or {}).get("waits_for", ""))
    query.batch()
    assert "long" in seen and "waits_for" not in (query.fleet._channel.status() or {})  # type: ignore[union-attr]
