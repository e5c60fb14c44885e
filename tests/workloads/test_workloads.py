"""Generated streams: every part is the same wherever it is generated, and measured parameters are the requested ones."""

import atexit
import os
import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples

from skytide.errors import InvalidInput
from skytide.workloads.arrivals import BLOCK, Arrivals, Constant, Counts, MarkovModulated, OnOff, Poisson, Steps
from skytide.workloads.delays import DELAYS
from skytide.workloads.fleet import FLEETS, Fleet
from skytide.workloads.kinds import ARRIVALS
from skytide.workloads.points import CLOUDS, DRIFTING, columns
from skytide.workloads.variable import RandomWalk, Replay, SelfSimilar
from skytide.workloads.workload import BATCH_ROWS, Workload

TICK_US = 10_000


def recorded(name: str, columns: dict[str, object]) -> str:
    """Write a small recording, and return its path."""
    path = Path(tempfile.gettempdir()) / f"skytide-test-{os.getpid()}-{name}.parquet"
    pq.write_table(pa.table(columns), path)
    atexit.register(path.unlink, missing_ok=True)
    return str(path)


RATES = recorded("rates", {"stream": ["a"] * 4 + ["b"] * 4, "second": [0, 1, 2, 3] * 2, "tuples": [500, 100, 0, 900, 7, 7, 7, 7]})
TIMES = recorded("times", {"ts": pa.array([5, 90_000, 150_000, 2_000_000, 2_000_000], pa.timestamp("us"))})
LATE = recorded("late", {"ts": pa.array([0, 10, 20], pa.timestamp("us")), "arrival": pa.array([7, 40, 1_020], pa.timestamp("us"))})
PROCESSES: dict[str, Arrivals] = {
    "constant": Constant(1_234.5),
    "poisson": Poisson(1_000),
    "steps": Steps.parse("0.5:400, 0.033:0, 1:9000"),
    "map": MarkovModulated(5_000, dispersion=300),
    "selfsimilar": SelfSimilar(5_000, hurst=0.8),
    "walk": RandomWalk(5_000),
    "onoff": OnOff(5_000, on_us=700_000, off_us=2_000_000),
    "replay": Replay(f"{RATES}#a"),
    **{name: fleet(5_000, streams=7) for name, fleet in FLEETS.items()},
}
kinds = st.sampled_from(list(ARRIVALS))
seeds = st.integers(0, 2**64)

Tuples = Callable[[int, int], Iterator[pa.RecordBatch]]


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    kind = draw(kinds)
    late = draw(st.sampled_from(list(DELAYS)))
    fields = {
        "rate": draw(st.floats(1, 20_000)),
        "dispersion": draw(st.floats(2, 8_000)),
        "steps": "0.1:3000, 0.05:0, 0.2:500",
        "hurst": draw(st.sampled_from([0.5, 0.7])),
        "on_us": draw(st.integers(1_000, 10**7)),
        "off_us": draw(st.integers(1_000, 10**7)),
        "series": draw(st.sampled_from([f"{RATES}#b", TIMES])),
        "streams": draw(st.integers(1, 9)),
    }
    return Workload(
        **{name: fields[name] for name in ARRIVALS[kind][1]},  # type: ignore[arg-type]
        arrivals=kind,
        delays=late,
        delay_us=None if late in ("none", "replay") else draw(st.integers(1, 10**7)),
        delay_series=LATE if late == "replay" else None,
        late_share=1.0 if late in ("none", "replay") else draw(st.floats(0.01, 1)),
        points=draw(st.sampled_from([*CLOUDS, DRIFTING])),
        dimensions=draw(st.integers(1, 4)),
        seed=draw(seeds),
        tick_us=draw(st.sampled_from([1_000, 10_000, 7_777])),
    )


def whole(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(batches, schema).combine_chunks()


def same_for_any_split(tuples: Tuples, schema: pa.Schema, cuts: list[int]) -> bool:
    parts = [whole(tuples(first, last), schema) for first, last in pairwise(cuts)]
    return pa.concat_tables(parts).combine_chunks().equals(whole(tuples(cuts[0], cuts[-1]), schema))


@given(workloads(), st.integers(0, 10**6), st.lists(st.integers(0, 40), min_size=1, max_size=5))
def test_a_stream_is_the_same_for_any_split(stream: Workload, first: int, lengths: list[int]) -> None:
    cuts = (first + np.cumsum([0, *lengths])).tolist()
    assert same_for_any_split(lambda *ticks: stream.tuples(*ticks, start_us=5), stream.schema, cuts)


def test_a_stream_that_is_seeded_by_part_is_caught() -> None:
    def guilty(first: int, last: int) -> Iterator[pa.RecordBatch]:
        return Workload(rate=1_000, seed=first).tuples(first, last, start_us=0)

    assert not same_for_any_split(guilty, Workload(rate=1_000).schema, [0, 10, 20])


def test_every_process_is_here() -> None:
    assert PROCESSES.keys() == ARRIVALS.keys()


@given(kinds, st.integers(0, 10**9), st.integers(0, 2 * BLOCK), st.integers(0, 2 * BLOCK), seeds)
def test_the_counts_of_a_tick_do_not_depend_on_the_range(kind: str, first: int, skip: int, n: int, seed: int) -> None:
    counts = PROCESSES[kind].counts(first, first + skip + n, tick_us=TICK_US, seed=seed)
    assert len(counts) == skip + n
    assert (counts >= 0).all()
    assert np.array_equal(counts[skip:], PROCESSES[kind].counts(first + skip, first + skip + n, tick_us=TICK_US, seed=seed))


@given(kinds, st.integers(0, 1000), st.integers(0, 2**32))
def test_offsets_are_in_order_and_inside_their_tick(kind: str, n: int, seed: int) -> None:
    offsets = PROCESSES[kind].offsets(np.random.default_rng(seed), n, TICK_US)
    assert len(offsets) == n
    assert (np.diff(offsets, prepend=0) >= 0).all()
    assert (offsets < TICK_US).all()


def dispersion(counts: Counts, ticks: int) -> float:
    """Return Var(N_t) / E(N_t), measured over intervals of some ticks."""
    stretches = counts[: len(counts) // ticks * ticks].reshape(-1, ticks).sum(axis=1)
    return float(stretches.var(ddof=1) / stretches.mean())


def measured(process: MarkovModulated | Poisson, asked: float) -> tuple[float, float]:
    """Return rate and index of dispersion of 120 million tuples; in each interval the chain forgets its state fifty times."""
    counts = process.counts(0, round(120e6 / process.rate_hz * 1e6 / TICK_US), tick_us=TICK_US, seed=3)
    forgets_hz = MarkovModulated(process.rate_hz, asked).renewals_hz
    return counts.mean() * 1e6 / TICK_US, dispersion(counts, max(1, round(50 / forgets_hz * 1e6 / TICK_US)))


@pytest.mark.parametrize("rate", [30_000, 200_000])
@pytest.mark.parametrize("asked", [100, 1_000, 4_000, 8_000])
def test_bursts_measure_what_was_asked(rate: float, asked: float) -> None:
    mean, found = measured(MarkovModulated(rate, asked), asked)
    assert mean == pytest.approx(rate, rel=0.02)
    assert found == pytest.approx(asked, rel=0.2)


@pytest.mark.parametrize("kind", [kind for kind in ARRIVALS if kind not in ("steps", "replay")])
def test_rates_measure_what_was_asked(kind: str) -> None:
    process = PROCESSES[kind]
    cycle_ticks = 256 * 5 * 100  # the longest cycle but that of self-similar arrivals, which has its own test
    mean = np.mean(
        [process.counts(0, cycle_ticks, tick_us=TICK_US, seed=seed).mean() for seed in range(1 if kind == "walk" else 4)]
    )
    tolerance = 0.1 if kind in ("selfsimilar", "onoff") else 0.02  # these wander more than a cycle of 21 minutes averages out
    assert mean * 1e6 / TICK_US == pytest.approx(process.mean_hz, rel=tolerance)


def test_a_random_walk_wanders() -> None:
    counts = RandomWalk(10_000).counts(0, 256 * 500, tick_us=TICK_US, seed=4).reshape(256, 500).mean(axis=1)
    assert counts.max() / counts.mean() > 1.5
    assert abs(np.diff(np.log(counts))).mean() == pytest.approx(0.15 * np.sqrt(2 / np.pi), rel=0.25)


def test_on_and_off_last_as_long_as_was_asked() -> None:
    counts = OnOff(50_000, on_us=1_000_000, off_us=3_000_000).counts(0, 400_000, tick_us=TICK_US, seed=1)
    on = counts > 0
    assert on.mean() == pytest.approx(0.25, abs=0.04)
    turns = np.count_nonzero(np.diff(on.astype(int)) == 1)
    assert turns == pytest.approx(1_000, rel=0.15)
    assert counts[on].mean() == pytest.approx(2_000, rel=0.05)


def test_records_are_played_again_and_again() -> None:
    counts = Replay(f"{RATES}#a").counts(0, 4_000, tick_us=TICK_US, seed=1).reshape(10, 4, 100).sum(axis=2)
    assert counts.mean(axis=0) == pytest.approx([500, 100, 0, 900], rel=0.1)
    assert Replay(TIMES).mean_hz == pytest.approx(5 / 2)
    with pytest.raises(InvalidInput, match=r"series='/nowhere.parquet': .*; give a Parquet file"):
        Workload(arrivals="replay", series="/nowhere.parquet")
    with pytest.raises(InvalidInput, match="neither rates nor times, but arrival, seconds"):
        Workload(arrivals="replay", series=recorded("wrong", {"arrival": [1], "seconds": [2]}))


def test_recorded_delays_come_in_their_order() -> None:
    stream = Workload(rate=1_000, delay_series=LATE)
    (batch,) = stream.tuples(0, 1, 0)
    delays = [(b - a).microseconds for a, b in zip(batch["ts"].to_pylist(), batch["arrival"].to_pylist(), strict=True)]
    record = [7, 30, 1_000]
    assert delays == [record[(record.index(delays[0]) + place) % 3] for place in range(len(delays))]


@pytest.mark.parametrize("name", FLEETS)
def test_fleets_go_up_and_down_as_they_should(name: str) -> None:
    fleet: Fleet = FLEETS[name](8_000, streams=80)
    rates = fleet.rates_hz(np.arange(0, 60, 0.25), seed=3)
    assert rates.shape == (80, 240)
    assert (rates > 0).all()
    assert rates.mean(axis=1).sum() == pytest.approx(8_000, rel=0.02)
    total, single = rates.sum(axis=0), rates[0]
    assert (total.std() / total.mean() > 0.2) == (name in ("sfvar", "tfvar"))
    assert (single.std() > 1e-6) == (name != "constw")
    steps = np.abs(np.diff(single)).max() / single.mean()
    assert (steps > 1) == (name in ("psfcw", "sfvar"))
    if name in ("psfcw", "ptfcw"):
        assert np.corrcoef(rates[0], rates[1])[0, 1] == pytest.approx(-1)


def test_tuples_of_a_fleet_say_which_stream_they_came_with() -> None:
    stream = Workload(rate=20_000, arrivals="sfvar", streams=5, dimensions=1)
    table = whole(stream.tuples(0, 6_000, 0), stream.schema)
    shares = np.bincount(table["stream"].to_numpy(), minlength=5) / table.num_rows
    fleet = stream.process
    assert isinstance(fleet, Fleet)
    assert shares == pytest.approx(fleet.rates_hz(np.arange(0, 60, 0.5), stream.seed).mean(axis=1) / 20_000, abs=0.01)


def test_drifting_points_go_from_cloud_to_cloud() -> None:
    stream = Workload(rate=20_000, points=DRIFTING, dimensions=2)

    def correlation(second: int) -> float:
        table = whole(stream.tuples(second * 100, second * 100 + 100, 0), stream.schema)
        return float(np.corrcoef(table["x0"].to_numpy(), table["x1"].to_numpy())[0, 1])

    found = [correlation(second) for second in (0, 30, 45, 60)]
    expected = [np.corrcoef(columns(kind, np.random.default_rng(0), 20_000, 2))[0, 1] for kind in CLOUDS]
    assert [found[0], found[1], found[3]] == pytest.approx(expected, abs=0.1)
    assert expected[2] < found[2] < expected[1]


def test_arrivals_without_bursts_do_not_measure_as_bursts() -> None:
    mean, found = measured(Poisson(30_000), 100)
    assert mean == pytest.approx(30_000, rel=0.02)
    assert found == pytest.approx(1, rel=0.05)


@given(st.floats(0.1, 1e6), st.integers(0, 10**6), st.integers(1, 1000))
def test_constant_arrivals_are_never_a_tuple_off(rate: float, first: int, n: int) -> None:
    counts = Constant(rate).counts(first, first + n, tick_us=TICK_US, seed=0)
    expected = rate * TICK_US / 1e6
    assert abs(counts - expected).max() < 1.001
    assert abs(counts.sum() - n * expected) < 1.001


def test_steps_hold_their_rates_and_come_again() -> None:
    counts = Steps.parse("2:1000, 1:50000, 1:0").counts(0, 4_000, tick_us=TICK_US, seed=0).reshape(10, 400)
    assert counts[:, :200].mean() == pytest.approx(10, rel=0.05)
    assert counts[:, 200:300].mean() == pytest.approx(500, rel=0.05)
    assert (counts[:, 300:] == 0).all()
    assert counts.mean() * 100 == pytest.approx(Steps.parse("2:1000, 1:50000, 1:0").mean_hz, rel=0.02)


@pytest.mark.parametrize("kind", [kind for kind in DELAYS if kind != "replay"])
@pytest.mark.parametrize("share", [1.0, 0.2])
def test_delays_have_the_share_and_the_law_that_was_asked(kind: str, share: float) -> None:
    delays = DELAYS[kind](300_000, share).draw(np.random.default_rng(1), 400_000)
    assert delays.dtype == np.int64
    assert (delays >= 0).all()
    late = delays[delays > 0] / 300_000
    if kind == "none":
        assert len(late) == 0
        return
    assert len(late) / len(delays) == pytest.approx(share, rel=0.02)
    mean, median = {"uniform": (0.5, 0.5), "exponential": (1, np.log(2)), "pareto": (1, np.sqrt(2) - 1)}[kind]
    assert late.mean() == pytest.approx(mean, rel=0.05)
    assert np.median(late) == pytest.approx(median, rel=0.02)
    assert (late.max() <= 1) == (kind == "uniform")
    assert (late.max() > 50) == (kind == "pareto")


@given(workloads(), st.integers(0, 1000))
def test_tuples_arrive_in_their_tick_in_order_and_late_by_their_delay(stream: Workload, first: int) -> None:
    start_us = 1_000_000_000
    tuples = whole(stream.tuples(first, first + 50, start_us), stream.schema)
    ids, ts, arrival = (tuples[name].to_numpy().astype(np.int64) for name in ("id", "ts", "arrival"))
    ticks = (arrival - start_us) // stream.tick_us
    assert np.array_equal(np.bincount(ticks - first, minlength=50), stream.counts(first, first + 50))
    assert len(np.unique(ids)) == len(ids)
    assert (np.diff(arrival) >= 0).all()
    assert (ts <= arrival).all()
    assert stream.delays != "uniform" or (arrival - ts <= stream.delay_us).all()
    assert stream.delays != "none" or np.array_equal(ts, arrival)
    for i in range(stream.dimensions):
        assert ((tuples[f"x{i}"].to_numpy() >= 0) & (tuples[f"x{i}"].to_numpy() <= 1)).all()


def test_disorder_changes_nothing_but_event_times() -> None:
    calm, late = Workload(rate=1_000), Workload(rate=1_000, delay_us=500, late_share=0.5)
    before, after = (whole(stream.tuples(0, 50, 0), stream.schema) for stream in (calm, late))
    assert before.drop_columns("ts").equals(after.drop_columns("ts"))
    assert not before.equals(after)


@given(st.integers(0, 2**32))
def test_another_seed_is_another_stream(seed: int) -> None:
    one, other = (whole(Workload(rate=100, seed=s).tuples(0, 50, 0), Workload(rate=100).schema) for s in (seed, seed + 1))
    assert not one.equals(other)


@pytest.mark.parametrize("tick_us", [1_000, 100_000])
def test_batches_are_never_larger_than_asked(tick_us: int) -> None:
    stream = Workload(rate=1_500_000, dimensions=1, tick_us=tick_us)
    sizes = [batch.num_rows for batch in stream.tuples(0, 400_000 // tick_us, 0)]
    assert max(sizes) <= BATCH_ROWS
    assert sum(sizes) == stream.counts(0, 400_000 // tick_us).sum()


def test_no_ticks_and_no_tuples_are_no_batches() -> None:
    assert list(Workload(rate=1_000).tuples(7, 7, 0)) == []
    assert list(Workload(rate=0.001).tuples(0, 100, 0)) == []


@given(workloads())
@settings(max_examples=examples(200))
def test_fields_survive_as_texts(stream: Workload) -> None:
    texts = stream.to_json()
    assert all(isinstance(text, str) for text in texts.values())
    assert Workload.from_json(texts) == stream


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "arrivals='poisson': rate is missing; give rate with it"),
        ({"rate": 0}, "rate=0: out of range; give tuples per second, more than 0"),
        ({"rate": float("inf")}, "rate=inf: out of range"),
        ({"rate": "5"}, "rate='5': out of range"),
        ({"rate": 1e12}, "up to 1,000,000,000,000 tuples per second: more than 4,194,304 in a tick .* choose shorter ticks"),
        ({"rate": 5, "arrivals": "chaotic"}, "arrivals='chaotic': not known; choose one of constant, poisson, steps, map"),
        ({"rate": 5, "arrivals": "map"}, "arrivals='map': dispersion is missing"),
        ({"rate": 5, "arrivals": "map", "dispersion": 1}, "dispersion=1: out of range; give a number above 1"),
        ({"rate": 5, "dispersion": 100}, "dispersion=100: arrivals='poisson' has no dispersion; leave one of the two out"),
        ({"rate": 5, "arrivals": "steps", "steps": "1:2"}, "rate=5: arrivals='steps' has no rate"),
        ({"arrivals": "steps"}, "arrivals='steps': steps is missing"),
        ({"arrivals": "steps", "steps": "1:2:3"}, "steps='1:2:3': not a list of seconds and rates"),
        ({"arrivals": "steps", "steps": "1:-2"}, "steps='1:-2': not a list of seconds and rates"),
        ({"arrivals": "steps", "steps": "1:0"}, "no tuple ever comes; write seconds:rate pairs"),
        ({"rate": 5, "delays": "endless"}, "delays='endless': not known; choose one of none, uniform, exponential, pareto"),
        ({"rate": 5, "delays": "pareto"}, "delays='pareto': delay is missing; give delay with it"),
        ({"rate": 5, "delays": "none", "delay_us": 9}, "delay=9: delays='none' has no delay"),
        ({"rate": 5, "delay_us": 0}, "a delay of 0 microseconds: out of range"),
        ({"rate": 5, "late_share": 0.5}, "late_share=0.5: nothing is late; say how late: give a delay"),
        ({"rate": 5, "delay_us": 9, "late_share": 1.5}, "late_share=1.5: out of range; give a share of the tuples"),
        ({"rate": 5, "points": "flat"}, "points='flat': not known; choose one of independent"),
        ({"rate": 5, "dimensions": 0}, "dimensions=0: out of range; give a whole number from 1 to 64"),
        ({"rate": 5, "seed": -1}, "seed=-1: out of range; give a whole number from 0 to"),
        ({"rate": 5, "tick_us": 0.5}, "a tick of 0.5 microseconds: out of range"),
    ],
)
def test_what_makes_no_stream_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Workload(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"rate": "many"}, "rate='many': not a number"),
        ({"rate": "5", "seed": "1.5"}, "seed='1.5': not a whole number; write digits only"),
        ({"rate": "5", "colour": "red"}, "field='colour': not known; choose one of rate, arrivals, "),
    ],
)
def test_texts_that_are_no_fields_are_refused(texts: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Workload.from_json(texts)
