"""The fast parts of admission against slow ones that share nothing with them: packing, forecasts of many streams, fair shares."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from skytide.admission import Admission, Drf, Sample, admit
from skytide.admission.packing import Splits, given_up, leaving
from skytide.errors import InvalidInput
from skytide.forecasting import Holt

# Sizes are quarters, so that sums are exact in any order and twins may compare for equality.
sizes = st.just(0.0) | st.integers(0, 60).map(lambda quarters: quarters / 4)
FILL, CAPACITY = 10.0, 12.0


@dataclass
class SlowSplits:
    """Best fit by looking at every split each time."""

    loads: dict[int, float]
    accepting: set[int]
    most: int | None
    new: set[int] = field(default_factory=set)

    def place(self, size: float, home: int) -> int:
        rooms = [(FILL - self.loads[number], number) for number in sorted(self.accepting | self.new)]
        fitting = [(room, number) for room, number in rooms if room >= size]
        if fitting:
            chosen = min(fitting)[1]
        elif self.most is None or len(self.loads) < self.most:
            chosen = next(number for number in range(1_000) if number not in self.loads)
            self.new.add(chosen)
            self.loads[chosen] = 0.0
        else:
            chosen = min(self.loads, key=lambda number: (self.loads[number], number))
            if home >= 0 and self.loads[chosen] + size >= self.loads[home]:
                return home
        self.loads[chosen] += size
        if home >= 0:
            self.loads[home] -= size
        return chosen


@given(data=st.data(), most=st.none() | st.integers(5, 8))
def test_best_fit_is_that_of_a_search_through_all_splits(data: st.DataObject, most: int | None) -> None:
    loads = data.draw(st.dictionaries(st.integers(0, 7), sizes, max_size=5))
    accepting = {number for number in loads if data.draw(st.booleans())}
    items = data.draw(st.lists(st.tuples(sizes, st.sampled_from([-1, *loads])), max_size=30))
    fast, slow = Splits(dict(loads), accepting, FILL, most), SlowSplits(dict(loads), accepting, most)
    for size, known in sorted(items, reverse=True):
        home = -1 if known in accepting else known  # only those that accept nobody send streams away
        assert fast.place([size], [home]) == [slow.place(size, home)]
        assert fast.loads == slow.loads


Stream = tuple[int, float, float, float, bool]  # its split, its sizes now and later, its urgency, whether it may move
streams = st.lists(
    st.tuples(st.integers(-1, 4), sizes, sizes, st.integers(-3, 3).map(float), st.booleans()), min_size=1, max_size=25
)


def columns(rows: list[Stream]) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    split, now, later, urgency, movable = zip(*rows, strict=True)
    return np.array(split, np.int32), np.array([now, later]), np.array(urgency), np.array(movable)


def most(rows: list[Stream], members: list[int]) -> float:
    """Return the higher load of streams at two times."""
    return max(sum(rows[at][time] for at in members) for time in (1, 2))


@given(rows=streams, overloaded=st.sets(st.integers(0, 4)))
def test_who_leaves_is_found_one_by_one(rows: list[Stream], overloaded: set[int]) -> None:
    split, size, urgency, movable = columns(rows)
    full = sorted(overloaded & set(split.tolist()))
    expected = []
    for number in full:
        members = [at for at in range(len(rows)) if split[at] == number and movable[at] and most(rows, [at]) > 0]
        members.sort(key=lambda at: (most(rows, [at]) <= CAPACITY, -urgency[at], at))
        while len(members) > 1 and most(rows, members) > CAPACITY:
            expected.append(members.pop(0))
    assert leaving(split, size, urgency, movable, full, CAPACITY).tolist() == expected


@given(
    rows=streams, unsettled=st.sets(st.integers(0, 4), max_size=2), goal=st.sampled_from([5.0, 9.0]), small=st.sampled_from([4, 16])
)
def test_which_splits_are_given_up_is_found_one_by_one(rows: list[Stream], unsettled: set[int], goal: float, small: int) -> None:
    rows = [(max(split, 0), now / small, later / small, urgency, movable) for split, now, later, urgency, movable in rows]
    settled = set(range(5)) - unsettled
    split, size, _, movable = columns(rows)
    places = dict(enumerate(split.tolist()))
    active = [at for at in range(len(rows)) if movable[at]]
    touched: set[int] = set()
    while True:
        held = {number: [at for at in active if places[at] == number] for number in {places[at] for at in active}}
        candidates = sorted((most(rows, held[number]), -number) for number in set(held) & settled - touched)
        if not candidates or len(held) < 2 or most(rows, active) > goal * (len(held) - 1):
            break
        number = -candidates[0][1]
        moving = sorted(held.pop(number), key=lambda at: (-most(rows, [at]), at))
        for at in moving:
            rooms = [(FILL - most(rows, [*held[other], at]), other) for other in set(held) & settled]
            fitting = [(room, other) for room, other in rooms if room >= 0]
            if not fitting:
                break
            held[min(fitting)[1]].append(at)
        else:
            for other, members in held.items():
                if set(members) & set(moving):
                    touched.add(other)
                    places |= dict.fromkeys(members, other)
            continue
        break
    assert given_up(split, size, movable, settled, FILL, goal).tolist() == [places[at] for at in range(len(rows))]


@given(
    series=st.lists(st.lists(st.integers(0, 10_000), min_size=1, max_size=12), min_size=1, max_size=5),
    level=st.floats(0.1, 1),
    trend=st.floats(0.1, 1),
)
def test_rates_and_forecasts_are_those_of_each_stream_alone(series: list[list[int]], level: float, trend: float) -> None:
    """SPEC A3 written out for one stream; the first two values determine level and trend, and a trend begins as the mean of its steps."""
    periods = min(map(len, series))
    planner = Admission(strategy=Drf(), capacity_hz=1e9, period_s=2.0, ahead=4, holt=Holt(level, trend)).build()
    names = tuple(f"s{n}" for n in range(len(series)))
    nothing, none = np.zeros(len(series), np.int64), np.zeros(len(series), np.bool_)
    planner.plan(Sample(0.0, names, nothing, nothing, none), {})
    arrived = nothing
    for at in range(periods):
        arrived = arrived + [each[at] for each in series]
        plan = planner.plan(Sample(2.0 * (at + 1), names, arrived, nothing, none), {})
    total = 0.0
    for row, each in enumerate(series):
        rates = [count / 2 for count in each[:periods]]
        smooth, rise = rates[0], 0.0
        for at, rate in enumerate(rates[1:], 1):
            if at == 1:
                smooth, rise = rate, rate - smooth
                continue
            before = smooth
            smooth = level * rate + (1 - level) * (before + rise)
            weight = max(trend, 1 / at)
            rise = weight * (smooth - before) + (1 - weight) * rise
        assert plan.rate_hz[row] == pytest.approx(rates[-1])
        assert plan.expected_hz[row] == pytest.approx(max(0.0, smooth + rise), abs=1e-6)
        total += max(0.0, smooth + 4 * rise)
    assert plan.total_expected_hz == pytest.approx(total, abs=1e-6)


def water_filled(waiting: list[int], splits: list[int], split_budget: int, turn: int) -> list[int]:
    """Return fair shares, tuple by tuple: each goes to the stream that has least; the last round, which is not for all, goes in turn."""
    taken = [0] * len(waiting)
    for split in set(splits):
        budget = split_budget
        members = [at for at in range(len(waiting)) if splits[at] == split]
        while hungry := [at for at in members if taken[at] < waiting[at]]:
            if budget < len(hungry):
                start = turn * budget % len(hungry)
                for offset in range(budget):
                    taken[hungry[(start + offset) % len(hungry)]] += 1
                break
            for at in hungry:
                taken[at] += 1
            budget -= len(hungry)
    return taken


@given(
    rows=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3)), max_size=15),
    budget=st.integers(0, 60),
    turn=st.integers(0, 9),
)
def test_shares_are_those_of_water_filling(rows: list[tuple[int, int]], budget: int, turn: int) -> None:
    waiting, splits = [row[0] for row in rows], [row[1] for row in rows]
    found = admit(np.array(waiting, np.int64), np.array(splits, np.int32), budget, turn=turn)
    assert found.tolist() == water_filled(waiting, splits, budget, turn)
    assert (found <= waiting).all() if rows else len(found) == 0
    for split in set(splits):
        wanted = sum(want for want, of in rows if of == split)
        assert sum(found[at] for at, (_, of) in enumerate(rows) if of == split) == min(wanted, budget), "unused, or too many"


@given(streams=st.integers(1, 12), budget=st.integers(1, 12))
def test_nobody_starves_over_the_turns(streams: int, budget: int) -> None:
    many, splits = np.full(streams, 1_000), np.zeros(streams, np.int32)
    got = [admit(many, splits, budget, turn=turn) for turn in range(streams)]
    assert set(sum(got).tolist()) == {budget}  # type: ignore[arg-type]
    rounds = -(-streams // budget)
    assert all(sum(got[at : at + rounds]).all() for at in range(streams - rounds + 1))  # type: ignore[union-attr]


def test_a_budget_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="budget=-1: out of range; give a whole number of at least 0"):
        admit(np.array([1, 2]), np.array([0, 4], np.int32), -1)
    with pytest.raises(InvalidInput, match="not the number of a split"):
        admit(np.array([1, 2]), np.array([0, -1], np.int32), 5)
    assert admit(np.zeros(0, np.int64), np.zeros(0, np.int32), 5).tolist() == []
