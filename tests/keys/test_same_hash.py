"""Keys with the same hash are different keys: results do not depend on the hash, even if it has few values; and the pairs that were once made."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engine import COLUMNS, InProcess, Outputs
from support.examples import examples
from support.keyed import plan_of, step

from skytide.batch import State
from skytide.keyed import AggregateAnswer, CountWindows, KeyedStep, Operator, QueryAnswer, TimeWindows, hashes_of, tagged
from skytide.keyed.key_set import KeySet, union
from skytide.lateness import FixedSlack
from skytide.queries import Aggregate, Measure, TopK, high
from skytide.routing import Keys
from skytide.spark.checkpoint import Store
from skytide.spark.engine.engine import Engine
from skytide.windows import Windows

MADE = ("kooioqnpmlkmrikj", "plkqkjljmnomiroq")
"""Two keys with the same hash without a seed."""
WORDS = pa.schema([COLUMNS.field("ts"), ("a", pa.string()), COLUMNS.field("b"), COLUMNS.field("id")])


class Counter:
    """Counts the rows of a key, and says which key it is."""

    def open(self, key: Any) -> bytes:
        return f"{key}:".encode()

    def process(self, state: bytes, rows: pa.Table) -> Any:
        after = state + b"." * rows.num_rows
        return after, {"states": [after.decode()], "ids": [rows["id"].to_pylist()]}


AGGREGATE = Aggregate((Measure.parse("count(*) AS n"), Measure.parse("sum(id) AS total")), (), "ts")
STEPS: dict[str, Callable[[], KeyedStep]] = {
    "as they come": lambda: step(None, None, Operator(Counter())),
    "by number": lambda: step(CountWindows(3, 2), None, Operator(Counter())),
    "one by one": lambda: step(CountWindows(1, 1), AggregateAnswer(AGGREGATE)),
    "aggregates": lambda: step(CountWindows(4, 1), AggregateAnswer(AGGREGATE)),
    "by time": lambda: step(TimeWindows(Windows(500, 200)), None, Operator(Counter())),
    "best by time": lambda: step(TimeWindows(Windows(400, 100)), QueryAnswer(TopK(high("b"), k=1))),
}


def results(made: KeyedStep, batches: list[list[Any]], keys: Callable[[int], Any], bits: int | None = None) -> dict[str, list[Any]]:
    """Return what came out for each key; `bits` is how many bits of the hash there are."""
    out, rows = Outputs(), 0
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        if bits is not None:
            few = lambda *given: hashes_of(*given) & np.uint64(2**bits - 1)  # noqa: E731
            patch.setattr(tagged, "hashes_of", few)
        plan = plan_of(made, folder, FixedSlack(0))
        engine = Engine(*plan, out.sinks)
        for number, batch in enumerate(batches):
            ids = np.arange(rows, rows + len(batch))
            rows += len(batch)
            times = pa.array(number * 1_000 + np.arange(len(batch)) * 70, pa.timestamp("us", "UTC"))
            table = pa.table({"ts": times, "a": [keys(key) for key in batch], "b": ids.astype(float), "id": ids}, made.columns)
            engine.resize(slots=1 + number % 3)
            engine.run_batch(InProcess(), [table], number)
        engine.flush(InProcess())
    found: dict[str, list[Any]] = {}
    for row in out.results.rows():
        found.setdefault(str(row["a"]), []).append({name: str(value) for name, value in row.items()})
    return found


def number_of(key: int) -> int:
    return key


def float_of(key: int) -> float:
    return [0.0, float("nan"), -1.5, 2.0, float("inf"), 1e300][key]


def word_of(key: int) -> str:
    return MADE[key] if key < 2 else f"key {key}"


KINDS = {"numbers": (number_of, COLUMNS.field("a").type), "floats": (float_of, pa.float64()), "words": (word_of, pa.string())}


@pytest.mark.parametrize("name", STEPS)
@given(
    batches=st.lists(st.lists(st.integers(0, 5), max_size=10), min_size=1, max_size=6),
    kind=st.sampled_from(sorted(KINDS)),
    bits=st.integers(0, 2),
)
@settings(max_examples=examples(10))
def test_results_do_not_depend_on_the_hash(name: str, batches: list[list[int]], kind: str, bits: int) -> None:
    keys, column = KINDS[kind]
    made = STEPS[name]()
    made = replace(made, columns=made.columns.set(1, pa.field("a", column)))
    assert results(made, batches, keys, bits) == results(made, batches, keys, 64)


@pytest.mark.parametrize("batches", [[[0, 0, 0], [2], [1]], [[0, 1], [0, 1]]], ids=["one after the other", "together"])
def test_keys_that_were_made_to_collide_are_apart_even_without_a_seed(batches: list[list[int]]) -> None:
    assert len(set(Keys.of([pa.chunked_array([MADE])]).hashes.tolist())) == 1
    found = results(replace(STEPS["as they come"](), columns=WORDS), batches, word_of)
    for key in {key for batch in batches for key in batch}:
        total = sum(batch.count(key) for batch in batches)
        assert found[word_of(key)][-1]["states"] == f"{word_of(key)}:" + "." * total


THUE_MORSE = "".join("ab"[number.bit_count() % 2] for number in range(2_048))
"""With its letters exchanged, it has the same polynomial modulo 2**64, whatever the base is."""


@pytest.mark.parametrize(
    "pair", [MADE, (THUE_MORSE, THUE_MORSE.translate(str.maketrans("ab", "ba")))], ids=["lattice", "Thue and Morse"]
)
def test_pairs_made_for_the_polynomial_do_not_collide_under_any_seed(pair: tuple[str, str]) -> None:
    column = pa.chunked_array([list(pair)])
    assert len(Keys.of([column]).hashes) == 2 == len({*pair})
    assert len({*Keys.of([column]).hashes.tolist()}) == 1
    for seed in range(1, 500):
        assert len({*Keys.of([column], seed).hashes.tolist()}) == 2


def test_a_checkpoint_has_a_seed_of_its_own_and_an_old_one_has_none(tmp_path: Any) -> None:
    one, two = Store(str(tmp_path / "one")), Store(str(tmp_path / "two"))
    assert one.key_seed() == one.key_seed() != two.key_seed() != 0
    plan = plan_of(STEPS["as they come"](), str(tmp_path / "two"), FixedSlack(0))
    seed = two.key_seed()
    plan = replace(plan, rules=replace(plan.rules, keying=replace(plan.rules.keying, seed=seed)))
    engine = Engine(*plan, Outputs().sinks)
    engine.run_batch(InProcess(), [COLUMNS.empty_table()], 0)
    assert two.key_seed() == seed
    state = two.latest()
    old = json.loads(json.dumps(state.to_json()))
    del old["keyed"]["seed"]
    three = Store(str(tmp_path / "three"))
    three.take_over()
    three.record(State.from_json(old))
    assert three.key_seed() == 0


def test_states_that_an_earlier_version_stored_without_keys_are_found_by_their_hashes() -> None:
    """They have the same hash as a known key at most by a rare chance; then the known key is preferred."""
    key = pa.schema([("a", pa.string())])
    hashes = np.array([3, 5, 5], np.uint64)
    old = KeySet(hashes, pa.table({"a": [None, None, "y"]}, key), np.arange(3))
    wanted = KeySet(np.array([3, 5, 5, 9], np.uint64), pa.table({"a": ["w", "x", "y", "z"]}, key), np.arange(4))
    assert old.find(wanted).tolist() == [0, 1, 2, -1]
    both = union([old, wanted], key)
    assert list(zip(both.hashes.tolist(), both.values(np.arange(len(both)))["a"].to_pylist(), strict=True)) == [
        (3, "w"),
        (5, "x"),
        (5, "y"),
        (9, "z"),
    ]
