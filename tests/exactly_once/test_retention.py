"""Which states are kept: the latest five, one per minute of the last hour, and no more than fits."""

import itertools
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skytide.batch import Run, State
from skytide.errors import SkytideError
from skytide.spark.checkpoint import Files, Store, fresh_name
from skytide.spark.checkpoint import store as stores
from skytide.spark.checkpoint.back import go_back
from skytide.spark.checkpoint.retention import states_to_keep

SECOND_US = 1_000_000
EVERY_US = 7 * SECOND_US


class Recorder:
    """Records states by a clock of its own, each with a file of its own and one that all share."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.files, self.now_us, self.next = Files(folder / "skytide"), 1_000 * 60 * SECOND_US, 0
        patch.setattr(stores, "now_us", lambda: self.now_us)
        self.store = self.restarted()

    def restarted(self) -> Store:
        self.store = Store(self.files)
        self.store.take_over()
        return self.store

    def record(self, count: int, every_us: int = EVERY_US) -> None:
        for _ in range(count):
            memory = fresh_name("memory", self.next)
            self.files.write_table(memory, pa.table({"a": [0] * 1_000}), durable=False)
            self.store.record(State(self.next, self.next, memory=(Run(0, 0, 0, (memory,)),)))
            self.store.mark_emitted(self.next)
            self.next += 1
            self.now_us += every_us

    def check(self) -> list[int]:
        """Return the sequences that are kept; their files are there, and no others."""
        kept = Store(self.files).states()
        assert set(self.files.names("memory")) == {name for state in kept for name in state.files()} and kept == self.store.states()
        return [state.sequence for state in kept]


def test_an_hour_is_kept_by_minutes_and_what_is_older_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Recorder(tmp_path, monkeypatch)
    query.record(400)
    first = query.check()
    query.restarted()
    query.record(400)
    kept = query.check()
    assert first[-5:] == [395, 396, 397, 398, 399] and kept[-5:] == [795, 796, 797, 798, 799]
    assert 60 <= len(kept) <= 66
    ages_s = [7 * (kept[-1] - sequence) for sequence in kept]
    assert 3_500 < ages_s[0] <= 3_600 and max(a - b for a, b in itertools.pairwise(ages_s)) < 120


def test_older_states_give_way_to_a_bound_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "OLDER_BYTES", 100_000)  # a state takes about 8,500
    query = Recorder(tmp_path, monkeypatch)
    query.record(16 * 30 + 1)
    kept = query.check()
    assert kept[-5:] == [476, 477, 478, 479, 480] and 5 + 8 <= len(kept) <= 5 + 12


@pytest.mark.parametrize("every_s", [7, 61])
def test_the_bound_holds_after_every_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every_s: int) -> None:
    monkeypatch.setattr(stores, "OLDER_BYTES", 30_000)  # a state takes about 8,500
    query = Recorder(tmp_path, monkeypatch)
    for number in range(60):
        query.record(1, every_s * SECOND_US)
        if number == 30:
            query.restarted()
        older = query.check()[:-5]
        names = [f"manifests/{sequence:012}.json" for sequence in older]
        names += [name for state in query.store.states()[:-5] for run in state.memory for name in run.files]
        assert sum((tmp_path / "skytide" / name).stat().st_size for name in names) <= 30_000
    assert len(older) == 3


def test_one_can_go_back_to_the_oldest_and_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Recorder(tmp_path, monkeypatch)
    query.record(600)
    oldest = query.check()[0]
    query.store.release()
    go_back(tmp_path, oldest)
    assert query.restarted().latest().sequence == oldest
    query.next = oldest + 1
    query.record(40)
    assert [state.sequence for state in Store(query.files).states()][-5:] == list(range(oldest + 36, oldest + 41))


def test_if_the_latest_are_damaged_an_older_one_can_be_gone_back_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Recorder(tmp_path, monkeypatch)
    query.record(60)
    kept = query.check()
    for sequence in kept[-5:]:
        query.files.put(f"manifests/{sequence:012}.json", b"garbage")
    query.store.release()
    with pytest.raises(SkytideError, match=rf"`skytide checkpoint back` to sequence {kept[-6]}"):
        query.restarted()
    query.store.release()
    go_back(tmp_path, kept[-6])
    assert query.restarted().latest().sequence == kept[-6]


@given(st.lists(st.integers(-(10**10), 10**10), min_size=1, max_size=50))
def test_whatever_the_clock_says_the_latest_are_kept_and_few_others(written_us: list[int]) -> None:
    kept = states_to_keep(dict(enumerate(written_us)))
    latest = len(written_us) - 1
    assert set(range(max(latest - 4, 0), latest + 1)) <= kept
    for sequence in kept - set(range(latest - 4, latest + 1)):
        same_minute = [n for n in range(latest + 1) if written_us[n] // 60_000_000 == written_us[sequence] // 60_000_000]
        assert abs(written_us[latest] - written_us[sequence]) < 3_600_000_000
        assert not [n for n in same_minute if n > sequence and abs(written_us[latest] - written_us[n]) < 3_600_000_000]
