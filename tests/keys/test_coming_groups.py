"""When keys move, a slot works on the groups that stay while it reads the state of those that come (P2's R4)."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support import keyed
from support.engine import COLUMNS, Crash, InProcess, Outputs

from skytide.keyed import KeyedState, Operator
from skytide.lateness import FixedSlack
from skytide.spark.checkpoint import Files
from skytide.spark.engine import chunks
from skytide.spark.engine.cache import cache
from skytide.spark.engine.engine import Engine

KEYS = 64


WORKED = threading.Event()
"""Some key has been worked on."""


class Summing:
    """Sums the numbers of a key, and says that it has worked."""

    def open(self, key: Any) -> Any:
        return np.zeros(1, np.int64)

    def process(self, state: Any, rows: pa.Table) -> Any:
        sums = state + np.cumsum(rows["id"].to_numpy())
        WORKED.set()
        return sums[-1:], {"id": rows["id"], "sum": sums}


def batch(number: int) -> list[pa.Table]:
    ids = np.arange(number * 1_000, number * 1_000 + 1_000)
    times = pa.array(ids * 10, pa.timestamp("us", "UTC"))
    return [pa.table({"ts": times, "a": ids % KEYS, "b": ids.astype(float), "id": ids}, COLUMNS)]


def keyed_state(engine: Engine) -> KeyedState:
    known = engine.store.latest().keyed
    assert known is not None
    return known


class Remote:
    """An object store from which the state of the keys that move comes only when some other key has been worked on."""

    def __init__(self, patch: pytest.MonkeyPatch, deadline_s: float = 20.0) -> None:
        self.moving, self.asked, self.dies = set[str](), list[str](), False
        read = Files.map_table

        def slow(files: Files, name: str) -> pa.Table:
            if name in self.moving:
                self.asked.append(name)
                assert WORKED.wait(deadline_s), "no key was worked on before all state was there"
                if self.dies:
                    raise Crash
            return read(files, name)

        patch.setattr(Files, "is_local", property(lambda files: False))
        patch.setattr(Files, "map_table", slow)


def play(folder: Path, remote: Remote, *, dies: bool = False) -> list[tuple[int, int]]:
    """Return the sums of a stream, the second slot of which goes away before its third batch."""
    plan, out = keyed.plan_of(keyed.step(operator=Operator(Summing())), str(folder), FixedSlack(0)), Outputs()
    engine = Engine(*plan, out.sinks)
    engine.run_batch(InProcess(), batch(0), 0)
    engine.resize(slots=1)
    goes = keyed_state(engine).table.mask(1)
    engine.run_batch(InProcess(), batch(1), 1)
    known = keyed_state(engine)
    assert known.table.count == 1
    remote.moving = {chunk.file for chunk in known.chunks if chunk.groups & goes}
    assert remote.moving < known.files()
    cache.keep_only(plan.store.files.uri, known.files() - remote.moving)
    WORKED.clear()
    if dies:
        remote.dies = True
        with pytest.raises(Crash):
            engine.run_batch(InProcess(), batch(2), 2)
        assert remote.asked and WORKED.is_set(), "it did not die between the groups"
        assert keyed_state(engine) == known
        remote.dies = False
        engine = Engine(*plan, out.sinks)
        cache.keep_only(plan.store.files.uri)
        WORKED.set()  # nothing is in the memory of the process that comes after, so all waits
    engine.run_batch(InProcess(), batch(2), 2)
    engine.flush(InProcess())
    assert remote.asked
    return sorted((row["id"], row["sum"]) for row in out.results.rows())


def expected() -> list[tuple[int, int]]:
    return [(number, sum(range(number % KEYS, number + 1, KEYS))) for number in range(3_000)]


def test_groups_that_stay_wait_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert play(tmp_path, Remote(monkeypatch)) == expected()


def test_a_slot_that_reads_all_state_first_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guilty specimen: what has to be read is read at once."""
    monkeypatch.setattr(chunks, "ThreadPoolExecutor", AtOnce)
    with pytest.raises(AssertionError, match="before all state was there"):
        play(tmp_path, Remote(monkeypatch, deadline_s=0.01))


class AtOnce:
    """Has no readers."""

    def __init__(self, readers: int) -> None:
        assert readers > 0

    def submit(self, read: Callable[..., Any], *values: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(read(*values))
        return done

    def shutdown(self, **how: bool) -> None:
        pass


def test_a_process_that_dies_between_the_groups_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that stay have been worked on, and the state of those that come has not arrived."""
    assert play(tmp_path, Remote(monkeypatch), dies=True) == expected()
