"""Common laws of slacks, and what each of them promises."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skytide.errors import InvalidInput
from skytide.lateness import Arrivals, DropRatio, FixedSlack, KSlack, Slack, SlackLogic, StreamClock, observe
from skytide.lateness.clock import MAX_OUT
from skytide.lateness.crowds import FEW
from skytide.lateness.delays import BUCKETS, bucket, bucket_end_us
from skytide.lateness.slack import Slack as SlackBase
from skytide.windows import Windows

SLACKS: list[Slack] = [KSlack(), FixedSlack("2 s"), FixedSlack(0), DropRatio(0.01), DropRatio(0.2)]
WINDOWS = Windows(length_us=1_000, slide_us=200)

LEAP_US = StreamClock().leap_us(WINDOWS)

batches = st.lists(st.lists(st.integers(0, 20_000) | st.sampled_from([0, 10**17]), max_size=30), max_size=12)


def after(clock: StreamClock, times: list[int] | np.ndarray, slack: SlackLogic) -> StreamClock:
    return clock.advance(seen(clock, times), WINDOWS, slack)


def seen(clock: StreamClock, times: list[int] | np.ndarray) -> Arrivals:
    return observe(np.array(times, dtype=np.int64), clock.newest_us, clock.punctuation_us, clock.leap_us(WINDOWS))


def test_every_slack_is_among_the_examples() -> None:
    assert set(SlackBase.__subclasses__()) == {type(slack) for slack in SLACKS}


@given(st.lists(st.integers(0, 1_000), max_size=40), st.none() | st.integers(0, 1_000), st.none() | st.integers(0, 1_000))
def test_arrivals_are_counted_as_defined(times: list[int], newest: int | None, punctuation: int | None) -> None:
    seen = observe(np.array(times, dtype=np.int64), newest, punctuation, LEAP_US)
    running, delays = newest, []
    for t in times:
        running = t if running is None else max(running, t)
        delays.append(running - t)
    assert seen.newest_us == (None if not times or (newest is None and len(times) <= FEW) else running)
    assert seen.longest_delay_us == max(delays, default=0)
    assert seen.late == sum(punctuation is not None and t < punctuation for t in times)
    assert sum(seen.delays) == seen.tuples == len(times)


@given(st.integers(0, 2**40))
def test_a_bucket_is_narrow_and_holds_its_delays(delay: int) -> None:
    index = int(bucket(np.array([delay]))[0])
    assert 0 <= index < BUCKETS
    assert delay <= bucket_end_us(index) <= max(delay * 1.1 + 2, 0)


@pytest.mark.parametrize("config", SLACKS, ids=repr)
@given(streams=batches)
def test_punctuations_never_go_back_and_never_overtake(config: Slack, streams: list[list[int]]) -> None:
    slack, clock = config.build(), StreamClock()
    for times in streams:
        before = clock
        clock = after(clock, times, slack)
        if before.punctuation_us is not None:
            assert clock.punctuation_us is not None and clock.punctuation_us >= before.punctuation_us
        if clock.newest_us is not None:
            assert clock.punctuation_us is not None and clock.punctuation_us <= clock.newest_us
        assert slack.slack_us >= 0


@pytest.mark.parametrize("config", SLACKS, ids=repr)
@given(streams=batches, cut=st.integers(0, 12))
def test_a_snapshot_goes_on_as_if_nothing_had_happened(config: Slack, streams: list[list[int]], cut: int) -> None:
    whole, resumed, clock = config.build(), config.build(), StreamClock()
    for number, times in enumerate(streams):
        if number == cut:
            resumed = config.build(json.loads(json.dumps(resumed.snapshot())) or None)
            assert StreamClock.from_json(json.loads(json.dumps(clock.to_json()))) == clock
        resumed.observe(seen(clock, times))
        clock = after(clock, times, whole)
        assert resumed.slack_us == whole.slack_us


def test_k_slack_is_the_longest_delay() -> None:
    # newest 100, then one that is 30 late, then one that is 10 late
    slack, clock = KSlack().build(), StreamClock()
    for times, k in (([97, 98, 99, 100], 0), ([70], 30), ([200, 190], 30)):
        clock = after(clock, times, slack)
        assert slack.slack_us == k
    assert clock.punctuation_us == 170


HOUR_US, WEEK_US, CENTURY_US = 3_600_000_000, 7 * 86_400_000_000, 36_524 * 86_400_000_000
START_US = 1_700_000_000_000_000
WRONG = {
    "1970": 0,
    "an hour ahead": START_US + HOUR_US,
    "a century ahead": START_US + CENTURY_US,
    "a day behind": START_US - 24 * HOUR_US,
}


def steady(batch: int) -> list[int]:
    """One tuple per millisecond, and every other one 40 ms late."""
    return [START_US + (batch * 500 + number) * 1_000 - number % 2 * 40_000 for number in range(500)]


@pytest.mark.parametrize("place", ["first of all", "among the first", "in the middle", "last of a batch", "alone in a batch"])
@pytest.mark.parametrize("wrong_us", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("config", SLACKS, ids=repr)
def test_one_wrong_time_neither_stops_nor_blinds(config: Slack, wrong_us: int, place: str) -> None:
    batches_ = [steady(batch) for batch in range(20)]
    where = {"first of all": (0, 0), "among the first": (0, 2), "in the middle": (7, 250), "last of a batch": (7, 500)}
    if place == "alone in a batch":
        batches_.insert(7, [wrong_us])
    else:
        batch, at = where[place]
        batches_[batch].insert(at, wrong_us)
    slack, clock, lost = config.build(), StreamClock(), 0
    right_slack, right = config.build(), StreamClock()
    for number, times in enumerate(batches_):
        good = np.array([time for time in times if time != wrong_us])
        lost += 0 if clock.punctuation_us is None else int((good < clock.punctuation_us).sum())
        lost -= 0 if right.punctuation_us is None else int((good < right.punctuation_us).sum())
        clock, right = after(clock, times, slack), after(right, good, right_slack)
        if number > 10:
            assert abs((clock.punctuation_us or 0) - (right.punctuation_us or 0)) < 1_000_000
    assert lost <= 100  # of 10,000
    assert not clock.held


def few_wrong(place: str, number: int, wrong: int) -> list[int]:
    """Return times ahead of all others, a century or two: one, ascending, descending, or at random."""
    rng = np.random.default_rng(number)
    found = {
        "one time": [START_US + CENTURY_US] * wrong,
        "ascending": [START_US + CENTURY_US + (number * wrong + each) * HOUR_US for each in range(wrong)],
        "descending": [START_US + 2 * CENTURY_US - (number * wrong + each) * HOUR_US for each in range(wrong)],
        "anywhere": (START_US + CENTURY_US + rng.integers(0, 1_000, wrong) * HOUR_US).tolist(),
    }
    return found[place]


@pytest.mark.parametrize("place", ["one time", "ascending", "descending", "anywhere"])
@pytest.mark.parametrize("wrong", range(1, FEW + 1))
@pytest.mark.parametrize("more", [0, 1, 5])
@pytest.mark.parametrize("first", ["right", "wrong"])
def test_few_wrong_times_among_as_many_right_ones_are_never_believed(place: str, wrong: int, more: int, first: str) -> None:
    slack, clock = FixedSlack(0).build(), StreamClock()
    clock = after(clock, [START_US + number for number in range(-9, 0)], slack)
    for number in range(40):
        right = [START_US + number * 1_000_000] * (wrong + more)
        ahead = few_wrong(place, number, wrong)
        clock = after(clock, [*right, *ahead] if first == "right" else [*ahead, *right], slack)
        assert clock.newest_us == right[0]


def test_a_few_more_tuples_ahead_than_behind_are_believed() -> None:
    """Two of three tuples are a day ahead: the stream is there, and its rest is late."""
    slack, clock = FixedSlack(0).build(), StreamClock()
    clock = after(clock, [START_US + number for number in range(-9, 0)], slack)
    for number in range(4):
        clock = after(clock, [START_US + number, *[START_US + 24 * HOUR_US + number] * 2], slack)
    assert clock.newest_us == START_US + 24 * HOUR_US + 3


@pytest.mark.parametrize("held", [0, 1, 3])
@pytest.mark.parametrize("new", [4, 30])
def test_a_batch_with_more_than_a_few_tuples_ahead_is_believed_whatever_was_held(held: int, new: int) -> None:
    slack, clock = FixedSlack(0).build(), StreamClock()
    clock = after(clock, [START_US + number for number in range(-9, 0)], slack)
    for times in ([START_US + HOUR_US] * held, [*[START_US] * 50, *[START_US + HOUR_US + 1] * new]):
        clock = after(clock, times, slack)
    assert clock.newest_us == START_US + HOUR_US + 1


def test_a_long_delay_that_is_real_is_learned() -> None:
    slack, clock = KSlack().build(), StreamClock()
    for batch in range(10):
        times = steady(batch)
        if batch in (3, 4):
            times[100:110] = [time - HOUR_US for time in times[100:110]]
        clock = after(clock, times, slack)
        assert (slack.slack_us >= HOUR_US) == (batch >= 3)


@pytest.mark.parametrize("silence_us", [2 * HOUR_US, WEEK_US, CENTURY_US])
@pytest.mark.parametrize("first", [1, 3, 4, 500])
def test_a_stream_goes_on_after_silence(silence_us: int, first: int) -> None:
    slack, clock = FixedSlack("1 s").build(), StreamClock()
    later = [time + silence_us for batch in range(10, 20) for time in steady(batch)]
    for times in (*(steady(batch) for batch in range(10)), later[:first], later[first:900], later[900:]):
        clock = after(clock, times, slack)
    assert (clock.newest_us, clock.held) == (max(later), ())


@pytest.mark.parametrize("silence_us", [10 * HOUR_US, WEEK_US, CENTURY_US])
@pytest.mark.parametrize("size", [1, 4, 20])
@pytest.mark.parametrize("before", [1, 3])
def test_one_silence_does_not_make_a_wrong_time_credible(silence_us: int, size: int, before: int) -> None:
    """Ten tuples a second, silence, some more; then one that is an hour ahead."""
    slack, clock = FixedSlack("1 s").build(), StreamClock()
    times = [START_US + number * 100_000 + (number >= 40) * silence_us for number in range(100)]
    end = 40 + max(size, 4) * before
    for begin in range(0, end, size):
        clock = after(clock, times[begin : min(begin + size, end)], slack)
    newest_us = times[end - 1]
    assert clock.newest_us == newest_us
    for ahead_us in (HOUR_US, 100_000, HOUR_US + 1):
        clock = after(clock, [newest_us + ahead_us], slack)
    assert clock.newest_us == newest_us + 100_000


@pytest.mark.parametrize("together", [1, 2, 3, 4])
def test_tuples_that_come_together_once_an_hour_are_believed(together: int) -> None:
    slack, clock = FixedSlack(0).build(), StreamClock()
    for hour in range(12):
        clock = after(clock, [START_US + hour * HOUR_US] * together, slack)
        if hour > 6:
            assert clock.newest_us == START_US + hour * HOUR_US


def test_a_clock_of_an_earlier_version_goes_on() -> None:
    """It noted the mean distance of tuples."""
    slack, clock = FixedSlack(0).build(), after(StreamClock(), [START_US] * 4, FixedSlack(0).build())
    noted = {name: value for name, value in clock.to_json().items() if name != "distances_us"}
    clock = StreamClock.from_json({**noted, "spacing_us": float(HOUR_US)})
    assert clock.leap_us(WINDOWS) == 8 * HOUR_US
    assert after(clock, [START_US + HOUR_US], slack).newest_us == START_US + HOUR_US


def test_a_stream_with_a_tuple_an_hour_is_believed() -> None:
    slack, clock = FixedSlack(0).build(), StreamClock()
    for hour in range(40):
        clock = after(clock, [START_US + hour * HOUR_US], slack)
        if hour > 6:
            assert clock.newest_us == START_US + hour * HOUR_US
    clock = after(clock, [START_US + CENTURY_US], slack)
    assert clock.newest_us == START_US + 39 * HOUR_US
    for hour in range(40, 45):
        clock = after(clock, [START_US + hour * HOUR_US], slack)
    assert clock.newest_us == START_US + 44 * HOUR_US
    assert not clock.held


def replayed(config: Slack, times: np.ndarray, size: int) -> tuple[float, float]:
    """Return the share of dropped tuples and the mean slack in seconds, with batches of `size` tuples."""
    slack: SlackLogic = config.build()
    clock, slacks = StreamClock(), []
    for start in range(0, len(times), size):
        clock = after(clock, times[start : start + size], slack)
        slacks.append(slack.slack_us / 1e6)
    return clock.late / clock.tuples, float(np.mean(slacks))


@pytest.mark.parametrize("ratio", [0.01, 0.02, 0.05])
def test_the_drop_ratio_is_kept_at_a_fraction_of_the_slack(ratio: float) -> None:
    rng = np.random.default_rng(5)
    late = rng.random(200_000) < 0.3
    times = np.arange(200_000) * 1_000 - np.where(late, rng.pareto(1.5, 200_000) * 50_000, 0).astype(np.int64)
    dropped, slack_s = replayed(DropRatio(ratio), times, size=500)
    _, k_slack_s = replayed(KSlack(), times, size=500)
    assert dropped <= ratio
    assert slack_s < k_slack_s / 10


@pytest.mark.parametrize("name", ["disorder_d1", "disorder_d2", "disorder_d3"])
def test_the_drop_ratio_is_kept_on_real_phones(data_dir: Path, name: str) -> None:
    table = pq.read_table(data_dir / f"{name}.parquet").sort_by("arrival")
    times = table["ts"].cast("int64").to_numpy()
    dropped, slack_s = replayed(DropRatio(0.01), times, size=18)
    _, k_slack_s = replayed(KSlack(), times, size=18)
    assert dropped <= 0.01
    assert slack_s <= k_slack_s


def test_what_is_no_slack_is_refused() -> None:
    for build in (lambda: DropRatio(0), lambda: DropRatio(1.5), lambda: FixedSlack("soon")):
        with pytest.raises(InvalidInput):
            build()


def test_a_window_that_came_out_ahead_is_not_forgotten_however_many_there_are() -> None:
    clock = StreamClock(newest_us=0, next_window=0)
    for number in range(1, 2 * MAX_OUT):
        clock = clock.emitted(range(0), [range(10 * number, 10 * number + 2)])
    assert len(clock.out) == MAX_OUT
    assert not any(clock.not_out(range(10 * number, 10 * number + 2)) for number in range(1, 2 * MAX_OUT))
    assert clock.not_out(range(12, 20)) == [range(12, 20)]
