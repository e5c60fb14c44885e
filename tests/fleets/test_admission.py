"""Admission: every strategy assigns each stream to one split, keeps to the capacity, and moves no stream without need."""

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skytide.admission
from skytide.admission import STRATEGIES, Admission, Assignment, Par, Profile, Sample, Strategy

CAPACITY, BOUND_S, PERIOD_S, CLOSE = 100.0, 5.0, 5.0, 1e-6
NAMES = [f"s{n}" for n in range(9)]
PROFILES = {
    "s1": Profile(max_hz=45),
    "s2": Profile(max_hz=60, min_hz=5, period="1 min", transition="jump"),
    "s3": Profile(max_hz=40, period="40 s", high="5 s", transition="trend", phase="3 s"),
    "s4": Profile(average_hz=10, growth_hz_per_s=0.5),
    "s5": Profile(average_hz=4, burstiness=5),
}
History = list[tuple[Sample, dict[str, Profile]]]


def config(strategy: Strategy, **changed: Any) -> Admission:
    return Admission(strategy=strategy, capacity_hz=CAPACITY, bound_s=BOUND_S, period_s=PERIOD_S, **changed)


def sample(now_s: float, rows: dict[str, tuple[int, int, bool]]) -> Sample:
    arrived, waiting, suspended = zip(*rows.values(), strict=True) if rows else ((), (), ())
    return Sample(now_s, tuple(rows), np.array(arrived, np.int64), np.array(waiting, np.int64), np.array(suspended, np.bool_))


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Draw streams that come, go, are suspended, change their rates and restart; some have profiles, a few of them only later."""
    now_s, counts, history = 0.0, dict.fromkeys(NAMES, 0), []
    for _ in range(draw(st.integers(1, 7))):
        present = draw(st.permutations(NAMES))[: draw(st.integers(0, len(NAMES)))]
        rows = {}
        for name in present:
            rate_hz = draw(st.sampled_from([0, 0.2, 3, 10, 20, 45, 130]))
            counts[name] = 0 if draw(st.integers(0, 19)) == 0 else counts[name] + int(rate_hz * 5)
            rows[name] = (counts[name], draw(st.sampled_from([0, 0, 0, 40, 700, 3_000])), draw(st.integers(0, 5)) == 0)
        declared = {name: profile for name, profile in PROFILES.items() if draw(st.booleans())}
        history.append((sample(now_s, rows), declared))
        now_s += draw(st.sampled_from([0.5, 5, 5, 5, 12]))
    return history


@dataclass
class Step:
    """A plan with the state before it, by name."""

    seen: Sample
    plan: Assignment
    before: dict[str, int]
    open_before: tuple[int, ...]
    period_over: bool

    @property
    def after(self) -> dict[str, int]:
        return dict(zip(self.seen.names, self.plan.splits.tolist(), strict=False))

    def load(self, members: Any) -> float:
        """Return the highest expected load of these streams together over the given times."""
        return max(sum(float(rates[at]) for at in members) for rates in (self.plan.next_hz, self.plan.expected_hz))

    def members(self, places: dict[str, int], split: int) -> list[int]:
        """Return the indices of the streams of a split that are not suspended."""
        return [at for at, name in enumerate(self.seen.names) if places.get(name) == split and not self.seen.suspended[at]]


def steps(planner: Any, history: History) -> list[Step]:
    found: list[Step] = []
    places: dict[str, int] = {}
    opened: tuple[int, ...] = ()
    observed_s = history[0][0].now_s
    for seen, declared in history:
        plan = planner.plan(seen, declared)
        over = seen.now_s - observed_s >= PERIOD_S
        observed_s = seen.now_s if over else observed_s
        before = {name: places[name] for name in seen.names if name in places}
        found.append(Step(seen, plan, before, opened, over))
        places, opened = found[-1].after, plan.open
    return found


def law_every_stream_has_one_split(planner: Any, history: History) -> None:
    """Open splits are those with streams, empty ones are closed, and reported changes are true."""
    for step in steps(planner, history):
        plan, names = step.plan, step.seen.names
        assert plan.splits.shape == (len(names),), "lost or doubled"
        assert (plan.splits >= 0).all(), "no split"
        assert plan.open == tuple(sorted(set(plan.splits.tolist()))), "not the splits in use"
        assert plan.closed == tuple(sorted(set(step.open_before) - set(plan.open)))
        moved = [at for at, name in enumerate(names) if name in step.before and step.before[name] != plan.splits[at]]
        assert plan.redirected.tolist() == moved, "not the redirected ones"
        assert plan.load_hz.tolist() == pytest.approx([step.load(np.flatnonzero(plan.splits == number)) for number in plan.open])
        for rates in (plan.rate_hz, plan.next_hz, plan.expected_hz):
            assert np.isfinite(rates).all() and (rates >= 0).all()
        assert not (plan.next_hz + plan.expected_hz)[step.seen.suspended].any(), "suspended streams weigh nothing"


def law_capacity_is_kept(planner: Any, history: History) -> None:
    """Once per period no split has more than it can do, unless one stream alone is more than that."""
    for step in steps(planner, history):
        for split in step.plan.open:
            members = step.members(step.after, split)
            if step.period_over and sum(step.load([at]) > 0 for at in members) > 1:
                assert step.load(members) <= CAPACITY + CLOSE, "overfilled"


def law_nobody_moves_without_need(planner: Any, history: History) -> None:
    """A stream that moves leaves a split that was overloaded, by load or by latency, or one that has no streams any more."""
    latency_s: dict[int, float] = {}
    for step in steps(planner, history):
        if step.period_over:
            for split in step.open_before:
                waits = sum(int(step.seen.waiting[at]) for at in step.members(step.before, split)) / CAPACITY
                latency_s[split] = (waits + latency_s.get(split, waits)) / 2
        for at in step.plan.redirected:
            assert step.period_over, "between periods"
            split = step.before[step.seen.names[at]]
            load = step.load(step.members(step.before, split))
            overloaded = load > CAPACITY - CLOSE or latency_s[split] > BOUND_S - CLOSE
            assert overloaded or not step.members(step.after, split), "without need"
        latency_s = {split: value for split, value in latency_s.items() if split in step.plan.open}


def law_suspended_keep_their_place(planner: Any, history: History) -> None:
    for step in steps(planner, history):
        for at, name in enumerate(step.seen.names):
            if step.seen.suspended[at] and name in step.before:
                assert step.after[name] == step.before[name], "moved while suspended"


def law_order_does_not_matter(make: Callable[[], Any], history: History) -> None:
    """The same streams in another order get the same splits and exactly the same expectations."""
    there, back = make(), make()
    for seen, declared in history:
        turned = Sample(seen.now_s, seen.names[::-1], seen.arrived[::-1], seen.waiting[::-1], seen.suspended[::-1])
        one, two = there.plan(seen, declared), back.plan(turned, dict(reversed(declared.items())))
        assert one.splits.tolist() == two.splits[::-1].tolist(), "another order, other splits"
        assert one.expected_hz.tolist() == two.expected_hz[::-1].tolist()
        assert (one.open, one.closed) == (two.open, two.closed)
        assert one.total_expected_hz == two.total_expected_hz


def law_a_snapshot_is_all_there_is(make: Callable[..., Any], history: History) -> None:
    """A planner that is saved and restored after every plan, through plain values, plans like one that is not."""
    steady, state = make(None), None
    for seen, declared in history:
        resumed = make(state)
        again = replace(seen, names=tuple(seen.names))
        one, two = steady.plan(seen, declared), resumed.plan(again, declared)
        for name in vars(one):
            assert np.array_equal(getattr(one, name), getattr(two, name)), f"{name} differs"
        state = json.loads(json.dumps(resumed.snapshot(), default=np.ndarray.tolist), object_hook=_numbers)


def _numbers(values: dict[str, Any]) -> dict[Any, Any]:
    return {int(key) if key.isdecimal() else key: value for key, value in values.items()}


def law_never_more_splits(planner: Any, history: History, most: int) -> None:
    for step in steps(planner, history):
        assert len(step.plan.open) <= most, "too many splits"


def steady(rates_hz: list[float], periods: int, start: int = 0, now_s: float = 0.0) -> History:
    return [
        (
            sample(
                now_s + PERIOD_S * at,
                {f"s{n:02d}": (start + int(rate * PERIOD_S * at), 0, False) for n, rate in enumerate(rates_hz)},
            ),
            {},
        )
        for at in range(periods)
    ]


def law_streams_come_to_rest(planner: Any, rates_hz: list[float]) -> None:
    """If nothing changes, no stream moves after a while, even if not all fit."""
    assert all(len(step.plan.redirected) == 0 for step in steps(planner, steady(rates_hz, 30))[15:]), "restless"


def law_splits_are_given_up(planner: Any, rates_hz: list[float]) -> None:
    """After a load of small streams has fallen to a tenth, what is left is in about as few splits as it needs."""
    high = steady(rates_hz, 6)
    low = steady([rate / 10 for rate in rates_hz], 12, now_s=30.0)
    for seen, _ in low:
        seen.arrived[:] += high[-1][0].arrived
    plan = steps(planner, high + low)[-1].plan
    assert len(plan.open) <= sum(rates_hz) / 10 / (0.85 * CAPACITY) + 1, "half empty"


@pytest.mark.parametrize("name", STRATEGIES)
@given(history=histories(), most=st.integers(1, 3))
def test_the_laws_hold(name: str, history: History, most: int) -> None:
    plan = config(STRATEGIES[name]())
    law_every_stream_has_one_split(plan.build(), history)
    law_capacity_is_kept(plan.build(), history)
    if not plan.strategy.repacks:  # that one is the guilty specimen
        law_nobody_moves_without_need(plan.build(), history)
    law_suspended_keep_their_place(plan.build(), history)
    law_order_does_not_matter(plan.build, history)
    law_a_snapshot_is_all_there_is(plan.build, history)
    law_never_more_splits(replace(plan, max_splits=most).build(), history, most)
    patient = replace(plan, early=False)
    law_every_stream_has_one_split(patient.build(), history)
    law_order_does_not_matter(patient.build, history)


@pytest.mark.parametrize("name", STRATEGIES)
@given(rates_hz=st.lists(st.sampled_from([1.0, 8.0, 30.0, 55.0, 130.0]), min_size=1, max_size=20), most=st.integers(1, 4))
def test_streams_come_to_rest(name: str, rates_hz: list[float], most: int) -> None:
    law_streams_come_to_rest(config(STRATEGIES[name]()).build(), rates_hz)
    law_streams_come_to_rest(config(STRATEGIES[name](), max_splits=most).build(), rates_hz)


@pytest.mark.parametrize("name", STRATEGIES)
@given(rates_hz=st.lists(st.floats(1, 30), min_size=1, max_size=40))
def test_splits_are_given_up(name: str, rates_hz: list[float]) -> None:
    law_splits_are_given_up(config(STRATEGIES[name]()).build(), rates_hz)


def test_every_strategy_is_found() -> None:
    exported = {kind for kind in vars(skytide.admission).values() if isinstance(kind, type) and issubclass(kind, Strategy)}
    assert exported - {Strategy} == set(STRATEGIES.values())


# Guilty specimens: planners whose plans are altered before they are returned.

Change = Callable[[Assignment, Sample], dict[str, Any]]
HISTORY: History = [
    (sample(5.0 * at, {f"s{n}": (20 * 5 * at * (n + 1), 0, at > 3 and n == 1) for n in range(4)}), {}) for at in range(8)
]


class Guilty:
    """Returns another plan than it made."""

    def __init__(self, change: Change) -> None:
        self.planner, self.change, self.asked = config(STRATEGIES["drf"]()).build(), change, 0

    def plan(self, seen: Sample, declared: dict[str, Profile]) -> Assignment:
        self.asked += 1
        plan = self.planner.plan(seen, declared)
        return replace(plan, **self.change(plan, seen))


def consistent(splits: Any, asked: list[Any]) -> dict[str, Any]:
    """Return a plan for changed splits that is consistent in itself."""
    before = asked[-1] if asked else None
    asked.append(splits)
    now = tuple(sorted(set(splits.tolist())))
    old = tuple(sorted(set(before.tolist()))) if before is not None else ()
    moved = np.flatnonzero(before != splits) if before is not None else np.zeros(0, int)
    return {
        "splits": splits,
        "redirected": moved,
        "open": now,
        "closed": tuple(sorted(set(old) - set(now))),
    }


def lazily(assign: Callable[[Assignment, int], Any]) -> Guilty:
    asked: list[Any] = []
    return Guilty(lambda plan, seen: consistent(assign(plan, len(asked)), asked))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda plan, seen: {"splits": plan.splits[:-1]}, "lost"),
        (lambda plan, seen: {"splits": plan.splits - 1}, "no split"),
        (lambda plan, seen: {"open": (*plan.open, 99)}, "not the splits in use"),
        (lambda plan, seen: {"redirected": np.arange(len(seen.names))}, "not the redirected ones"),
    ],
)
def test_splits_that_are_none_are_caught(change: Change, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        law_every_stream_has_one_split(Guilty(change), HISTORY)


def test_an_overfilled_split_is_caught() -> None:
    with pytest.raises(AssertionError, match="overfilled"):
        law_capacity_is_kept(lazily(lambda plan, asked: np.zeros_like(plan.splits)), HISTORY)


def test_moves_without_need_are_caught() -> None:
    with pytest.raises(AssertionError, match="without need"):
        law_nobody_moves_without_need(config(Par()).build(), steady([10.0] * 12, 3) + steady([30.0] * 12, 3, 600, 20.0))
    with pytest.raises(AssertionError, match="between periods"):
        early = [(replace(seen, now_s=seen.now_s / 10), declared) for seen, declared in HISTORY]
        law_nobody_moves_without_need(lazily(lambda plan, asked: plan.splits + asked % 2), early)


def test_a_suspended_stream_that_moves_is_caught() -> None:
    with pytest.raises(AssertionError, match="moved while suspended"):
        law_suspended_keep_their_place(lazily(lambda plan, asked: plan.splits + asked), HISTORY)


def test_plans_by_order_are_caught() -> None:
    def make() -> Guilty:
        return lazily(lambda plan, asked: np.arange(len(plan.splits), dtype=np.int32))

    with pytest.raises(AssertionError, match="another order"):
        law_order_does_not_matter(make, HISTORY)


def test_what_a_snapshot_leaves_out_is_caught() -> None:
    plan = config(STRATEGIES["drf"]())

    def forgetful(state: dict[str, Any] | None) -> Any:
        state = copy.deepcopy(state)
        if state:
            state["streams"]["trend"] = [0.0] * len(state["streams"]["names"])
        return plan.build(state)

    growing = [(sample(5.0 * at, {"s": (10 * at * at, 0, False)}), {}) for at in range(5)]
    with pytest.raises(AssertionError, match="next_hz differs"):
        law_a_snapshot_is_all_there_is(forgetful, growing)


def test_too_many_splits_are_caught() -> None:
    with pytest.raises(AssertionError, match="too many"):
        law_never_more_splits(config(STRATEGIES["drf"]()).build(), HISTORY, 1)


def test_those_that_never_rest_or_never_give_up_a_split_are_caught() -> None:
    with pytest.raises(AssertionError, match="restless"):
        law_streams_come_to_rest(lazily(lambda plan, asked: plan.splits + asked % 2), [10.0, 30.0])
    with pytest.raises(AssertionError, match="half empty"):
        law_splits_are_given_up(lazily(lambda plan, asked: np.arange(len(plan.splits)) // 4), [20.0] * 20)
