"""Files, manifests and Parquet folders: one contract, on a local disk and on an S3 server."""

import contextlib
import logging
import os
import pickle
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet
import pytest
from support.engine import InProcess
from support.s3_server import BUCKET, s3_server

from skytide.batch import Run, State
from skytide.errors import InvalidInput, SkytideError
from skytide.spark.checkpoint import KEPT, Files, Store, fresh_name, sequence_of
from skytide.spark.checkpoint.folder import OwnedFolder, check_all
from skytide.spark.checkpoint.store import SWEEP_EVERY
from skytide.spark.sinks.base import Staged
from skytide.spark.sinks.parquet import Parquet

TABLE = pa.table({"a": [1, 2, 3]})


@pytest.fixture(scope="module", params=["disk", pytest.param("s3", marks=pytest.mark.slow)])
def places(request: pytest.FixtureRequest) -> Iterator[Callable[[], Files]]:
    """What makes new, empty folders with a name that is not easy."""
    with contextlib.ExitStack() as stack:
        if request.param == "s3":
            options = stack.enter_context(s3_server())
            yield lambda: Files(f"s3a://{BUCKET}/{uuid.uuid4().hex}/a b%20ü", options)
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            yield lambda: Files(f"{folder}/{uuid.uuid4().hex}/a b%20ü?[x]#")


@pytest.fixture
def files(places: Callable[[], Files]) -> Files:
    return places()


class Outputs(State):
    """A state with results that a sink may still have to be given."""

    def output_files(self) -> set[str]:
        return {f"results/{self.sequence}-{'0' * 32}.arrow"}


def state_of(files: Files, sequence: int, batch: int | None = None, **known: object) -> State:
    """A state that rests on a file of its own."""
    memory = fresh_name("memory", sequence)
    files.write_table(memory, TABLE)
    return State(batch=sequence if batch is None else batch, sequence=sequence, memory=(Run(0, 0, 0, (memory,)),), **known)  # type: ignore[arg-type]


def store_with(files: Files, *sequences: int) -> Store:
    store = Store(files)
    store.take_over()
    for sequence in sequences:
        store.record(state_of(files, sequence))
        store.mark_emitted(sequence)
    return store


class TestFiles:
    def test_what_was_written_is_read_also_where_they_travelled(self, files: Files) -> None:
        files.write_table("tables/1.arrow", TABLE)
        files.put("notes/one", b"first")
        files.put("notes/one", b"second")
        travelled = pickle.loads(pickle.dumps(files))
        assert travelled.read_table("tables/1.arrow") == TABLE
        assert travelled.read("notes/one") == b"second"
        assert travelled.names("notes") == ["notes/one"] and travelled.names("nothing") == []
        assert travelled.read_if_there("notes/two") is None
        assert (files.exists("notes/one"), files.exists("notes/two")) == (True, False)

    def test_single_batches_of_a_file(self, files: Files) -> None:
        batches = [pa.record_batch({"a": pa.array([n] * n, pa.int64())}) for n in range(5)]
        files.write_batches("panes/1.arrow", batches[0].schema, batches)
        assert files.read_batches("panes/1.arrow", 2, 2) == batches[2:4]
        assert files.read_batches("panes/1.arrow") == batches
        files.write_batches("panes/2.arrow", batches[0].schema, [])
        assert files.read_batches("panes/2.arrow") == []

    @pytest.mark.parametrize("rows", [10, 100_000])
    def test_some_batches_of_a_file_that_is_open(self, files: Files, rows: int) -> None:
        batches = [pa.record_batch({"a": pa.array(np.arange(rows) + n)}) for n in range(4)]
        files.write_batches("panes/3.arrow", batches[0].schema, batches)
        reader = files.seek_batches("panes/3.arrow")
        assert [reader.get_batch(number) for number in (3, 1)] == [batches[3], batches[1]]

    def test_of_two_that_create_one_wins(self, files: Files) -> None:
        assert files.create("x/y", b"mine")
        assert not files.create("x/y", b"yours")
        assert files.read("x/y") == b"mine"

    def test_nothing_else_is_left_behind(self, files: Files) -> None:
        files.write_table("x/1.arrow", TABLE)
        files.write_parquet("x/2.parquet", TABLE)
        files.create("x/3", b"")
        files.create("x/3", b"again")
        assert [entry.name for entry in files.entries("x")] == ["1.arrow", "2.parquet", "3"]

    def test_moving_and_deleting(self, files: Files) -> None:
        for name in ("a/1", "a/2", "b/3"):
            files.put(name, name.encode())
        files.move("a/1", "b/3")
        assert files.read("b/3") == b"a/1" and not files.exists("a/1")
        files.delete("a/2")
        files.delete("a/2")
        files.delete_folder("b")
        files.delete_folder("b")
        assert files.names("a") == files.names("b") == []

    def test_names_tell_their_sequence(self) -> None:
        name = fresh_name("panes", 12, -3)
        assert sequence_of(name) == sequence_of(f"panes/.{os.path.basename(name)}.{uuid.uuid4().hex}") == 12
        for strange in ("2024-report.arrow", "12.arrow", "notes.txt", ".DS_Store", f"x-{uuid.uuid4().hex}.arrow"):
            assert sequence_of(strange) is None


class TestDisk:
    def test_a_file_and_its_folder_are_forced_to_the_disk_before_the_name_counts(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen = []

        def noted(name: str) -> Callable[..., None]:
            real = getattr(os, name)

            def call(*given: object) -> None:
                what = os.readlink(f"/proc/self/fd/{given[0]}") if name == "fsync" else given[-1]
                seen.append((name, os.path.basename(str(what)).split(".")[-1 if name == "fsync" else 0]))
                real(*given)

            return call

        files = Files(tmp_path / "deep" / "ck")
        files.put("f/first", b"")
        for name in ("fsync", "replace", "link"):
            monkeypatch.setattr(os, name, noted(name))
        files.put("f/replaced", b"1")
        assert [name for name, _ in seen] == ["fsync", "replace"]
        files.settle(["f"])
        assert seen[-1] == ("fsync", "f")
        seen.clear()
        files.create("f/created", b"1")
        assert [name for name, _ in seen] == ["fsync", "link", "fsync"] and seen[-1] == ("fsync", "f")
        seen.clear()
        files.put("f/quick", b"1", durable=False)
        assert [name for name, _ in seen] == ["replace"]

    def test_without_links_one_still_wins(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise PermissionError(1, "no links here")

        monkeypatch.setattr(os, "link", refuse)
        files = Files(tmp_path)
        assert files.create("x", b"mine") and not files.create("x", b"yours")
        assert files.read("x") == b"mine"
        assert [path.name for path in tmp_path.iterdir()] == ["x"]

    def test_a_write_that_fails_leaves_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        files = Files(tmp_path)
        files.put("x", b"before")
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            files.put("x", b"after")
        assert files.read("x") == b"before" and [path.name for path in tmp_path.iterdir()] == ["x"]


class TestStore:
    def test_a_state_is_there_after_a_restart(self, files: Files) -> None:
        store = store_with(files, 0, 1)
        again = Store(files)
        again.take_over()
        assert again.states() == store.states() == Store(files).states()
        assert (again.latest().sequence, again.emitted()) == (1, 1)

    def test_nothing_is_there_at_first(self, files: Files) -> None:
        store = store_with(files)
        assert store.latest() == State() and store.before(0) == State()
        assert store.emitted() == -1 and store.recorded(0) is None

    def test_a_record_is_never_changed(self, files: Files) -> None:
        store = store_with(files, 0)
        state = state_of(files, 1)
        store.record(state)
        store.record(state)
        with pytest.raises(SkytideError, match="took this checkpoint over"):
            store.record(replace(state, windows_out=7))
        assert Store(files).latest() == state

    def test_what_was_recorded_and_not_emitted_shows(self, files: Files) -> None:
        store = store_with(files, 0, 1)
        store.record(state_of(files, 2))
        assert (Store(files).latest().sequence, Store(files).emitted()) == (2, 1)
        files.delete("emitted")
        assert Store(files).emitted() == 1  # at most the latest one is not known to have gone out

    def test_a_repeated_batch_finds_what_was_recorded_of_it(self, files: Files) -> None:
        store = store_with(files, 0, 1)
        store.record(state_of(files, 2, batch=1, flushed=True))
        found = store.recorded(1)
        assert found is not None and found.sequence == 1
        assert store.before(2).sequence == 2 and store.before(1).sequence == 0
        assert store.recorded(2) is None

    def test_the_state_before_a_place_of_the_source(self, files: Files) -> None:
        store = store_with(files)
        for sequence in range(3):
            store.record(state_of(files, sequence, source_end=10 * (sequence + 1)))
        assert [store.latest_before_source(position).sequence for position in (5, 10, 29, 30)] == [-1, 0, 1, 2]

    @pytest.mark.usefixtures("one_minute")
    def test_several_states_are_kept_with_all_they_need_and_no_others(self, files: Files) -> None:
        store = store_with(files, *range(2 * SWEEP_EVERY + 1))
        kept = Store(files).states()
        assert [state.sequence for state in kept] == list(range(2 * SWEEP_EVERY - KEPT + 1, 2 * SWEEP_EVERY + 1))
        assert set(files.names("memory")) == {name for state in kept for name in state.files()}
        assert store.states() == kept

    def test_results_stay_until_they_are_emitted(self, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(State, "output_files", Outputs.output_files)
        store = store_with(files)
        for sequence in range(4):
            (name,) = State(sequence=sequence).output_files()
            files.write_table(name, TABLE)
            store.record(state_of(files, sequence))
            if sequence != 2:
                store.mark_emitted(1 if sequence == 3 else sequence)
        assert [sequence_of(name) for name in files.names("results")] == [2, 3]

    def test_tries_that_were_never_recorded_are_removed_and_files_that_are_not_ours_are_not(self, files: Files) -> None:
        store = store_with(files, 0)
        draft = f".{os.path.basename(fresh_name('panes', 0, 4))}.{uuid.uuid4().hex}"
        tries = [
            fresh_name("panes", 0, 7),
            fresh_name("verdicts", 0),
            f"panes/{draft}",
            f"manifests/.{0:012}.json.{uuid.uuid4().hex}",
        ]
        others = ["panes/2024-01-01.arrow", "panes/notes.txt", "manifests/1.json", "mine/0-1.arrow", "README", "memory/0-x.arrow"]
        for name in (*tries, *others):
            files.put(name, b"")
        late = fresh_name("panes", 99)  # of a batch to come
        files.put(late, b"")
        for sequence in range(1, SWEEP_EVERY + 2):
            store.record(state_of(files, sequence))
        assert [name for name in tries if files.exists(name)] == []
        assert [name for name in (*others, late) if not files.exists(name)] == []

    @pytest.mark.parametrize("damage", [b"", b"garbage", b"\xff\xfe\x00", b"{}", "cut", "changed"])
    def test_a_damaged_manifest_falls_back_to_the_one_before_and_says_so(
        self, files: Files, damage: bytes | str, caplog: pytest.LogCaptureFixture
    ) -> None:
        store_with(files, 0, 1, 2)
        name = f"manifests/{2:012}.json"
        whole = files.read(name)
        data = {"cut": whole[:-9], "changed": whole.replace(b'"batch": 2', b'"batch": 9')}.get(str(damage), damage)
        files.put(name, data)
        store = Store(files)
        with caplog.at_level(logging.WARNING):
            store.take_over()
        assert "falls back to the state before it, of sequence 1" in caplog.text and name in caplog.text
        assert (store.latest().sequence, store.emitted()) == (1, 1)
        store.record(state_of(files, 2))
        assert Store(files).latest().sequence == 2
        assert files.read(f"{name}.damaged") == data

    def test_an_older_damaged_manifest_stops_nobody(self, files: Files, caplog: pytest.LogCaptureFixture) -> None:
        store_with(files, 0, 1, 2)
        files.put(f"manifests/{1:012}.json", b"garbage")
        store = Store(files)
        store.take_over()
        assert store.latest().sequence == 2 and store.emitted() == 2
        assert "does not need it" in caplog.text

    @pytest.mark.usefixtures("one_minute")
    def test_without_a_state_to_fall_back_to_it_is_refused(self, files: Files) -> None:
        store_with(files, *range(KEPT + 2))
        for name in files.names("manifests"):
            files.put(name, b"garbage")
        with pytest.raises(SkytideError, match=r"no manifest can be read .* restore the checkpoint folder from a copy"):
            Store(files).take_over()

    def test_a_second_driver_fences_the_first_off(self, files: Files) -> None:
        first = store_with(files, 0)
        second = Store(files)
        second.take_over()
        with pytest.raises(SkytideError, match=r"process \d+ on \S+ took this checkpoint over, so this query stops; run one query"):
            first.record(state_of(files, 1))
        second.record(state_of(files, 1))
        assert len(Store(files).states()) == 2

    def test_one_that_did_not_take_over_may_not_record(self, files: Files) -> None:
        travelled = pickle.loads(pickle.dumps(store_with(files, 0)))
        with pytest.raises(SkytideError, match="take_over"):
            travelled.record(State(sequence=1))

    def test_each_checkpoint_has_an_identity_for_life(self, files: Files, places: Callable[[], Files]) -> None:
        assert Store(files).identity() == Store(files).identity() != Store(places()).identity()

    def test_a_driver_in_another_process_fences_this_one_off(self, tmp_path: Path) -> None:
        store = store_with(Files(tmp_path), 0)
        script = "import sys; from skytide.spark.checkpoint import Store; Store(sys.argv[1]).take_over()"
        subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
        with pytest.raises(SkytideError, match="took this checkpoint over"):
            store.record(State(sequence=1))


class TestParquetSink:
    @pytest.fixture
    def sink(self, files: Files) -> Parquet:
        return Parquet(files.uri, options=files.options)

    def staged(self, *names: str, small: pa.Table | None = None) -> Staged:
        return Staged(TABLE.schema, InProcess(), Files("/nowhere"), names, small)

    def rows(self, files: Files) -> list[int]:
        """What a reader sees: all of the folder but names with an underscore or a dot at their head."""
        data, names = [], [e.name for e in files.entries() if e.is_folder and e.name[0] not in "_."]
        for folder in names:
            data += [pa.parquet.read_table(pa.BufferReader(files.read(name)))["a"].to_pylist() for name in files.names(folder)]
        return sorted(value for part in data for value in part)

    def test_readers_see_what_is_published_and_nothing_else(self, sink: Parquet) -> None:
        staged = sink.stage(TABLE, 3, 0)
        assert self.rows(sink.owned.files) == []
        sink.publish(3, self.staged(staged))
        assert self.rows(sink.owned.files) == [1, 2, 3]
        sink.publish(3, self.staged(staged))  # again, after a crash
        assert self.rows(sink.owned.files) == [1, 2, 3]
        assert sink.owned.files.names("batch=3") == ["batch=3/part-00000.parquet"]

    def test_a_task_that_was_given_up_changes_nothing_when_it_writes_late(self, sink: Parquet) -> None:
        sink.publish(0, self.staged(sink.stage(TABLE, 0, 0)))
        orphan = pickle.loads(pickle.dumps(sink))
        orphan.stage(pa.table({"a": [7]}), 0, 0)
        assert self.rows(sink.owned.files) == [1, 2, 3]
        sink.publish(1, self.staged())
        assert sink.owned.files.names("_skytide") == [] and self.rows(sink.owned.files) == [1, 2, 3]

    def test_a_number_that_comes_again_takes_the_place_of_the_first(self, sink: Parquet) -> None:
        sink.publish(0, self.staged(small=TABLE))
        sink.publish(0, self.staged(small=pa.table({"a": [7]})))
        sink.publish(1, self.staged(small=pa.table({"a": [8]})))
        assert self.rows(sink.owned.files) == [7, 8]
        sink.publish(1, self.staged())
        sink.publish(2, self.staged())
        assert self.rows(sink.owned.files) == [7]

    def test_what_was_never_published_and_is_gone_is_not_taken_for_published(self, sink: Parquet) -> None:
        with pytest.raises(SkytideError, match="unpublished results of batch number"):
            sink.publish(5, self.staged(fresh_name("_skytide", 5, kind="parquet")))

    def test_only_older_leftovers_of_ours_are_cleaned(self, sink: Parquet) -> None:
        sink.owned.claim("one", "ck")
        kept = [sink.stage(TABLE, 4, 0), "_skytide/notes.txt", "_skytide/owner.json"]
        sink.owned.files.put(kept[1], b"")
        sink.stage(TABLE, 3, 0)
        sink.publish(4, self.staged())
        assert sorted(sink.owned.files.names("_skytide")) == sorted(kept)

    def test_a_folder_belongs_to_its_query(self, sink: Parquet) -> None:
        sink.owned.claim("one", "file:///ck")
        sink.owned.claim("one", "file:///ck")
        sink.publish(0, self.staged(small=TABLE))
        sink.owned.claim("one", "file:///ck")
        with pytest.raises(InvalidInput, match="belongs to another query, with the checkpoint file:///ck; choose another folder"):
            sink.owned.claim("two", "file:///other")
        assert self.rows(sink.owned.files) == [1, 2, 3]

    def test_a_folder_that_is_not_ours_is_refused_and_left_alone(self, sink: Parquet) -> None:
        sink.owned.files.put("thesis.txt", b"years of work")
        with pytest.raises(InvalidInput, match=r"not empty and not a folder of a query \(.*thesis.txt is there\); choose another"):
            sink.owned.claim("one", "ck")
        assert [entry.name for entry in sink.owned.files.entries()] == ["thesis.txt"]

    def test_an_owner_that_cannot_be_read_is_another(self, sink: Parquet) -> None:
        sink.owned.files.put("_skytide/owner.json", b"half")
        with pytest.raises(InvalidInput, match="belongs to another query"):
            sink.owned.claim("one", "ck")

    def test_folders_inside_are_claimed_with_the_outer_one_or_none_is(self, sink: Parquet, places: Callable[[], Files]) -> None:
        inside, strange = Parquet(f"{sink.owned.path}/_late", options=sink.owned.files.options), places()
        strange.put("x", b"")
        with pytest.raises(InvalidInput, match="not empty"):
            check_all([sink.owned, inside.owned, OwnedFolder(strange.uri, strange.options)], "one", "ck")
        for _ in range(2):
            check_all([sink.owned, inside.owned], "two", "ck")
            sink.owned.claim("two", "ck")
            inside.owned.claim("two", "ck")
        with pytest.raises(InvalidInput, match="another query"):
            inside.owned.claim("one", "ck")

    def test_the_folder_is_one_dataset_to_arrow_at_any_time(self, tmp_path: Path) -> None:
        sink = Parquet(tmp_path / "out")
        sink.owned.claim("one", "ck")
        sink.publish(0, self.staged(small=TABLE))
        Parquet(tmp_path / "out" / "_windows").publish(0, self.staged(small=pa.table({"b": ["x"]})))
        sink.stage(pa.table({"a": [7]}), 1, 0)
        assert ds.dataset(sink.owned.path, format="parquet").to_table()["a"].to_pylist() == [1, 2, 3]

    def test_a_file_in_the_place_of_the_folder_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "out").write_text("a file")
        with pytest.raises(InvalidInput, match="choose a folder to write to"):
            Parquet(tmp_path / "out").owned.claim("one", "ck")
