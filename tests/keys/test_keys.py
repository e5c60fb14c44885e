"""Keys on nodes: a node that comes or goes moves only its own keys, frequent keys are found and divided, and nothing is forgotten."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skytide.errors import InvalidInput
from skytide.routing import Frequencies, FrequencyAware, HashRing, KeyCounter, KeyRouting, Keys, counting
from skytide.routing.hashing import GOLDEN, mixed

KEYS = np.random.default_rng(0).integers(0, 2**64, 500, dtype=np.uint64)
NODES = st.sets(st.integers(0, 40), min_size=1, max_size=12)
Placement = Callable[[Iterable[int]], list[int]]
"""From nodes to the node of each of KEYS."""


def rows_of(keys: Keys) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    """Return hashes of rows that all differ."""
    return mixed(np.arange(len(keys), dtype=np.uint64) + GOLDEN)


def check_moves(place: Placement, nodes: set[int], other: int) -> None:
    """Assert that keys only move to a new node, and only away from a removed one."""
    few, many = place(nodes - {other} or {99}), place((nodes - {other} or {99}) | {other})
    assert set(few) <= (nodes - {other} or {99})
    assert all(after in (before, other) for before, after in zip(few, many, strict=True))


@given(NODES, st.integers(0, 40))
def test_a_node_moves_its_own_keys_only(nodes: set[int], other: int) -> None:
    check_moves(lambda known: HashRing.of(known).owners(KEYS).tolist(), nodes, other)


def test_a_guilty_hash_is_caught() -> None:
    """A key goes to the node of its hash's remainder: P1 §6.4.3."""
    with pytest.raises(AssertionError):
        check_moves(lambda known: [sorted(known)[int(key) % len(set(known))] for key in KEYS], {0, 1, 2}, 3)


def routing_of(counts: Counter[int], nodes: Iterable[int], heaviest: int = 3) -> KeyRouting:
    routing = FrequencyAware(heaviest=heaviest).build(nodes)
    routing.learn(Frequencies(counts.total(), tuple(counts.items())), 0.0)
    return routing


def sub_keys(routing: KeyRouting) -> dict[tuple[int, int], int]:
    """Return the node of each sub-key, by key and number."""
    numbers = [(key, part) for key, parts in routing.snapshot()["divided"] for part in range(parts)]
    return dict(zip(numbers, routing.ring.owners(routing.divided.positions()).tolist(), strict=True))


COUNTS = st.dictionaries(st.sampled_from(KEYS[:8].tolist()), st.integers(1, 10_000), min_size=1).map(Counter)


def check_division(
    divided: Callable[[Counter[int], set[int]], dict[tuple[int, int], int]], one: Counter[int], two: Counter[int]
) -> None:
    """Assert that other frequencies move no sub-key that exists before and after, and that the first one is where its key is."""
    before, after = divided(one, {0, 1, 2}), divided(two, {0, 1, 2})
    assert all(after[part] == node for part, node in before.items() if part in after)
    alone = HashRing.of({0, 1, 2}).owners(KEYS[:8]).tolist()
    for key, node in zip(KEYS[:8].tolist(), alone, strict=True):
        assert after.get((key, 0), node) == node


@given(COUNTS, COUNTS)
def test_other_frequencies_move_only_what_must_move(one: Counter[int], two: Counter[int]) -> None:
    check_division(lambda counts, nodes: sub_keys(routing_of(counts, nodes)), one, two)


def test_a_guilty_division_is_caught() -> None:
    def guilty(counts: Counter[int], nodes: set[int]) -> dict[tuple[int, int], int]:
        """Place a sub-key by its number and by how many there are."""
        return {(key, part): hash((key, part, n)) % len(nodes) for key, n in counts.items() for part in range(n)}

    with pytest.raises(AssertionError):
        check_division(guilty, Counter({int(KEYS[0]): 50}), Counter({int(KEYS[0]): 60}))


@given(COUNTS, NODES, st.integers(0, 40))
def test_sub_keys_move_as_keys_do(counts: Counter[int], nodes: set[int], other: int) -> None:
    routing = routing_of(counts, nodes)
    before = sub_keys(routing)
    routing.resize(nodes | {other})
    assert all(node in (before[part], other) for part, node in sub_keys(routing).items())


Seen = list[tuple[str, int]]
SEEN = st.lists(st.tuples(st.sampled_from(["tuples", "learn", "resize", "restart"]), st.integers(0, 30)), max_size=30)


def check_resume(build: Callable[[Any], KeyRouting], events: Seen) -> None:
    """Assert that a routing that is restored from its snapshot continues like one that is not."""
    one, two = build(None), build(None)
    for number, (what, value) in enumerate(events):
        if what == "tuples":
            keys = Keys.of_hashes(KEYS[: value + 1].repeat(range(value + 1)))
            found = []
            for routing in (one, two):
                found.append(routing.route(keys, rows_of(keys)).tolist())
            assert found[0] == found[1]
        elif what == "learn":
            for routing in (one, two):
                routing.learn(Frequencies(100, ((int(KEYS[value]), 60), (int(KEYS[0]), 40))), number * 4.0)
        elif what == "resize":
            for routing in (one, two):
                routing.resize(range(value + 1))
        else:
            nodes = two.ring.nodes
            two = build(json.loads(json.dumps(two.snapshot())))
            two.resize(nodes)
    assert one.snapshot() == two.snapshot()


@given(SEEN)
def test_a_snapshot_is_all_there_is(events: Seen) -> None:
    check_resume(lambda state: FrequencyAware(heaviest=40).build(range(3), state), events)


def test_a_guilty_snapshot_is_caught() -> None:
    events = [("learn", 5), ("tuples", 5), ("restart", 0), ("tuples", 5)]
    with pytest.raises(AssertionError):
        check_resume(lambda state: FrequencyAware().build(range(3), state and {**state, "divided": []}), events)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 400)), min_size=1, max_size=60), st.integers(1, 5), st.integers(1, 4))
def test_frequent_keys_are_found_however_counting_is_divided(runs: list[tuple[int, int]], tasks: int, heaviest: int) -> None:
    """However tuples are divided among counters, a key with more tuples than the rest together is divided in proportion."""
    keys = np.concatenate([np.repeat(KEYS[key], n) for key, n in runs])
    whole = FrequencyAware(heaviest=heaviest).build(range(4))
    seen = Frequencies()
    for task in range(tasks):
        counter = KeyCounter()
        counter.observe(Keys.of_hashes(keys[task::tasks]))
        seen = seen.merged(counter.frequencies())
    whole.learn(seen, 0.0)
    assert seen.tuples == len(keys)
    counts = Counter(keys.tolist())
    most, count = counts.most_common(1)[0]
    parts = dict(whole.snapshot()["divided"])
    assert len(parts) <= heaviest
    if count > len(keys) / 2:
        assert parts[most] == pytest.approx(count / len(keys) * 16_384, abs=1)


def test_rare_keys_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "COUNTED", 4)
    counter = KeyCounter()
    counter.observe(Keys.of_hashes(np.concatenate([KEYS, np.repeat(KEYS[:3], 100)])))
    assert counter.frequencies() == Frequencies(800, tuple((key, 101) for key in sorted(KEYS[:3].tolist())))


def test_keys_are_divided_by_what_came_in_the_interval_before() -> None:
    routing = FrequencyAware(heaviest=1, interval_s=10.0).build(range(2))
    hot, cold = (Frequencies(10, ((key, 10),)) for key in (1, 2))

    def divided() -> list[int]:
        return [key for key, _ in routing.snapshot()["divided"]]

    routing.learn(hot, 100.0)
    assert divided() == [1]  # of the first interval what there is
    routing.learn(cold, 110.0)
    routing.learn(cold, 115.0)
    assert divided() == [1]  # which came as often as the other when the interval ended
    routing.learn(cold, 120.0)
    assert divided() == [2]
    routing.learn(hot, 90.0)  # a clock that was set back ends an interval
    assert divided() == [1]


def test_silence_changes_nothing() -> None:
    routing = FrequencyAware(heaviest=1, interval_s=10.0).build(range(2))
    routing.learn(Frequencies(10, ((1, 10),)), 0.0)
    routing.learn(Frequencies(), 20.0)
    routing.learn(Frequencies(), 40.0)
    assert routing.snapshot()["divided"] == [[1, 16_384]]


def test_a_snapshot_of_a_version_whose_sub_keys_took_turns_is_read() -> None:
    routing = FrequencyAware(heaviest=1).build(range(2))
    routing.learn(Frequencies(10, ((1, 10),)), 0.0)
    old = {**routing.snapshot(), "divided": [[1, 16_384, 20]]}
    assert FrequencyAware(heaviest=1).build(range(2), old).snapshot() == routing.snapshot()


def test_keys_are_spread_and_divided_ones_evenly() -> None:
    """Four keys of equal weight on 16 nodes: undivided they fill at most four. Numbers are keys like others."""
    keys = Keys.of([pa.chunked_array([np.tile(np.arange(4), 4_000)])])
    for heaviest, ratio in ((0, 1.7), (4, 0.07)):
        routing = FrequencyAware(heaviest=heaviest).build(range(16))
        counter = KeyCounter()
        counter.observe(keys)
        routing.divide(counter.frequencies())
        loads = np.bincount(routing.route(keys, rows_of(keys)), minlength=16)
        assert loads.sum() == 16_000
        assert (loads.std() / loads.mean() < 0.07) == (ratio < 0.1)


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: FrequencyAware(heaviest=-1), "heaviest=-1: out of range"),
        (lambda: FrequencyAware(heaviest=100_000), "heaviest=100000: out of range"),
        (lambda: FrequencyAware(interval_s=0), "interval_s=0: out of range"),
        (lambda: FrequencyAware().build([]), "no nodes: keys must go somewhere"),
    ],
)
def test_what_makes_no_sense_is_refused(build: Callable[[], object], match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        build()
