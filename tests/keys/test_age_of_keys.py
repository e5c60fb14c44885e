"""Law: what a batch of an operator on keys costs does not grow with keys that have expired. Cost is what a slot has to read."""

import tempfile
import tracemalloc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.engine import COLUMNS, InProcess, Outputs
from support.keyed import plan_of, step

from skytide.keyed import Chunk, CountWindows, KeyedStep, Operator, OperatorAnswer, QueryAnswer, TimeWindows, hashes_of
from skytide.lateness import FixedSlack
from skytide.queries import TopK, high
from skytide.spark.engine.engine import Engine
from skytide.windows import Windows, sliding

KEYS = 40  # of each batch, none of which comes again


class Sizes:
    """Returns how many rows a window has, without state."""

    def open(self, key: Any) -> None:
        return None

    def process(self, state: None, rows: pa.Table) -> Any:
        return None, {"n": [rows.num_rows]}


class AllAtOnce(Sizes):
    """The same for all windows at once."""

    def process_windows(self, rows: pa.Table, begins: Any, ends: Any) -> Any:
        return pa.table({"n": ends - begins}), np.ones(len(begins), np.int64)


class Numbers(Sizes):
    """Numbers the windows of a key: its state stays for ever."""

    def process(self, state: Any, rows: pa.Table) -> Any:
        after = np.array([1]) if state is None else state + 1
        return after, {"n": after}


def costs(made: KeyedStep, batches: int) -> list[int]:
    """Return how many keys lie in the chunks that the next batch reads, batch after batch of new keys."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        plan = plan_of(made, folder, FixedSlack(0))
        engine = Engine(*plan, Outputs().sinks)
        for number in range(batches):
            ids = np.arange(number * KEYS, (number + 1) * KEYS)
            times = pa.array(number * 1_000 + ids % KEYS, pa.timestamp("us", "UTC"))
            engine.run_batch(InProcess(), [pa.table({"ts": times, "a": ids, "b": ids.astype(float), "id": ids}, COLUMNS)], number)
            keyed = plan.store.latest().keyed
            assert keyed is not None
            found.append(sum(len(Chunk.from_table(plan.store.files.map_table(chunk.file))) for chunk in keyed.chunks))
    return found


def check_age(made: KeyedStep) -> None:
    """Assert that chunks hold little more than what two windows hold, which the first batches are."""
    found = costs(made, 24)
    assert max(found[12:]) <= 2 * max(found[:8])


@pytest.mark.parametrize(
    ("kind", "length_us", "slide_us"),
    [
        ("at once", 1_000, 1_000),
        ("at once", 4_000, 1_000),
        ("at once", 3_000, 2_000),
        ("one by one", 4_000, 1_000),
        ("query", 3_000, 2_000),
    ],
)
def test_keys_of_windows_that_ended_cost_nothing(kind: str, length_us: int, slide_us: int) -> None:
    windows = TimeWindows(Windows(length_us, slide_us))
    if kind == "query":
        check_age(step(windows, QueryAnswer(TopK(high("b"), k=1))))
    elif kind == "at once":
        check_age(step(windows, OperatorAnswer(Operator(AllAtOnce()), ("a",))))
    else:
        check_age(step(windows, None, Operator(Sizes())))


def test_an_operator_without_state_leaves_nothing_behind() -> None:
    assert set(costs(step(None, None, Operator(Sizes())), 10)) == {0}


@pytest.mark.parametrize("windows", [CountWindows(2, 1), None])
def test_keys_that_can_still_matter_are_found_out(windows: CountWindows | None) -> None:
    """Guilty by nature: the rows of a window by number, and a state that changed, stay."""
    with pytest.raises(AssertionError):
        check_age(step(windows, None, Operator(Numbers())))


@pytest.mark.parametrize("answer", [OperatorAnswer(Operator(AllAtOnce()), ("a",)), QueryAnswer(TopK(high("b"), k=1))])
def test_windows_that_overlap_cost_what_comes_out(answer: Any) -> None:
    """3,600 windows have each row: memory grows with rows and windows, not with their product."""
    windows = TimeWindows(sliding("1 hour", "1 second"))
    made = step(windows, answer)
    ids = np.arange(400)
    times = pa.array(ids * 5_000_000, pa.timestamp("us", "UTC"))
    rows = pa.table({"ts": times, "a": ids * 0, "b": ids.astype(float), "id": ids}, COLUMNS)
    tracemalloc.start()
    try:
        done = made.work(rows, hashes_of(rows, ("a",)), [], [], None, 2**62)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert done.windows == done.results.num_rows == 3_600 + 399 * 5
    assert peak < 600 * (done.windows + len(ids))
