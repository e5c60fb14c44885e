"""A folder is listed again when it has changed, and no stream is missed, however coarse or wrong the folder's own time is."""

import os
from pathlib import Path

import pytest

from skytide.spark.fleet.feeds.listing import LIST_EVERY_NS, SETTLED_NS, Listing

START_NS = 1_700_000_000_000_000_000


class Watched:
    """A folder whose time of change stands still unless it is moved, and a listing of it by a clock of its own."""

    def __init__(self, path: Path) -> None:
        self.path, self.now_ns, self.changed_ns = path, START_NS, START_NS
        self.listing = Listing(lambda: self.now_ns)

    def add(self, name: str) -> None:
        (self.path / name).touch()

    def streams(self) -> set[str]:
        os.utime(self.path, ns=(self.changed_ns, self.changed_ns))
        place = os.open(self.path, os.O_RDONLY)
        try:
            return set(self.listing.streams(place, "jsonl"))
        finally:
            os.close(place)


@pytest.fixture
def folder(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_a_file_that_came_in_the_same_moment_as_the_listing_is_found(folder: Watched) -> None:
    folder.add("a.jsonl")
    assert folder.streams() == {"a"}
    folder.add("b.jsonl")  # and the time of the folder is the same, as clocks are coarse
    folder.now_ns += 1
    assert folder.streams() == {"a", "b"}


def test_a_folder_that_has_not_changed_is_not_listed_and_one_that_has_is(folder: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[object] = []
    monkeypatch.setattr(os, "listdir", lambda place, real=os.listdir: listed.append(place) or real(place))
    folder.add("a.jsonl")
    folder.now_ns += SETTLED_NS + 1
    assert [folder.streams() for _ in range(3)] == [{"a"}] * 3
    assert len(listed) == 1
    folder.add("b.jsonl")
    (folder.path / "a.jsonl").unlink()
    folder.changed_ns = folder.now_ns
    assert folder.streams() == {"b"}


@pytest.mark.parametrize("later_ns", [LIST_EVERY_NS, -1], ids=["later", "clock put back"])
def test_a_store_that_never_changes_the_time_of_a_folder_is_listed_now_and_then(folder: Watched, later_ns: int) -> None:
    folder.now_ns += SETTLED_NS + 1
    assert folder.streams() == set()
    folder.add("a.jsonl")
    assert folder.streams() == set()
    folder.now_ns += later_ns
    assert folder.streams() == {"a"}


def test_only_visible_files_of_the_extension_are_streams(folder: Watched) -> None:
    for name in ("a.jsonl", ".b.jsonl", "_c.jsonl", "d.csv", "e.jsonl.tmp", ".jsonl"):
        folder.add(name)
    assert folder.streams() == {"a"}
