"""More slots than there were groups of keys: groups are divided, keys are spread at once, and no result depends on it."""

import itertools
import json
import tempfile
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from support.engine import COLUMNS, InProcess, Outputs
from support.keyed import plan_of, step

from skytide.keyed import AggregateAnswer, CountWindows, KeyedState, Loads, Operator, Rebalancer, RoutingTable, StoredChunk
from skytide.lateness import FixedSlack
from skytide.queries import Aggregate, Measure
from skytide.spark.engine.engine import Engine

hashes_drawn = st.integers(0, 2**64 - 1)


def spread(table: RoutingTable, hashes: Any, slots: int) -> float:
    """Return the tuples of the busiest slot, relative to the mean of all."""
    used = np.bincount(table.slots_of(hashes), minlength=slots)
    return float(used.max() / used.mean())


@pytest.mark.parametrize(("begin", "slots"), [(2, 400), (200, 250)])
def test_the_first_table_for_many_slots_spreads_keys_over_all_of_them(begin: int, slots: int) -> None:
    hashes = np.random.default_rng(1).integers(0, 2**64, 100_000, dtype=np.uint64)
    table = RoutingTable.even(begin)
    loads = Loads(np.bincount(table.groups_of(hashes), minlength=len(table.slots)).tolist())
    moves = Rebalancer().build().plan(table, slots, loads)
    assert set(moves.table.slots) == set(range(slots))
    assert spread(moves.table, hashes, slots) < 1.5
    assert spread(RoutingTable.even(slots), hashes, slots) < 2


def test_known_keys_count_in_the_part_of_the_group_where_they_are() -> None:
    tuples = [10.0] * 256
    tuples[3] = 70.0
    logic, key = Rebalancer().build(), (3 << 56) + (1 << 55)  # in the second half of its group
    logic.observe(RoutingTable.even(2), Loads(tuples, ((key, 60),)))
    logic.plan(RoutingTable.even(2), 128)
    assert logic.groups[5:9] == [5.0, 5.0, 65.0, 5.0]
    assert sum(logic.groups) == sum(tuples)


@given(
    masks=st.lists(st.integers(0, 2**258 - 1), max_size=4),
    own=st.lists(hashes_drawn, min_size=2, max_size=2, unique=True),
    more=hashes_drawn,
    others=st.lists(hashes_drawn, max_size=20),
    groups=st.sampled_from([256, 512, 2_048]),
)
def test_chunks_are_valid_for_the_same_keys_when_groups_are_divided(
    masks: list[int], own: list[int], more: int, others: list[int], groups: int
) -> None:
    """What an earlier version stored has 256 groups and is read as it is."""
    stored = {"table": {"slots": [number % 2 for number in range(258)], "own": own}, "until_us": 7, "due_us": None}
    stored |= {"chunks": [[f"f{n}", "rows", f"{mask:x}", 1] for n, mask in enumerate(masks)], "rebalancer": {}, "moved": 0}
    before = KeyedState.from_json(stored)
    divided = before.table.divided(groups)
    wide = divided if more in own else RoutingTable((*divided.slots, 1), (*own, more))
    after = KeyedState.from_json(json.loads(json.dumps(before.routed(wide, 0).to_json())))
    hashes = np.array([*own, more, *others], np.uint64)
    assert len(divided.slots) == groups + 2
    assert divided.slots_of(hashes).tolist() == before.table.slots_of(hashes).tolist()
    for old, new in zip(before.chunks, after.chunks, strict=True):
        assert valid(new, after.table, hashes) == valid(old, before.table, hashes)


def valid(chunk: StoredChunk, table: RoutingTable, hashes: Any) -> list[bool]:
    """Return whether a chunk is valid for each of some keys, bit by bit."""
    return [bool(chunk.groups >> group & 1) for group in table.groups_of(hashes).tolist()]


class Count:
    """Counts the rows of a key."""

    def open(self, key: Any) -> Any:
        return np.array([0])

    def process(self, state: Any, rows: pa.Table) -> Any:
        return state + rows.num_rows, {"n": state[0] + np.arange(1, rows.num_rows + 1)}


def rows_of(seed: int, batches: int, keys: int, size: int) -> list[pa.Table]:
    random, found = np.random.default_rng(seed), []
    for number in range(batches):
        ids = np.arange(number * size, (number + 1) * size)
        times = pa.array(ids * 10, pa.timestamp("us", "UTC"))
        found.append(pa.table({"ts": times, "a": random.integers(0, keys, size), "b": ids.astype(float), "id": ids}, COLUMNS))
    return found


@pytest.mark.slow
@given(sizes=st.lists(st.sampled_from([1, 3, 70]), min_size=4, max_size=4), seed=st.integers(0, 1_000))
@example(sizes=[70, 3, 130, 1], seed=1)
@settings(max_examples=1, phases=[Phase.explicit, Phase.generate])
def test_no_result_depends_on_slots_and_groups(sizes: list[int], seed: int) -> None:
    """A query goes to many slots and back, and starts again from its checkpoint before each batch."""
    data = rows_of(seed, len(sizes), keys=60, size=150)
    sums = AggregateAnswer(Aggregate((Measure.parse("sum(id) AS total"),)))
    for made in (step(operator=Operator(Count())), step(CountWindows(2, 1), sums)):
        out = Outputs()
        with tempfile.TemporaryDirectory() as folder:
            for number, (rows, slots) in enumerate(zip(data, sizes, strict=True)):
                engine = Engine(*plan_of(made, folder, FixedSlack(0)), out.sinks)
                engine.resize(slots=slots)
                engine.run_batch(InProcess(), [rows], number)
            engine.flush(InProcess())
        ids: dict[int, list[int]] = {}
        for row in pa.concat_tables(data).to_pylist():
            ids.setdefault(row["a"], []).append(row["id"])
        found: dict[int, list[int]] = {}
        for row in out.results.rows():
            found.setdefault(row["a"], []).append(row["total"] if made.windows else row["n"])
        if made.windows:
            assert found == {key: [a + b for a, b in itertools.pairwise(mine)] for key, mine in ids.items() if len(mine) > 1}
        else:
            assert found == {key: list(range(1, len(mine) + 1)) for key, mine in ids.items()}
