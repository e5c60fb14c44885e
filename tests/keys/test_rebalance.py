"""Laws of the rebalancer, applied to ours and to guilty specimens; on small cases against an exhaustive search."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from rich.console import Console

from benchmarks import rebalance as scale
from benchmarks.timing import Disagreement
from skytide.errors import InvalidInput
from skytide.keyed import GROUPS, Loads, Moves, Rebalancer, RoutingTable
from skytide.keyed.balance import GONE, Asked, assign, stepwise

Plan = Callable[[RoutingTable, int, Loads], Moves]
Law = Callable[[Plan, "Case"], None]
THRESHOLD, TARGET = 1.2, 1.05


@dataclass(frozen=True)
class Case:
    """Loads of some of the groups of a table; the other groups have none."""

    loads: tuple[float, ...]
    before: tuple[int, ...]
    slots: int

    @cached_property
    def table(self) -> RoutingTable:
        """Return a table with the groups with load first; groups without load are on slot 0."""
        return RoutingTable((*self.before, *[0] * (GROUPS - len(self.before))))

    @property
    def tuples(self) -> Loads:
        return Loads((*self.loads, *[0.0] * (GROUPS - len(self.loads))))

    def used(self, at: tuple[int, ...]) -> list[float]:
        """Return the load of each slot."""
        found = [0.0] * max(self.slots, max(at) + 1)
        for load, slot in zip(self.loads, at, strict=False):
            found[slot] += load
        return found

    @property
    def mean(self) -> float:
        return sum(self.loads) / self.slots

    @property
    def new(self) -> list[int]:
        """Return the slots without any group before."""
        return [slot for slot in range(self.slots) if slot not in self.table.slots]

    def balanced(self, at: tuple[int, ...], times: float = TARGET, *, filled: bool = True) -> bool:
        """Return whether no slot has more than a multiple of the mean, and new slots are as near to it from below."""
        used = self.used(at)
        if max(at) >= self.slots or max(used) > times * self.mean * (1 + 1e-9):
            return False
        return not filled or all(used[slot] >= (2 - times) * self.mean * (1 - 1e-9) for slot in self.new)

    def fewest(self) -> int | None:
        """Try all assignments, and return the smallest number of moved groups of those that are balanced."""
        ways = (way for way in product(range(self.slots), repeat=len(self.loads)) if self.balanced(way))
        return min((sum(a != b for a, b in zip(way, self.before, strict=True)) for way in ways), default=None)


@st.composite
def cases(draw: st.DrawFn, most_groups: int = 6) -> Case:
    groups = draw(st.integers(1, most_groups))
    loads = draw(st.lists(st.integers(1, 9).map(float), min_size=groups, max_size=groups))
    before = draw(st.lists(st.integers(0, 2), min_size=groups, max_size=groups))
    return Case(tuple(loads), tuple(before), draw(st.integers(1, 3)))


def ours(table: RoutingTable, slots: int, loads: Loads) -> Moves:
    return Rebalancer(THRESHOLD, TARGET).build().plan(table, slots, loads)


# ---------------------------------------------------------------- laws


def every_group_has_a_slot(plan: Plan, case: Case) -> None:
    """All groups are on existing slots, and exactly the reported groups have moved."""
    moves = plan(case.table, case.slots, case.tuples)
    assert len(moves.table.slots) == GROUPS
    assert all(0 <= slot < case.slots for slot in moves.table.slots)
    assert moves.moved == tuple(g for g in range(GROUPS) if moves.table.slots[g] != case.table.slots[g])
    assert moves.reason


def nobody_moves_when_balanced(plan: Plan, case: Case) -> None:
    """As long as no slot is above the threshold, and their number is the same, the table does not change."""
    if not case.new and case.balanced(case.table.slots[: len(case.loads)], THRESHOLD):
        moves = plan(case.table, case.slots, case.tuples)
        assert moves.table is case.table or moves.table == case.table
        assert moves.moved == ()


def balance_is_reached_if_it_can_be(plan: Plan, case: Case) -> None:
    """If some assignment is balanced, the plan is; it may stay at the threshold if nothing has to move."""
    if case.fewest() is not None:
        moves = plan(case.table, case.slots, case.tuples)
        at = moves.table.slots[: len(case.loads)]
        assert case.balanced(at) or (not moves.moved and not case.new and case.balanced(at, THRESHOLD)), (case, at)


def as_few_as_possible_move(plan: Plan, case: Case) -> None:
    """No balanced assignment has fewer moved groups."""
    fewest = case.fewest()
    if fewest is not None:
        moves = plan(case.table, case.slots, case.tuples)
        assert sum(group < len(case.loads) for group in moves.moved) <= fewest, case


def no_move_is_in_vain(plan: Plan, case: Case) -> None:
    """None of the moved groups could have stayed, with all others where they are now."""
    moves = plan(case.table, case.slots, case.tuples)
    at = list(moves.table.slots)
    if case.balanced(tuple(at[: len(case.loads)])):
        for group in moves.moved:
            if group < len(case.loads) and case.table.slots[group] < case.slots:
                stays = at.copy()
                stays[group] = case.table.slots[group]
                assert not case.balanced(tuple(stays[: len(case.loads)])), (case, group)


LAWS: list[Law] = [
    every_group_has_a_slot,
    nobody_moves_when_balanced,
    balance_is_reached_if_it_can_be,
    as_few_as_possible_move,
    no_move_is_in_vain,
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@given(case=cases())
def test_our_plans_obey(law: Law, case: Case) -> None:
    law(ours, case)


# ---------------------------------------------------------------- guilty specimens


def _moves(table: RoutingTable, slots: list[int]) -> Moves:
    return Moves(RoutingTable(tuple(slots)), tuple(g for g in range(GROUPS) if slots[g] != table.slots[g]), "guilty")


def loses_groups(table: RoutingTable, slots: int, loads: Loads) -> Moves:
    """Leave groups on slots that are gone."""
    return Moves(table, (), "guilty")


def packs_anew(table: RoutingTable, slots: int, loads: Loads) -> Moves:
    """Put each group on the least loaded slot, the heaviest first, wherever they were."""
    used, at = [0.0] * slots, [0] * GROUPS
    for group in sorted(range(GROUPS), key=lambda each: -loads.of_groups[each]):
        at[group] = used.index(min(used))
        used[at[group]] += loads.of_groups[group]
    return _moves(table, at)


def moves_one_too_many(table: RoutingTable, slots: int, loads: Loads) -> Moves:
    """Do as ours does, and then move the lightest group that stayed."""
    at = list(ours(table, slots, loads).table.slots)
    stayed = [group for group in range(GROUPS) if loads.of_groups[group] > 0 and at[group] == table.slots[group]]
    if stayed and slots > 1:
        group = min(stayed, key=lambda each: loads.of_groups[each])
        at[group] = (at[group] + 1) % slots
    return _moves(table, at)


def never_swaps(table: RoutingTable, slots: int, loads: Loads) -> Moves:
    """Move the heaviest group of the most loaded slot as long as that helps."""
    at = [min(slot, slots - 1) for slot in table.slots]
    for _ in range(GROUPS):
        used = [sum(load for load, slot in zip(loads.of_groups, at, strict=True) if slot == each) for each in range(slots)]
        high, low = used.index(max(used)), used.index(min(used))
        fit = [g for g in range(GROUPS) if at[g] == high and 0 < loads.of_groups[g] < used[high] - used[low]]
        if not fit:
            break
        at[max(fit, key=lambda each: loads.of_groups[each])] = low
    return _moves(table, at)


@pytest.mark.parametrize(
    ("guilty", "law", "case"),
    [
        (loses_groups, every_group_has_a_slot, Case((1.0, 1.0, 1.0), (0, 1, 2), 2)),
        (packs_anew, nobody_moves_when_balanced, Case((2.0, 2.0), (1, 0), 2)),
        (packs_anew, as_few_as_possible_move, Case((4.0, 3.0, 2.0, 1.0), (1, 1, 0, 1), 2)),
        (loses_groups, balance_is_reached_if_it_can_be, Case((3.0, 3.0), (0, 0), 2)),
        (never_swaps, balance_is_reached_if_it_can_be, Case((6.0, 5.0, 4.0, 3.0), (0, 0, 1, 1), 2)),
        (moves_one_too_many, as_few_as_possible_move, Case((5.0, 5.0, 5.0, 5.0), (0, 0, 0, 1), 2)),
        (moves_one_too_many, nobody_moves_when_balanced, Case((5.0, 5.0), (0, 1), 2)),
        (moves_one_too_many, no_move_is_in_vain, Case((50.0, 50.0, 50.0, 1.0), (0, 0, 1, 1), 3)),
    ],
)
def test_a_guilty_plan_is_caught(guilty: Plan, law: Law, case: Case) -> None:
    law(ours, case)
    with pytest.raises(AssertionError):
        law(guilty, case)


# ---------------------------------------------------------------- how good the steps are without the search


@pytest.mark.slow
def test_steps_alone_are_near_the_fewest_moves() -> None:
    """Of 200 small cases that can be balanced the steps miss 3 %, and elsewhere move 1.06 times the minimum."""
    random = np.random.default_rng(5)
    fewest = moved = missed = found = 0
    while found < 200:
        groups, slots = int(random.integers(3, 9)), int(random.integers(2, 4))
        loads = np.round(random.exponential(1.0, groups), 2) + 0.01
        case = Case(tuple(loads.tolist()), tuple(random.integers(0, random.integers(1, 4), groups).tolist()), slots)
        best = case.fewest()
        if best is None:
            continue
        found += 1
        before = np.where(np.array(case.before) < slots, case.before, GONE)
        asked = Asked(slots, TARGET * case.mean, (2 - TARGET) * case.mean, tuple(case.new))
        at = stepwise(loads, before, asked)
        assert case.balanced(tuple(assign(loads, before, asked).tolist()))
        if case.balanced(tuple(at.tolist())):
            fewest, moved = fewest + best, moved + int((at != before).sum())
        else:
            missed += 1
    assert missed <= 0.05 * found, missed
    assert moved <= 1.08 * fewest, moved / fewest


# ---------------------------------------------------------------- many groups


def random_loads(seed: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).exponential(100.0, GROUPS)


def settled(slots: int, loads: NDArray[np.float64]) -> RoutingTable:
    """Return a table in which the rebalancer has nothing left to do."""
    table = ours(RoutingTable.even(slots), slots, Loads(loads.tolist())).table
    assert ours(table, slots, Loads(loads.tolist())).moved == ()
    return table


@given(st.integers(1, 24), st.integers(0, 1_000))
def test_a_new_slot_gets_its_share_and_nobody_else_gets_anything(slots: int, seed: int) -> None:
    loads = random_loads(seed)
    moves = ours(settled(slots, loads), slots + 1, Loads(loads.tolist()))
    fair = loads.sum() / (slots + 1)
    to_new = [group for group in moves.moved if moves.table.slots[group] == slots]
    assert (2 - TARGET) * fair * 0.999 <= loads[to_new].sum() <= TARGET * fair * 1.001
    assert loads[list(moves.moved)].sum() <= 1.35 * fair
    assert np.bincount(moves.table.slots, loads).max() <= THRESHOLD * fair


@given(st.integers(2, 24), st.integers(0, 1_000))
def test_a_slot_that_goes_moves_its_groups_and_what_balance_needs(slots: int, seed: int) -> None:
    loads = random_loads(seed)
    table = settled(slots, loads)
    moves = ours(table, slots - 1, Loads(loads.tolist()))
    gone = [group for group in range(GROUPS) if table.slots[group] == slots - 1]
    assert set(gone) <= set(moves.moved)
    room = TARGET * loads.sum() / (slots - 1) - loads.sum() / slots  # on a slot that has the mean: heavier groups send others away
    assert loads[list(moves.moved)].sum() <= loads[gone].sum() + max(0.25 * room, loads[gone][loads[gone] > 0.5 * room].sum())
    used = np.bincount(moves.table.slots, loads)
    assert used.max() <= TARGET * loads.sum() / (slots - 1) * 1.001
    for group in set(moves.moved) - set(gone):
        assert used[table.slots[group]] + loads[group] > TARGET * loads.sum() / (slots - 1)


@given(st.integers(0, 1_000), st.integers(1, 40), st.integers(1, 40), st.floats(0.6, 2.0))
def test_what_was_planned_once_stays(seed: int, old: int, new: int, exponent: float) -> None:
    """Whatever the skew and the number of slots: with the same loads the next plan moves nothing."""
    random = np.random.default_rng(seed)
    hashes = random.integers(0, 2**64, 2_000, dtype=np.uint64)
    stream = scale.Stream(hashes, np.rint(1e6 / np.arange(1, 2_001) ** exponent))
    logic, table = Rebalancer().build(), RoutingTable.even(old)
    planned = logic.plan(table, new, stream.loads(table)).table
    again = logic.plan(planned, new, stream.loads(planned))
    assert again.moved == ()
    assert again.table == planned
    assert planned.count <= new


def test_without_any_load_groups_are_counted() -> None:
    table = Rebalancer().build().plan(RoutingTable.even(3), 5).table
    groups = [table.slots.count(slot) for slot in range(5)]
    assert max(groups) <= TARGET * GROUPS / 5
    fewer = Rebalancer().build().plan(RoutingTable.even(5), 1)
    assert set(fewer.table.slots) == {0}
    assert len(fewer.moved) == GROUPS - RoutingTable.even(5).slots.count(0)


def test_zipf_keys_are_balanced_where_whole_keys_allow_it() -> None:
    out = Console(file=StringIO(), width=130)
    cells = scale.run(out, keys=(3_000,), steps=(2, 5, 7, 16, 6))["cells"]
    mine = {cell["step"]: cell for cell in cells if cell["routing"] == "ours"}
    for cell in mine.values():
        assert cell["highest"] <= max(1.2, cell["lowest"] * 1.000001)
        assert cell["others"] <= 1.2
    for cell in cells:
        if cell["routing"] == "mod n":
            assert mine[cell["step"]]["moved"] < cell["moved"]
        assert mine[cell["step"]]["highest"] <= cell["highest"]
    with pytest.raises(Disagreement, match=r"3,000 keys on 5 slots: 1\.30 times the mean"):
        scale._check([{**mine[0], "highest": 1.3}])


# ---------------------------------------------------------------- keys with groups of their own


def key_of(group: int, number: int = 1) -> int:
    return (group << 56) + number


def test_a_heavy_key_becomes_a_group_and_its_group_is_divided() -> None:
    tuples = [10.0] * GROUPS
    tuples[0] = 900.0  # 860 of them of one key
    moves = Rebalancer().build().plan(RoutingTable.even(4), 4, Loads(tuples, ((key_of(0), 860),)))
    mean = sum(tuples) / 4
    assert moves.table.own == (key_of(0),)
    used = np.bincount(moves.table.slots, [40.0, *tuples[1:], 860.0])
    assert used.max() <= 1.05 * mean
    assert "key 0000000000000001 has 1.00 times the mean load of the other slots and becomes a group of its own" in moves.reason


def test_a_key_that_fills_a_slot_has_it_alone_and_the_others_are_balanced() -> None:
    tuples = [10.0] * GROUPS
    tuples[7] = 9_010.0
    logic, table = Rebalancer().build(), RoutingTable.even(4)
    moves = logic.plan(table, 4, Loads(tuples, ((key_of(7), 9_000),)))
    slot = moves.table.slots[GROUPS]
    assert moves.table.slots.count(slot) == 1
    assert f"becomes a group of its own, alone on slot {slot}" in moves.reason
    others = [moves.table.slots.count(each) for each in range(4) if each != slot]
    assert max(others) <= 1.05 * sum(others) / 3
    # a key that fills a slot is no reason to move anything again
    tuples[7] = 10.0
    again = logic.plan(moves.table, 4, Loads((*tuples, 9_000.0)))
    assert again.moved == ()
    assert again.table == moves.table
    assert again.reason.startswith("balanced")
    # with another slot the key stays where it is
    more = logic.plan(moves.table, 5, Loads((*tuples, 9_000.0)))
    assert GROUPS not in more.moved
    assert more.table.slots.count(more.table.slots[GROUPS]) == 1


def test_a_key_has_no_more_load_than_its_group() -> None:
    busy_s = [1.0] * GROUPS
    busy_s[3] = 101.0
    heavy = ((key_of(3), 100.5), (key_of(4), 100.0))
    logic = Rebalancer().build()
    moves = logic.plan(RoutingTable.even(3), 3, Loads(busy_s, heavy))
    assert moves.table.own == (key_of(3),)
    assert dict(map(tuple, logic.keys)) == {key_of(3): 100.5, key_of(4): 1.0}


def test_a_group_that_is_too_much_for_a_slot_is_taken_apart() -> None:
    tuples = [0.0] * GROUPS
    tuples[5] = 80.0  # two keys below half a mean, and others that nobody counted
    tuples[6], tuples[9] = 60.0, 60.0
    heavy = ((key_of(5, 1), 32), (key_of(5, 2), 32))
    moves = Rebalancer().build().plan(RoutingTable.even(3), 3, Loads(tuples, heavy))
    assert moves.table.own == (key_of(5, 1),)


def test_a_group_that_nobody_can_take_apart_is_no_reason_to_move_again() -> None:
    tuples = [10.0] * GROUPS
    tuples[5] = 5_000.0  # of keys that nobody counted
    logic = Rebalancer().build()
    moves = logic.plan(RoutingTable.even(4), 4, Loads(tuples))
    slot = moves.table.slots[5]
    others = [sum(tuples[g] for g in range(GROUPS) if moves.table.slots[g] == each) for each in range(4)]
    assert others.pop(slot) == 5_000.0
    assert max(others) <= 1.05 * sum(others) / 3
    again = logic.plan(moves.table, 4, Loads(tuples))
    assert again.moved == ()
    assert again.reason.startswith("balanced")


def test_no_more_keys_than_asked_get_groups() -> None:
    tuples = [10.0] * GROUPS
    for group in (0, 4, 8):
        tuples[group] = 2_000.0
    heavy = tuple((key_of(group), 1_990) for group in (0, 4, 8))
    moves = Rebalancer(max_own=2).build().plan(RoutingTable.even(4), 4, Loads(tuples, heavy))
    assert moves.table.own == (key_of(0), key_of(4))
    assert "2 keys have groups of their own: 1 more cannot get one" in moves.reason


@given(cases(), st.randoms(use_true_random=False), st.integers(2, 5))
def test_the_order_in_which_keys_are_named_changes_nothing(case: Case, random: object, slots: int) -> None:
    heavy = [
        (key_of(group, number), int(load) * 3 // (number + 1)) for group, load in enumerate(case.loads) for number in (1, 2, 3)
    ]
    loads = tuple(8 * load for load in case.tuples.of_groups)
    shuffled = heavy.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, two = (Rebalancer().build().plan(case.table, slots, Loads(loads, tuple(each))) for each in (heavy, shuffled))
    assert one == two


# ---------------------------------------------------------------- averages


def test_averages_are_those_of_a_slow_sum() -> None:
    random, logic, table = np.random.default_rng(3), Rebalancer(smoothing=0.25).build(), RoutingTable.even(2)
    batches = random.integers(1, 100, (6, GROUPS))
    for batch in batches.tolist():
        logic.observe(table, Loads(batch, ((key_of(9), batch[9] // 2),)))
    logic.observe(table, Loads([0] * GROUPS))  # says nothing
    weights = [0.75**5, *(0.25 * 0.75**age for age in (4, 3, 2, 1, 0))]
    for group in (0, 9, 255):
        expected = sum(weight * int(batch[group]) for weight, batch in zip(weights, batches, strict=True))
        assert logic.groups[group] == pytest.approx(expected)
    key = sum(weight * (int(batch[9]) // 2) for weight, batch in zip(weights, batches, strict=True))
    assert dict(map(tuple, logic.keys)) == {key_of(9): pytest.approx(key)}


def test_one_odd_batch_moves_nothing_and_a_change_that_stays_does() -> None:
    logic, table = Rebalancer().build(), RoutingTable.even(2)
    calm, odd = Loads([10.0] * GROUPS), Loads([10.0 + 8.0 * (group < GROUPS // 2) for group in range(GROUPS)])
    assert logic.plan(table, 2, calm).moved == ()
    assert logic.plan(table, 2, odd).moved == ()
    assert any(logic.plan(table, 2, odd).moved for _ in range(10))


@given(cases(), st.integers(1, 4))
def test_a_logic_goes_on_from_its_snapshot(case: Case, slots: int) -> None:
    first = Rebalancer().build()
    heavy = tuple((key_of(group), int(load)) for group, load in enumerate(case.loads))
    table = first.plan(case.table, slots, Loads(case.tuples.of_groups, heavy)).table
    second = Rebalancer().build(json.loads(json.dumps(first.snapshot())))
    loads = Loads((*case.tuples.of_groups[::-1], *[1.0] * len(table.own)))
    assert second.plan(table, slots, loads) == first.plan(table, slots, loads)
    assert second.snapshot() == first.snapshot()


def test_what_makes_no_sense_is_refused() -> None:
    for bad, message in (
        ({"threshold": 1.0}, "threshold=1.0: out of range"),
        ({"target": 1.3}, "target=1.3: out of range"),
        ({"own_share": 0.0}, "own_share=0.0: out of range"),
        ({"smoothing": 2.0}, "smoothing=2.0: out of range"),
        ({"max_own": -1}, "max_own=-1: out of range"),
    ):
        with pytest.raises(InvalidInput, match=message):
            Rebalancer(**bad)  # type: ignore[arg-type]
    logic, table = Rebalancer().build(), RoutingTable.even(2)
    with pytest.raises(InvalidInput, match="loads of 3 groups: the table has 256"):
        logic.plan(table, 2, Loads([1.0] * 3))
    with pytest.raises(InvalidInput, match="not all are finite"):
        logic.plan(table, 2, Loads([float("nan")] * GROUPS))
    with pytest.raises(InvalidInput, match="slots=0"):
        logic.plan(table, 0)


def test_a_slot_that_cannot_be_filled_stays_empty_and_nothing_moves() -> None:
    tuples = [0.0] * GROUPS
    tuples[0], tuples[1] = 50.0, 50.0
    moves = Rebalancer().build().plan(RoutingTable((0, *[1] * 255)), 3, Loads(tuples))
    assert moves.moved == ()
    assert "nothing moves" in moves.reason
