"""Going back to an earlier state, with notes as Spark writes them."""

import errno
import fcntl
import json
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from skytide.batch import Run, State
from skytide.cli import main
from skytide.errors import InvalidInput, SkytideError
from skytide.lateness import StreamClock
from skytide.spark.checkpoint import Files, SparkLogs, Store, fresh_name
from skytide.spark.checkpoint.back import go_back, states_of
from skytide.spark.checkpoint.owner import IN_USE
from skytide.spark.fleet.batch_log import NO_BATCH, InlineBatchLog

pytestmark = pytest.mark.usefixtures("one_minute")


def checkpoint_in(folder: Path, batches: int, *, compact: int | None = None, purged: int = 0) -> Store:
    """A checkpoint after some batches, of a query on a folder of files: its log of them, and a source that keeps none."""
    files, notes = Files(folder / "skytide"), folder / "spark"
    store = Store(files)
    store.take_over()
    for batch in range(batches):
        memory = fresh_name("memory", batch)
        files.write_table(memory, pa.table({"a": list(range(1_000))}))
        store.record(
            State(
                batch,
                batch,
                memory=(Run(0, 0, 0, (memory,), 1_000),),
                windows_out=10 * batch,
                clock=StreamClock(newest_us=1_000_000 * batch),
            )
        )
        store.mark_emitted(batch)
        offsets = f'v1\n{{"batchWatermarkMs":0}}\n{{"logOffset":{batch}}}\n{{"tick":{batch}}}'
        entry = f"sources/0/{batch}.compact" if batch == compact else f"sources/0/{batch}"
        for name, text in (
            (f"offsets/{batch}", offsets),
            (f"commits/{batch}", "v1\n{}"),
            (entry, f'v1\n{{"path":"file:///in/{batch}","timestamp":1,"batchId":{batch}}}'),
        ):
            for path in (notes / name, (notes / name).with_name(f".{Path(name).name}.crc")):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
    (notes / "sources" / "1").mkdir()
    (notes / "sources" / "1" / "0").write_text("where it began")
    (notes / "metadata").write_text("{}")
    for batch in range(purged):
        (notes / "sources" / "0" / str(batch)).unlink()
    return store


def notes_in(folder: Path) -> dict[str, list[str]]:
    names = sorted(str(path.relative_to(folder / "spark")) for path in (folder / "spark").rglob("*") if path.is_file())
    return {
        part: [name.removeprefix(f"{part}/") for name in names if name.startswith(part)]
        for part in ("commits", "offsets", "sources/0")
    }


def with_checksums(last: int) -> list[str]:
    return sorted([*(str(number) for number in range(last + 1)), *(f".{number}.crc" for number in range(last + 1))])


def test_a_state_and_sparks_notes_go_back_together(tmp_path: Path) -> None:
    checkpoint_in(tmp_path, 8).release()
    go_back(tmp_path, 4)
    store = Store(f"{tmp_path}/skytide")
    assert [state.sequence for state in store.states()] == [3, 4] and store.emitted() == 4
    # The next batch keeps its tuples: Spark had chosen them.
    assert notes_in(tmp_path) == {"commits": with_checksums(4), "offsets": with_checksums(5), "sources/0": with_checksums(5)}
    assert (tmp_path / "spark" / "sources" / "1" / "0").exists() and (tmp_path / "spark" / "metadata").exists()
    go_back(tmp_path, 4)
    go_back(tmp_path, 3)
    assert notes_in(tmp_path)["commits"] == with_checksums(3)
    assert store.before(4).sequence == 3


def test_going_back_is_refused_while_a_query_runs(tmp_path: Path) -> None:
    store = checkpoint_in(tmp_path, 5)
    before = notes_in(tmp_path)
    with pytest.raises(SkytideError, match="a query runs on this checkpoint; stop it first"):
        go_back(tmp_path, 2)
    assert notes_in(tmp_path) == before and len(store.states()) == 5
    del store  # as when its process ends
    go_back(tmp_path, 2)


def test_a_start_is_refused_while_a_checkpoint_goes_back(tmp_path: Path) -> None:
    checkpoint_in(tmp_path, 5).release()
    files = Files(tmp_path / "skytide")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    going_back = files.lock(IN_USE, alone=True)
    with pytest.raises(
        InvalidInput, match=r"/skytide: `skytide checkpoint back` works on this checkpoint; start the query when it has ended"
    ):
        Store(files).take_over()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    going_back.close()
    store = Store(files)
    store.take_over()
    store.record(State(5, 5))


def test_a_disk_without_locks_lets_a_query_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*given: object) -> None:
        raise OSError(errno.ENOLCK, "no locks here")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert checkpoint_in(tmp_path, 2).latest().sequence == 1


def test_going_back_before_what_spark_put_together_is_refused_if_that_loses_files(tmp_path: Path) -> None:
    checkpoint_in(tmp_path / "whole", 8, compact=6).release()
    go_back(tmp_path / "whole", 4)  # all single notes are still there
    assert notes_in(tmp_path / "whole")["sources/0"] == with_checksums(5)
    checkpoint_in(tmp_path / "lost", 8, compact=6, purged=6).release()
    with pytest.raises(SkytideError, match=r"merged its notes on files .* go back to a later state"):
        go_back(tmp_path / "lost", 4)
    assert len(Store(f"{tmp_path}/lost/skytide").states()) == 5
    go_back(tmp_path / "lost", 6)
    assert notes_in(tmp_path / "lost")["commits"] == with_checksums(6)


def test_going_back_to_what_spark_has_forgotten_is_refused(tmp_path: Path) -> None:
    checkpoint_in(tmp_path, 8).release()
    (tmp_path / "spark" / "offsets" / "4").unlink()
    with pytest.raises(SkytideError, match=r"Spark no longer has a note of batch 4, .* go back to a later one"):
        go_back(tmp_path, 4)
    go_back(tmp_path, 5)
    assert Store(f"{tmp_path}/skytide").before(6).sequence == 5


def test_going_back_to_what_a_fleet_has_forgotten_is_refused(tmp_path: Path) -> None:
    checkpoint_in(tmp_path, 8).release()
    for batch in range(8):
        (tmp_path / "spark" / "offsets" / str(batch)).write_text(f'v1\n{{}}\n{{"note":"notes/{batch}"}}')
        if batch > 4:
            Files(tmp_path / "fleet").put(f"notes/{batch}", b"")
    before = notes_in(tmp_path)
    with pytest.raises(SkytideError, match=r"fleet/notes/4: the fleet has removed its note .* go back to a later state"):
        go_back(tmp_path, 4)
    assert notes_in(tmp_path) == before and len(Store(f"{tmp_path}/skytide").states()) == 5
    go_back(tmp_path, 5)


def test_a_damaged_manifest_takes_sparks_notes_back_so_that_the_batch_is_repeated(tmp_path: Path) -> None:
    checkpoint_in(tmp_path, 8)
    (tmp_path / "skytide" / "manifests" / f"{7:012}.json").write_text("garbage")
    store = Store(f"{tmp_path}/skytide")
    store.take_over(SparkLogs(Files(tmp_path / "spark")))
    assert store.latest().batch == 6 and store.before(7).batch == 6
    assert notes_in(tmp_path) == {"commits": with_checksums(6), "offsets": with_checksums(7), "sources/0": with_checksums(7)}


def test_a_damaged_first_manifest_starts_anew(tmp_path: Path) -> None:
    checkpoint_in(tmp_path, 1)
    (tmp_path / "skytide" / "manifests" / f"{0:012}.json").write_text("")
    store = Store(f"{tmp_path}/skytide")
    store.take_over(SparkLogs(Files(tmp_path / "spark")))
    assert store.latest() == State() and notes_in(tmp_path) == {
        "commits": [],
        "offsets": with_checksums(0),
        "sources/0": with_checksums(0),
    }


def test_the_states_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint_in(tmp_path, 8).release()
    assert [row.sequence for row in states_of(tmp_path)] == [3, 4, 5, 6, 7]
    assert main(["checkpoint", "list", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["sequence", "batch", "written", "windows", "out", "newest", "event", "size"]
    assert len(lines) == 6 and "1970-01-01 00:00:07 UTC" in lines[-1] and lines[-1].endswith(" kB") and " 70 " in lines[-1]
    assert main(["checkpoint", "back", str(tmp_path), "--to", "5"]) == 0
    assert f"{tmp_path} is back at sequence 5" in capsys.readouterr().out
    assert json.loads((tmp_path / "skytide" / "emitted").read_text()) == 5


def test_the_list_marks_what_cannot_be_gone_back_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint_in(tmp_path / "files", 8, compact=6, purged=6).release()
    checkpoint_in(tmp_path / "spark", 8).release()
    checkpoint_in(tmp_path / "fleet", 8).release()
    for batch in range(5):
        (tmp_path / "spark" / "spark" / "commits" / str(batch)).unlink()
    for batch in range(8):
        (tmp_path / "fleet" / "spark" / "offsets" / str(batch)).write_text(f'v1\n{{}}\n{{"note":"notes/{batch}"}}')
        if batch > 6:
            Files(tmp_path / "fleet" / "fleet").put(f"notes/{batch}", b"")
    for name, reachable in (("files", {5, 6, 7}), ("spark", {5, 6, 7}), ("fleet", {7})):
        assert {row.sequence for row in states_of(tmp_path / name) if row.reachable} == reachable
        assert main(["checkpoint", "list", str(tmp_path / name)]) == 0
        *lines, explained = capsys.readouterr().out.splitlines()
        assert {int(line.split()[0]) for line in lines[1:] if not line.endswith("unreachable")} == reachable
        assert explained.startswith("unreachable: ") and "`skytide checkpoint back` refuses it" in explained
        for sequence in range(3, 8):  # each to what the list says
            assert _can_go_back(tmp_path / name, sequence) == (sequence in reachable)


def _can_go_back(folder: Path, sequence: int) -> bool:
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        try:
            go_back(copy, sequence)
        except SkytideError:
            return False
    return True


def test_a_fleet_whose_notes_are_in_the_offsets_goes_back(tmp_path: Path) -> None:
    checkpoint_in(tmp_path, 5).release()
    for batch in range(5):
        offset = {"sequence": batch, **InlineBatchLog().put(batch, NO_BATCH)}
        (tmp_path / "spark" / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps(offset)}")
    go_back(tmp_path, 2)
    assert Store(f"{tmp_path}/skytide").latest().sequence == 2


def test_what_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "list", str(tmp_path / "nothing")]) == 1
    assert "no state of a query is there; name the folder that the query was given" in capsys.readouterr().err
    assert not (tmp_path / "nothing").exists()
    checkpoint_in(tmp_path, 8).release()
    assert main(["checkpoint", "back", str(tmp_path), "--to", "1"]) == 1
    assert "--to 1: that state is not kept; choose one of 3, 4, 5, 6, 7" in capsys.readouterr().err


def test_the_first_batch_can_be_done_again(tmp_path: Path) -> None:
    checkpoint_in(tmp_path / "first", 3).release()
    go_back(tmp_path / "first", -1)
    store = Store(f"{tmp_path}/first/skytide")
    assert store.before(0) == State() and store.emitted() == -1
    assert notes_in(tmp_path / "first") == {"commits": [], "offsets": with_checksums(0), "sources/0": with_checksums(0)}
    checkpoint_in(tmp_path / "later", 8).release()
    with pytest.raises(InvalidInput, match="--to -1: that state is not kept; choose one of 3, 4, 5, 6, 7"):
        go_back(tmp_path / "later", -1)
