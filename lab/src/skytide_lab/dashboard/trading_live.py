"""The live view of the trading application: pure functions from what was seen to what a terminal shows."""

from collections.abc import Sequence

import numpy as np
from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from skytide_lab.dashboard.live import AROUND, BARS, MAX_WIDTH, NAME, NUMBER, UNIT, gauge, sparkline
from skytide_lab.dashboard.trading_history import TradingHistory, TradingLook, Windows

SYMBOLS_SHOWN = 10
SYMBOL, PRICE, CHANGE, AHEAD, SIGNAL = 8, 9, 9, 11, 6  # columns
COLOURS = {"buy": "bold green", "sell": "bold red", "hold": "dim"}
ARROWS = {"buy": "▲ buy", "sell": "▼ sell", "hold": "hold"}


def view(history: TradingHistory, *, title: str, ahead: str, progress: str, width: int = 80) -> RenderableType:
    """Return a view of trading: `title` says what is traded, `ahead` how far predictions look, `progress` how far the day has come."""
    width = min(width, MAX_WIDTH)
    latest = history.latest
    if latest is None:
        body: RenderableType = Text("A fresh Spark starts its workers and loads the kernels ...", style="yellow")
    else:
        reason = Text(latest.reason, style="dim italic", no_wrap=True, overflow="ellipsis")
        body = Group(_numbers(history, latest, max(width - AROUND, 10)), reason, Text(), _prices(history, ahead, width - 6))
    return Panel(
        Padding(body, (1, 1)),
        title=f"[bold]skytide[/]: {title}",
        subtitle=progress,
        width=width,
        box=box.ROUNDED,
        border_style="blue",
    )


def line(history: TradingHistory, *, progress: str) -> str:
    """Return the same in one line, for logs and pipes."""
    latest = history.latest
    if latest is None:
        return progress
    query = latest.query
    window = f"latency {history.query.windows[-1].latency_s:.2f} s" if history.query.windows else "no window yet"
    prices = ", ".join(f"{symbol} {_close(windows):,.2f}" for symbol, windows in history.liveliest(3))
    return (
        f"{progress}: {_clock(history)}{query.input_rate_hz:,.0f} quotes/s, {query.windows_out:,} windows, {window}, "
        f"trigger share {query.trigger_share:.0%}, {query.slots} {'slot' if query.slots == 1 else 'slots'}"
        + (f", {prices}" if prices else "")
    )


def change(windows: Windows) -> float:
    """Return by how much the price of a symbol has changed since its first window opened, as a share."""
    return _close(windows) / float(windows.numbers["open"][0]) - 1


def price_line(values: Sequence[float], width: int) -> str:
    """Return values as bars from the lowest to the highest; if there are many, only some of them.

    >>> price_line([10.0, 10.2, 10.1, 10.4], width=4), price_line([7.0, 7.0], width=4)
    ('▁▄▂█', '▄▄')
    """
    steps = np.linspace(0, len(values) - 1, min(width, len(values))).round().astype(int)
    drawn = [values[step] for step in steps.tolist()]
    lowest, highest = min(drawn, default=0.0), max(drawn, default=0.0)
    if highest == lowest:
        return BARS[3] * len(drawn)
    return "".join(BARS[min(int((value - lowest) / (highest - lowest) * len(BARS)), len(BARS) - 1)] for value in drawn)


def _numbers(history: TradingHistory, latest: TradingLook, bars: int) -> RenderableType:
    query, batches = latest.query, history.query.batches[-bars:]
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", width=NAME)
    table.add_column(style="bold", width=NUMBER, justify="right")
    table.add_column(width=UNIT)
    table.add_column(width=bars, no_wrap=True)

    def spark(values: Sequence[float], colour: str) -> Text:
        return Text(sparkline(values, bars), style=colour)

    def note(text: str) -> Text:
        return Text(text, style="dim", overflow="ellipsis")

    table.add_row("input", f"{query.input_rate_hz:,.0f}", "quotes/s", spark([batch.input_rate_hz for batch in batches], "cyan"))
    signals = history.signals()
    counted = f"{signals['buy']:,} signals to buy, {signals['sell']:,} to sell"
    table.add_row("windows", f"{query.windows_out:,}", "fitted", note(counted))
    windows = [window.latency_s for window in history.query.windows if window.window_end_us >= (history.query.out_us or 0)]
    steady = history.query.latency()
    last = f"{history.query.windows[-1].latency_s:.2f}" if history.query.windows else "-"
    table.add_row("latency", last, "s", spark(windows, "green"))
    if steady:
        table.add_row("", "", "", note(f"mean {steady.mean_s:.2f} s, p99 {steady.p99_s:.2f} s"))
    table.add_row("trigger share", f"{query.trigger_share:.0%}", "", gauge(query.trigger_share, bars))
    table.add_row("slots", f"{query.slots:,}", "at work", spark([batch.slots for batch in batches], "magenta"))
    table.add_row("", "", "", note(f"{query.moved_groups:,} groups of keys moved"))
    table.add_row("", "", "", note(f"the busiest has {query.imbalance:.2f} times the mean load"))
    return table


def _prices(history: TradingHistory, ahead: str, width: int) -> RenderableType:
    bars = max(width - SYMBOL - PRICE - CHANGE - AHEAD - SIGNAL - 5, 8)
    table = Table.grid(padding=(0, 1))
    for name, columns, justify in (
        (_clock(history).rstrip(" ,"), SYMBOL, "left"),
        ("price", PRICE, "right"),
        ("today", CHANGE, "right"),
        ("", bars, "left"),
        (f"in {ahead}", AHEAD, "right"),
        ("", SIGNAL, "left"),
    ):
        table.add_column(name, width=columns, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    heads = (_clock(history).rstrip(" ,"), "price", "today", "since the opening", f"in {ahead}", "")
    table.add_row(*(Text(head, style="dim", overflow="ellipsis") for head in heads))
    for symbol, windows in history.liveliest(SYMBOLS_SHOWN):
        moved, signal = change(windows), str(windows.signals[-1])
        colour = "green" if moved >= 0 else "red"
        table.add_row(
            Text(symbol, style="bold", overflow="ellipsis"),
            f"{_close(windows):,.2f}",
            Text(f"{moved:+.2%}", style=colour),
            Text(price_line(windows.numbers["close"].tolist(), bars), style=colour),
            f"{windows.numbers['predicted'][-1]:,.3f}",
            Text(ARROWS[signal], style=COLOURS[signal]),
        )
    if (more := len(history.symbols) - SYMBOLS_SHOWN) > 0:
        table.add_row(Text(f"{more:,} more", style="dim"))
    return table


def _close(windows: Windows) -> float:
    return float(windows.numbers["close"][-1])


def _clock(history: TradingHistory) -> str:
    """Return the time of the exchange, as far as windows have come out."""
    ends = [int(windows.ends_us[-1]) for windows in history.symbols.values()]
    return f"{np.datetime64(max(ends), 'us').astype(object):%H:%M:%S}, " if ends else ""
