import re
import signal
import subprocess
import sys
import threading
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from support.prose import says

from skytide.cli import main
from skytide.records import Status, WindowRow
from skytide_lab.dashboard.live import WARMING_UP
from skytide_lab.dashboard.trading_history import ResultFolder, TradingHistory, Windows, accuracy
from skytide_lab.dashboard.trading_live import line, view
from skytide_lab.dashboard.trading_picture import candles, draw
from skytide_lab.data.quote_day import QuoteDay
from skytide_lab.data.trading_day import FEED, MadeUpDay, RealDay
from skytide_lab.demonstrations.folders import MARK
from skytide_lab.kernels.polynomial import fit_windows

SECOND_US = 1_000_000
OPENS = datetime(2026, 1, 5, 9, 30)
DEADLINE_S = 300
LENGTH, SLIDE = 100, 25


def results(symbol: str, first: int, count: int, *, slope: float = 0.01) -> pa.Table:
    """Windows of a symbol with one quote per second, whose price rises by `slope` with each."""
    starts = np.arange(first, first + count) * SLIDE
    ends = starts + LENGTH - 1
    times = {
        name: pa.array([OPENS + timedelta(seconds=int(second)) for second in seconds], pa.timestamp("us", "UTC"))
        for name, seconds in (("window_start", starts), ("window_end", ends))
    }
    close = 100 + slope * ends
    return pa.table(
        {
            "symbol": [symbol] * count, "row_start": starts, "row_end": starts + LENGTH, **times,
            "open": 100 + slope * starts, "high": close + 0.02, "low": 100 + slope * starts - 0.02, "close": close,
            "fitted": close, "predicted": close + 50 * slope, "error": np.full(count, 0.004),
            "signal": ["buy" if slope > 0.005 else "hold"] * count,
        }
    )  # fmt: skip


@pytest.fixture
def history() -> TradingHistory:
    """Twelve symbols in ten batches, the first with most windows; two slots from the fifth batch on."""
    found = TradingHistory()
    for batch in range(10):
        row = WindowRow(batch * SECOND_US, (batch + 1) * SECOND_US, 40_000, 100, late=0, latency_s=0.75, windows=100)
        status = Status(
            batch=batch, input_rate_hz=41_000.0, tuples=20_000 * (batch + 1), windows_out=100 * (batch + 1), slots=1 + (batch >= 5),
            trigger_share=0.61, imbalance=1.07, moved_groups=128 if batch >= 5 else 0, last_window=row,
        )  # fmt: skip
        tables = [results("ANNA", 20 * batch, 20), *(results(f"S{n:02}", 5 * batch, 5, slope=-0.001 * n) for n in range(1, 12))]
        found = found.after(batch / 2, status, [row], "forecast up to 43,000 tuples/s", tables)
    return found


def rendered(shown: TradingHistory, width: int = 80) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(view(shown, title="40 symbols", ahead="5 s", progress="12 of 39 s", width=width))
    return capture.get().splitlines()


def test_the_view_has_all_numbers_and_fits_the_terminal(history: TradingHistory) -> None:
    lines = rendered(history)
    text = "\n".join(lines)
    assert {len(line) for line in lines} == {80}
    for shown in (
        "41,000 quotes/s",
        "1,000 fitted",
        "0.75 s",
        "61%",
        "2 at work",
        "forecast up to 43,000",
        "128 groups of keys moved",
    ):
        assert shown in text, shown
    for shown in (
        "1.07 times the mean",
        "200 signals to buy, 0 to sell",
        "ANNA",
        "+50.74%",
        "▲ buy",
        "hold",
        "2 more",
        "12 of 39 s",
    ):
        assert shown in text, shown
    assert "▅▅▅▅▅█████" in text  # the slots
    assert {len(line) for line in rendered(history, width=70)} == {70}
    assert max(len(line) for line in rendered(history, width=300)) == 100


def test_the_line_says_the_same(history: TradingHistory) -> None:
    text = line(history, progress="12 of 39 s")
    assert says(text, "12 of 39 s", "10:54:34", "41,000 quotes/s", "1,000 windows", "0.75 s", "61%", "2 slots", "ANNA 150.74")
    assert says(text, "S01 98.68", "S02 97.35") and "\n" not in text
    assert line(TradingHistory(), progress=WARMING_UP) == WARMING_UP
    assert "A fresh Spark" in "\n".join(rendered(TradingHistory()))


def test_a_look_without_news_is_not_kept(history: TradingHistory) -> None:
    latest = history.looks[-1]
    assert history.after(99.0, latest.query, list(history.query.windows), "", []) is history


def test_predictions_are_compared_with_the_price_that_came() -> None:
    windows = Windows.of(results("ANNA", 0, 20))
    found = accuracy(windows, 50 * SECOND_US)  # a line goes on as it was: nothing is off, and 50 steps of 0.01 have come
    assert found is not None and found.predictions == 18
    assert found.off_bp == pytest.approx(0.0, abs=1e-6) and found.unchanged_bp == pytest.approx(48.4, abs=1)
    assert accuracy(windows[:1], 50 * SECOND_US) is None


def test_many_candlesticks_become_fewer_without_losing_an_extreme() -> None:
    windows = Windows.of(results("ANNA", 0, 201)).side_by_side(LENGTH)
    assert len(windows) == 51 and (np.diff(windows.first_rows) == LENGTH).all()
    drawn = candles(windows, 10)
    assert len(drawn.opens) == 9
    assert (drawn.opens[0], drawn.closes[-1]) == (windows.numbers["open"][0], windows.numbers["close"][-1])
    assert (drawn.highs.max(), drawn.lows.min()) == (windows.numbers["high"].max(), windows.numbers["low"].min())
    assert (drawn.begins[1:] > drawn.ends[:-1]).all()


def test_the_picture_says_what_is_seen(history: TradingHistory, tmp_path: Path) -> None:
    options = {"name": "40 symbols", "ahead": "50 s", "ahead_us": 50 * SECOND_US, "length": LENGTH, "first_us": 0, "speed": 600.0}
    figure = draw(history, **options)
    titles = [panel.get_title(loc="left") for panel in figure.axes]
    assert titles[0] == "ANNA: 150.74, +50.74% since the opening, 200 windows"
    assert titles[1].startswith("50 s ahead: off by 0.0 bp, without change ")
    assert "Input: up to 41,000 quotes per second, from which 1,000 polynomials were fitted" in titles
    assert any(title.startswith("Slots, as model predictive control chose them: 1 to 2") for title in titles)
    figure.savefig(tmp_path / "trading.png")
    one = TradingHistory().after(0.5, history.looks[0].query, [], "", [results("ANNA", 0, 1)])
    draw(one, **options).savefig(tmp_path / "one.png")


def test_results_are_read_as_their_batches_are_done(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path / "results")
    assert folder.new(3) == []
    folder = ResultFolder(tmp_path / "results")
    for batch in (2, 10):
        (tmp_path / "results" / f"batch={batch}").mkdir(parents=True)
        for part in range(2):
            pq.write_table(results(f"P{part}", batch, 3), tmp_path / "results" / f"batch={batch}" / f"part-{part:05}.parquet")
    assert [table.num_rows for table in folder.new(9)] == [6]
    assert [table.num_rows for table in folder.new(10)] == [6]
    assert folder.new(10) == []


def test_a_made_up_day_comes_as_lines_each_quote_once() -> None:
    day = MadeUpDay(symbols=5, rate_hz=2_000.0, speed=600.0)
    assert day.seconds == 39.0
    assert day.in_real_time(WindowRow(day.opens_us, day.opens_us + 600 * SECOND_US, 1, 1, 0, 0.0), 0).window_end_us == SECOND_US
    parts = [dict(day.due(at, at + 0.25, 0)).get(FEED, b"") for at in np.arange(0, 2, 0.25).tolist()]
    whole = QuoteDay(5, 2_000 / 600).quotes(0, 1_200 * SECOND_US)
    lines = b"".join(parts).decode().splitlines()
    assert len(lines) == len(whole.prices) > 1_000
    assert [float(line.split(",")[2]) for line in lines] == whole.prices.tolist()
    assert lines[0].startswith("2026-01-05 09:30:0")
    assert list(day.due(39.5, 40.0, 0)) == []


@pytest.fixture
def quotes(tmp_path: Path) -> Path:
    """A quote every second from 9:29 to 9:40 on a day, and one at night."""
    times = [datetime(2013, 10, 7, 9, 29) + timedelta(seconds=n) for n in range(660)] + [datetime(2013, 10, 7, 19, 0)]
    table = {"ts": pa.array(times, pa.timestamp("us")), "symbol": ["IBM"] * 661, "price": [180.0] * 661, "size": [100] * 661}
    file = tmp_path / "quotes.parquet"
    pq.write_table(pa.table(table), file)
    return file


def test_a_real_day_is_replayed_from_its_opening(quotes: Path) -> None:
    day = RealDay(quotes, 60.0)
    assert day.title == "IBM on 2013-10-07, 60 times faster"
    lines = dict(day.due(0.0, 1.0, 0))[FEED].decode().splitlines()
    assert len(lines) == 60 and lines[0] == '2013-10-07 09:30:00.000000,"IBM",180,100'
    assert dict(day.due(1.0, 100.0, 0))[FEED].count(b"\n") == 540


def test_what_cannot_run_is_refused_before_spark_starts(
    tmp_path: Path, quotes: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*options: str) -> str:
        assert main(["trading", "--out", str(tmp_path / "made"), *options]) == 1
        output = capsys.readouterr()
        assert output.out == ""
        return output.err

    assert "--seconds 0.0: out of range" in refused("--seconds", "0")
    assert "--slots 0: out of range" in refused("--slots", "0")
    assert "--rate -1.0: out of range" in refused("--rate", "-1")
    assert "--symbols 0: out of range" in refused("--symbols", "0")
    assert "--speed 0.0: out of range" in refused("--speed", "0")
    monkeypatch.setenv("SKYTIDE_DATA", str(tmp_path))
    assert f"{tmp_path / 'quotes_20131007.parquet'}: there is no such file" in refused("--quotes")
    table = pq.read_table(quotes)
    for name, other, output in (
        ("a", table.drop_columns(["price"]), "name a Parquet file with the columns ts, symbol, price, size"),
        ("b", table.slice(0, 0), "it has no rows"),
        ("c", table.slice(660), "no quote from 9:30 to 16:00"),
        ("d", table.set_column(2, "price", pa.nulls(661, pa.float64())), "there are NULLs in it"),
    ):
        pq.write_table(other, tmp_path / f"{name}.parquet")
        assert output in refused("--quotes", f"{name}.parquet")
    mine = tmp_path / "made" / "trading" / "thesis.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("years of work")
    assert f"{mine} is not from an earlier run, and would be lost" in refused()
    assert mine.read_text() == "years of work"


class Command:
    """`skytide trading` as a process of its own, which is killed if it takes too long."""

    def __init__(self, folder: Path, *options: str) -> None:
        program = "import sys; from skytide.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", program, "trading", "--symbols", "6", "--rate", "4000", "--out", "made", *options]
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._timer = threading.Timer(DEADLINE_S, self.process.kill)
        self._timer.start()

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate()
        self._timer.cancel()
        return self.process.returncode, out, err


@pytest.mark.long
def test_an_interrupt_ends_the_command_with_a_whole_last_batch_and_the_picture(tmp_path: Path) -> None:
    command = Command(tmp_path, "--seconds", "600")
    assert command.process.stdout is not None
    assert any("quotes/s" in output and " windows, latency" in output for output in command.process.stdout), (
        "ended before a window was out"
    )
    command.process.send_signal(signal.SIGINT)
    status, out, err = command.end()
    assert (status, err) == (0, "")
    made = tmp_path / "made"
    assert {entry.name for entry in (made / "trading").iterdir()} == {"feeds", "results", "checkpoint", MARK}
    assert (made / "trading.png").read_bytes().startswith(b"\x89PNG")
    assert re.search(r"^Quotes:   [\d,]+ of \d+ symbols with a window, 0.00% late$", out, re.MULTILINE)
    assert re.search(r"^Slots:    \d to \d, changed \d+ times? by Mpc; [\d,]+ groups of keys moved$", out, re.MULTILINE)

    found = pq.read_table(made / "trading" / "results")
    assert f"Windows:  {found.num_rows:,} of 1,000 quotes each, " in out
    _check_windows(found, made / "trading" / "feeds" / f"{FEED}.csv")


def _check_windows(found: pa.Table, feed: Path) -> None:
    """Every window of a symbol up to its last one is there once, and has the prices and the prediction of its quotes.

    Quotes of the same time are in order of their values, price before volume, and not as they came.
    """
    lines = [row.split(",") for row in feed.read_text().splitlines()]
    for symbol in found["symbol"].unique().to_pylist():
        mine = found.filter(pa.compute.equal(found["symbol"], symbol)).sort_by("row_start")
        ends = np.array(mine["row_end"])
        assert ends.tolist() == list(range(1_000, ends[-1] + 1, 25))
        came = [row for row in lines if row[1] == f'"{symbol}"']
        quoted = sorted(came, key=lambda row: (row[0], float(row[2]), int(row[3])))
        prices = np.array([float(row[2]) for row in quoted])
        times = np.array([row[0] for row in quoted], "M8[us]").astype(np.int64)
        assert np.array(mine["close"]).tolist() == prices[ends - 1].tolist()
        expected = fit_windows(times, prices, ends - 1_000, ends, ahead_us=5 * SECOND_US).predicted
        assert np.array(mine["predicted"]) == pytest.approx(expected)


@pytest.mark.long
def test_an_interrupt_at_the_start_ends_the_command_with_one_clear_line(tmp_path: Path) -> None:
    command = Command(tmp_path, "--seconds", "600")
    assert command.process.stdout is not None
    assert command.process.stdout.readline().startswith("Starting Spark ...")
    command.process.send_signal(signal.SIGINT)
    status, out, err = command.end()
    assert (status, err) == (0, "")
    assert out == "It ended before the first window came out, so there is no picture.\n"
