"""The reader of a fleet: every record of every stream once, in order, whatever happens meanwhile."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from fleet_model import Asked, record, status, suspend, write
from hypothesis import given, settings
from hypothesis import strategies as st
from places import FolderPlace
from support.examples import examples

from skytide.spark.fleet.feeds import lines

STREAMS = ("a", "b", "cab 7", "ü")

steps = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(STREAMS), st.integers(1, 40), st.integers(0, 60)),
    st.tuples(st.just("batch"), st.sampled_from(["", "", "before the log", "before the commit"])),
    st.tuples(st.just("restart"), st.sampled_from([1, 2, 5])),
    st.tuples(st.just("suspend"), st.sampled_from(STREAMS), st.booleans()),
)


@given(script=st.lists(steps, max_size=25), inline=st.booleans())
@settings(max_examples=examples(30))
def test_every_record_comes_once_and_in_order(script: list[tuple[Any, ...]], inline: bool) -> None:
    """Records are torn at any byte, batches cut at any point, readers restarted with other splits, streams suspended."""
    with tempfile.TemporaryDirectory() as folder:
        feeds, channel = Path(folder, "feeds"), Path(folder, "channel")
        feeds.mkdir()
        channel.mkdir()
        asked = Asked(None if inline else Path(folder, "notes"), place=str(feeds), channel=str(channel), splits=2)
        written: dict[str, bytes] = {}
        torn: dict[str, int] = {}
        suspended: dict[str, bool] = {}
        number = 0
        for step in script:
            match step:
                case ("write", stream, count, tear):
                    data = b"".join(record(number + at, "x" * (at % 7)) for at in range(count))
                    number += count
                    written[stream] = written.get(stream, b"") + data
                    torn[stream] = min(tear, len(written[stream]) - torn.get(stream, 0) and len(data))
                    visible = written[stream][: len(written[stream]) - torn[stream]]
                    path = feeds / f"{stream}.jsonl"
                    before = path.stat().st_size if path.exists() else 0
                    with path.open("ab") as file:
                        file.write(visible[before:])
                case ("batch", crash):
                    asked.batch(crash=crash)
                    if crash:
                        asked.start()
                case ("restart", splits):
                    asked.start(splits=splits)
                case ("suspend", stream, value):
                    suspended[stream] = value
                    suspend(asked, suspended)
        for stream, data in written.items():
            with (feeds / f"{stream}.jsonl").open("ab") as file:
                file.write(data[(feeds / f"{stream}.jsonl").stat().st_size :])
        suspend(asked, dict.fromkeys(STREAMS, False))
        asked.all()
        want = {stream: [eval(line)["n"] for line in data.splitlines()] for stream, data in written.items()}
        assert asked.given == {stream: numbers for stream, numbers in want.items() if numbers}


def test_a_batch_that_is_repeated_reads_the_same_whatever_has_come_since(asked: Asked) -> None:
    write(asked, "a", 1, 2)
    asked.batch(crash="before the commit")
    write(asked, "a", 3)
    write(asked, "b", 9)
    asked.start(splits=7)
    asked.batch()
    assert asked.given == {"a": [1, 2]}
    asked.all()
    assert asked.given == {"a": [1, 2, 3], "b": [9]}


def test_streams_join_and_leave_in_the_middle_of_a_batch(asked: Asked) -> None:
    write(asked, "a", 1)
    gone = write(asked, "b", 2)
    start, end = asked.reader.initialOffset(), asked.reader.latestOffset(asked.reader.initialOffset(), None)  # type: ignore[arg-type]
    gone.unlink()
    write(asked, "c", 3)
    assert asked.rows(start, end) == [("a", 1)]
    asked.log, asked.committed = [end], 1
    asked.all()
    assert asked.given == {"c": [3]}
    assert status(asked)["skipped"] == {"vanished": 1}
    assert status(asked)["missing"] == 1


@pytest.mark.parametrize("how", ["replaced", "truncated", "same inode"])
def test_a_file_that_is_not_the_same_any_more_begins_anew(asked: Asked, how: str) -> None:
    path = write(asked, "a", 1, 2, 3)
    write(asked, "b", 7)
    asked.batch()
    if how == "replaced":
        other = path.with_suffix(".new")
        other.write_bytes(b"".join(map(record, [10, 11, 12, 13])))
        os.replace(other, path)
    elif how == "truncated":
        path.write_bytes(record(10))
    else:
        path.write_bytes(b"".join(map(record, [10, 11, 12, 13, 14])))  # longer than before, and the inode stays
    write(asked, "b", 8)
    asked.all()
    assert asked.given["a"] == {"replaced": [1, 2, 3, 10, 11, 12, 13], "truncated": [1, 2, 3, 10]}.get(
        how, [1, 2, 3, 10, 11, 12, 13, 14]
    )
    assert asked.given["b"] == [7, 8]
    assert status(asked)["skipped"] == {"truncated" if how == "truncated" else "replaced": 1}


def test_a_file_replaced_between_plan_and_task_is_not_read_as_the_other(asked: Asked) -> None:
    path = write(asked, "a", 1, 2, 3)
    end = asked.reader.latestOffset(asked.reader.initialOffset(), None)  # type: ignore[arg-type]
    path.write_bytes(b"".join(map(record, [10, 11, 12, 13, 14])))
    assert asked.rows(asked.reader.initialOffset(), end) == []
    asked.log, asked.committed = [end], 1
    asked.all()
    assert asked.given == {"a": [10, 11, 12, 13, 14]}


def test_a_stream_that_comes_back_goes_on_where_it_was(asked: Asked) -> None:
    path = write(asked, "a", 1, 2)
    asked.batch()
    away = path.with_suffix(".away")
    path.rename(away)
    write(asked, "b", 5)
    asked.batch()
    away.rename(path)
    write(asked, "a", 3)
    asked.all()
    assert asked.given == {"a": [1, 2, 3], "b": [5]}


def test_a_folder_that_cannot_be_listed_for_a_while_is_no_end(asked: Asked) -> None:
    write(asked, "a", 1)
    asked.batch()
    away = Path(asked.settings["place"]).with_suffix(".away")
    Path(asked.settings["place"]).rename(away)
    assert asked.batch() == 0
    away.rename(Path(asked.settings["place"]))
    write(asked, "a", 2)
    asked.all()
    assert asked.given == {"a": [1, 2]}


def test_suspended_streams_keep_their_place_also_over_a_restart(asked: Asked) -> None:
    write(asked, "a", 1)
    write(asked, "b", 2)
    asked.batch()
    suspend(asked, {"a": True})
    write(asked, "a", 3)
    write(asked, "b", 4)
    asked.all()
    os.remove(Path(asked.settings["channel"], "control.json"))
    asked.start()
    write(asked, "b", 5)
    asked.all()
    assert asked.given == {"a": [1], "b": [2, 4, 5]}
    suspend(asked, {"a": False})
    asked.all()
    assert asked.given["a"] == [1, 3]


def test_what_is_available_now_is_taken_and_nothing_after(asked: Asked) -> None:
    write(asked, "a", *range(100))
    asked.reader.prepareForTriggerAvailableNow()
    asked.reader._capacity.hz = 10
    asked.batch()
    write(asked, "a", 1_000)
    write(asked, "late", 1_001)
    asked.all()
    assert asked.given == {"a": list(range(100))}
    asked.start()
    asked.all()
    assert asked.given == {"a": [*range(100), 1_000], "late": [1_001]}


def test_a_burst_does_not_hold_up_the_others(asked: Asked) -> None:
    write(asked, "burst", *range(5_000))
    for stream in "bcdef":
        write(asked, stream, 1, 2)
    asked.reader._capacity.hz = 300
    asked.batch()
    assert {stream: len(numbers) for stream, numbers in asked.given.items() if stream != "burst"} == dict.fromkeys("bcdef", 2)
    assert status(asked)["buffered"] > 4_000
    asked.all()
    assert asked.given["burst"] == list(range(5_000))


def test_a_split_that_takes_less_than_what_comes_is_relieved_at_once(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads 700 per second of the 1,000 that it could if it did nothing else, and 800 come."""
    monkeypatch.setattr(asked.reader._capacity, "measured", lambda *_: None)
    asked.reader._capacity.hz = 1_000
    for second in range(20):
        for stream in range(40):
            write(asked, f"s{stream}", *range(20 * second, 20 * second + 20))
        asked.batch()
    seen = status(asked)
    assert seen["splits"] == 2 and seen["redirections"] > 0
    assert seen["buffered"] < 5 * 100  # what it lagged behind until a period was over, and not what it lags behind in 20 seconds


def test_latest_passes_over_what_is_there_but_not_streams_that_join(tmp_path: Path) -> None:
    asked = Asked(None, place=str(tmp_path), starting="latest", splits=1)
    write(asked, "a", 1)
    asked.batch()
    write(asked, "a", 2)
    write(asked, "b", 3)
    asked.all()
    assert asked.given == {"a": [2], "b": [3]}


@pytest.mark.parametrize("torn", [0, 1, 50])
def test_latest_in_the_middle_of_an_arrow_message_begins_with_that_message(tmp_path: Path, torn: int) -> None:
    place, asked = FolderPlace(tmp_path, "arrow"), Asked(None, place=str(tmp_path), format="arrow", starting="latest", splits=1)
    path = tmp_path / "a.arrow"
    place.write("a", [(n, "") for n in range(3)])
    before = path.read_bytes()
    place.write("a", [(n, "") for n in range(3, 7)])
    after = path.read_bytes()
    path.write_bytes(after[: len(before) + torn])
    asked.batch()
    path.write_bytes(after)
    asked.all()
    place.write("a", [(7, ""), (8, "")])
    asked.all()
    assert asked.given == {"a": list(range(3, 9))}


def test_long_records_and_ranges_are_read_in_pieces(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "CHUNK_BYTES", 64)
    path = Path(asked.settings["place"]) / "a.jsonl"
    path.write_bytes(b"".join(record(n, "y" * (n * 37 % 300)) for n in range(200)))
    asked.reader._capacity.hz = 7
    asked.all()
    assert asked.given == {"a": list(range(200))}


def test_notes_do_not_pile_up(asked: Asked) -> None:
    for n in range(120):
        write(asked, "a", n)
        asked.batch()
    assert asked.notes is not None and len(list((asked.notes / "notes").iterdir())) < 60
    assert asked.given == {"a": list(range(120))}
