"""One contract for every place with streams: each record once, in order, whatever happens meanwhile."""

from pathlib import Path
from typing import Any

import pytest
from fleet_model import Asked
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from places import FolderPlace, KafkaPlace, RedisPlace, named
from support.examples import examples

KINDS = ("folder-jsonl", "folder-csv", "folder-arrow", "redis-fields", "redis-jsonl", "kafka")
STREAMS = ("a", "b", "c")
pads = st.sampled_from(["", "x", "ü", 'a "quoted" text', "back\\slash", "comma, and more"])
steps = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(STREAMS), st.lists(pads, min_size=1, max_size=12)),
    st.tuples(st.just("batch"), st.sampled_from(["", "", "before the log", "before the commit"])),
    st.tuples(st.just("restart"), st.sampled_from([1, 2, 5])),
    st.tuples(st.just("limit"), st.sampled_from([2, 5, 100_000])),
)


@pytest.fixture(params=KINDS)
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Makes places of one kind, each empty."""
    kind, _, form = request.param.partition("-")
    number = iter(range(10_000))

    def make() -> Any:
        if kind == "folder":
            folder = tmp_path / str(next(number))
            folder.mkdir()
            return FolderPlace(folder, form)
        if kind == "redis":
            return RedisPlace(request.getfixturevalue("redis_url"), form)
        return KafkaPlace(request.getfixturevalue("kafka"), STREAMS)

    make()
    return make


@given(script=st.lists(steps, max_size=15))
@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_record_comes_once_and_in_order(new_place: Any, tmp_path: Path, script: list[tuple[Any, ...]]) -> None:
    place = new_place()
    asked = Asked(tmp_path / "notes", **place.settings(), splits=2)
    written: dict[str, list[int]] = {}
    number, limit = 0, 200_000.0
    for step in script:
        match step:
            case ("write", stream, texts):
                place.write(stream, [(number + at, text) for at, text in enumerate(texts)])
                written.setdefault(named(place, stream), []).extend(range(number, number + len(texts)))
                number += len(texts)
            case ("batch", crash):
                asked.reader._capacity.hz = limit
                asked.batch(crash=crash)
                if crash:
                    asked.start()
            case ("restart", splits):
                asked.start(splits=splits)
            case ("limit", limit):
                pass
    asked.all()
    assert asked.given == written


def test_texts_come_as_they_were_written(new_place: Any, tmp_path: Path) -> None:
    place = new_place()
    texts = ["", "x", "ü€", 'a "quoted" text', "back\\slash \\n \\e", "comma, and more", "\x1f", " spaces ", "null", "{}"]
    if place.settings().get("format") not in ("csv", "jsonl") or "place" not in place.settings():
        texts += ["line\nbreak", "carriage\rreturn"]
    place.write("a", list(enumerate(texts)))
    asked = Asked(None, **place.settings(), splits=1)
    end = asked.reader.latestOffset(asked.reader.initialOffset(), None)  # type: ignore[arg-type]
    read = [row for part in asked.reader.partitions({}, end) for batch in asked.reader.read(part) for row in batch.to_pylist()]
    assert [(row["n"], row["pad"]) for row in read] == list(enumerate(texts))


@pytest.mark.parametrize("new_place", ["folder-jsonl", "redis-fields"], indirect=True)
def test_streams_that_leave_and_come_back_as_others_begin_anew(new_place: Any, tmp_path: Path) -> None:
    place = new_place()
    place.write("a", [(1, ""), (2, "")])
    place.write("b", [(3, "")])
    asked = Asked(tmp_path / "notes", **place.settings(), splits=2)
    asked.all()
    place.remove("a")
    place.write("b", [(4, "")])
    asked.all()
    place.write("a", [(5, "")])
    asked.all()
    assert asked.given == {named(place, "a"): [1, 2, 5], named(place, "b"): [3, 4]}


def test_entries_that_were_trimmed_are_missed_and_said(redis_url: str, tmp_path: Path) -> None:
    place = RedisPlace(redis_url, "fields")
    (tmp_path / "channel").mkdir()
    place.write("a", [(n, "") for n in range(10)])
    asked = Asked(tmp_path / "notes", **place.settings(), channel=str(tmp_path / "channel"), splits=1)
    asked.all()
    place.write("a", [(n, "") for n in range(10, 30)])
    place.server.xtrim(f"{place.prefix}:a", maxlen=5, approximate=False)
    asked.all()
    assert asked.given[named(place, "a")] == [*range(10), *range(25, 30)]
    status = asked.reader._channel and asked.reader._channel.status()
    assert status and status["skipped"] == {"trimmed": 1}


def test_entries_with_other_fields_are_broken_or_null_and_harm_nobody(redis_url: str, tmp_path: Path) -> None:
    place = RedisPlace(redis_url, "fields")
    place.write("a", [(1, "x")])
    place.server.xadd(f"{place.prefix}:a", {"n": "many", "pad": "x"})
    place.server.xadd(f"{place.prefix}:a", {"other": "7"})
    place.server.xadd(f"{place.prefix}:a", {"n": "2", "pad": b"\xff\xfe"})
    place.server.set(f"{place.prefix}:text", "no stream")
    place.write("a", [(3, "")])
    asked = Asked(tmp_path / "notes", **place.settings(), splits=1, invalid=str(tmp_path / "invalid"))
    asked.all()
    assert asked.given == {named(place, "a"): [1, None, 3]}
    assert len((tmp_path / "invalid" / "batch=1" / "part-00000.jsonl").read_text().splitlines()) == 2


def test_keys_that_are_no_text_are_streams_as_others(redis_url: str, tmp_path: Path) -> None:
    place = RedisPlace(redis_url, "fields")
    keys = {
        b"caf\xe9": "caf\\xe9",
        "café".encode(): "café",
        b"caf\\xe9": "caf\\x5cxe9",
        b"\xed\xa0\x80": "\\xed\\xa0\\x80",
        b'"\\': '"\\',
    }
    place.write("a", [(0, "")])
    for number, key in enumerate(keys):
        for n in (number, number + 10):
            place.server.xadd(f"{place.prefix}:".encode() + key, {"n": n, "pad": ""})
    asked = Asked(tmp_path / "notes", **place.settings(), splits=1)
    asked.reader._capacity.hz = 5  # so that streams are also cut
    asked.all()
    assert asked.given == {named(place, "a"): [0]} | {named(place, name): [n, n + 10] for n, name in enumerate(keys.values())}
