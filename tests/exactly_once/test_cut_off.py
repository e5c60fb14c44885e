"""Going back, on purpose or from damaged manifests: what a crash in between leaves, and sinks that ignore a number they have had."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.back import BATCHES, Query
from support.engine import Crash

from skytide.batch import State
from skytide.spark.checkpoint import Files, Store
from skytide.spark.sinks.base import Sink, Staged

pytestmark = pytest.mark.usefixtures("one_minute")


class Transactions(Sink):
    """A sink as Delta is one: it ignores a number that it has had from the same application."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, int], pa.Table] = {}

    def publish(self, sequence: int, staged: Staged) -> None:
        if staged:
            self.kept.setdefault((self.identity.transactions, sequence), staged.table())

    def starts(self) -> list[Any]:
        return sorted(row["window_start"] for table in self.kept.values() for row in table.to_pylist())


def damage(query: Query, *sequences: int) -> None:
    for sequence in sequences:
        (query.checkpoint / "skytide" / "manifests" / f"{sequence:012}.json").write_text("garbage")


def test_if_two_manifests_are_damaged_no_window_is_taken_for_written(tmp_path: Path) -> None:
    whole, query, sink = Query(tmp_path / "whole"), Query(tmp_path), Transactions()
    whole.run(*BATCHES)
    query.results = sink
    query.run(*BATCHES[:6])
    damage(query, 4, 5)
    query.run(BATCHES[4], [part for batch in BATCHES[5:] for part in batch])  # the second one has other borders
    assert sorted(set(sink.starts())) == whole.starts()


def test_if_one_manifest_is_damaged_its_windows_are_there_once(tmp_path: Path) -> None:
    whole, query, sink = Query(tmp_path / "whole"), Query(tmp_path), Transactions()
    whole.run(*BATCHES)
    query.results = sink
    query.run(*BATCHES[:6])
    damage(query, 5)
    query.run(*BATCHES[5:])  # Spark has noted what is in it
    assert sink.starts() == whole.starts()


def store_of(folder: Path) -> Store:
    """A store with the states 3 to 7, all of which were emitted."""
    store = Store(folder)
    store.take_over()
    for sequence in range(8):
        store.record(State(sequence, sequence))
        store.mark_emitted(sequence)
    store.release()
    return store


def crash_after(calls: int, method: str, patch: pytest.MonkeyPatch) -> None:
    done, left = getattr(Files, method), iter(range(calls))

    def call(*given: Any) -> None:
        if next(left, None) is None:
            raise Crash
        done(*given)

    patch.setattr(Files, method, call)


@pytest.mark.parametrize("deletions", range(3))
def test_a_cut_off_way_back_leaves_nothing_that_counts_as_emitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deletions: int
) -> None:
    store = store_of(tmp_path)
    with monkeypatch.context() as patch, pytest.raises(Crash):
        crash_after(deletions, "delete", patch)
        store.forget_after(4)
    assert int((tmp_path / "emitted").read_text()) == 4
    store.take_over()
    assert store.emitted() == store.latest().sequence - 1 == 6 - deletions


def test_what_is_not_there_was_not_emitted(tmp_path: Path) -> None:
    """An earlier version was cut off on its way back."""
    store = store_of(tmp_path)
    for sequence in (6, 7):
        (tmp_path / "manifests" / f"{sequence:012}.json").unlink()
    assert Store(tmp_path).emitted() == 5
    store.take_over()
    assert store.emitted() == 5
    store.record(State(6, 6))
    assert store.emitted() == 5


def test_damaged_manifests_that_were_half_put_aside_are_put_aside_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(tmp_path)
    for sequence in (6, 7):
        (tmp_path / "manifests" / f"{sequence:012}.json").write_text("garbage")
    with monkeypatch.context() as patch, pytest.raises(Crash):
        crash_after(1, "move", patch)
        store.take_over()
    store = Store(tmp_path)
    store.take_over()
    assert store.latest().sequence == store.emitted() == 5
