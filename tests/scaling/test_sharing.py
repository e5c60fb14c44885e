"""Several queries on the executors of one application: the arithmetic of sharing, and what it does in a world of tasks and executors."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.shared_world import FREE, Load, Played, play

from skytide import InvalidInput
from skytide.control import Controller, Fuzzy, Mpc, Proportional, Static, UtilisationThresholds
from skytide.control.models.micro_batch import utilisation
from skytide.control.models.sharing import Share, among, total_demand
from skytide.loop.application import ForAll
from skytide.records import MicroBatch
from skytide.spark.scaling import executors

SETTLED_S, SECONDS = 300, 1_500
UNEQUAL = [Load("often", 10.0, 20.0), Load("seldom", 15.0, 20.0)]
"""Alone they need 2.1 and 1.4 executors; when both begin at the same moment, 4 executors take 10.5 s, and 5 take 8.5 s."""
THREE = [Load("ten", 10.0, 12.0), Load("fifteen", 15.0, 12.0), Load("twenty", 20.0, 12.0)]
CONTROLLERS = [Mpc(), Proportional(), UtilisationThresholds(0.9, 0.6), Fuzzy()]

BATCHES = st.builds(
    lambda work_s, fixed_s, trigger_s, tasks: MicroBatch(100.0, fixed_s * trigger_s, work_s * trigger_s, trigger_s, tasks),
    st.floats(0.01, 5.0), st.floats(0.0, 0.5), st.sampled_from([1.0, 5.0, 10.0, 15.0, 60.0]), st.integers(1, 64),
)  # fmt: skip
SHARES = st.lists(
    st.builds(lambda batch, weight: Share(batch, 100.0 / (batch.trigger_s or 1), weight), BATCHES, st.integers(1, 9)),
    min_size=1,
    max_size=6,
)


class TestArithmetic:
    @given(SHARES, st.booleans())
    def test_nobody_needs_less_among_others_than_alone(self, shares: list[Share], fair: bool) -> None:
        named = dict(enumerate(shares))
        for name, batch in among(named, fair=fair).items():
            assert batch.work_s >= named[name].batch.work_s - 1e-9
            assert replace(batch, work_s=1, tasks=1) == replace(named[name].batch, work_s=1, tasks=1)

    @given(SHARES)
    def test_one_that_is_alone_is_as_it_is(self, shares: list[Share]) -> None:
        assert among({"only": shares[0]}) == {"only": shares[0].batch}

    @given(SHARES, st.booleans(), st.integers(1, 60))
    def test_if_all_fit_there_are_as_many_workers_as_all_need_together(self, shares: list[Share], fair: bool, workers: int) -> None:
        named = dict(enumerate(shares))
        shared = among(named, fair=fair)
        assume(all(float(utilisation(shared[name], named[name].rate_hz, workers)) <= 1 for name in named))
        assert total_demand(named) <= workers * (1 + 1e-6)

    @given(SHARES, st.booleans())
    def test_who_leaves_gives_back_its_share(self, shares: list[Share], fair: bool) -> None:
        named = dict(enumerate(shares))
        rest = {name: share for name, share in named.items() if name}
        before, after = among(named, fair=fair), among(rest, fair=fair)
        largest = max(named, key=lambda name: named[name].demand)
        assert all(after[name].work_s <= before[name].work_s + 1e-6 for name in rest if largest in rest)

    @given(SHARES, st.booleans(), st.randoms(use_true_random=False))
    def test_the_order_does_not_matter(self, shares: list[Share], fair: bool, random) -> None:  # type: ignore[no-untyped-def]
        named = dict(enumerate(shares))
        assume(len({share.demand for share in shares}) == len(shares))
        other = list(named)
        random.shuffle(other)
        one, two = among(named, fair=fair), among({name: named[name] for name in other}, fair=fair)
        assert all(one[name].work_s == pytest.approx(two[name].work_s) for name in named)

    @given(SHARES)
    def test_a_higher_priority_never_waits_longer(self, shares: list[Share]) -> None:
        named = dict(enumerate(shares))
        preferred = named | {0: replace(shares[0], weight=shares[0].weight * 10)}
        assert among(preferred, fair=True)[0].work_s <= among(named, fair=True)[0].work_s + 1e-9

    def test_a_short_batch_does_not_wait_for_a_long_one_where_executors_are_divided_fairly(self) -> None:
        short, long = MicroBatch(10, 0.1, 0.5, trigger_s=1.0), MicroBatch(600, 0.1, 60.0, trigger_s=60.0)
        shares = {"short": Share(short, 10), "long": Share(long, 10)}
        assert among(shares)["short"].work_s == pytest.approx(60.5)
        assert among(shares, fair=True)["short"].work_s == pytest.approx(1.0, rel=0.5)

    def test_a_bound_leaves_less_time(self) -> None:
        batch = MicroBatch(100, 0.5, 5.0, trigger_s=10.0)
        assert Share(batch, 10).left_s == 9.5
        assert Share(batch, 10, bound_s=9.0).left_s == 3.5
        assert Share(batch, 10, bound_s=5.1).left_s == 9.5, "a bound that cannot be met counts as none"


def check(played: Played, loads: list[Load]) -> None:
    """No oscillation with a constant load, and no more than 2 % late."""
    assert len(played.sizes_since(SETTLED_S)) == 1, sorted(played.sizes_since(SETTLED_S))
    assert played.late(SETTLED_S) <= 0.02


def test_the_world_is_as_it_was_found() -> None:
    """Five executors are enough for both, and four are not: then a quarter of the batches or more is late."""
    enough, few = (play(UNEQUAL, Static(size), 900, one_for_all=True, first=size) for size in (5, 4))
    assert (enough.late(SETTLED_S), enough.sizes_since(0)) == (0.0, {5})
    assert few.late(SETTLED_S) >= 0.15


@pytest.mark.parametrize("one_for_all", [True, False], ids=["one for all", "one each"])
@pytest.mark.parametrize("controller", CONTROLLERS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("loads", [UNEQUAL, THREE], ids=["two", "three"])
def test_unequal_triggers_neither_oscillate_nor_make_batches_late(
    loads: list[Load], controller: Controller, one_for_all: bool
) -> None:
    played = play(loads, controller, SECONDS, one_for_all=one_for_all)
    print(played.sizes_since(SETTLED_S), f"{played.late(SETTLED_S):.1%}")
    check(played, loads)


def test_taking_the_maximum_of_what_each_would_need_alone_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "shares_among", lambda seen, **options: seen)
    played = play(UNEQUAL, Mpc(), SECONDS, one_for_all=False)
    with pytest.raises(AssertionError):
        check(played, UNEQUAL)


def test_the_order_of_starting_does_not_matter() -> None:
    found = [play(loads, Mpc(), 900, one_for_all=False).sizes_since(SETTLED_S) for loads in (UNEQUAL, UNEQUAL[::-1])]
    assert found[0] == found[1]


@pytest.mark.parametrize("one_for_all", [True, False], ids=["one for all", "one each"])
def test_a_query_that_ends_gives_back_its_share(one_for_all: bool) -> None:
    loads = [UNEQUAL[0], replace(UNEQUAL[1], ends_s=600.0)]
    played = play(loads, Mpc(), SECONDS, one_for_all=one_for_all)
    alone = play(UNEQUAL[:1], Mpc(), SECONDS, one_for_all=one_for_all)
    assert played.sizes_since(SETTLED_S, 600) != played.sizes_since(1_000) == alone.sizes_since(1_000)


def test_the_reason_names_the_query_that_needs_the_executors() -> None:
    def rises(now_s: float) -> float:
        return 1.0 if now_s < 600 else 2.5

    played = play([replace(THREE[0], rate=rises), *THREE[1:]], Mpc(), 1_200, one_for_all=True)
    up = next(event.text for event in played.events if event.at_s > 1_800_000_600 and "requesting" in event.text)
    assert "query ten of 3 needs the most" in up, up
    assert played.late(900) <= 0.02


def test_a_bound_of_one_query_is_kept_and_named() -> None:
    loose = play(THREE, Mpc(), 900, one_for_all=True)
    tight = play(THREE, Mpc(), 900, one_for_all=True, bounds_s={"fifteen": 11.0})
    assert min(tight.sizes_since(SETTLED_S)) > max(loose.sizes_since(SETTLED_S))
    assert "query fifteen of 3" in tight.cycles[-1].decided.reason
    took_s = [one.took_s for one in tight.world.done if one.name == "fifteen" and one.start_s > SETTLED_S]
    assert sum(took_s) / len(took_s) + 7.5 <= 11.0


def test_bounds_need_a_controller_that_knows_them() -> None:
    with pytest.raises(InvalidInput, match="knows no latency bound"):
        ForAll(Fuzzy(), {"orders": 2.0})


@pytest.mark.parametrize("preferred", ["ten", "other"])
def test_where_the_maximum_does_not_suffice_the_one_with_the_lower_priority_is_late(preferred: str) -> None:
    loads = [Load(name, 10.0, 24.0, tasks=400, weight=9.0 if name == preferred else 1.0) for name in ("ten", "other")]
    played = play(loads, Mpc(), 500, one_for_all=True, fair=True, first=4, guard=replace(FREE, maximum=4))
    other = next(load.name for load in loads if load.name != preferred)
    assert played.sizes_since(SETTLED_S) == {4}
    assert played.late(SETTLED_S, [preferred]) == 0.0 and played.late(60, [other]) > 0.9
