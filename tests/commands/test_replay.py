"""Recorded metrics through any controller, in the simulator and on the command line."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from skytide.cli import main
from skytide.cli.replay import figure_of
from skytide.control import CONTROLLERS, Guard, Static, UtilisationThresholds
from skytide.errors import InvalidInput
from skytide.loop.recording import save
from skytide.records import Allocation, Observation
from skytide.sim.replay import plant_of, play, recorded

INTERVAL_S = 10.0


def hill(intervals: int = 60, workers: int = 6) -> list[Observation]:
    """A load that rises from 100 to 500 tuples per second and falls again, on as many workers as the peak needs."""
    seen = []
    for number in range(intervals):
        rate_hz = 100 + 400 * (1 - abs(2 * number / intervals - 1))
        seen.append(
            Observation(
                at_s=(number + 1) * INTERVAL_S,
                interval_s=INTERVAL_S,
                allocation=Allocation(workers),
                arrival_rate_hz=rate_hz,
                processed_rate_hz=rate_hz,
                utilisation=rate_hz * 0.01 / workers,
                service_s=0.01 if number % 2 else None,
            )
        )
    return seen


def test_a_static_replay_is_what_was_recorded() -> None:
    seen = hill()
    played = play(plant_of(seen, lead_s=0, cold_s=0), Static(6), Guard.bounds(1, 8), interval_s=INTERVAL_S)
    assert played.saso.worker_seconds == recorded(seen).worker_seconds == 6 * 60 * INTERVAL_S
    assert played.saso.reconfigurations == 0
    for was, now in zip(seen, played.seen, strict=True):
        assert now.arrival_rate_hz == pytest.approx(was.arrival_rate_hz, rel=0.2)
        assert now.utilisation == pytest.approx(was.utilisation, rel=0.25, abs=0.02)


def test_a_controller_follows_the_hill_with_less() -> None:
    seen = hill()
    played = play(
        plant_of(seen, lead_s=5, cold_s=0), UtilisationThresholds(), Guard(1, 8, scale_down_after="30 s"), interval_s=INTERVAL_S
    )
    assert played.saso.worker_seconds < 0.8 * recorded(seen).worker_seconds
    assert max(now.allocation.workers for now in played.seen) >= 5


def test_a_recording_without_load_is_refused() -> None:
    idle = [Observation(10, 10, Allocation(1), 0, 0, 0)]
    for seen, message in ((idle, "the time per tuple is unknown"), ([], "empty recording")):
        with pytest.raises(InvalidInput, match=message):
            plant_of(seen, lead_s=0, cold_s=0)


def test_the_command_prints_a_line_for_each_controller(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(hill(), tmp_path / "metrics.parquet")
    picture = tmp_path / "replay.png"
    asked = ["replay", str(tmp_path / "metrics.parquet"), "--controller", "all", "--picture", str(picture)]
    assert main(asked) == 0
    printed = capsys.readouterr().out
    for name in (*(name for name in CONTROLLERS if name != "static"), "static:8", "as recorded"):
        assert f"\n{name} " in printed
    assert "Worker seconds count from the request for a worker" in printed
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_picture_has_what_was_recorded_over_the_time_of_day_and_lines_that_differ(tmp_path: Path) -> None:
    seen = [replace(each, at_s=each.at_s + 1_700_000_000) for each in hill()]
    played = play(plant_of(seen, lead_s=5, cold_s=0), UtilisationThresholds(), Guard(1, 8), interval_s=INTERVAL_S)
    _, below = figure_of(seen, {"rules": played, "again": played}).axes
    lines = below.get_lines()
    assert [line.get_label() for line in lines] == ["as recorded", "rules", "again"]
    assert {round(at) for at in lines[0].get_ydata()} == {6}
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 3
    assert not np.array_equal(lines[1].get_ydata(), lines[2].get_ydata())
    assert lines[1].get_xdata()[0] == datetime.fromtimestamp(1_700_000_000 + INTERVAL_S, UTC)


@pytest.mark.parametrize(
    "asked, message",
    [
        (["--controller", "magic"], "there is no such"),
        (["--controller", "mpc", "--lead", "soon"], "--lead soon: not a length of time"),
        (
            ["--controller", "mpc", "--picture", "/nowhere/at/all.png"],
            "--picture /nowhere/at/all.png: there is no folder /nowhere/at",
        ),
    ],
)
def test_bad_input_is_refused_with_a_remedy(
    asked: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(hill(), tmp_path / "metrics.parquet")
    assert main(["replay", str(tmp_path / "metrics.parquet"), *asked]) == 1
    assert message in capsys.readouterr().err


def test_a_file_that_is_no_recording_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert main(["replay", str(tmp_path / "notes.txt"), "--controller", "mpc"]) == 1
    assert "cannot be read as Parquet" in capsys.readouterr().err
