"""The picture of a fleet: what came in, how its streams were spread over splits, and what had to wait."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from skytide.dashboard.fleet_history import FleetHistory, FleetLook
from skytide.dashboard.fleet_live import plural
from skytide.dashboard.picture import INPUT, QUIET, area, title

EXPECTED, SPLITS, MOVED, BUFFERED = "#d35400", "#7b3294", "#2e8540", "#c0392b"


def draw(history: FleetHistory, *, name: str, ahead_s: float) -> Figure:
    """Draw all looks at a fleet over the time since its streams began; what is expected is expected `ahead_s` later."""
    figure = Figure(figsize=(11, 8.5), layout="constrained")
    figure.suptitle(f"A fleet of {name}", fontsize=17, weight="bold", x=0.01, ha="left")
    panels = figure.subplots(3, 1, sharex=True, height_ratios=[1.3, 1, 0.9])
    times = np.array([look.at_s for look in history.looks])
    _rates(panels[0], times, history, ahead_s)
    _splits(panels[1], times, history)
    _buffered(panels[2], times, history)
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", color="#e3e6ea", linewidth=0.8)
        panel.set_axisbelow(True)
    panels[-1].set(xlim=(0, max(times[-1], 1)), xlabel="seconds since the streams began")
    return figure


def _rates(panel: Axes, times: Any, history: FleetHistory, ahead_s: float) -> None:
    rates = np.array([look.fleet.rate_hz for look in history.looks])
    latest = history.looks[-1].fleet
    title(panel, f"Rate: up to {rates.max():,.0f} tuples a second of {latest.streams + latest.missing:,} streams")
    batches = history.query.batches
    seen = [look.at_s for look in _first_looks(history)]
    panel.plot(
        seen, [batch.input_rate_hz for batch in batches], color=QUIET, alpha=0.5, linewidth=0.8, label="let in, batch by batch"
    )
    area(panel, times, rates, INPUT)
    panel.lines[-1].set_label("came, of the last five seconds")
    expected = [look.fleet.expected_hz for look in history.looks]
    panel.plot(times, expected, color=EXPECTED, linewidth=1.5, linestyle=(0, (4, 3)), label=f"expected {ahead_s:.0f} s later")
    panel.set(ylabel="tuples a second", ylim=(0, 1.35 * max(rates.max(), *expected, 1.0)))
    panel.legend(loc="upper right", ncols=3, frameon=False)


def _first_looks(history: FleetHistory) -> list[FleetLook]:
    """Return the first look after each batch of the query."""
    found: dict[int, FleetLook] = {}
    for look in history.looks:
        if look.query.batch >= 0:
            found.setdefault(look.query.batch, look)
    return list(found.values())


def _splits(panel: Axes, times: Any, history: FleetHistory) -> None:
    splits = np.array([look.fleet.splits for look in history.looks])
    moves = np.array(history.moves())
    most, moved = int(splits.max()), int(moves.sum())
    title(panel, f"Splits: up to {most:,} {plural(most, 'task')} read all streams; {moved:,} {plural(moved, 'redirection')}")
    panel.fill_between(times, splits, step="post", color=SPLITS, alpha=0.2, linewidth=0)
    panel.step(times, splits, where="post", color=SPLITS, linewidth=1.5)
    panel.set(ylabel="splits", ylim=(0, most + 0.9), yticks=range(0, most + 1, max(1, most // 5)))
    right = panel.twinx()
    right.vlines(times[moves > 0], 0, moves[moves > 0], color=MOVED, linewidth=3)
    right.spines[["top"]].set_visible(False)
    right.spines[["right"]].set_color(MOVED)
    right.tick_params(axis="y", colors=MOVED)
    right.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    right.set_ylim(0, 1.3 * max(int(moves.max()), 1))
    right.set_ylabel("streams moved", color=MOVED)


def _buffered(panel: Axes, times: Any, history: FleetHistory) -> None:
    buffered = np.array([look.fleet.buffered for look in history.looks])
    title(panel, f"Buffered: up to {buffered.max():,} tuples had come and were not let in yet")
    area(panel, times, buffered, BUFFERED)
    panel.set(ylabel="tuples", ylim=(0, 1.2 * max(buffered.max(), 1)))
