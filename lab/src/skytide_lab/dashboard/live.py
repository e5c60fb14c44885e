"""The live view of a continuous skyline: pure functions from what was seen to what a terminal shows."""

from collections.abc import Sequence
from datetime import datetime

from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from skytide.records import Status, WindowRow
from skytide_lab.dashboard.history import History

WARMING_UP = "warming up"
BARS = "▁▂▃▄▅▆▇█"
MAX_WIDTH = 100
NAME, NUMBER, UNIT = 11, 9, 8  # columns
AROUND = NAME + NUMBER + UNIT + 3 + 6  # columns that are not left for bars
ROOM_BELOW = 0.8  # a trigger share below this leaves room


def sparkline(values: Sequence[float], width: int) -> str:
    """Return the latest values as bars that begin at zero.

    >>> sparkline([5, 0, 1, 4, 8], width=4)
    '▁▂▅█'
    """
    latest = values[-width:]
    top = max(latest, default=0) or 1
    return "".join(BARS[min(int(value / top * len(BARS)), len(BARS) - 1)] for value in latest)


def view(history: History, *, progress: str, drop_ratio: float, width: int = 80) -> RenderableType:
    """Return a view of how a query is doing: `progress` says how far it has come, `drop_ratio` the share of the tuples it may drop."""
    width = min(width, MAX_WIDTH)
    latest = history.latest
    if latest is None or latest.last_window is None:
        body: RenderableType = Text("A fresh Spark starts its workers and loads the kernels ...", style="yellow")
    else:
        body = _numbers(history, latest, latest.last_window, max(width - AROUND, 10), drop_ratio)
    return Panel(
        Padding(body, (1, 1)),
        title="[bold]skytide[/]: the skyline of the last second",
        subtitle=progress,
        width=width,
        box=box.ROUNDED,
        border_style="blue",
    )


def line(history: History, *, progress: str) -> str:
    """Return the same in one line, for logs and pipes."""
    latest = history.latest
    if latest is None or latest.last_window is None:
        return progress
    return (
        f"{progress}: {latest.input_rate_hz:,.0f} tuples/s, trigger share {latest.trigger_share:.0%}, "
        f"latency {latest.last_window.latency_s:.2f} s, slack {latest.slack_us / 1e3:,.0f} ms, late {_late(latest):.2%}, "
        f"skyline {latest.last_window.kept:,} rows, {latest.windows_out:,} windows"
    )


def _numbers(history: History, latest: Status, last: WindowRow, bars: int, drop_ratio: float) -> RenderableType:
    batches = history.batches[-bars:]
    windows = [batch.last_window for batch in batches if batch.last_window]
    rates = [batch.input_rate_hz for batch in batches]
    in_time = [window.latency_s for window in windows if window.window_end_us >= (history.out_us or 0)]
    steady = history.latency()

    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", width=NAME)
    table.add_column(style="bold", width=NUMBER, justify="right")
    table.add_column(width=UNIT)
    table.add_column(width=bars, no_wrap=True)

    def add(name: str, number: str, unit: str, shown: RenderableType, note: str = "") -> None:
        table.add_row(name, number, unit, shown)
        if note:
            table.add_row("", "", "", Text(note, style="dim"))

    def spark(values: Sequence[float], colour: str) -> Text:
        return Text(sparkline(values, bars), style=colour)

    add(
        "input",
        f"{latest.input_rate_hz:,.0f}",
        "tuples/s",
        spark(rates, "cyan"),
        f"up to {max(rates):,.0f}; {latest.tuples:,} tuples so far",
    )
    size = spark([window.kept for window in windows], "magenta")
    add("skyline", f"{last.kept:,}", "rows", size, f"of {last.tuples:,} tuples in the window")
    average = f"mean {steady.mean_s:.2f} s, p99 {steady.p99_s:.2f} s" if steady else "catching up with what came before"
    add("latency", f"{last.latency_s:.2f}", "s", spark(in_time, "green"), average)
    add("slack", f"{latest.slack_us / 1e3:,.0f}", "ms", spark([batch.slack_us for batch in batches], "yellow"))
    dropped = Text(f"{latest.late:,} tuples; up to {drop_ratio:.0%} is allowed", style="dim")
    add("late", f"{_late(latest):.2%}", "dropped", dropped)
    add("trigger share", f"{latest.trigger_share:.0%}", "", gauge(latest.trigger_share, bars))
    add("windows", f"{latest.windows_out:,}", "out", Text(f"the last one {_clock(last)}", style="dim"))
    add("panes", f"{latest.open_panes:,}", "open", "")
    return table


def gauge(share: float, width: int) -> RenderableType:
    """Return a share as a bar: green while there is room, red when there is none."""
    colour = "green" if share < ROOM_BELOW else "yellow" if share < 1 else "red"
    return ProgressBar(total=1, completed=min(share, 1), width=width, complete_style=colour, finished_style=colour)


def _late(status: Status) -> float:
    return status.late / max(status.tuples, 1)


def _clock(window: WindowRow) -> str:
    bounds = (window.window_start_us, window.window_end_us)
    start, end = (datetime.fromtimestamp(time_us / 1e6).strftime("%H:%M:%S.%f")[:-5] for time_us in bounds)
    return f"{start} to {end}"
