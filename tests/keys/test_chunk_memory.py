"""Workers forget the chunks of queries that have ended; a query that was only slow reads its own again."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support import engine, keyed
from support.engine import COLUMNS, InProcess, Outputs

from skytide.keyed import Operator
from skytide.lateness import FixedSlack
from skytide.queries import Skyline, low
from skytide.spark.engine.cache import cache
from skytide.spark.engine.engine import Engine
from skytide.windows import Windows


class Count:
    """Counts the rows of a key."""

    def open(self, key: Any) -> Any:
        return np.array([0])

    def process(self, state: Any, rows: pa.Table) -> Any:
        return state + rows.num_rows, {"n": state[0] + np.arange(1, rows.num_rows + 1)}


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(cache, "clock_s", made)
    monkeypatch.setattr(cache, "_used_s", {})
    for query in cache.queries():
        cache.keep_only(query)
    return made


def batch(number: int) -> list[pa.Table]:
    ids = np.arange(number * 20, number * 20 + 20)
    times = pa.array(ids * 1_000, pa.timestamp("us", "UTC"))
    return [pa.table({"ts": times, "a": ids % 5, "b": ids.astype(float), "id": ids}, COLUMNS)]


def counting(folder: Path, out: Outputs) -> Engine:
    return Engine(*keyed.plan_of(keyed.step(operator=Operator(Count())), str(folder), FixedSlack(0)), out.sinks)


def remembered() -> list[str]:
    return [Path(query).name for query in cache.queries()]


def test_chunks_of_a_query_that_ended_are_forgotten(tmp_path: Path, clock: Clock) -> None:
    for number in range(5):
        counting(tmp_path / f"q{number}", Outputs()).run_batch(InProcess(), batch(0), 0)
        assert remembered()[-1] == f"q{number}"
        clock.now_s += 40
    assert remembered() == ["q3", "q4"]  # at the last batch, the others had done nothing for more than a minute


def test_any_other_query_makes_room(tmp_path: Path, clock: Clock) -> None:
    counting(tmp_path / "q", Outputs()).run_batch(InProcess(), batch(0), 0)
    clock.now_s += 61
    plan = engine.plan_of(Skyline(low("a")), str(tmp_path / "other"), Windows(1_000, 1_000), FixedSlack(0))
    Engine(*plan, Outputs().sinks).run_batch(InProcess(), batch(0), 0)
    assert remembered() == []


def test_a_query_that_rests_for_long_continues(tmp_path: Path, clock: Clock) -> None:
    out = Outputs()
    slow = counting(tmp_path / "slow", out)
    for number in range(3):
        slow.run_batch(InProcess(), batch(number), number)
        clock.now_s += 3_600
        counting(tmp_path / f"q{number}", Outputs()).run_batch(InProcess(), batch(0), 0)
        assert remembered() == [f"q{number}"]
    slow.flush(InProcess())
    assert [row["n"] for row in out.results.rows() if row["a"] == 3] == list(range(1, 13))


def test_slots_that_share_a_process_find_what_each_of_them_wrote(tmp_path: Path) -> None:
    """One slot after the other works here; what the first has written is not forgotten when the second begins."""
    running = counting(tmp_path, Outputs())
    for number in range(3):
        running.run_batch(InProcess(), batch(number), number)
        state = running.store.latest().keyed
        assert state is not None and len({chunk.file for chunk in state.chunks}) > 1, "only one slot wrote something"
        assert running.status().found_in_memory == (1.0 if number else 0.0)


def test_files_of_earlier_batches_are_forgotten(tmp_path: Path) -> None:
    running = counting(tmp_path, Outputs())
    for number in range(6):
        running.run_batch(InProcess(), batch(number), number)
    state, uri = running.store.latest().keyed, running.store.files.uri
    assert state is not None
    kept = {name for query, name in cache._kept if query == uri}
    assert {name for name in kept if name.startswith("keys/0-")} <= state.files()
