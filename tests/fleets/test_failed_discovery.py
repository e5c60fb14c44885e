"""A look that fails says nothing: not that there is nothing, not that all has been read, and not that streams have become others."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fleet_model import Asked, rate_hz, status
from places import FolderPlace, KafkaPlace, KafkaServers, RedisPlace, named

from skytide.errors import SkytideError

STREAMS = ("a", "b")
REFUSED = 29  # Kafka's "topic authorization failed", which its client does not try again
NO_LEADER = 5


@pytest.fixture(params=["folder-jsonl", "folder-arrow", "redis-fields", "kafka"])
def place(request: pytest.FixtureRequest, folder: Path) -> Any:
    kind, _, form = request.param.partition("-")
    if kind == "folder":
        return FolderPlace(folder, form)
    if kind == "redis":
        return RedisPlace(request.getfixturevalue("redis_url"), form)
    return KafkaPlace(request.getfixturevalue("kafka"), STREAMS)


@contextmanager
def cut_off(place: Any) -> Iterator[None]:
    """Let nobody look at a place for a while."""
    if isinstance(place, FolderPlace):
        away = place.folder.rename(place.folder.with_suffix(".away"))
        yield
        away.rename(place.folder)
    elif isinstance(place, RedisPlace):
        place.server.execute_command("ACL", "SETUSER", "default", "-@scripting")
        try:
            yield
        finally:
            place.server.execute_command("ACL", "SETUSER", "default", "+@all")
    else:
        place.kafka.fail(place.topic, REFUSED)
        try:
            yield
        finally:
            place.kafka.fail(place.topic, 0)


@contextmanager
def no_reading(path: Path) -> Iterator[None]:
    """Let nobody open a file, though it has a size: modes of files do not keep root out."""
    opened = os.open

    def refuse(name: Any, *more: Any, **named: Any) -> int:
        if name == str(path):
            raise PermissionError(13, "Permission denied", name)
        return opened(name, *more, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", refuse)
        yield


def _asked(tmp_path: Path, place: Any, **more: Any) -> Asked:
    (tmp_path / "channel").mkdir()
    return Asked(tmp_path / "notes", **place.settings(), channel=str(tmp_path / "channel"), splits=1, **more)


def test_latest_passes_over_what_is_there_also_if_the_first_looks_fail(place: Any, tmp_path: Path) -> None:
    for stream in STREAMS:
        place.write(stream, [(1, ""), (2, "")])
    asked = _asked(tmp_path, place, starting="latest")
    with cut_off(place):
        for _ in range(3):
            assert asked.batch() == 0
    assert asked.log == [], "nothing is noted"
    asked.batch()
    place.write("a", [(3, "")])
    asked.all()
    assert asked.given == {named(place, "a"): [3]}


def test_what_is_available_now_is_not_taken_for_nothing_if_a_look_fails(place: Any, tmp_path: Path) -> None:
    place.write("a", [(n, "") for n in range(40)])
    asked = _asked(tmp_path, place, capacity_hz=10.0)
    asked.reader.prepareForTriggerAvailableNow()
    with cut_off(place), pytest.raises(SkytideError, match="restart the query"):
        asked.batch()
    asked.start()
    asked.reader.prepareForTriggerAvailableNow()
    asked.batch()
    with cut_off(place), pytest.raises(SkytideError, match="restart the query"):
        asked.batch()
    asked.start()
    asked.reader.prepareForTriggerAvailableNow()
    asked.all()
    assert asked.given == {named(place, "a"): list(range(40))}


def test_forecasts_outlast_looks_that_fail(place: Any, tmp_path: Path) -> None:
    asked = _asked(tmp_path, place, capacity_hz=20.0)
    name, rates, number = named(place, "a"), [], 0
    for second in range(24):
        place.write("a", [(number + at, "") for at in range(30)])  # of which some are kept waiting
        number += 30
        if second % 4 == 3:
            with cut_off(place):
                asked.batch()
                asked.now_s += 1.0
        else:
            asked.batch()
            rates.append(rate_hz(asked, name))
    assert min(rates[4:]) > 10 and max(rates[4:]) < 60, "30 per second come, in messages whose length is estimated"


@pytest.mark.parametrize("unreadable", ["at first", "until later"])
def test_latest_in_an_arrow_file_that_cannot_be_read_yet_begins_with_what_comes(
    folder: Path, tmp_path: Path, unreadable: str
) -> None:
    place, path = FolderPlace(folder, "arrow"), folder / "a.arrow"
    place.write("a", [(1, ""), (2, "")])
    whole = path.stat().st_size
    place.write("a", [(3, "")])
    data = path.read_bytes()
    path.write_bytes(data[: whole + 20])  # a message is being written
    asked = _asked(tmp_path, place, starting="latest")
    with no_reading(path):
        asked.batch()
        if unreadable == "until later":
            with path.open("ab") as file:
                file.write(data[whole + 20 :])
            asked.batch()
    path.write_bytes(data)
    place.write("a", [(4, "")])
    asked.all()
    assert asked.given == {"a": [3, 4]}
    assert status(asked)["invalid"] == 0


@pytest.mark.parametrize("form", ["jsonl", "arrow"])
def test_latest_of_a_stream_whose_file_is_yet_to_come_begins_with_its_first_record(folder: Path, tmp_path: Path, form: str) -> None:
    place, link = FolderPlace(folder, form), folder / f"a.{form}"
    asked = _asked(tmp_path, place, starting="latest")
    link.symlink_to(tmp_path / "elsewhere")
    asked.batch()
    place.write("a", [(1, ""), (2, "")])
    asked.all()
    assert asked.given == {"a": [1, 2]}
    assert status(asked)["skipped"] == {}


def test_a_topic_without_a_leader_is_no_topic_without_messages(kafka: KafkaServers, tmp_path: Path) -> None:
    place = KafkaPlace(kafka, STREAMS)
    place.write("a", [(1, "")])
    asked = _asked(tmp_path, place, starting="latest")
    kafka.fail(place.topic, NO_LEADER)
    asked.batch()
    kafka.fail(place.topic, 0)
    assert asked.log == []
