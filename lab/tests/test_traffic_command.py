"""`skytide traffic`: what it shows, what it refuses, and what it leaves."""

import argparse
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from support.prose import says
from test_traffic_query import check_areas

from skytide.errors import InvalidInput
from skytide.records import Slots, Status, WindowRow
from skytide.records.fleet import FleetStatus
from skytide_lab.commands import traffic
from skytide_lab.dashboard.history import read_windows
from skytide_lab.dashboard.live import WARMING_UP
from skytide_lab.dashboard.traffic_history import City, TrafficHistory, TrafficLook, latest_areas
from skytide_lab.dashboard.traffic_live import line, view
from skytide_lab.dashboard.traffic_picture import draw
from skytide_lab.demonstrations.folders import MARK

SECOND_US = 1_000_000
FIVE = datetime(2008, 5, 20, 17, tzinfo=UTC)
FIRST_US = round(FIVE.timestamp() * 1e6)
DEADLINE_S = 500
AREAS = (175_104, 175_105, 160_110)


def results(minute: int) -> pa.Table:
    """A window with three areas: one slow, with the end of a queue; one fast."""
    end = FIVE + timedelta(minutes=minute)
    bounds = {
        name: pa.array([at] * 3, pa.timestamp("us", "UTC"))
        for name, at in (("window_start", end - timedelta(hours=1)), ("window_end", end))
    }
    return pa.table(
        {
            **bounds, "area": AREAS, "reports": [400, 90, 10], "mean_kmh": [12.5, 25.0, 80.0], "max_kmh": [40.0, 60.0, 120.0],
            "queue_end": [minute > 5, False, False],
        }
    )  # fmt: skip


@pytest.fixture
def history() -> TrafficHistory:
    """Ten batches with a window each; one more slot for windows from the fifth on."""
    found = TrafficHistory()
    for batch in range(10):
        fleet = FleetStatus(streams=480, silent=11, splits=2 + (batch > 6), rate_hz=3_100.0, expected_hz=3_456.0, batches=batch + 1)
        speeds = Status(
            batch=batch, input_rate_hz=3_050.0, tuples=1_500 * (batch + 1), late=3 * (batch + 1), slots=2, trigger_share=0.61
        )
        areas = Status(batch=batch, tuples=600 * (batch + 1), windows_out=batch + 1, trigger_share=0.37)
        rows = [WindowRow(n * SECOND_US, (n + 1) * SECOND_US, 500, 3, late=0, latency_s=1.25) for n in range(batch + 1)]
        look = TrafficLook(batch / 2, fleet, speeds, areas, Slots(1, 1 + (batch >= 5)), "600 tuples per second need 2 workers")
        found = found.after(look, rows, [results(batch)])
    return found


def rendered(shown: TrafficHistory, width: int = 80) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(view(shown, title="480 cabs", metres=500, progress="12 of 45 s", width=width))
    return capture.get().splitlines()


def test_the_view_has_all_numbers_and_fits_the_terminal(history: TrafficHistory) -> None:
    lines = rendered(history)
    text = "\n".join(lines)
    assert {len(line) for line in lines} == {80}
    for shown in ("480 there", "11 silent", "3,050 rows/s", "15,000 reports, of which 6,000 on a ride", "3,456 rows/s", "3 read"):
        assert shown in text, shown
    for shown in ("2 speeds", "1 panes", "2 windows", "61% speeds", "37% areas", "1.25 s", "10 out", "0.20% of the reports"):
        assert shown in text, shown
    for shown in ("17:09 UTC, 3 areas", "1 queue ends", "37.786 N 122.409 W", "400", "12.5", "◀ a queue ends", "12 of 45 s"):
        assert shown in text, shown
    assert text.count("◀ a queue ends") == 1
    assert {len(line) for line in rendered(history, width=70)} == {70}
    assert max(len(line) for line in rendered(history, width=300)) == 100


def test_the_line_says_the_same(history: TrafficHistory) -> None:
    text = line(history, progress="12 of 45 s")
    assert says(text, "12 of 45 s", "17:09", "3 areas", "1 queue ends", "480 cabs", "3,050 reports/s", "3,456 expected", "3 splits")
    assert says(text, "slots 2+1+2", "10 windows", "1.25 s", "0.20% late") and "\n" not in text


def test_nothing_is_shown_until_a_batch_is_done() -> None:
    assert line(TrafficHistory(), progress=WARMING_UP) == WARMING_UP
    assert "A fresh Spark" in "\n".join(rendered(TrafficHistory()))


def test_a_look_without_news_is_not_kept(history: TrafficHistory) -> None:
    assert history.latest is not None
    assert history.after(history.latest, list(history.query.windows), []) is history
    assert latest_areas(results(1).slice(0, 0)) is None


def test_the_picture_says_what_is_seen(history: TrafficHistory, tmp_path: Path) -> None:
    for minute in range(10):
        (tmp_path / "areas" / f"batch={minute}").mkdir(parents=True)
        pq.write_table(results(minute), tmp_path / "areas" / f"batch={minute}" / "part.parquet")
    assert City.read(tmp_path / "nowhere") is None
    city = City.read(tmp_path / "areas")
    assert city is not None and city.queue_ends.tolist() == [0] * 6 + [1] * 4
    assert city.mean_kmh[0] == pytest.approx((400 * 12.5 + 90 * 25 + 10 * 80) / 500) and city.areas.tolist() == [3] * 10
    figure = draw(history, city, history.query.windows, name="480 cabs", metres=500, first_us=FIRST_US, speed=120.0)
    titles = [panel.get_title(loc="left") for panel in figure.axes]
    assert titles[0] == "16:09 to 17:09 UTC: 500 reports, 3 areas, 1 end of queues"
    assert "Arrivals: up to 3,100 reports per second of 480 cabs, each a stream" in titles
    assert "The city: 16 km/h on average, up to 3 areas in a window" in titles
    figure.savefig(tmp_path / "traffic.png")


def command(*options: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    traffic.add_arguments(parser)
    return parser.parse_args(list(options))


def refused(folder: Path, *options: str) -> str:
    asked = command("--out", str(folder), *options)
    with pytest.raises(InvalidInput) as refusal:
        asked.run(asked)
    return str(refusal.value)


def test_what_cannot_run_is_refused_before_spark_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKYTIDE_DATA", str(tmp_path))
    assert "seconds=0.0: out of range" in refused(tmp_path, "--seconds", "0")
    assert "slots=0" in refused(tmp_path, "--slots", "0")
    assert "metres=1" in refused(tmp_path, "--metres", "1")
    assert "cabs=0" in refused(tmp_path, "--made-up", "0")
    assert "leave one of the two out" in refused(tmp_path, "--made-up", "9", "--cabs", "cabs.parquet")
    assert "there is no such file" in refused(tmp_path, "--cabs", "cabs.parquet")
    mine = tmp_path / "traffic" / "thesis.txt"
    mine.parent.mkdir()
    mine.write_text("years of work")
    assert "would be lost" in refused(tmp_path, "--made-up", "9")
    assert mine.read_text() == "years of work"


@pytest.mark.long
def test_the_command_runs_to_its_end_and_its_windows_are_right(tmp_path: Path) -> None:
    program = "import argparse, skytide_lab.commands.traffic as t; p = argparse.ArgumentParser(); t.add_arguments(p); o = p.parse_args(); o.run(o)"
    options = ("--made-up", "80", "--seconds", "5", "--out", "made")
    done = subprocess.run(
        [sys.executable, "-c", program, *options], cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    made = tmp_path / "made"
    left = {entry.name for entry in (made / "traffic").iterdir()}
    assert left == {"feeds", "cabs.parquet", "speeds", "late", "areas", "checkpoints", MARK}
    assert (made / "traffic.png").read_bytes().startswith(b"\x89PNG")
    assert re.search(r"^Cabs:     \d+, [\d,]+ reports, [\d.]+% late; [\d,]+ on a ride$", done.stdout, re.MULTILINE)
    assert re.search(r"^Queues:   ", done.stdout, re.MULTILINE) and re.search(r"^Tasks:    ", done.stdout, re.MULTILINE)
    windows = read_windows(made / "traffic" / "areas" / "_windows")
    assert f"Windows:  {len(windows):,} of 60 minutes every 1 minute" in done.stdout
    cabs = pq.read_table(made / "traffic" / "cabs.parquet")
    late = pq.read_table(made / "traffic" / "late")
    if late.num_rows:
        gone = {(int(row["stream"][3:]), row["ts"].astimezone(UTC).replace(tzinfo=None)) for row in late.to_pylist()}
        there = [(row["cab"], row["ts"]) not in gone for row in cabs.to_pylist()]
        cabs = cabs.filter(pa.array(there))
    check_areas(pq.read_table(made / "traffic" / "areas"), cabs.filter(pc.less(cabs["ts"], windows_end(windows))))


def windows_end(windows: list[WindowRow]) -> pa.Scalar:
    """Return when the last window ended, which what came later does not change."""
    return pa.scalar(windows[-1].window_end_us, pa.timestamp("us"))
