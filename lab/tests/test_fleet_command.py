import datetime
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from support.prose import says

from skytide.cli import main
from skytide.errors import SkytideError
from skytide.records import Status, WindowRow
from skytide.records.fleet import FleetStatus, SplitStatus
from skytide.spark.clock import now_us
from skytide_lab.dashboard.fleet_history import FleetHistory
from skytide_lab.dashboard.fleet_live import line, view
from skytide_lab.dashboard.fleet_picture import draw
from skytide_lab.dashboard.history import read_windows
from skytide_lab.dashboard.live import WARMING_UP
from skytide_lab.data.traffic import Cabs, Generated
from skytide_lab.data.writer import Writer
from skytide_lab.demonstrations.folders import MARK

SECOND_US = 1_000_000
DEADLINE_S = 300


def seen(number: int, moved: int = 0) -> FleetStatus:
    return FleetStatus(
        streams=480, missing=3, suspended=2, silent=11, splits=2, batches=number, tuples=9_000 * number, buffered=70 * number,
        rate_hz=21_000.0, expected_hz=23_456.0, capacity_hz=20_000.0, redirections=moved, invalid=5, skipped={"vanished": 4},
        planning_s=0.012,
    )  # fmt: skip


SPLITS = [SplitStatus(0, ("a", "b", "c"), 15_000.0, 15_500.0, 900, 0.1), SplitStatus(1, ("d",), 6_000.0, 6_500.0, 100, 0.0)]


@pytest.fixture
def history() -> FleetHistory:
    """Twenty batches of a window each; in batch 9 streams are moved."""
    found = FleetHistory()
    rows = [WindowRow(n * SECOND_US, (n + 2) * SECOND_US, 40_000, 480, late=3, latency_s=1.25) for n in range(20)]
    for batch in range(20):
        status = Status(
            batch=batch, input_rate_hz=20_500.0, tuples=10_000 * (batch + 1), late=31 * (batch + 1), windows_out=batch + 1
        )
        found = found.after(batch / 2, seen(batch + 1, 37 if batch >= 9 else 0), SPLITS, status, rows[: batch + 1])
    return found


def rendered(shown: FleetHistory, width: int = 80, progress: str = "12 of 30 s") -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(view(shown, title="500 streams", progress=progress, width=width))
    return capture.get().splitlines()


def test_the_view_has_all_numbers_and_fits_the_terminal(history: FleetHistory) -> None:
    lines = rendered(history)
    text = "\n".join(lines)
    assert {len(line) for line in lines} == {80}
    assert "…" not in text
    for number in ("480 there", "11 silent, 2 suspended, 3 missing", "20,500 tuples/s", "23,456 tuples/s", "2 open"):
        assert number in text, number
    for number in (
        "75% full",
        "30% full",
        "3 streams, 15,000/s",
        "37 streams",
        "1,400 tuples",
        "12 ms",
        "20 out",
        "1.25 s",
        "200,000 tuples so far",
    ):
        assert number in text, number
    assert "0.31% late, 5 broken, 4 vanished" in text and "12 of 30 s" in text
    assert "▁▁▁▁▁▁▁▁▁█▁▁▁▁▁▁▁▁▁▁" in text  # the redirections
    assert {len(line) for line in rendered(history, width=60)} == {60}
    assert max(len(line) for line in rendered(history, width=300)) == 100


def test_the_view_of_many_splits(history: FleetHistory) -> None:
    many = [replace(SPLITS[0], split=number) for number in range(20)]
    crowd = history.after(11.0, seen(99), many, history.looks[-1].query, history.query.windows)
    assert "and 12 more" in "\n".join(rendered(crowd))
    assert ", ..." in line(crowd, progress="")


def test_nothing_is_shown_until_a_batch_is_done() -> None:
    for shown in (FleetHistory(), FleetHistory().after(1.0, seen(1), SPLITS, Status(), [])):
        assert WARMING_UP in "\n".join(rendered(shown, progress=WARMING_UP))
        assert line(shown, progress=WARMING_UP) == WARMING_UP


def test_the_line_says_the_same(history: FleetHistory) -> None:
    text = line(history, progress="12 of 30 s")
    assert says(text, "12 of 30 s", "480 streams", "11 silent", "2 suspended", "3 missing", "20,500 tuples/s", "23,456 expected")
    assert says(text, "2 splits", "75%", "30%", "37 redirections", "1,400 buffered", "12 ms", "20 windows", "1.25 s", "0.31% late")
    assert says(text, "5 broken", "4 vanished") and "\n" not in text


def test_a_look_without_news_is_not_kept(history: FleetHistory) -> None:
    latest = history.looks[-1]
    assert history.after(99.0, latest.fleet, SPLITS, latest.query, history.query.windows) is history
    assert FleetHistory().after(1.0, FleetStatus(), [], Status(), []) == FleetHistory()
    assert sum(history.moves()) == history.moves()[9] == 37


def test_the_picture_says_what_is_seen(history: FleetHistory, tmp_path: Path) -> None:
    figure = draw(history, name="500 streams", ahead_s=15.0)
    titles = [panel.get_title(loc="left") for panel in figure.axes[:3]]
    assert titles == [
        "Rate: up to 21,000 tuples per second of 483 streams",
        "Splits: up to 2 tasks read all streams; 37 redirections",
        "Buffered: up to 1,400 tuples had come and were not let in yet",
    ]
    figure.savefig(tmp_path / "fleet.png")
    one = FleetHistory().after(1.0, replace(seen(1), splits=1), SPLITS[:1], history.looks[0].query, history.query.windows[:1])
    draw(one, name="one", ahead_s=15.0).savefig(tmp_path / "one.png")


def test_made_up_streams_join_fall_silent_vanish_burst_and_break() -> None:
    traffic = Generated(streams=100, rate_hz=5_000.0, period_s=20.0)
    ticks = [list(traffic.due(at, at + 0.5, 1_000 * SECOND_US)) for at in np.arange(0.0, 20.0, 0.5).tolist()]
    text = {name: b"".join(data for tick in ticks for each, data in tick if each == name) for name in traffic.names}
    lines = {name: data.splitlines() for name, data in text.items()}
    broken = sum(data.count(b"oops") for data in text.values())
    assert broken == 10  # one every two seconds
    counts = {name: len(found) for name, found in lines.items()}
    assert sum(counts.values()) - broken == traffic.arrived(20.0).sum()
    assert {name for name in traffic.names if name not in dict(ticks[0])} >= {f"s{n:05}" for n in range(3, 100, 10)}
    assert all(f"s{n:05}" not in dict(ticks[-1]) for n in range(7, 100, 20))
    assert traffic.gone(0.0) == [] and traffic.gone(20.0) == ["s00007", "s00047", "s00087"]
    burst = dict(ticks[20])["s00000"].count(b"\n")
    assert burst > 5 * dict(ticks[2])["s00000"].count(b"\n")
    total = [sum(data.count(b"\n") for _, data in tick) for tick in ticks]
    assert max(total[:2]) < 0.5 * total[16] > max(total[-2:])  # they rise and fall together
    times = [
        datetime.datetime.fromisoformat(json.loads(found)["ts"]).timestamp() for found in lines["s00001"] if b"oops" not in found
    ]
    assert times == sorted(times) and 1_000 <= times[0] < times[-1] < 1_020


@pytest.fixture
def cabs(tmp_path: Path) -> Path:
    """Two cabs; one reports every minute for an hour, the other one from the second half hour on."""
    minutes = [(minute, cab) for minute in range(61) for cab in ((4, 5) if minute >= 30 else (4,))]
    start = datetime.datetime(2008, 5, 20)
    table = {
        "ts": pa.array([start + datetime.timedelta(minutes=minute) for minute, _ in minutes], pa.timestamp("us")),
        "cab": pa.array([cab for _, cab in minutes], pa.int16()),
        "lat": [37.5 + minute / 1_000 for minute, _ in minutes],
        "lon": [-122.25] * len(minutes),
        "occupied": [minute % 2 == 0 for minute, _ in minutes],
    }
    file = tmp_path / "cabs.parquet"
    pq.write_table(pa.table(table), file)
    return file


def test_cabs_are_replayed_faster(cabs: Path) -> None:
    traffic = Cabs(cabs, 600.0)
    assert traffic.seconds == 6.0 and traffic.title == "2 cabs, 600 times faster"
    ticks = [dict(traffic.due(at, at + 1.0, began_us=0)) for at in range(7)]
    assert [sorted(tick) for tick in ticks] == [["cab004"]] * 3 + [["cab004", "cab005"]] * 4
    assert Counter(len(data.splitlines()) for tick in ticks for data in tick.values()) == {10: 9, 1: 2}
    assert json.loads(ticks[3]["cab005"].splitlines()[1]) == {
        "ts": "2008-05-20T00:31:00Z", "lat": 37.531, "lon": -122.25, "occupied": False,
    }  # fmt: skip


def test_the_latency_of_a_replay_counts_from_when_a_tuple_was_written(cabs: Path) -> None:
    first_us = 1_211_241_600 * SECOND_US
    began_us, out_us = 1_800_000_000 * SECOND_US, 1_800_000_003 * SECOND_US
    end_us = first_us + 1_200 * SECOND_US  # which came after two seconds
    row = WindowRow(first_us, end_us, 9, 2, late=0, latency_s=(out_us - end_us) / 1e6)
    found = Cabs(cabs, 600.0).in_real_time(row, began_us)
    assert (found.window_start_us, found.window_end_us) == (began_us, began_us + 2 * SECOND_US)
    assert found.latency_s == pytest.approx(1.0)
    assert Generated(1, 1.0, 1.0).in_real_time(row, began_us) == row


def test_a_writer_that_cannot_write_says_why(tmp_path: Path, cabs: Path) -> None:
    folder = tmp_path / "feeds"
    with Writer(folder, Cabs(cabs, 600.0)) as writer:
        writer.check()
        assert writer._process.pid is not None
        os.kill(writer._process.pid, signal.SIGINT)  # as a terminal does
        (folder / "cab004.jsonl").mkdir()
        writer.begin(now_us())
        assert writer._pipe.poll(DEADLINE_S)
        with pytest.raises(SkytideError, match="could not be written: IsADirectoryError"):
            writer.check()
    assert not writer._process.is_alive()


def test_what_cannot_run_is_refused_before_spark_starts(
    tmp_path: Path, cabs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*options: str) -> str:
        assert main(["fleet", "--out", str(tmp_path / "made"), *options]) == 1
        output = capsys.readouterr()
        assert output.out == ""
        return output.err

    assert "--seconds 0.0: out of range" in refused("--seconds", "0")
    assert "--rate -1.0: out of range" in refused("--rate", "-1")
    assert "--streams 0: out of range" in refused("--streams", "0")
    assert "--speed 0.0: out of range" in refused("--cabs", str(cabs), "--speed", "0")
    monkeypatch.setenv("SKYTIDE_DATA", str(tmp_path))
    assert f"{tmp_path / 'cabs_20080520.parquet'}: there is no such file" in refused("--cabs")
    assert "lat" in refused("--cabs", _without(cabs, "lat"))
    (tmp_path / "text.parquet").write_text("no table")
    assert "name a Parquet file with the columns ts, cab" in refused("--cabs", "text.parquet")
    pq.write_table(pq.read_table(cabs).slice(0, 0), tmp_path / "empty.parquet")
    assert "it has no rows" in refused("--cabs", "empty.parquet")
    mine = tmp_path / "made" / "fleet" / "thesis.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("years of work")
    assert f"{mine} is not from an earlier run, and would be lost" in refused()
    assert mine.read_text() == "years of work"


def _without(file: Path, column: str) -> str:
    other = file.with_name(f"without-{column}.parquet")
    pq.write_table(pq.read_table(file).drop_columns([column]), other)
    return str(other)


class Command:
    """`skytide fleet` as a process of its own, which is killed if it takes too long."""

    def __init__(self, folder: Path, *options: str) -> None:
        program = "import sys; from skytide.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", program, "fleet", "--streams", "40", "--rate", "800", "--out", "made", *options]
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._timer = threading.Timer(DEADLINE_S, self.process.kill)
        self._timer.start()

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate()
        self._timer.cancel()
        return self.process.returncode, out, err


@pytest.mark.long
def test_the_command_runs_to_its_end(tmp_path: Path) -> None:
    made = tmp_path / "made"
    status, out, err = Command(tmp_path, "--seconds", "5").end()
    assert (status, err) == (0, "")
    assert {entry.name for entry in (made / "fleet").iterdir()} - {"broken"} == {"feeds", "results", "checkpoint", MARK}
    assert (made / "fleet.png").read_bytes().startswith(b"\x89PNG")
    assert re.search(r"^[^:]+: \d+ streams \(\d+ silent, 0 suspended, \d+ missing\), .* tuples/s, .* expected, ", out, re.MULTILINE)
    assert re.search(r"^Streams:  \d+ \(\d+ silent, 0 suspended, \d+ missing\)$", out, re.MULTILINE)
    assert re.search(r"^Splits:   up to \d+, and \d+ redirections? of streams to another one$", out, re.MULTILINE)

    windows = read_windows(made / "fleet" / "results" / "_windows")
    starts = [row.window_start_us for row in windows]
    assert starts == list(range(starts[0], starts[-1] + 1, SECOND_US))
    assert f"Windows:  {len(windows):,}, " in out
    results = pq.read_table(made / "fleet" / "results")
    assert results.num_rows == sum(row.kept for row in windows) > 0
    assert {"window_start", "window_end", "stream", "tuples", "mean", "highest"} <= set(results.column_names)
    assert sum(results["tuples"].to_pylist()) == sum(row.tuples for row in windows)


@pytest.mark.long
def test_an_interrupt_ends_the_command_with_one_clear_line(tmp_path: Path) -> None:
    command = Command(tmp_path, "--seconds", "600")
    assert command.process.stdout is not None
    assert command.process.stdout.readline().startswith("Starting Spark ...")
    command.process.send_signal(signal.SIGINT)
    status, out, err = command.end()
    assert (status, err) == (0, "")
    assert out == "It ended before the first window came out, so there is no picture.\n"
