import logging
import re
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from rich.console import Console
from support.prose import says

from skytide.cli import main
from skytide.records import Status, WindowRow
from skytide.spark.session.failure import reason
from skytide.spark.session.interrupt import Interrupt
from skytide_lab.dashboard.history import History, latency, read_windows
from skytide_lab.dashboard.live import WARMING_UP, line, view
from skytide_lab.dashboard.picture import draw
from skytide_lab.demonstrations.folders import MARK

SECOND_US = 1_000_000
DEADLINE_S = 300


def window(number: int, *, tuples: int = 5_000, kept: int = 300, latency_s: float = 1.2) -> WindowRow:
    start_us = number * SECOND_US // 5
    return WindowRow(start_us, start_us + SECOND_US, tuples, kept, late=3, latency_s=latency_s)


def status(batch: int, last: WindowRow | None, *, rate_hz: float = 5_000.0) -> Status:
    return Status(
        batch=batch,
        input_rate_hz=rate_hz,
        processing_rate_hz=40_000.0,
        trigger_share=0.42,
        backlog_s=0.3,
        open_panes=6,
        slack_us=741_456,
        tuples=12_345 * (batch + 1),
        late=61 * (batch + 1),
        windows_out=3 * (batch + 1),
        last_window=last,
    )


@pytest.fixture
def history() -> History:
    """Twenty batches of three windows each: the first ones late, as Spark started, and a burst in batch 9."""
    rows = [window(number, latency_s=9.0 if number < 6 else 1.2, kept=300 + number) for number in range(60)]
    seen = History()
    for batch in range(20):
        seen = seen.after(status(batch, rows[3 * batch + 2], rate_hz=80_000.0 if batch == 9 else 5_000.0), rows[: 3 * batch + 3])
    return seen


def rendered(seen: History, width: int = 80, progress: str = "12 of 40 s") -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(view(seen, progress=progress, drop_ratio=0.01, width=width))
    return capture.get().splitlines()


def test_the_view_has_all_numbers_and_fits_the_terminal(history: History) -> None:
    lines = rendered(history)
    text = "\n".join(lines)
    assert {len(line) for line in lines} == {80}
    assert "…" not in text
    for number in ("5,000 tuples/s", "up to 80,000", "359 rows", "of 5,000 tuples", "1.20 s", "p99 1.20 s", "741 ms", "0.49%"):
        assert number in text, number
    for number in ("246,900 tuples so far", "1,220 tuples; up to 1% is allowed", "42%", "60 out", "6 open", "12 of 40 s"):
        assert number in text, number
    assert "▁▁▁▁▁▁▁▁▁█▁▁▁▁▁▁▁▁▁▁" in text  # the burst


def test_the_view_of_other_terminals(history: History) -> None:
    assert {len(line) for line in rendered(history, width=60)} == {60}
    assert max(len(line) for line in rendered(history, width=300)) == 100


def test_the_view_says_that_spark_warms_up_until_a_window_is_out() -> None:
    nothing_out = History().after(status(0, None), [])
    for seen in (History(), nothing_out):
        assert WARMING_UP in "\n".join(rendered(seen, progress=WARMING_UP))
        assert line(seen, progress=WARMING_UP) == WARMING_UP
    assert nothing_out.out_us is None


def test_the_line_says_the_same(history: History) -> None:
    text = line(history, progress="12 of 40 s")
    assert says(text, "12 of 40 s", "5,000 tuples/s", "42%", "1.20 s", "741 ms", "0.49%", "359 rows", "60 windows")
    assert "\n" not in text


def test_a_batch_is_seen_once(history: History) -> None:
    assert len(history.batches) == 20
    assert history.after(history.batches[-1], history.windows) is history
    assert History().after(replace(history.batches[0], batch=-1), []) == History()


def test_windows_that_ended_before_the_first_came_out_do_not_count(history: History) -> None:
    assert history.out_us == 10 * SECOND_US  # the first window ended at 1 s and took 9 s
    counted = history.latency()
    assert counted is not None and counted.windows == sum(row.window_end_us >= 10 * SECOND_US for row in history.windows) < 60
    assert counted.mean_s == pytest.approx(1.2)
    assert latency(history.windows, since_us=history.windows[-1].window_end_us + 1) is None


def test_windows_are_read_back_in_order(tmp_path: Path) -> None:
    assert read_windows(tmp_path / "_windows") == []
    for batch in (9, 10):
        rows = [window(2 * batch), window(2 * batch + 1)]
        columns = {name: [getattr(row, name) for row in rows] for name in ("tuples", "kept", "late", "latency_s", "windows")}
        for name in ("window_start", "window_end"):
            columns[name] = pa.array([getattr(row, f"{name}_us") for row in rows], pa.timestamp("us", "UTC"))
        folder = tmp_path / "_windows" / f"batch={batch}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table(columns), folder / "part.parquet")
    assert read_windows(tmp_path / "_windows") == [window(number) for number in range(18, 22)]


def test_the_picture_says_what_is_seen(history: History, tmp_path: Path) -> None:
    figure = draw(history, history.windows, drop_ratio=0.01)
    titles = [panel.get_title(loc="left") for panel in figure.axes]
    assert titles[0] == "Input: bursts of up to 5,000 tuples per second, 5,000 on average"
    assert "mean 1.20 s" in titles[1] and "359 rows" in titles[2] and "0.49%" in titles[3]
    figure.savefig(tmp_path / "run.png")
    only_one = History().after(status(0, window(0)), [window(0)])
    draw(only_one, only_one.windows, drop_ratio=0.01).savefig(tmp_path / "one.png")


def test_the_reason_of_a_failure_is_the_innermost_one() -> None:
    failure = (
        "An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):\n"
        '  File "engine.py", line 114, in run_batch\n'
        "pyspark.errors.exceptions.captured.PythonException: An exception was thrown from the Python worker:\n"
        "Traceback (most recent call last):\n"
        '  File "store.py", line 168, in __enter__\n'
        "NotADirectoryError: [Errno 20] Cannot create directory 'x'\n\n"
        "=== Streaming Query ===\nIdentifier: [id = 7]\nCurrent State: ACTIVE"
    )
    assert reason(failure) == "NotADirectoryError: [Errno 20] Cannot create directory 'x'"
    assert reason("[STREAM_FAILED] it broke\n\tat org.apache.spark") == "[STREAM_FAILED] it broke"


def test_the_first_interrupt_is_noted_and_the_second_aborts() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupt() as starting:
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
            assert starting.requested
    with Interrupt() as running:
        running.spark_runs()
        signal.raise_signal(signal.SIGINT)
        assert running.requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    assert logging.getLogger("of the program").isEnabledFor(logging.ERROR)
    assert not logging.getLogger("py4j.java_gateway").isEnabledFor(logging.CRITICAL)  # it would report what was cut short
    with Interrupt():  # the program goes on
        assert logging.getLogger("py4j.java_gateway").isEnabledFor(logging.ERROR)


def test_what_cannot_run_is_refused_before_spark_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*options: str) -> str:
        assert main(["run", "--out", str(tmp_path), *options]) == 1
        output = capsys.readouterr()
        assert output.out == ""
        return output.err

    assert "--seconds 0.0: out of range" in refused("--seconds", "0")
    assert "--rate -1.0: out of range" in refused("--rate", "-1")
    (tmp_path / "run").mkdir()
    mine = tmp_path / "run" / "thesis.txt"
    mine.write_text("years of work")
    assert f"{mine} is not from an earlier run, and would be lost" in refused()
    assert mine.read_text() == "years of work"
    mine.unlink()
    for name in ("results", "checkpoint"):  # as ours are called, but not ours
        mine = tmp_path / "run" / name / "batch=0" / "part-00000.parquet"
        mine.parent.mkdir(parents=True)
        mine.write_text("years of work")
        assert f"{tmp_path / 'run' / name} is not from an earlier run, and would be lost" in refused()
        assert mine.read_text() == "years of work"
        shutil.rmtree(tmp_path / "run" / name)
    (tmp_path / "run").rmdir()
    (tmp_path / "run").write_text("a file")
    assert "choose a folder to write to" in refused()


class Command:
    """`skytide run` as a process of its own, which is killed if it takes too long."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [str(Path(sys.executable).with_name("skytide")), "run", "--rate", "2000", "--out", "made", *options]
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._timer = threading.Timer(DEADLINE_S, self.process.kill)
        self._timer.start()

    def wait_for_a_window(self) -> None:
        assert self.process.stdout is not None
        assert any("tuples/s" in output for output in self.process.stdout), "ended before a window was out"

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate()
        self._timer.cancel()
        return self.process.returncode, out, err


@pytest.mark.long
def test_the_command_runs_to_its_end_and_replaces_an_earlier_run(spark: SparkSession, tmp_path: Path) -> None:
    made = tmp_path / "made"
    earlier = made / "run" / "results" / "batch=700" / "part-00000.parquet"
    earlier.parent.mkdir(parents=True)
    earlier.write_text("not even Parquet")
    (made / "run" / MARK).touch()
    status, out, err = Command(tmp_path, "--seconds", "8").end()
    assert (status, err) == (0, "")
    assert len(re.findall("tuples/s", out)) >= 2
    assert not earlier.exists()
    assert {entry.name for entry in (made / "run").iterdir()} == {"results", "checkpoint", MARK}
    assert (made / "run.png").read_bytes().startswith(b"\x89PNG")

    windows = read_windows(made / "run" / "results" / "_windows")
    starts = [row.window_start_us for row in windows]
    assert starts == list(range(starts[0], starts[-1] + 1, SECOND_US // 5))
    assert f"Windows:  {len(windows):,}, " in out
    assert "Picture:  made/run.png" in out
    in_spark = re.search(r"In Spark: (.*)\.show\(\)", out)
    assert in_spark is not None
    results = eval(in_spark[1].replace("made", str(made)), {"spark": spark})
    assert results.count() == sum(row.kept for row in windows) > 0


@pytest.mark.long
def test_an_interrupt_ends_the_command_in_order(tmp_path: Path) -> None:
    command = Command(tmp_path, "--seconds", "600")
    command.wait_for_a_window()
    command.process.send_signal(signal.SIGINT)
    status, out, err = command.end()
    assert (status, err) == (0, "")
    assert "Latency: " in out
    assert (tmp_path / "made" / "run.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_a_stream_that_fails_says_why(tmp_path: Path) -> None:
    command = Command(tmp_path, "--seconds", "600")
    command.wait_for_a_window()
    run = tmp_path / "made" / "run"
    latest = max(int(folder.name.removeprefix("batch=")) for folder in (run / "results").glob("batch=*"))
    (run / "results" / f"batch={latest + 4}" / "part-00000.parquet" / "in the way").mkdir(parents=True)
    status, _, err = command.end()
    assert status == 1
    assert re.fullmatch(r"skytide: the stream failed: \w+Error: .*; the full report is in made/run/error.txt\n", err)
    assert "part-00000.parquet" in err
    assert "Traceback" in (run / "error.txt").read_text()
