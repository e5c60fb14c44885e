"""The picture of a fleet: what came in, how its streams were spread over splits, and what had to wait."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from skytide_lab.dashboard.fleet_history import FleetHistory, FleetLook
from skytide_lab.dashboard.fleet_live import plural
from skytide_lab.dashboard.picture import INPUT, QUIET, START, title

EXPECTED, SPLITS, MOVED, BUFFERED = "#d35400", "#7b3294", "#2e8540", "#c0392b"


def draw(history: FleetHistory, *, name: str, ahead_s: float) -> Figure:
    """Return a drawing of all looks at a fleet since its streams began; the expected rate is that `ahead_s` later."""
    figure = Figure(figsize=(11, 8.5), layout="constrained")
    figure.suptitle(f"A fleet of {name}", fontsize=17, weight="bold", x=0.01, ha="left")
    panels = figure.subplots(3, 1, sharex=True, height_ratios=[1.3, 1, 0.9])
    times = np.array([look.at_s for look in history.looks])
    _rates(panels[0], times, history, ahead_s)
    _splits(panels[1], times, history)
    _buffered(panels[2], times, history)
    for panel in panels:
        panel.axvspan(0, _first_batch_s(history), color=START, zorder=-1, linewidth=0)
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="y", color="#e3e6ea", linewidth=0.8)
        panel.set_axisbelow(True)
    panels[-1].set(xlim=(0, max(times[-1], 1)), xlabel="seconds since the streams began (grey: until the first batch was done)")
    return figure


def _rates(panel: Axes, times: Any, history: FleetHistory, ahead_s: float) -> None:
    rates = np.array([look.fleet.rate_hz for look in history.looks])
    latest = history.looks[-1].fleet
    title(panel, f"Rate: up to {rates.max():,.0f} tuples per second of {latest.streams + latest.missing:,} streams")
    batches = history.query.batches
    seen = [look.at_s for look in _first_looks(history)]
    panel.plot(
        seen, [batch.input_rate_hz for batch in batches], color=QUIET, alpha=0.5, linewidth=0.8, label="let in, batch by batch"
    )
    _steps(panel, times, rates, INPUT, "came, in the last period")
    expected = [look.fleet.expected_hz for look in history.looks]
    dashes, label = (0, (4, 3)), f"expected {ahead_s:.0f} s later"
    panel.step(times, expected, where="post", color=EXPECTED, linewidth=1.5, linestyle=dashes, label=label)
    panel.set(ylabel="tuples per second", ylim=(0, 1.35 * max(rates.max(), *expected, 1.0)))
    panel.legend(loc="upper right", ncols=3, frameon=False)


def _steps(panel: Axes, times: Any, values: Any, colour: str, label: str | None = None) -> None:
    """Draw values that each hold until the next one."""
    panel.fill_between(times, values, step="post", color=colour, alpha=0.2, linewidth=0)
    panel.step(times, values, where="post", color=colour, linewidth=1.5, label=label)
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def _first_batch_s(history: FleetHistory) -> float:
    return next((look.at_s for look in history.looks if look.query.batch >= 0), 0.0)


def _first_looks(history: FleetHistory) -> list[FleetLook]:
    """Return the first look after each batch of the query."""
    by_batch: dict[int, FleetLook] = {}
    for look in history.looks:
        if look.query.batch >= 0:
            by_batch.setdefault(look.query.batch, look)
    return list(by_batch.values())


def _splits(panel: Axes, times: Any, history: FleetHistory) -> None:
    splits = np.array([look.fleet.splits for look in history.looks])
    moves = np.array(history.moves())
    most, moved = int(splits.max()), int(moves.sum())
    tasks = f"up to {most:,} tasks read" if most > 1 else "one task reads"
    title(panel, f"Splits: {tasks} all streams; {moved:,} {plural(moved, 'redirection')}")
    _steps(panel, times, splits, SPLITS)
    top = max(most, 2)
    panel.set(ylabel="splits", ylim=(0, 1.3 * top), yticks=range(0, top + 1, max(1, top // 5)))
    if not moved:
        return
    right = panel.twinx()
    right.vlines(times[moves > 0], 0, moves[moves > 0], color=MOVED, linewidth=4)
    right.spines[["top"]].set_visible(False)
    right.spines[["right"]].set_color(MOVED)
    right.tick_params(axis="y", colors=MOVED)
    right.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    right.set_ylim(0, 1.3 * max(int(moves.max()), 1))
    right.set_ylabel("streams moved", color=MOVED)


def _buffered(panel: Axes, times: Any, history: FleetHistory) -> None:
    buffered = np.array([look.fleet.buffered for look in history.looks])
    most = f"up to {buffered.max():,} tuples had come and were not let in yet" if buffered.any() else "nothing had to wait"
    title(panel, f"Buffered: {most}")
    _steps(panel, times, buffered, BUFFERED)
    panel.set(ylabel="tuples", ylim=(0, 1.2 * max(buffered.max(), 10)))
