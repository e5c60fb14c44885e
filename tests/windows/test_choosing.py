"""Where tuples are worked on: the rule, by cases whose best choice is computed here in another way, and the engine that follows it."""

import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engine import QUERIES, Batch, InProcess, Outputs, plan_of, slacks_drawn, streams, tuples, windows_drawn

from skytide.batch import Delivery, InPlace, Sent
from skytide.errors import InvalidInput
from skytide.lateness import KSlack, Slack
from skytide.queries import Query
from skytide.routing import AUTO, IN_PLACE, STRATEGIES, Auto, Chooser, Costs, Measured, RecentPanes, choose, just_enough
from skytide.spark.engine.engine import Engine
from skytide.windows import Windows

EAGER = Auto(costs=Costs(send_s=0.0, stage_s=0.0))
"""Sends whenever partitions are not balanced, however little there is."""
partitions_drawn = st.lists(st.integers(0, 1_000_000), min_size=1, max_size=12)


def waves(partitions: list[int], cores: int) -> int:
    """Return the end of the last task, tick by tick: each core takes the next partition when it is free."""
    waiting, running, now = list(partitions), [0] * cores, 0
    while waiting:
        free = running.index(min(running))
        running[free] += waiting.pop(0)
        now = max(running)
    return now


@given(partitions_drawn, st.integers(1, 8), st.integers(1, 8), st.floats(0, 1e-5), st.floats(0, 1e-5), st.floats(0, 0.5))
def test_the_choice_is_within_a_tenth_of_the_best(
    partitions: list[int], slots: int, cores: int, tuple_s: float, send_s: float, stage_s: float
) -> None:
    costs = Costs(tuple_s, send_s, stage_s)
    longest, work_s = waves(partitions, cores), tuple_s * sum(partitions)
    takes_s = {0: tuple_s * longest} | {n: stage_s + send_s * longest + work_s / n for n in range(2, min(slots, cores) + 1)}
    for sending in (False, True):
        chosen = choose(partitions, costs, slots, cores, sending=sending).slots
        assert takes_s[chosen] <= 1.112 * min(takes_s.values()) + 1e-9  # 1 / 0.9, or 1.1


@given(partitions_drawn, st.integers(2, 8))
def test_balanced_partitions_stay_where_they_are(partitions: list[int], cores: int) -> None:
    even = [max(partitions)] * cores
    assert choose(even, Costs(tuple_s=1e-5), cores, cores).slots == 0


def test_no_more_slots_than_pay() -> None:
    """Sending takes most of the time: four slots are as good as sixteen."""
    few = choose([1_000_000], Costs(tuple_s=2e-6, send_s=5e-7, stage_s=0.5), 64, 64)
    assert few.slots < 64 and few.reason.startswith(f"sent to {few.slots} slots: one partition has all of the tuples")


def seen(partitions: list[int], *, sent: bool = False, rest_s: float = 0.1) -> Measured:
    work_s = 4e-6 * sum(partitions)
    slowest_s = work_s / 4 if sent else 4e-6 * max(partitions)
    return Measured(partitions, work_s, 0.0, slowest_s + rest_s, slowest_s, cores=4, sent=sent)


def test_one_odd_batch_changes_little_and_what_is_learned_is_kept() -> None:
    chooser = Chooser(Costs())
    for _ in range(4):
        chooser.learn(seen([100_000] * 4))
    assert chooser.choose(4).slots == 0
    for _ in range(4):
        chooser.learn(seen([400_000]))
    assert chooser.choose(4).slots == 4
    for _ in range(20):  # sending turns out to be slow
        chooser.learn(seen([400_000], sent=True, rest_s=1.8))
    again = Chooser(Costs())
    again.restore(chooser.snapshot())
    assert chooser.choose(4) == again.choose(4)
    assert chooser.choose(4).slots == 0


def test_a_clock_that_is_set_back_teaches_nothing() -> None:
    chooser = Chooser(Costs())
    chooser.learn(seen([400_000], sent=True, rest_s=-3_600.0))
    assert chooser.costs.send_s == Costs().send_s
    chooser.learn(seen([400_000], sent=True, rest_s=86_400.0))
    assert chooser.costs.send_s <= 5 * Costs().send_s


def test_what_is_remembered_of_partitions_is_bounded() -> None:
    chooser = Chooser(Costs())
    for _ in range(3):
        chooser.learn(seen([10] * 20_000))
    assert len(str(chooser.snapshot())) < 2_000
    assert chooser.choose(4).slots == 0


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=20), st.integers(1, 9), st.floats(0, 1))
def test_panes_are_divided_no_more_than_balance_needs(sizes: list[int], slots: int, spread: float) -> None:
    shares = just_enough(list(enumerate(sizes)), range(slots), spread)
    load = np.zeros(slots)
    for pane, given_ in shares.items():
        assert sum(given_.values()) == pytest.approx(1)
        for slot, share in given_.items():
            load[slot] += share * sizes[pane]
    even, largest = sum(sizes) / slots, max(size / len(shares[pane]) for pane, size in enumerate(sizes))
    assert load.max() <= even + largest + 1e-6
    assert all(len(shares[pane]) == 1 for pane, size in enumerate(sizes) if size * (1 + spread) <= even)


def test_recent_panes_follow_the_stream() -> None:
    recent = RecentPanes()
    for newest in range(10, 40, 3):
        recent.learn({newest - 1: 10, newest: 100})
    assert recent.expected() == [(39, 10), (40, 100)]
    assert recent.spread < 0.05
    again = RecentPanes()
    again.restore(recent.snapshot())
    assert again.expected() == recent.expected()


class Cores(InProcess):
    """Jobs of a machine with some cores."""

    def cores(self) -> int:
        return 4


@pytest.mark.slow
@given(
    batches=streams(),
    windows=windows_drawn,
    slack=slacks_drawn,
    query=st.sampled_from([QUERIES[0], QUERIES[3], QUERIES[4]]),
    lives=st.lists(st.sampled_from([EAGER, AUTO, IN_PLACE, *STRATEGIES.values()]), min_size=1, max_size=6),
    slots=st.lists(st.integers(1, 5), min_size=1, max_size=6),
)
def test_restarts_with_other_choices_change_no_result(
    batches: list[Batch], windows: Windows, slack: Slack, query: Query, lives: list[Auto], slots: list[int]
) -> None:
    """Each batch is a life of its own, with another splitting and other slots."""
    data = tuples(batches)
    with tempfile.TemporaryDirectory() as folder:
        plan, out = plan_of(query, folder, windows, slack), Outputs()
        for number, (batch, splitting, count) in enumerate(zip(data, cycled(lives), cycled(slots), strict=False)):
            delivery: Delivery = InPlace() if splitting is IN_PLACE else Sent(splitting)
            engine = Engine(*replace(plan, rules=replace(plan.rules, delivery=delivery, pane_slots=count)), out.sinks)
            engine.run_batch(Cores(), batch, number)
        engine = Engine(*plan, out.sinks)
        engine.flush(Cores())
        out.check(data, plan)


def cycled(items: list[object]) -> Iterator[object]:
    return itertools.cycle(items)


def test_a_partition_with_all_tuples_is_sent_and_balanced_ones_are_not(tmp_path: Path) -> None:
    plan = plan_of(QUERIES[0], str(tmp_path), Windows(1_000, 200), KSlack(), delivery=Sent(EAGER), pane_slots=4)
    out, plans = Outputs(), []
    engine = Engine(*plan, out.sinks)
    data = tuples(
        [
            [list(range(at, at + 400))] if at < 2_000 else [list(range(at + n, at + 400, 4)) for n in range(4)]
            for at in range(0, 8_000, 400)
        ]
    )
    for number, batch in enumerate(data):
        engine.run_batch(Cores(), batch, number)
        plans.append(engine.status().pane_plan)
    assert plans[0] == "in place: nothing is known yet"
    assert all(plan.startswith("sent to 4 slots: one partition has all") for plan in plans[1:6])
    assert plans[-1] == "in place: 4 partitions keep 4 cores at work"
    engine.flush(Cores())
    out.check(data, plan)


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name not in ("KEYS", "auto", "IN_PLACE")])
def test_tuples_of_one_partition_reach_the_slots_that_were_asked_for(tmp_path: Path, name: str) -> None:
    """A foreign stream with one partition, and four slots, then eight: they are used (before, one was)."""
    plan = plan_of(QUERIES[0], str(tmp_path), Windows(1_000, 20), KSlack(), delivery=Sent(STRATEGIES[name]), pane_slots=4)
    out = Outputs()
    engine, used = Engine(*plan, out.sinks), []
    data = tuples([[list(range(at, at + 400))] for at in range(0, 2_400, 400)])
    for number, batch in enumerate(data):
        engine.resize(8 if number >= 3 else 4)
        engine.run_batch(InProcess(), batch, number)
        used.append(engine.status().pane_slots)
    assert used[2] == 4 and used[-1] == 8
    engine.flush(InProcess())
    out.check(data, plan)


def test_costs_that_are_none_are_refused() -> None:
    with pytest.raises(InvalidInput, match="send_s"):
        Costs(send_s=float("nan"))
    with pytest.raises(InvalidInput, match="costs"):
        Auto(costs=3)  # type: ignore[arg-type]
