"""A restart forgets nothing that was counted or learned, and streams that were away go on where they were."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from fleet_model import Asked, status, write

from skytide.spark.fleet.feeds import feed


def _restart(asked: Asked, tmp_path: Path) -> None:
    """Start as another process does: with a channel of its own."""
    asked.start(channel=tempfile.mkdtemp(dir=tmp_path))


def _counted(asked: Asked) -> dict[str, Any]:
    return {name: status(asked)[name] for name in ("invalid", "skipped", "redirections")}


@pytest.mark.parametrize("looks", [0, 1, 3])
def test_counters_go_on(asked: Asked, tmp_path: Path, looks: int) -> None:
    """Whether a look has seen what the tasks reported or not, and whether or not something has come since: each counts once."""
    path = write(asked, "a", 1)
    asked.batch()
    path.unlink()
    write(asked, "a", 2, 3)
    with write(asked, "b").open("a") as file:
        file.write("no record\n" * 3)
    asked.batch()
    for _ in range(looks):
        asked.batch()
    for _ in range(3):
        _restart(asked, tmp_path)
        asked.batch()
        assert _counted(asked) == {"invalid": 3, "skipped": {"replaced": 1}, "redirections": 0}
    with write(asked, "b").open("a") as file:
        file.write("no record\n" * 2)
    asked.batch(crash="before the commit")
    _restart(asked, tmp_path)
    asked.batch()
    asked.batch()
    assert _counted(asked)["invalid"] == 5


def test_forecasts_and_splits_go_on(asked: Asked, tmp_path: Path) -> None:
    asked.start(splits=8, capacity_hz=100.0)

    def second() -> None:
        for stream in range(40):
            write(asked, f"s{stream}", *range(10))
        asked.batch()

    for _ in range(8):
        second()
    before = status(asked)
    assert before["splits"] >= 4 and before["redirections"] > 0
    _restart(asked, tmp_path)
    asked.now_s += 3_600  # what came meanwhile is no rate
    second()
    after = status(asked)
    assert after["splits"] == before["splits"]
    assert after["expected_hz"] == pytest.approx(before["expected_hz"], rel=0.2)
    assert after["redirections"] >= before["redirections"]


def test_more_streams_than_are_there_may_be_away_and_go_on_where_they_were(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MAX_AWAY", 10)
    names = [f"s{number}" for number in range(40)]
    paths = [write(asked, name, 1) for name in names]
    asked.all()
    away = Path(asked.settings["place"]).with_suffix(".away")
    away.mkdir()
    for path in paths[:20]:
        path.rename(away / path.name)
    write(asked, "s39", 2)
    asked.all()
    for path in paths[:20]:
        (away / path.name).rename(path)
    write(asked, "s0", 2)
    asked.all()
    assert asked.given == {name: [1, 2] if name in ("s0", "s39") else [1] for name in names}
    assert status(asked)["forgotten"] == 0


def test_streams_that_were_forgotten_are_counted(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MAX_AWAY", 2)
    for number in range(8):
        path = write(asked, f"s{number}", 1)
        asked.all()
        if number < 6:
            os.remove(path)
            write(asked, "last", number)
            asked.all()
    seen = status(asked)
    assert seen["forgotten"] > 0 and seen["missing"] + seen["forgotten"] == 6
    assert seen["skipped"] == {}


def test_thousands_of_missing_streams_keep_their_place(asked: Asked) -> None:
    folder = Path(asked.settings["place"])
    for number in range(1_200):
        write(asked, f"s{number}", number)
    asked.all()
    away = folder.with_suffix(".away")
    away.mkdir()
    for first, last in ((0, 100), (100, 1_150)):
        for number in range(first, last):
            (folder / f"s{number}.jsonl").rename(away / f"s{number}.jsonl")
        write(asked, "s1199", 1)
        asked.all()
    for path in away.iterdir():
        path.rename(folder / path.name)
    asked.all()
    assert sum(map(len, asked.given.values())) == 1_202
