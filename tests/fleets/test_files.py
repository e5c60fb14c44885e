"""Files that cannot be opened, were replaced, or have odd names: nothing is lost that is still there, and what is lost is counted once."""

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fleet_model import Asked, record, status, write

from skytide.errors import SkytideError
from skytide.spark.fleet.batch_log import BatchEntry
from skytide.spark.fleet.feeds import UnavailableError, folder

LONG = '{"schema": "com.example.sensor.v1", "site": "zurich-hauptbahnhof-7", "n": %d, "pad": ""}\n'
HEADER = "n,pad" + " " * 80 + "\n"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "RETRY_S", ())


@contextmanager
def no_more_files() -> Iterator[None]:
    """Let this process open no further file."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def _planned(asked: Asked) -> tuple[Any, Any]:
    start = asked.reader.initialOffset()
    end = asked.reader.latestOffset(start, None)  # type: ignore[arg-type]
    asked.log = [end]
    return start, end


def test_a_task_that_may_open_no_more_files_fails_and_its_repetition_reads_all(asked: Asked) -> None:
    write(asked, "a", 1, 2)
    write(asked, "b", 3)
    start, end = _planned(asked)
    parts = asked.reader.partitions(start, end)
    with no_more_files(), pytest.raises(SkytideError, match=r"cannot read .*a\.jsonl: Too many open files"):
        list(asked.reader.feed.read(parts[0].ranges))
    asked.all()
    assert asked.given == {"a": [1, 2], "b": [3]}
    assert status(asked)["skipped"] == {}


def test_a_look_that_may_open_no_more_files_lets_nothing_in_and_loses_nothing(asked: Asked) -> None:
    write(asked, "a", 1)
    asked.all()
    write(asked, "a", 2)
    write(asked, "new", 3)
    feed = asked.reader.feed
    states = asked.reader._latest[1].states
    with no_more_files(), pytest.raises(UnavailableError):
        feed.discover(states)
    look = feed.discover(states)
    with no_more_files():
        cut = feed.cut(look, look.waiting)
    assert (cut.states.at == cut.begin).all() and cut.unreadable == {"a", "new"}
    asked.all()
    assert asked.given == {"a": [1, 2], "new": [3]}


@pytest.mark.parametrize("mounted", [False, True], ids=["no folder", "an empty folder in its place"])
def test_a_folder_that_is_away_while_a_task_runs_loses_nothing(asked: Asked, mounted: bool) -> None:
    write(asked, "a", 1, 2)
    start, end = _planned(asked)
    feeds = Path(asked.settings["place"])
    away = feeds.rename(feeds.with_suffix(".away"))
    if mounted:
        feeds.mkdir()
        assert asked.reader.latestOffset(end, None) == end  # type: ignore[arg-type]
    with pytest.raises(SkytideError, match="cannot read"):
        asked.rows(start, end)
    if mounted:
        feeds.rmdir()
    away.rename(feeds)
    asked.all()
    assert asked.given == {"a": [1, 2]}
    assert status(asked)["skipped"] == {}


def test_the_remedy_to_remove_a_file_that_cannot_be_read_works(asked: Asked) -> None:
    path = write(asked, "a", 1)
    write(asked, "b", 2)
    start, end = _planned(asked)
    path.unlink()
    path.symlink_to(path)  # a loop, which nobody can open
    with pytest.raises(SkytideError, match="remove it from its folder"):
        asked.rows(start, end)
    path.unlink()
    asked.all()
    assert asked.given == {"b": [2]}
    assert status(asked)["skipped"] == {"vanished": 1}


def test_a_file_that_can_never_be_read_holds_up_nobody_and_is_said(asked: Asked) -> None:
    (Path(asked.settings["place"]) / "folder.jsonl").mkdir()
    write(asked, "a", 1)
    asked.all()
    write(asked, "a", 2)
    asked.all()
    assert asked.given == {"a": [1, 2]}
    assert (status(asked)["unreadable"], status(asked)["skipped"]) == (1, {})


@pytest.mark.parametrize("how", ["removed and written", "copied and truncated"])
@pytest.mark.parametrize("header", [False, True])
def test_a_file_that_begins_as_before_and_is_longer_by_now_is_still_another_one(tmp_path: Path, how: str, header: bool) -> None:
    (tmp_path / "feeds").mkdir()
    (tmp_path / "channel").mkdir()
    form = {"format": "csv", "header": True} if header else {}
    asked = Asked(tmp_path / "notes", place=str(tmp_path / "feeds"), channel=str(tmp_path / "channel"), splits=1, **form)
    path = tmp_path / "feeds" / f"a.{'csv' if header else 'jsonl'}"

    def put(numbers: range) -> None:
        path.write_text(HEADER + "".join(f"{n},\n" for n in numbers) if header else "".join(LONG % n for n in numbers))

    put(range(5))
    asked.all()
    if how == "removed and written":
        path.unlink()
    put(range(100, 140))
    asked.all()
    assert asked.given == {"a": [*range(5), *range(100, 140)]}
    assert status(asked)["skipped"] == {"replaced": 1}


@pytest.mark.parametrize("how", ["in place", "removed and written", "with its old time"])
def test_a_file_that_is_written_anew_with_the_same_size_is_read(asked: Asked, how: str) -> None:
    path = write(asked, "a", 1, 2)
    asked.all()
    before = path.stat()
    for number in range(3, 23, 2):
        if how == "removed and written":
            path.unlink()
        path.write_bytes(record(number % 10) + record((number + 1) % 10))
        assert path.stat().st_size == before.st_size
        if how == "with its old time":
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        asked.all()
    assert asked.given == {"a": [1, 2, *(number % 10 for number in range(3, 23))]}
    assert status(asked)["skipped"] == {"replaced": 10}


def test_a_file_that_has_not_changed_is_not_opened_at_every_look(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        write(asked, name, 1, 2)
    asked.all()
    feed, states = asked.reader.feed, asked.reader._latest[1].states
    monkeypatch.setattr(feed._unchanged, "_clock_ns", lambda: time.time_ns() + 10**9)  # a second later
    feed.discover(states)
    opened: list[str] = []
    plain = os.open
    monkeypatch.setattr(os, "open", lambda path, *more, **named: (opened.append(str(path)), plain(path, *more, **named))[1])
    feed.discover(states)
    assert opened == [asked.settings["place"]]
    (Path(asked.settings["place"]) / "b.jsonl").touch()
    opened.clear()
    feed.discover(states)
    assert [Path(path).name for path in opened[1:]] == ["b.jsonl"]


def test_inodes_may_have_64_bits(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    plain_stat, plain_fstat = os.stat, os.fstat

    def large(found: os.stat_result) -> os.stat_result:
        return os.stat_result(
            (found[0], found.st_ino | 1 << 63, *found[2:10]), {"st_ctime_ns": found.st_ctime_ns, "st_mtime_ns": found.st_mtime_ns}
        )

    monkeypatch.setattr(os, "stat", lambda *given, **named: large(plain_stat(*given, **named)))
    monkeypatch.setattr(os, "fstat", lambda *given, **named: large(plain_fstat(*given, **named)))
    write(asked, "a", 1, 2)
    asked.all()
    assert asked.given == {"a": [1, 2]}


def test_a_file_replaced_after_the_plan_by_one_that_begins_alike_is_read_from_its_beginning(asked: Asked) -> None:
    path = Path(asked.settings["place"]) / "a.jsonl"
    path.write_text("".join(LONG % n for n in range(5)))
    start, end = _planned(asked)
    path.write_text("".join(LONG % n for n in range(100, 120)))
    assert asked.rows(start, end) == []
    asked.committed = 1
    asked.all()
    assert asked.given == {"a": list(range(100, 120))}
    assert status(asked)["skipped"] == {"replaced": 1}


def test_a_file_that_a_task_and_the_driver_find_replaced_is_one_loss_and_the_next_is_another(asked: Asked) -> None:
    path = write(asked, "a", 1, 2, 3)
    for count in (1, 2):
        asked.log.append(asked.reader.latestOffset(asked.log[-1] if asked.log else asked.reader.initialOffset(), None))
        path.unlink()
        path.write_bytes(b"".join(map(record, range(10 * count, 10 * count + 5))))
        asked.batch()
        asked.all()
        assert status(asked)["skipped"] == {"replaced": count}
        with path.open("ab") as file:
            file.write(record(99))
    asked.all()
    assert asked.given == {"a": [*range(10, 15), *range(20, 25), 99]}


def test_a_replaced_file_is_counted_once_however_often_it_is_looked_at(asked: Asked) -> None:
    path = write(asked, "a", 1)
    asked.all()
    path.unlink()
    path.touch()
    for _ in range(5):
        asked.batch()
    assert sum(status(asked)["skipped"].values()) == 1
    path.write_bytes(record(2))
    asked.all()
    assert asked.given == {"a": [1, 2]}


@pytest.mark.parametrize("name", [b"\xff\xfe", b"caf\xe9", b"a\\xe9", b"a\\x5cxe9", "ü".encode(), b"a\\n"])
def test_a_file_may_have_any_name(asked: Asked, name: bytes) -> None:
    Path(os.fsdecode(os.fsencode(asked.settings["place"]) + b"/" + name + b".jsonl")).write_bytes(record(1) + record(2))
    write(asked, "other", 3)
    asked.all()
    assert sorted(asked.given.values()) == [[1, 2], [3]]


def test_a_note_of_an_older_version_is_read(asked: Asked) -> None:
    write(asked, "a", 1, 2)
    asked.batch()
    file = next((Path(str(asked.notes)) / "notes").iterdir())
    table = pa.ipc.open_stream(file.read_bytes()).read_all()
    added = [name for name in table.column_names if name in ("tail", "begin_tail", "record") or name.startswith("learned_")]
    older = table.drop_columns(added).replace_schema_metadata(None)
    with pa.ipc.new_stream(str(file), older.schema) as writer:
        writer.write_table(older)
    assert BatchEntry.unpacked(file.read_bytes()).states.names == ("a",)
    asked.start()
    write(asked, "a", 3)
    asked.all()
    assert asked.given == {"a": [1, 2, 3]}
