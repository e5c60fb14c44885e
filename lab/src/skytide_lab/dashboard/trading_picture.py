"""The picture of a trading day: candlesticks of the liveliest symbols, what was predicted, and what the query needed for it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from skytide_lab.dashboard.picture import INPUT, LATENCY, QUIET, title
from skytide_lab.dashboard.trading_history import TradingHistory, Windows, accuracy
from skytide_lab.dashboard.trading_live import change

UP, DOWN, PREDICTED, SLOTS = "#2e8540", "#c0392b", "#d35400", "#7b3294"
MARKS = {"buy": ("^", UP), "sell": ("v", DOWN)}
SYMBOLS = 3
CANDLES = 90
CLOSE_UP = 10  # windows side by side


@dataclass(frozen=True)
class Candles:
    """Candlesticks, each from one time to another."""

    begins: Any
    ends: Any
    opens: Any
    highs: Any
    lows: Any
    closes: Any


def candles(windows: Windows, most: int) -> Candles:
    """Return candlesticks of windows that lie side by side; if there are more than `most`, neighbours are merged."""
    numbers = windows.numbers
    firsts = np.arange(0, len(windows), max(1, -(-len(windows) // most)))
    lasts = np.append(firsts[1:], len(windows)) - 1
    return Candles(
        begins=_times(windows.starts_us[firsts]),
        ends=_times(windows.ends_us[lasts]),
        opens=numbers["open"][firsts],
        highs=np.maximum.reduceat(numbers["high"], firsts),
        lows=np.minimum.reduceat(numbers["low"], firsts),
        closes=numbers["close"][lasts],
    )


def draw(history: TradingHistory, *, name: str, ahead: str, ahead_us: int, length: int, first_us: int, speed: float) -> Figure:
    """Return a drawing of a day that opened at `first_us`, from windows of `length` quotes that predicted the price `ahead`."""
    shown = history.liveliest(SYMBOLS)
    figure = Figure(figsize=(14, 3.1 * len(shown) + 5.2), layout="constrained")
    figure.suptitle(f"Trading {name}", fontsize=17, weight="bold", x=0.01, ha="left")
    grid = figure.add_gridspec(len(shown) + 2, 2, width_ratios=[1.7, 1], height_ratios=[1.4] * len(shown) + [0.8, 0.8])
    day: Axes | None = None
    for row, (symbol, windows) in enumerate(shown):
        day = figure.add_subplot(grid[row, 0], sharex=day)
        _day(day, symbol, windows, length)
        _close_up(figure.add_subplot(grid[row, 1]), symbol, windows, length, ahead, ahead_us)
    below: Axes | None = None
    for row, panel in enumerate((_rate, _slots)):
        below = figure.add_subplot(grid[len(shown) + row, :], sharex=below)
        panel(below, history, _times(np.array([first_us + look.at_s * 1e6 * speed for look in history.looks])))
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e3e6ea", linewidth=0.8)
        axes.set_axisbelow(True)
    assert below is not None
    below.set_xlabel(f"time at the exchange when a batch was done; a minute of it came in {60 / speed:.2g} s")
    return figure


def _times(times_us: Any) -> Any:
    return np.asarray(times_us).astype("M8[us]")


def _clock(day: float, _: object = None) -> str:
    """Return the time of day of a number of days, as text."""
    seconds = round(day % 1 * 86_400)
    return f"{seconds // 3_600:02}:{seconds // 60 % 60:02}" + (f":{seconds % 60:02}" if seconds % 60 else "")


def _day(panel: Axes, symbol: str, windows: Windows, length: int) -> None:
    title(
        panel, f"{symbol}: {windows.numbers['close'][-1]:,.2f}, {change(windows):+.2%} since the opening, {len(windows):,} windows"
    )
    drawn = candles(windows.side_by_side(length), CANDLES)
    _draw(panel, drawn)
    panel.set_ylabel("price")
    panel.xaxis.set_major_formatter(_clock)


def _draw(panel: Axes, drawn: Candles, alpha: float = 1.0) -> None:
    panel.ticklabel_format(axis="y", useOffset=False)
    colours = np.where(drawn.closes >= drawn.opens, UP, DOWN).tolist()
    middles = drawn.begins + (drawn.ends - drawn.begins) / 2
    panel.vlines(middles, drawn.lows, drawn.highs, colors=colours, linewidth=1.0, alpha=alpha)
    low, high = np.minimum(drawn.opens, drawn.closes), np.maximum(drawn.opens, drawn.closes)
    least = (
        (drawn.highs.max() - drawn.lows.min()) / 200 if len(drawn.highs) else 0.0
    )  # so that a candle is visible even if it closed as it opened
    widths = 0.8 * (drawn.ends - drawn.begins)
    panel.bar(middles, np.maximum(high - low, least), widths, low, color=colours, alpha=alpha, linewidth=0)


def _close_up(panel: Axes, symbol: str, windows: Windows, length: int, ahead: str, ahead_us: int) -> None:
    """Draw the latest candlesticks, one per window, and what was predicted meanwhile."""
    judged = accuracy(windows, ahead_us)
    off = f"off by {judged.off_bp:.1f} bp, without change {judged.unchanged_bp:.1f}" if judged else "not known yet"
    title(panel, f"{ahead} ahead: {off}")
    apart = windows.side_by_side(length)[-CLOSE_UP:]
    _draw(panel, candles(apart, CLOSE_UP), alpha=0.35)
    recent = windows[windows.ends_us >= apart.starts_us[0]]
    then, numbers = _times(recent.ends_us + ahead_us), recent.numbers
    panel.fill_between(
        then, numbers["predicted"] - 2 * numbers["error"], numbers["predicted"] + 2 * numbers["error"],
        color=PREDICTED, alpha=0.2, linewidth=0,
    )  # fmt: skip
    panel.plot(_times(recent.ends_us), numbers["close"], color=QUIET, linewidth=0.9, label="price")
    panel.plot(then, numbers["predicted"], color=PREDICTED, linewidth=1.1, label=f"as predicted {ahead} before")
    for signal, (marker, colour) in MARKS.items():
        at = recent.signals == signal
        if at.any():
            panel.plot(
                _times(recent.ends_us[at]), numbers["fitted"][at], marker, color=colour, markersize=3.5, linestyle="", label=signal
            )
    panel.legend(loc="best", fontsize=8, frameon=False, ncols=2)
    panel.xaxis.set_major_locator(MaxNLocator(5))
    panel.xaxis.set_major_formatter(_clock)


def _rate(panel: Axes, history: TradingHistory, times: Any) -> None:
    rates = np.array([look.query.input_rate_hz for look in history.looks])
    total = history.looks[-1].query.windows_out
    title(panel, f"Input: up to {rates.max():,.0f} quotes per second, from which {total:,} polynomials were fitted")
    panel.fill_between(times, rates, color=INPUT, alpha=0.2, linewidth=0)
    panel.plot(times, rates, color=INPUT, linewidth=1.5)
    panel.set(ylabel="quotes per second", ylim=(0, None))
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    panel.xaxis.set_major_formatter(_clock)
    panel.tick_params(labelbottom=False)


def _slots(panel: Axes, history: TradingHistory, times: Any) -> None:
    slots = np.array([look.query.slots for look in history.looks])
    steady = history.query.latency()
    latencies = f"; latency mean {steady.mean_s:.2f} s, p99 {steady.p99_s:.2f} s" if steady else ""
    title(panel, f"Slots, as model predictive control chose them: {slots.min()} to {slots.max()}{latencies}")
    panel.fill_between(times, slots, step="post", color=SLOTS, alpha=0.2, linewidth=0)
    panel.step(times, slots, where="post", color=SLOTS, linewidth=1.5)
    panel.set(ylabel="slots", ylim=(0, 1.3 * slots.max()))
    panel.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    right = panel.twinx()
    used = [look.query.trigger_share for look in history.looks]
    right.plot(times, used, color=LATENCY, linewidth=1.0, alpha=0.8)
    right.set(ylim=(0, max(1.3, *used)))
    right.set_ylabel("trigger share", color=LATENCY)
    right.tick_params(axis="y", colors=LATENCY)
    right.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
