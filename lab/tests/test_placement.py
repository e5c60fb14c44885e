"""Placement: packers never overfill hosts, and never lose or duplicate operators; what stays on a host is as much as possible up to the target."""

from collections.abc import Callable, Sequence
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skytide.errors import InvalidInput
from skytide_lab.hosts.placement import RESOLUTION, Bin, Item, Packing, best_fit, first_fit, leaving

Packer = Callable[[Sequence[Item], Sequence[Bin]], Packing]
PACKERS: list[Packer] = [first_fit, best_fit]
loads = st.floats(0, 1)
bins = st.lists(st.tuples(loads, loads, loads, st.booleans()), max_size=6).map(
    lambda rows: [Bin(f"b{n}", *row[:3], spare=row[3]) for n, row in enumerate(rows)]
)


@st.composite
def items(draw: st.DrawFn, most: int = 12) -> list[Item]:
    count = draw(st.integers(0, most))
    near = st.lists(st.integers(0, most).map("i{}".format), max_size=2).map(tuple)
    return [Item(f"i{n}", draw(loads), draw(loads), draw(loads), draw(near)) for n in range(count)]


def law_of_packers(pack: Packer, given_items: list[Item], given_bins: list[Bin]) -> None:
    packing = pack(given_items, given_bins)
    assert sorted([*packing.places, *packing.left]) == sorted(item.name for item in given_items), "lost or doubled"
    by_name = {item.name: item for item in given_items}
    free = {known.name: [known.cpu, known.network, known.memory] for known in given_bins}
    for name, place in packing.places.items():
        item = by_name[name]
        free[place] = [room - taken for room, taken in zip(free[place], (item.cpu, item.network, item.memory), strict=True)]
    assert all(room >= -1e-9 for rooms in free.values() for room in rooms), "overfilled"
    for name in packing.left:
        item = by_name[name]
        assert not any(
            item.cpu <= rooms[0] - 1e-9 and item.network <= rooms[1] - 1e-9 and item.memory <= rooms[2] - 1e-9
            for rooms in free.values()
        ), "left out for nothing"


@pytest.mark.parametrize("pack", PACKERS)
@given(given_items=items(), given_bins=bins)
def test_packers_keep_the_law(pack: Packer, given_items: list[Item], given_bins: list[Bin]) -> None:
    law_of_packers(pack, given_items, given_bins)


def forgetful(given_items: Sequence[Item], given_bins: Sequence[Bin]) -> Packing:
    return Packing(first_fit(given_items, given_bins).places)


def careless(given_items: Sequence[Item], given_bins: Sequence[Bin]) -> Packing:
    return Packing({item.name: given_bins[0].name for item in given_items})


def lazy(given_items: Sequence[Item], given_bins: Sequence[Bin]) -> Packing:
    return Packing({}, tuple(item.name for item in given_items))


@pytest.mark.parametrize(("guilty", "why"), [(forgetful, "lost"), (careless, "overfilled"), (lazy, "for nothing")])
def test_the_law_catches_guilty_packers(guilty: Packer, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        law_of_packers(guilty, [Item("i0", 0.7), Item("i1", 0.6)], [Bin("b0", 1.0)])


@given(given_items=items(5), capacities=st.lists(loads, min_size=1, max_size=3))
def test_packers_against_brute_force(given_items: list[Item], capacities: list[float]) -> None:
    """No packer places all items where no assignment does; first fit decreasing needs at most 11/9 of the bins plus one (Johnson)."""
    plain = [Item(item.name, item.cpu) for item in given_items]

    def possible(bins: int) -> bool:
        return any(
            all(sum(item.cpu for item, at in zip(plain, places, strict=True) if at == place) <= 1 for place in range(bins))
            for places in product(range(bins), repeat=len(plain))
        )

    fewest = next(bins for bins in range(len(plain) + 1) if possible(bins))
    for pack in PACKERS:
        used = set(pack(plain, [Bin(f"b{n}", 1.0, spare=True) for n in range(len(plain))]).places.values())
        assert fewest <= len(used) <= 11 * fewest / 9 + 1
        small = pack(plain, [Bin(f"b{n}", room) for n, room in enumerate(capacities)])
        if not small.left:
            assert any(
                all(
                    sum(i.cpu for i, at in zip(plain, places, strict=True) if at == n) <= room + 1e-9
                    for n, room in enumerate(capacities)
                )
                for places in product(range(len(capacities)), repeat=len(plain))
            )


def test_first_fit_goes_by_load_then_neighbours_then_order() -> None:
    hosts = [Bin("1", 0.5), Bin("2", 0.5, holds=("source",)), Bin("3", 1.0, spare=True)]
    moved = [Item("light", 0.1, neighbours=("source",)), Item("heavy", 0.45, neighbours=("source",)), Item("other", 0.3)]
    assert first_fit(moved, hosts).places == {"heavy": "2", "other": "1", "light": "1"}  # no room left for it with the source
    assert best_fit(moved, hosts).places == {"heavy": "1", "other": "2", "light": "2"}


def test_network_and_memory_count_as_well() -> None:
    hosts = [Bin("1", 1.0, network=10), Bin("2", 1.0, memory=10), Bin("3", 1.0)]
    assert first_fit([Item("a", 0.1, network=20, memory=20)], hosts).places == {"a": "3"}
    assert first_fit([Item("a", 0.1, network=20, memory=20)], hosts[:2]).left == ("a",)


def test_a_spare_host_is_the_last_resort() -> None:
    hosts = [Bin("spare", 1.0, spare=True), Bin("used", 0.2)]
    assert first_fit([Item("a", 0.2), Item("b", 0.1)], hosts).places == {"a": "used", "b": "spare"}


@given(given_items=items(7), target=st.floats(0, 1.5))
def test_what_stays_is_the_most_up_to_the_target(given_items: list[Item], target: float) -> None:
    going = leaving(given_items, target)
    assert len(set(going)) == len(going)
    assert set(going) <= {item.name for item in given_items}
    stays = sum(item.cpu for item in given_items if item.name not in going)
    assert stays <= target + 1e-9
    best = max(
        (sum(item.cpu for item in kept) for n in range(len(given_items) + 1) for kept in combinations(given_items, n)),
        key=lambda total: total if total <= target else -1,
    )
    assert stays >= best - (len(given_items) + 1) / RESOLUTION


def test_few_operators_leave() -> None:
    assert leaving([Item(f"i{n}", 0.1) for n in range(8)] + [Item("large", 0.4)], 0.6) == [f"i{n}" for n in range(2, 8)]
    assert leaving([], 0.6) == []
    assert leaving([Item("a", 0.5)], 0.6) == []


def test_names_are_told_apart() -> None:
    with pytest.raises(InvalidInput, match="the name 'a': it is given twice; give each operator and host its own name"):
        first_fit([Item("a", 0.1), Item("a", 0.2)], [])
    with pytest.raises(InvalidInput, match="a load is negative"):
        Item("a", -0.1)
