"""Fuzzy rules: SPEC's worked examples, and laws that every answer obeys."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.prose import says

from skytide.control.controllers.fuzzy import RULES, Fuzzy, factors, scaled, speed, splitting, within
from skytide.errors import InvalidInput
from skytide.records import Allocation, Decision, Evaluation, Observation

used = st.floats(0, 5)
ways = st.floats(1, 20)
slots = st.integers(1, 200)


def evaluation(
    panes: int, windows: int, pane_utilisation: float, splitting_factor: float | None, window_utilisation: float
) -> Evaluation:
    allocation = Allocation(panes + windows, pane_slots=panes, window_slots=windows)
    seen = Observation(
        10,
        2.5,
        allocation,
        1_000,
        1_000,
        utilisation=max(pane_utilisation, window_utilisation),
        pane_utilisation=pane_utilisation,
        splitting_factor=splitting_factor,
        window_utilisation=window_utilisation,
    )
    return Evaluation(seen, 1_000, None, seen.utilisation, 0.0)


def one_level(workers: int, utilisation: float, allocation: Allocation | None = None) -> Evaluation:
    seen = Observation(10, 2.5, allocation or Allocation(workers), 1_000, 1_000, utilisation=utilisation)
    return Evaluation(seen, 1_000, None, utilisation, 0.0)


def decide(seen: Evaluation, maximum: int | None = None) -> Decision:
    return Fuzzy(maximum).build().decide(seen, now_s=10)


@pytest.mark.parametrize(
    ("utilisation", "fast", "acceptable", "slow"),
    [(0.6, 0.75, 0.25, 0), (0.2, 1, 0, 0), (0.5, 1, 0, 0), (0.9, 0, 1, 0), (1.1, 0, 0.5, 0.5), (1.3, 0, 0, 1), (9, 0, 0, 1)],
)
def test_speed_as_in_the_paper(utilisation: float, fast: float, acceptable: float, slow: float) -> None:
    assert speed(utilisation) == pytest.approx({"fast": fast, "acceptable": acceptable, "slow": slow})


@pytest.mark.parametrize(("ways", "intensive"), [(1, 0), (1.5, 0), (3, 0.5), (4.5, 1), (30, 1)])
def test_splitting_as_in_the_paper(ways: float, intensive: float) -> None:
    assert splitting(ways) == pytest.approx({"moderate": 1 - intensive, "intensive": intensive})


# P0 Tab. 2: at these inputs one rule alone applies.
SPEEDS = {"fast": 0.3, "acceptable": 0.9, "slow": 1.5}
SPLITS = {"": 3.0, "moderate": 1.0, "intensive": 6.0}


# fmt: off
OUTPUTS = (
    (0.5, 0.5), (0.5, 1.0), (0.5, 1.5),
    (1.0, 0.5), (1.0, 1.0), (1.0, 1.5),
    (1.25, 0.5), (1.25, 1.0), (1.0, 1.5),
    (1.5, 0.75), (1.5, 1.25), (1.25, 1.5),
)
# fmt: on


@pytest.mark.parametrize(("rule", "expected"), list(zip(RULES, OUTPUTS, strict=True)), ids=str)
def test_each_rule(rule: tuple[str, str, str], expected: tuple[float, float]) -> None:
    pane, split, window = rule
    assert factors(SPEEDS[pane], SPLITS[split], SPEEDS[window]) == expected


def test_the_worked_examples_of_the_specification() -> None:
    for pane_utilisation in (1.3, 1.7, 4.0):
        assert factors(pane_utilisation, 2.0, 0.9) == (1.5, 1.25)
    decision = decide(evaluation(4, 8, 1.4, 2.0, 0.9))
    assert decision.allocation == Allocation(16, pane_slots=6, window_slots=10)
    assert says(decision.reason, "pane", "slow", "1.40", "2.0", "window", "acceptable", "0.90", "4 to 6", "8 to 10")


def test_rules_that_apply_in_part_count_in_part() -> None:
    """0.6: fast by 0.75 and acceptable by 0.25, for both levels: rules 1, 2, 4, 5 with 0.75, 0.25, 0.25, 0.25."""
    each = (0.75 * 0.5 + 0.25 * 0.5 + 0.25 * 1 + 0.25 * 1) / (0.75 + 0.25 + 0.25 + 0.25)
    assert factors(0.6, 1.0, 0.6) == pytest.approx((each, each))


@pytest.mark.parametrize(("utilisation", "workers"), [(0.5, 5), (0.9, 10), (1.3, 15), (0.7, 8), (1.1, 13), (0.0, 5), (40.0, 15)])
def test_any_query_is_scaled_by_its_utilisation(utilisation: float, workers: int) -> None:
    assert decide(one_level(10, utilisation)).allocation == Allocation(workers)


def test_a_window_level_that_was_not_measured_lets_slots_follow_in_proportion() -> None:
    assert decide(one_level(4, 1.5, Allocation(4, pane_slots=1, window_slots=3))).allocation == Allocation(6, 2, 4)


def test_frequency_is_left_alone() -> None:
    seen = evaluation(2, 2, 1.5, 1.0, 1.5)
    fixed = replace(seen.seen.allocation, frequency_ghz=1.6)
    assert decide(replace(seen, seen=replace(seen.seen, allocation=fixed))).allocation.frequency_ghz == 1.6


def test_rounding_does_not_hide_an_increase_for_ever() -> None:
    """One worker that is 10 % too slow should become 1.25, which P0 rounds to 1, again and again, while the backlog grows."""
    assert scaled(1, 1.25, 1.1) == 2
    assert decide(one_level(1, 1.1)).allocation.workers == 2
    assert decide(evaluation(1, 1, 1.4, 1.0, 1.4)).allocation.pane_slots == 2, "rule 12 gives 1.25, and the level is behind"


def test_rounding_does_not_take_what_is_needed() -> None:
    """Two workers with a utilisation of 0.52 should become 1.05: one would have a utilisation of 1.04, and fall behind."""
    assert scaled(2, 0.525, 0.52) == 2
    assert scaled(2, 0.5, 0.5) == 1


@given(st.integers(4, 500), st.floats(0.5, 1.5), st.floats(0, 1))
def test_rounding_is_to_nearest_as_long_as_a_level_keeps_up(count: int, factor: float, utilisation: float) -> None:
    found = scaled(count, factor, utilisation)
    assert abs(found - count * factor) <= 0.5 or found - 1 < count * utilisation


def check_bounded(answer: Callable[[float, float, float], tuple[float, float]], inputs: tuple[float, float, float]) -> None:
    assert all(0.5 - 1e-9 <= factor <= 1.5 + 1e-9 for factor in answer(*inputs))


def check_monotone(
    answer: Callable[[float, float, float], tuple[float, float]], low: float, high: float, split: float, other: float
) -> None:
    """More load on a level never means fewer slots for it. Across levels the rules are not monotone, and need not be."""
    assert answer(low, split, other)[0] <= answer(high, split, other)[0] + 1e-9
    assert answer(other, split, low)[1] <= answer(other, split, high)[1] + 1e-9


@given(used, ways, used)
def test_factors_stay_between_a_half_and_one_and_a_half(pane: float, split: float, window: float) -> None:
    check_bounded(factors, (pane, split, window))


@given(used, used, ways, used)
def test_factors_grow_with_the_utilisation_of_their_level(one: float, two: float, split: float, other: float) -> None:
    check_monotone(factors, min(one, two), max(one, two), split, other)


def test_guilty_factors_are_caught() -> None:
    with pytest.raises(AssertionError):
        check_bounded(lambda pane, split, window: (2 * pane, window), (1.0, 1.0, 1.0))
    with pytest.raises(AssertionError):
        check_monotone(lambda pane, split, window: (1.5 - pane / 4, 1.0), 0.5, 1.3, 1.0, 0.9)


def check_limits(decision: Decision, maximum: int | None) -> None:
    wanted = decision.allocation
    assert wanted.pane_slots is not None and wanted.window_slots is not None
    assert wanted.pane_slots >= 1 and wanted.window_slots >= 1
    assert wanted.workers == wanted.pane_slots + wanted.window_slots
    assert maximum is None or wanted.workers <= maximum
    assert decision.reason


@given(slots, slots, used, st.none() | ways, used, st.none() | st.integers(2, 400))
def test_never_below_one_and_never_above_the_maximum(
    panes: int, windows: int, pane: float, split: float | None, window: float, maximum: int | None
) -> None:
    check_limits(decide(evaluation(panes, windows, pane, split, window), maximum), maximum)


@pytest.mark.parametrize("guilty", [Allocation(61, 11, 50), Allocation(50, 0, 50), Allocation(50, 10, 50)], ids=str)
def test_a_guilty_decision_is_caught(guilty: Allocation) -> None:
    with pytest.raises(AssertionError):
        check_limits(Decision(guilty, "because"), 60)


@given(slots, used, st.integers(2, 400))
def test_one_level_keeps_its_limits_too(workers: int, utilisation: float, maximum: int) -> None:
    assert 1 <= decide(one_level(workers, utilisation), maximum).allocation.workers <= maximum


@given(slots, slots, st.integers(2, 300))
def test_reduction_is_in_proportion(panes: int, windows: int, maximum: int) -> None:
    less = within(panes, windows, maximum)
    if panes + windows <= maximum:
        assert less == (panes, windows)
    else:
        assert sum(less) == maximum
        exact = panes * maximum / (panes + windows)
        assert abs(less[0] - exact) <= 1.0


def test_a_reduction_is_told() -> None:
    decision = decide(evaluation(20, 40, 1.5, 3.0, 1.5), 60)
    assert decision.allocation == Allocation(60, 18, 42)
    assert decision.reason.endswith("pane slots 20 to 18, window slots 40 to 42; 25 and 60 would be more than 60 together")


def test_a_maximum_that_leaves_no_slot_to_a_level_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"maximum=1: each of the two levels needs a slot; choose at least 2"):
        Fuzzy(maximum=1)


def test_there_is_nothing_to_remember() -> None:
    logic = Fuzzy().build()
    logic.decide(one_level(3, 1.2), now_s=10)
    assert logic.snapshot() == {}


@given(st.integers(1, 20), st.sampled_from((1, 2, 4)), st.floats(0, 5), st.floats(0, 5), st.integers(1, 80))
def test_levels_that_share_workers_get_as_many_as_the_one_that_needs_more(
    workers: int, cores: int, panes: float, windows: float, window_slots: int
) -> None:
    slots = workers * cores
    present = Allocation(workers, slots, min(window_slots, slots), shares_workers=True)
    seen = Observation(60, 10, present, 900, 900, utilisation=1.0, pane_utilisation=panes, window_utilisation=windows)
    decided = Fuzzy().build().decide(Evaluation(seen, 900, None, 1.0, lead_s=6), now_s=60).allocation
    assert decided.pane_slots == decided.workers * cores
    assert 1 <= (decided.window_slots or 0) <= (decided.pane_slots or 0)
    if panes > 1.3:
        assert decided.workers > workers
    if panes < 0.5 and windows < 0.5:
        assert decided.workers < workers or workers == 1
