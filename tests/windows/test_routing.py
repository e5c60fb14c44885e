"""Routing: no tuple is lost or duplicated, and partition counts are right."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skytide.errors import InvalidInput
from skytide.routing import (
    AS,
    PB_RR,
    STRATEGIES,
    TB_RR,
    Gains,
    Pid,
    Router,
    SlotUse,
    Splitting,
    slot_utilisation,
    strategy_of,
    tuned,
)

EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("tuples"), st.integers(0, 3), st.integers(1, 500)),  # pane, counted from the oldest open one
        st.tuples(st.just("close"), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("resize"), st.integers(1, 6), st.just(0)),
        st.tuples(st.just("served"), st.integers(0, 5), st.integers(1, 400)),
        st.tuples(st.just("sample"), st.integers(0, 30), st.just(0)),
        st.tuples(st.just("restart"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


def check_router(strategy: Splitting, slots: int, events: list[tuple[str, int, int]]) -> Router:
    """Play events, and assert the laws of routers."""
    router, queued = strategy.build(slots), dict.fromkeys(range(slots), 0)
    came: dict[int, int] = {}
    reached: dict[int, int] = {}
    seen, done = dict[int, int](), set[int]()
    oldest = 0

    def results(partitions: list[Any]) -> None:
        for partition in partitions:
            reached[partition.pane] = reached.get(partition.pane, 0) + partition.tuples
            seen[partition.pane] = seen.get(partition.pane, 0) + 1
            assert partition.pane not in done
            if seen[partition.pane] == partition.partitions:  # 0 while that is not known
                done.add(partition.pane)

    for what, first, second in [*events, ("close", 1_000, 0)]:
        if what == "tuples":
            pane = oldest + first
            given = router.route(pane, second, queued)
            assert sum(given.values()) == second
            assert min(given.values()) > 0
            assert set(given) <= set(router.slots)
            came[pane] = came.get(pane, 0) + second
        elif what == "close":
            oldest += first
            results(router.close(oldest))
            assert not any(pane < oldest for pane in router.open)
        elif what == "resize":
            wanted = set(range(first))
            router.add(sorted(wanted - set(router.slots)))
            if going := sorted(set(router.slots) - wanted):
                results(router.remove(going, queued))
        elif what == "served":
            queued[first] = max(0, queued.get(first, 0) - second)
        elif what == "sample":
            router.sample(first / 10)
            assert router.threshold > 0
        else:
            router = strategy.build(1, router.snapshot())
    assert reached == came
    assert done == set(came)  # complete once, all of them, and only with the last result
    return router


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
@given(slots=st.integers(1, 6), events=EVENTS)
def test_no_tuple_is_lost_and_partition_counts_are_right(
    strategy: Splitting, slots: int, events: list[tuple[str, int, int]]
) -> None:
    check_router(strategy, slots, events)


class Loser(Splitting):
    """A guilty specimen: forgets a tuple of every run."""

    name = "LOSER"

    def send(self, router: Router, pane: int, tuples: int, queued: dict[int, int]) -> dict[int, int]:
        return router.give(pane, {router.slots[0]: max(1, tuples - 1)}, queued)


def test_a_guilty_router_is_caught() -> None:
    with pytest.raises(AssertionError):
        check_router(Loser(), 2, [("tuples", 0, 10)])


def sent(strategy: Splitting, slots: int, runs: list[tuple[int, int]], sizes: tuple[int, ...] = ()) -> list[dict[int, int]]:
    router, queued = strategy.build(slots), dict.fromkeys(range(slots), 0)
    router.sizes.add(sizes)
    router._set_threshold()
    return [router.route(pane, n, queued) for pane, n in runs]


def test_strategies_as_the_papers_describe_them() -> None:
    assert sent(PB_RR, 3, [(4, 10), (5, 1), (4, 2)]) == [{1: 10}, {2: 1}, {1: 2}]
    assert sent(TB_RR, 3, [(4, 4), (5, 1)]) == [{0: 2, 1: 1, 2: 1}, {1: 1}]
    # Threshold 100: the least loaded slot owns a pane until it has as many tuples, then the slot that is least loaded then.
    assert sent(AS, 3, [(1, 60), (2, 70), (1, 60), (3, 10)], (100, 100)) == [{0: 60}, {1: 70}, {0: 40, 2: 20}, {2: 10}]
    # Threshold 100: the excess goes to the next slot, which gets the next pane too if it was little. Without a threshold panes go in turn.
    assert sent(strategy_of("RATE"), 3, [(1, 140), (2, 90), (3, 60)], (100, 100)) == [{0: 100, 1: 40}, {1: 90}, {2: 60}]
    assert sent(strategy_of("RATE"), 3, [(1, 60), (1, 60), (2, 250)], (100, 100)) == [
        {0: 60},
        {0: 40, 1: 20},
        {1: 100, 2: 100, 0: 50},
    ]
    assert sent(strategy_of("RATE"), 3, [(1, 150), (2, 100), (1, 60)]) == [{1: 150}, {2: 100}, {1: 60}]


def test_where_all_slots_have_their_share_tuples_go_to_the_shortest_queue() -> None:
    (given,) = sent(AS, 4, [(1, 1_000)], (10, 10))
    assert max(given.values()) - min(given.values()) <= 1_000 // 16


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(
        InvalidInput, match="splitting='BEST': not known; choose one of auto, IN_PLACE, PB_RR, TB_RR, EVEN, RATE, KEYS, AS, AS_PID"
    ):
        strategy_of("BEST")
    with pytest.raises(InvalidInput, match="none would be left"):
        TB_RR.build(2).remove([0, 1], {})


@given(st.lists(st.tuples(st.integers(0, 1_000), st.floats(0, 1)), min_size=1, max_size=8))
def test_balance_is_best(uses: list[tuple[int, float]]) -> None:
    """P0 Proposition 1: if a tuple costs the same everywhere, no distribution beats the even one."""
    total = sum(n for n, _ in uses)
    cost_s = 1e-3
    if total and all(n * cost_s <= 1 for n, _ in uses):
        found = slot_utilisation([SlotUse(n, n, n * cost_s) for n, _ in uses], 1.0)
        assert found is not None
        assert found >= total / (len(uses) / cost_s) - 1e-9


def test_a_level_without_work_has_no_utilisation_to_speak_of() -> None:
    assert slot_utilisation([SlotUse(0, 0, 0.0)], 1.0) == 0.0
    assert slot_utilisation([SlotUse(5, 0, 0.0)], 1.0) is None


@given(
    st.lists(st.one_of(st.none(), st.floats(0, 50)), max_size=60),
    st.sampled_from([None, Gains(0.5, 0.1, 0.2), Gains(5, 5, 5)]),
)
def test_a_regulator_stays_within_its_bounds_and_recovers(measured: list[float | None], gains: Gains | None) -> None:
    pid = Pid(gains=gains).build()
    for value in measured:
        assert pid.config.low <= pid.sample(value) <= pid.config.high
    saved = pid.snapshot()
    again = Pid(gains=gains).build(saved)
    assert [again.sample(0.5), again.snapshot()] == [pid.sample(0.5), pid.snapshot()]
    for _ in range(200):  # whatever happened before, an idle level is soon split less and less
        pid.sample(0.1, high=5.0)
    assert pid.factor == 5.0


@pytest.mark.parametrize("slope", [0.2, 1.0, 3.0])
def test_a_tuned_regulator_finds_the_setpoint(slope: float) -> None:
    """A larger factor increases the utilisation of the level, one period later."""
    pid = Pid(relay_step=0.2).build()
    factor = previous = 1.0
    seen = []
    for _ in range(150):
        measured = 0.6 + slope * previous * 0.4
        previous, factor = factor, pid.sample(measured)
        seen.append(measured)
    assert max(abs(value - 0.9) for value in seen[-20:]) < 0.02


def test_gains_come_from_the_swing() -> None:
    assert tuned([(0.1, 1.3)] * 12, 0.3) == tuned([], 0.3)  # no swing, nothing learned
    soft, stiff = tuned([(0.5, 0.7), (-0.5, 1.3)] * 6, 0.3), tuned([(0.1, 0.7), (-0.1, 1.3)] * 6, 0.3)
    assert stiff.kp > soft.kp > 0  # a level that hardly moves needs a stronger hand
