"""Bursts in the times of events: tuples by a slow twin, any division of the stream, and what it means for panes."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skytide
from skytide.errors import InvalidInput
from skytide.spark.sources.workload_reader import WorkloadReader
from skytide.workloads.identity import derive
from skytide.workloads.workload import Workload

STREAM = Workload(rate=3_000, delay_us=35_000, late_share=0.4, bursts="events", dimensions=2, seed=4)
EXPONENTIAL = Workload(rate=3_000, delay_us=2_000, delays="exponential", bursts="events", dimensions=1, arrivals="constant")


def twin(stream: Workload, last: int) -> list[list[tuple[int, int]]]:
    """Return the events and arrivals of each tick, by putting every tuple of the stream where it belongs, one after the other."""
    ticks: list[list[tuple[int, int, int, int]]] = [[] for _ in range(last)]
    for tick, n in enumerate(stream.counts(0, last).tolist()):
        if not n:
            continue
        random = derive(stream.seed, "times", tick)
        happened = (stream.process.offsets(random, n, stream.tick_us) + tick * stream.tick_us).tolist()
        for number, (event, delay) in enumerate(zip(happened, stream.lateness.draw(random, n).tolist(), strict=True)):
            arrival = event + min(delay, stream.lateness.longest_us or 0)
            if arrival < last * stream.tick_us:
                ticks[arrival // stream.tick_us].append((arrival, tick, number, event))
    return [[(event, arrival) for arrival, _, _, event in sorted(some)] for some in ticks]


def whole(stream: Workload, cuts: list[int], start_us: int = 7) -> pa.Table:
    batches = [batch for first, last in itertools.pairwise(cuts) for batch in stream.tuples(first, last, start_us)]
    return pa.Table.from_batches(batches, stream.schema)


@pytest.mark.parametrize("stream", [STREAM, EXPONENTIAL], ids=["uniform", "exponential"])
def test_each_tuple_arrives_its_delay_after_its_event(stream: Workload) -> None:
    rows, expected = whole(stream, [0, 300]), twin(stream, 300)
    times = [(int(event), int(arrival)) for some in expected for event, arrival in some]
    found = zip(*(rows[name].cast(pa.int64()).to_numpy() - 7 for name in ("ts", "arrival")), strict=True)
    assert [(int(event), int(arrival)) for event, arrival in found] == times
    assert stream.arriving(0, 300).tolist() == [len(some) for some in expected]
    assert len(set(rows["id"].to_pylist())) == rows.num_rows


@given(st.lists(st.integers(0, 120), min_size=2, max_size=8).map(sorted))
def test_however_it_is_divided_it_is_the_same_stream(cuts: list[int]) -> None:
    once = whole(STREAM, [cuts[0], cuts[-1]])
    assert whole(STREAM, cuts).equals(once)
    assert STREAM.arriving(cuts[0], cuts[-1]).sum() == once.num_rows
    newest = max(once["ts"].cast(pa.int64()).to_pylist(), default=None)
    assert STREAM.newest_us(cuts[0], cuts[-1], 7) == newest


def test_long_delays_reach_far_back() -> None:
    far = Workload(rate=400, delay_us=5_000_000, bursts="events", dimensions=1)
    assert whole(far, [900, 905]).equals(whole(far, [0, 1_000]).slice(*_between(far, 900, 905)))


def _between(stream: Workload, first: int, last: int) -> tuple[int, int]:
    return int(stream.arriving(0, first).sum()), int(stream.arriving(first, last).sum())


def test_panes_are_as_bursty_as_events_and_arrivals_less_so() -> None:
    """With bursts of a few ticks and a delay of many, panes keep the bursts that arrivals lose; and the other way round."""
    dispersions = {}
    for bursts in ("events", "arrivals"):
        stream = Workload(rate=20_000, arrivals="map", dispersion=400, delay_us=400_000, bursts=bursts, dimensions=1)
        rows = whole(stream, [0, 2_000], 0)
        for name in ("ts", "arrival"):
            counts = np.bincount(np.maximum(rows[name].cast(pa.int64()).to_numpy(), 0) // 50_000)[20:-20]
            dispersions[bursts, name] = counts.var() / counts.mean()
    assert dispersions["events", "ts"] > 3 * dispersions["events", "arrival"]
    assert dispersions["arrivals", "arrival"] > 3 * dispersions["arrivals", "ts"]


def test_bursts_are_those_of_events_unless_delays_have_no_bound() -> None:
    assert skytide.workload(rate=10, delay="1 s").workload.bursts == "events"
    assert skytide.workload(rate=10, delay="1 s", bursts="arrivals").workload.bursts == "arrivals"
    assert skytide.workload(rate=10, delay="1 s", delays="pareto").workload.bursts == "arrivals"
    assert skytide.workload(rate=10).workload == Workload(rate=10)
    with pytest.raises(InvalidInput, match=r"bursts='events': delays of this kind may be longer than 60 s.*choose \"arrivals\""):
        skytide.workload(rate=10, delay="1 s", delays="pareto", bursts="events")
    with pytest.raises(InvalidInput, match="bursts='both': not known; choose one of events, arrivals"):
        skytide.workload(rate=10, bursts="both")


@pytest.mark.parametrize("bursts", ["events", "arrivals"])
def test_options_say_where_bursts_are(bursts: str) -> None:
    source = skytide.workload(rate=10, delay="1 s", bursts=bursts)
    assert type(source).from_options(source.options()) == source


def test_a_checkpoint_goes_on_with_the_stream_that_it_began_with() -> None:
    """Offsets of before say nothing about bursts: they were in arrivals."""
    reader = WorkloadReader(skytide.workload(rate=1_000, delay="100 ms", pace="fast", duration="10 s", start=0))
    old = {"tick": 50, "tick_us": 10_000, "start_us": 0}
    end = reader.latestOffset(old, None)  # type: ignore[arg-type]
    assert "bursts" not in end
    assert {part.workload.bursts for part in reader.partitions(old, end)} == {"arrivals"}
    end = reader.latestOffset(reader.initialOffset() | {"tick": 50}, None)  # type: ignore[arg-type]
    assert end["bursts"] == 1
    assert {part.workload.bursts for part in reader.partitions(old, end)} == {"events"}
