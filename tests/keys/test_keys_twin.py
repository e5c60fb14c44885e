"""Hashing and routing of whole columns of keys against one key at a time, in plain Python."""

import datetime
import math
import struct
from bisect import bisect_left
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skytide.routing import FrequencyAware, HashRing, KeyCounter, Keys, row_hashes

WORD = 2**64
GOLDEN, STEP = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03


def mix(number: int) -> int:
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    number = (number ^ (number >> 27)) * 0x94D049BB133111EB % WORD
    return number ^ (number >> 31)


def hash_of(value: Any) -> int:
    """Return the hash of one value."""
    if value is None:
        return mix(0x6E756C6C)
    if isinstance(value, bool | int):
        return mix((value + GOLDEN) % WORD)
    if isinstance(value, float):
        bits = struct.unpack("<Q", struct.pack("<d", math.nan if math.isnan(value) else value + 0.0))[0]
        return mix((bits + GOLDEN) % WORD)
    if isinstance(value, datetime.date):
        return hash_of((value - datetime.date(1970, 1, 1)).days)
    text = value if isinstance(value, bytes) else str(value).encode()
    total = sum((letter + 1) * pow(0x100000001B3, place + 1, WORD) for place, letter in enumerate(text))
    return mix((total + (len(text) + 1) * GOLDEN) % WORD)


def hash_of_row(row: tuple[Any, ...]) -> int:
    """Return the hash of the values of several columns."""
    found, *others = map(hash_of, row)
    for other in others:
        found = mix((found * GOLDEN + other) % WORD)
    return found


def owner(nodes: list[int], place: int) -> int:
    """Return the node at the next point of the ring, all of whose points are computed and sorted again."""
    points = sorted(
        (mix((mix((node + 1) * STEP % WORD) + number * STEP) % WORD), node) for node in nodes for number in range(1, 1_025)
    )
    return points[bisect_left(points, (place, -1)) % len(points)][1]


def routed(keys: list[tuple[int, int]], parts: dict[int, int], nodes: list[int]) -> list[int]:
    """Return the nodes, tuple by tuple, which has a key and a hash of its row; `parts` are the sub-keys of divided keys."""
    found, known = [], dict[int, int]()
    for key, row in keys:
        sub_key = row % parts.get(key, 1)
        place = key if sub_key == 0 else mix((key + sub_key * GOLDEN) % WORD)
        if place not in known:
            known[place] = owner(nodes, place)
        found.append(known[place])
    return found


VALUES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), st.text(max_size=6)),
    (pa.large_string(), st.text(max_size=6)),
    (pa.binary(), st.binary(max_size=6)),
    (pa.binary(2), st.binary(min_size=2, max_size=2)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.int8(), st.integers(-128, 127)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.bool_(), st.booleans()),
    (pa.float64(), st.floats()),
    (pa.float32(), st.floats(width=32)),
    (pa.date32(), st.dates()),
    (pa.decimal128(7, 2), st.decimals(-999, 999, places=2).map(lambda value: value + Decimal("0.00"))),
]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=lambda each: str(each) if isinstance(each, pa.DataType) else "")
@given(data=st.data())
def test_a_column_hashes_as_its_values_do(kind: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject) -> None:
    column = data.draw(st.lists(st.one_of(values, st.none()), max_size=12))
    array = pa.array([*column, None], kind).slice(0, len(column))  # a column may be a part of another
    found = Keys.of([pa.chunked_array([array[:3], array[3:]])])
    assert found.of_tuples().tolist() == [hash_of(value) for value in array.to_pylist()]
    assert found.counts().sum() == len(column)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2) | st.none()), max_size=12))
def test_rows_hash_as_their_values_do(rows: list[tuple[str, int | None]]) -> None:
    columns = [pa.chunked_array([pa.array([row[at] for row in rows], kind)]) for at, kind in ((0, pa.string()), (1, pa.int32()))]
    found = Keys.of(columns)
    assert found.of_tuples().tolist() == [hash_of_row(row) for row in rows]
    assert len(found.hashes) == len(set(rows))


@given(
    st.lists(st.tuples(st.floats() | st.none(), st.text(max_size=80), st.lists(st.integers(0, 1), max_size=2)), max_size=12),
    st.randoms(use_true_random=False),
)
def test_whole_rows_hash_as_their_values_do_wherever_they_are(rows: list[tuple[Any, ...]], random: Any) -> None:
    """Of texts the first bytes, of lists nothing."""
    kinds = {"x": pa.float64(), "text": pa.string(), "list": pa.list_(pa.int64())}
    random.shuffle(rows)
    table = pa.table({name: pa.array([row[at] for row in rows], kind) for at, (name, kind) in enumerate(kinds.items())})
    expected = [mix((mix(hash_of(x)) * GOLDEN + hash_of(text.encode()[:64])) % WORD) for x, text, _ in rows]
    assert row_hashes(table).tolist() == expected


@given(st.lists(st.integers(0, 2**64 - 1), max_size=6), st.sets(st.integers(0, 50), min_size=1, max_size=3))
def test_a_ring_gives_each_key_the_next_node(keys: list[int], nodes: set[int]) -> None:
    assert HashRing.of(nodes).owners(np.array(keys, np.uint64)).tolist() == [owner(list(nodes), key) for key in keys]


TUPLES = st.tuples(st.sampled_from([3, 2**40, 2**63, 2**64 - 1]), st.integers(0, 2**64 - 1))


@given(st.lists(st.lists(TUPLES, max_size=15), min_size=1, max_size=4), st.integers(0, 3))
def test_columns_go_where_their_tuples_go(batches: list[list[tuple[int, int]]], heaviest: int) -> None:
    routing, counter = FrequencyAware(heaviest=heaviest).build(range(3)), KeyCounter()
    found: list[int] = []
    for batch in batches:
        keys = Keys.of_hashes(np.array([key for key, _ in batch], np.uint64))
        counter.observe(keys)
        if not routing.begun:
            routing.divide(counter.frequencies())
        found += routing.route(keys, np.array([row for _, row in batch], np.uint64)).tolist()
    parts = dict(zip(routing.divided.hashes.tolist(), routing.divided.parts.tolist(), strict=True))
    assert found == routed([each for batch in batches for each in batch], parts, [0, 1, 2])
    first = Counter(key for key, _ in next((batch for batch in batches if batch), []))
    expected = {key: round(count / first.total() * 16_384) for key, count in first.items()}
    assert len(parts) == min(heaviest, len(first))
    assert all(parts[key] == expected[key] for key in parts)
    assert all(first[key] >= first[other] for key in parts for other in first if other not in parts)
