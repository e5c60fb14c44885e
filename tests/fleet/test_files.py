"""Files that cannot be opened, were replaced, or have odd names: nothing is lost that is still there, and what is lost is counted once."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fleet_model import Asked, record, status, write

from skytide.errors import SkytideError
from skytide.spark.fleet.feeds import NotNowError, folder
from skytide.spark.fleet.notes import Note

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
    with no_more_files(), pytest.raises(SkytideError, match=r"a\.jsonl cannot be read: Too many open files"):
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
    book = asked.reader._latest[1].book
    with no_more_files(), pytest.raises(NotNowError):
        feed.look(book)
    look = feed.look(book)
    with no_more_files():
        cut = feed.cut(look, look.waiting)
    assert (cut.book.at == cut.begin).all() and cut.unreadable == {"a", "new"}
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
    with pytest.raises(SkytideError, match="cannot be read"):
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
    (tmp_path / "board").mkdir()
    form = {"format": "csv", "header": True} if header else {}
    asked = Asked(tmp_path / "notes", place=str(tmp_path / "feeds"), board=str(tmp_path / "board"), splits=1, **form)
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


def test_a_file_replaced_after_the_plan_by_one_that_begins_alike_is_read_from_its_beginning(asked: Asked) -> None:
    path = Path(asked.settings["place"]) / "a.jsonl"
    path.write_text("".join(LONG % n for n in range(5)))
    start, end = _planned(asked)
    path.write_text("".join(LONG % n for n in range(100, 120)))
    assert asked.rows(start, end) == []
    asked.committed = 1
    asked.all()
    assert asked.given == {"a": list(range(100, 120))}


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
    assert Note.unpacked(file.read_bytes()).book.names == ("a",)
    asked.start()
    write(asked, "a", 3)
    asked.all()
    assert asked.given == {"a": [1, 2, 3]}
