"""Slacks under common laws, and what each of them promises."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skytide.errors import InvalidInput
from skytide.lateness import Arrivals, DropRatio, FixedSlack, KSlack, Progress, Slack, SlackLogic, observe
from skytide.lateness.delays import BUCKETS, bucket, bucket_end_us
from skytide.lateness.slack import Slack as SlackBase
from skytide.windows import Windows

SLACKS: list[Slack] = [KSlack(), FixedSlack("2 s"), FixedSlack(0), DropRatio(0.01), DropRatio(0.2)]
WINDOWS = Windows(length_us=1_000, slide_us=200)

batches = st.lists(st.lists(st.integers(0, 20_000), max_size=30), max_size=12)


def arrivals(times: list[int], progress: Progress) -> Arrivals:
    return observe(np.array(times, dtype=np.int64), progress.newest_us, progress.punctuation_us)


def test_every_slack_is_among_the_examples() -> None:
    assert set(SlackBase.__subclasses__()) == {type(slack) for slack in SLACKS}


@given(st.lists(st.integers(0, 1_000), max_size=40), st.none() | st.integers(0, 1_000), st.none() | st.integers(0, 1_000))
def test_arrivals_are_counted_as_defined(times: list[int], newest: int | None, punctuation: int | None) -> None:
    seen = observe(np.array(times, dtype=np.int64), newest, punctuation)
    running, delays = newest, []
    for t in times:
        running = t if running is None else max(running, t)
        delays.append(running - t)
    assert seen.newest_us == running
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
    slack, progress = config.build(), Progress()
    for times in streams:
        before = progress
        progress = progress.advance(arrivals(times, progress), [], WINDOWS, slack)
        if before.punctuation_us is not None:
            assert progress.punctuation_us is not None and progress.punctuation_us >= before.punctuation_us
        if progress.newest_us is not None:
            assert progress.punctuation_us is not None and progress.punctuation_us <= progress.newest_us
        assert slack.slack_us >= 0


@pytest.mark.parametrize("config", SLACKS, ids=repr)
@given(streams=batches, cut=st.integers(0, 12))
def test_a_snapshot_goes_on_as_if_nothing_had_happened(config: Slack, streams: list[list[int]], cut: int) -> None:
    whole, resumed, progress = config.build(), config.build(), Progress()
    for number, times in enumerate(streams):
        if number == cut:
            resumed = config.build(json.loads(json.dumps(resumed.snapshot())) or None)
        seen = arrivals(times, progress)
        resumed.observe(seen)
        progress = progress.advance(seen, [], WINDOWS, whole)
        assert resumed.slack_us == whole.slack_us


def test_k_slack_is_the_longest_delay() -> None:
    # newest 100, then one that is 30 late, then one that is 10 late
    slack, progress = KSlack().build(), Progress()
    for times, k in (([100], 0), ([70], 30), ([200, 190], 30)):
        progress = progress.advance(arrivals(times, progress), [], WINDOWS, slack)
        assert slack.slack_us == k
    assert progress.punctuation_us == 170


def replayed(config: Slack, times: np.ndarray, size: int) -> tuple[float, float]:
    """The share of dropped tuples and the mean slack in seconds, with batches of `size` tuples."""
    slack: SlackLogic = config.build()
    progress, slacks = Progress(), []
    for start in range(0, len(times), size):
        part = times[start : start + size]
        progress = progress.advance(observe(part, progress.newest_us, progress.punctuation_us), [], WINDOWS, slack)
        slacks.append(slack.slack_us / 1e6)
    return progress.late / progress.tuples, float(np.mean(slacks))


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


def test_a_jump_of_centuries_is_refused_and_not_waited_for() -> None:
    progress = Progress(newest_us=10**17, punctuation_us=10**17, next_window=0)
    with pytest.raises(InvalidInput, match="wrong time stamp"):
        progress.ended(WINDOWS)
