"""The picture of a run: what came in, and the windows that came out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from skytide.records import WindowRow
from skytide_lab.dashboard.history import History, latency

INPUT, LATENCY, SLACK, SKYLINE, LATE = "#1f6f8b", "#2e8540", "#f0c27b", "#7b3294", "#c0392b"
START, QUIET = "#eef0f3", "#6b7480"


def draw(history: History, windows: Sequence[WindowRow], *, drop_ratio: float) -> Figure:
    """Return a drawing of all windows of a run, and of slack and late tuples after each batch, over the time when windows ended."""
    figure = Figure(figsize=(11, 10), layout="constrained")
    figure.suptitle("The skyline of the last second of a bursty, late stream", fontsize=17, weight="bold", x=0.01, ha="left")
    panels = figure.subplots(4, 1, sharex=True, height_ratios=[1.1, 1.3, 1.1, 0.8])
    zero_us = windows[0].window_end_us
    since_us = history.out_us or zero_us
    ends = _seconds([row.window_end_us for row in windows], zero_us)
    batch_ends = _seconds([batch.last_window.window_end_us for batch in history.batches if batch.last_window], zero_us)

    _input(panels[0], ends, windows)
    _latency(panels[1], ends, windows, since_us)
    _slack(panels[1], batch_ends, history)
    _skyline(panels[2], ends, windows)
    _late(panels[3], batch_ends, history, drop_ratio)
    for panel in panels:
        panel.axvspan(0, (since_us - zero_us) / 1e6, color=START, zorder=-1, linewidth=0)
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", color="#e3e6ea", linewidth=0.8)
        panel.set_axisbelow(True)
    panels[1].legend(loc="upper right", ncols=2, frameon=False)
    panels[-1].set(xlim=(0, max(ends[-1], 1)), xlabel="end of the window, in seconds (grey: until the first batch was done)")
    return figure


def _input(panel: Axes, ends: Any, windows: Sequence[WindowRow]) -> None:
    rates = np.array([row.tuples / (row.window_end_us - row.window_start_us) * 1e6 for row in windows])
    title(panel, f"Input: bursts of up to {rates.max():,.0f} tuples per second, {rates.mean():,.0f} on average")
    _area(panel, ends, rates, INPUT)
    panel.set(ylabel="tuples per second")


def _latency(panel: Axes, ends: Any, windows: Sequence[WindowRow], since_us: int) -> None:
    seconds = np.array([row.latency_s for row in windows])
    counted = seconds[[row.window_end_us >= since_us for row in windows]]
    steady = latency(windows, since_us=since_us)
    latencies = f"mean {steady.mean_s:.2f} s, p99 {steady.p99_s:.2f} s" if steady else "none ended after the first batch"
    title(panel, f"Latency, from the end of a window to its result: {latencies}")
    panel.plot(ends, seconds, color=LATENCY, linewidth=1.2, marker=".", markersize=3.5, label="one window", zorder=3)
    panel.set(ylim=(0, 1.3 * (counted if len(counted) else seconds).max()), ylabel="seconds")


def _slack(panel: Axes, ends: Any, history: History) -> None:
    slacks = [batch.slack_us / 1e6 for batch in history.batches if batch.last_window]
    panel.fill_between(ends, slacks, step="pre", color=SLACK, alpha=0.6, linewidth=0, label="slack: waiting for late tuples")


def _skyline(panel: Axes, ends: Any, windows: Sequence[WindowRow]) -> None:
    kept = np.array([row.kept for row in windows])
    share = kept.sum() / max(sum(row.tuples for row in windows), 1)
    title(panel, f"Skyline: up to {kept.max():,} rows, {share:.1%} of the tuples; it grows far less than a burst")
    _area(panel, ends, kept, SKYLINE)
    panel.set(ylabel="rows")


def _late(panel: Axes, ends: Any, history: History, drop_ratio: float) -> None:
    shares = [batch.late / max(batch.tuples, 1) for batch in history.batches if batch.last_window]
    title(panel, f"Late: {shares[-1]:.2%} of the tuples came too late and were dropped; up to {drop_ratio:.0%} is allowed")
    panel.axhline(100 * drop_ratio, color=LATE, linewidth=1, linestyle=(0, (4, 3)))
    panel.plot(ends, 100 * np.array(shares), color=LATE, linewidth=1.5)
    panel.set(ylim=(0, 125 * max(drop_ratio, *shares)), ylabel="% so far")


def _area(panel: Axes, ends: Any, values: Any, colour: str) -> None:
    panel.fill_between(ends, values, color=colour, alpha=0.2, linewidth=0)
    panel.plot(ends, values, color=colour, linewidth=1.5)
    panel.set_ylim(0, None)
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def title(panel: Axes, text: str) -> None:
    """Write a title above a panel."""
    panel.set_title(text, loc="left", fontsize=11.5)


def _seconds(times_us: Sequence[int], zero_us: int) -> Any:
    return (np.array(times_us) - zero_us) / 1e6
