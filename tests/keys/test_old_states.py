"""States that an earlier version stored without keys: which key they are of is known only by its hash, which another key may have, too."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from support.engine import InProcess, Outputs
from support.keyed import plan_of, step

from skytide.keyed import Chunk, Operator
from skytide.keyed.chunk import ends, gathered
from skytide.keyed.key_set import KeySet
from skytide.lateness import FixedSlack
from skytide.spark.engine.cache import cache
from skytide.spark.engine.engine import Engine

TWINS = ("kooioqnpmlkmrikj", "plkqkjljmnomiroq")
"""Two keys with the same hash without a seed, as old checkpoints have none."""
KEY = pa.schema([("a", pa.string())])
STATES = pa.schema([("state", pa.string()), *KEY])


class Seen:
    """Counts the rows of a key."""

    def open(self, key: Any) -> Any:
        return np.array([0])

    def process(self, state: Any, rows: pa.Table) -> Any:
        return state + rows.num_rows, {"n": state[0] + np.arange(1, rows.num_rows + 1)}


def test_a_key_that_is_new_gets_nothing_of_another_with_its_hash(tmp_path: Path) -> None:
    made = step(operator=Operator(Seen()))
    made = replace(made, columns=made.columns.set(1, pa.field("a", pa.string())))
    out = Outputs()
    plan = plan_of(made, str(tmp_path), FixedSlack(0), slots=1)
    engine = Engine(*plan, out.sinks)

    def batch(number: int, *keys: str) -> None:
        ids = np.arange(len(keys))
        times = pa.array(ids + number * 1_000, pa.timestamp("us", "UTC"))
        engine.run_batch(InProcess(), [pa.table({"ts": times, "a": keys, "b": ids.astype(float), "id": ids}, made.columns)], number)

    batch(0, TWINS[0], *map(str, range(300)))  # so many that the first chunk stays as it is
    cache.keep_only(plan.store.files.uri)
    for stored in plan.store.latest().keyed.files():  # as an earlier version would have stored them
        table = plan.store.files.read_table(stored)
        plan.store.files.delete(stored)
        plan.store.files.write_table(stored, table.drop_columns(["a"]))
    for number, key in enumerate([TWINS[0], TWINS[1], TWINS[1], TWINS[0]], 1):
        batch(number, key)
    engine.flush(InProcess())
    assert len(plan.store.latest().keyed.files()) > 1
    found = {key: [row["n"] for row in out.results.rows() if row["a"] == key] for key in TWINS}
    assert found == {TWINS[0]: [1, 2, 3], TWINS[1]: [1, 2]}


def chunk(*states: tuple[int, str, str | None]) -> Chunk:
    """Return states by hash and key."""
    hashes, texts, keys = zip(*states, strict=True)
    rows = pa.table({"state": pa.array(texts), "a": pa.array(keys, pa.string())})
    counts = np.ones(len(states), np.int64)
    return Chunk(rows, np.array(hashes, np.uint64), ends(counts), counts)


def states_of(chunks: list[Chunk], keys: list[tuple[int, str]], live: Any = lambda hashes: hashes >= 0) -> dict[str, str]:
    """Return the state of each key that has one."""
    wanted = KeySet(np.array([key[0] for key in keys], np.uint64), pa.table({"a": [key[1] for key in keys]}), np.arange(len(keys)))
    found = gathered([(chunks[0], lambda hashes: hashes >= 0), *((each, live) for each in chunks[1:])], wanted, KEY, STATES, 1)
    names = [keys[place][1] for place in found.keys_of_rows().tolist()]
    return dict(zip(names, found.rows["state"].to_pylist(), strict=True))


OLD = chunk((3, "w's", None), (5, "x's", None))


def test_what_is_not_known_is_any_key_until_one_is_known() -> None:
    assert states_of([OLD], [(3, "w"), (5, "y"), (9, "z")]) == {"w": "w's", "y": "x's"}
    assert states_of([OLD, chunk((5, "x's later", "x"))], [(3, "w"), (5, "x"), (5, "y")]) == {"w": "w's", "x": "x's later"}
    assert states_of([OLD, chunk((5, "x's later", None))], [(5, "y")]) == {"y": "x's later"}


def test_what_is_not_known_is_one_key_only() -> None:
    assert states_of([OLD], [(5, "x"), (5, "y")]) == {"x": "x's"}


def test_a_chunk_that_is_not_valid_for_a_group_says_nothing_about_it() -> None:
    assert states_of([OLD, chunk((5, "x's elsewhere", "x"))], [(5, "y")], live=lambda hashes: hashes < 0) == {"y": "x's"}
