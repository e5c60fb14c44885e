"""The channel only shows how a fleet is doing: if it cannot be written or read, queries go on."""

import os
from pathlib import Path

import pytest
from fleet_model import Asked, status, suspend, write

from skytide.spark.fleet.channel import CONTROL, STATUS, STREAMS, Channel, Control


def _files(asked: Asked) -> set[str]:
    return {path.name for path in Path(asked.settings["channel"]).iterdir()}


@pytest.mark.parametrize("name", [STATUS, STREAMS])
def test_a_board_that_cannot_be_written_ends_no_query_and_leaves_nothing_behind(
    asked: Asked, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    (Path(asked.settings["channel"]) / name).mkdir()  # no file can take its place
    for n in range(3):
        write(asked, "a", n)
        asked.batch()
    assert asked.given == {"a": [0, 1, 2]}
    assert _files(asked) <= {STATUS, STREAMS, "reports"}
    assert "cannot write the status" in caplog.text
    (Path(asked.settings["channel"]) / name).rmdir()
    write(asked, "a", 3)
    asked.batch()
    assert status(asked)["tuples"] == 4


def test_a_board_that_cannot_be_read_leaves_streams_as_people_wanted_them(asked: Asked) -> None:
    suspend(asked, {"b": True})
    write(asked, "a", 1)
    write(asked, "b", 2)
    asked.all()
    control = Path(asked.settings["channel"]) / CONTROL
    control.unlink()
    os.mkdir(control)
    write(asked, "a", 3)
    asked.all()
    assert asked.given == {"a": [1, 3]}


def test_people_learn_that_what_they_want_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / CONTROL).mkdir()
    with pytest.raises(OSError):
        Channel(str(tmp_path)).write_control(Control(suspended={"a": True}))
    assert [path.name for path in tmp_path.iterdir()] == [CONTROL]


def test_queries_that_share_a_board_do_not_read_the_reports_of_each_others_tasks(tmp_path: Path) -> None:
    (tmp_path / "feeds").mkdir()
    (tmp_path / "channel").mkdir()
    one, other = (Asked(None, place=str(tmp_path / "feeds"), channel=str(tmp_path / "channel"), splits=1) for _ in range(2))
    path, invalid = write(one, "a", 1), []
    one.batch()
    for number in range(4):
        with path.open("ab") as file:
            file.write(b"broken\n")
        for asked in (other, one) if number % 2 else (one, other):
            asked.batch()
    write(one, "a", 2)
    for asked in (one, other):
        asked.all()
        invalid.append(status(asked)["invalid"])
    assert invalid == [4, 4]
