"""The routing table against a slow twin, and what it refuses."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skytide.errors import InvalidInput
from skytide.keyed import GROUPS, RoutingTable

hashes = st.integers(0, 2**64 - 1)
few_slots = st.integers(0, 7)


@st.composite
def tables(draw: st.DrawFn) -> RoutingTable:
    own = draw(st.lists(hashes, max_size=6, unique=True))
    slots = draw(st.lists(few_slots, min_size=GROUPS + len(own), max_size=GROUPS + len(own)))
    return RoutingTable(tuple(slots), tuple(own))


@given(tables(), st.lists(hashes, max_size=20))
def test_keys_are_found_as_by_a_slow_search(table: RoutingTable, others: list[int]) -> None:
    keys = [*others, *table.own]
    expected = []
    for key in keys:
        first_byte = int(f"{key:016x}"[:2], 16)
        expected.append(GROUPS + list(table.own).index(key) if key in table.own else first_byte)
    found = table.groups_of(np.array(keys, np.uint64))
    assert found.tolist() == expected
    assert table.slots_of(np.array(keys, np.uint64)).tolist() == [table.slots[group] for group in expected]


@given(tables())
def test_a_table_comes_back_from_plain_values(table: RoutingTable) -> None:
    assert RoutingTable.from_json(json.loads(json.dumps(table.to_json()))) == table


@given(st.integers(1, 300))
def test_groups_are_dealt_out_evenly(slots: int) -> None:
    table = RoutingTable.even(slots)
    groups = [table.slots.count(slot) for slot in range(slots)]
    assert max(groups) - min(groups) <= 1
    assert table.count == slots
    assert len(table.slots) >= min(4 * slots, 65_536)


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"255 slots for groups, 0 of them for keys .*: each group has one slot"):
        RoutingTable((0,) * 255)
    with pytest.raises(InvalidInput, match="count from 0"):
        RoutingTable((-1,) * GROUPS)
    for own in ((7, 7), (2**64, 1), (-1, 1)):
        with pytest.raises(InvalidInput, match="name each key once, by its hash"):
            RoutingTable((0,) * (GROUPS + 2), own)
    with pytest.raises(InvalidInput, match="slots=0: out of range"):
        RoutingTable.even(0)
