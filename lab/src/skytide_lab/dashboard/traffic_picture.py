"""The picture of a city's traffic: a map of the areas of the last window, and what the queries needed for it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.dates import AutoDateLocator
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from skytide.records import WindowRow
from skytide_lab.dashboard.fleet_live import plural
from skytide_lab.dashboard.history import latency
from skytide_lab.dashboard.picture import INPUT, LATENCY, QUIET, title
from skytide_lab.dashboard.traffic_history import Areas, City, TrafficHistory
from skytide_lab.dashboard.traffic_live import clock
from skytide_lab.traffic import corner

EXPECTED, SPEED, QUEUE, SPLITS, KEYS, PANES, WINDOWS = "#d35400", "#1f6f8b", "#8e1b3a", "#6b7480", "#2e8540", "#7b3294", "#d35400"
GROUND, GRID = "#eef2f5", "#e3e6ea"
SPEEDS = LinearSegmentedColormap.from_list("speeds", ["#b2182b", "#ef8a62", "#fddc8c", "#a6d96a", "#1a9850", "#0b5d35"])
MAX_KMH = 70.0
SHOWN = 0.015  # of the reports on each side may lie outside the map
LEAST_SIDE = 0.3  # of an area with one report, as a share of the busiest one's
FULL_WINDOW_MINUTES = 60


def draw(
    history: TrafficHistory, city: City, windows: Sequence[WindowRow], *, name: str, metres: int, first_us: int, speed: float
) -> Figure:
    """Return a drawing of the last window, and of all others over the time of the cabs, whose first report was at `first_us`.

    `windows` are all that came out, in real time; `speed` says how much faster than that the cabs were.
    """
    figure = Figure(figsize=(15, 10), layout="constrained")
    figure.suptitle(f"The traffic of {name}", fontsize=18, weight="bold", x=0.01, ha="left")
    grid = figure.add_gridspec(4, 2, width_ratios=[1.1, 1])
    chart = figure.add_subplot(grid[:, 0])
    _map(figure, chart, city.last, metres)
    times = _times(first_us + np.array([look.at_s for look in history.looks]) * 1e6 * speed)
    below: Axes | None = None
    for row, panel in enumerate((_rates, _city, _latency, _slots)):
        below = figure.add_subplot(grid[row, 1], sharex=below)
        panel(below, times, history, city, windows)
        below.spines[["top", "right"]].set_visible(False)
        below.grid(axis="y", color=GRID, linewidth=0.8)
        below.set_axisbelow(True)
        below.tick_params(labelbottom=row == 3)
        below.xaxis.set_major_formatter(lambda day, _: clock(round(day * 86_400e6)))
        below.xaxis.set_major_locator(AutoDateLocator(minticks=4, maxticks=8))  # type: ignore[no-untyped-call]
    assert below is not None
    below.set_xlim(times[0], max(times[-1], city.ends[-1]))
    below.set_xlabel(f"time of the cabs (UTC); a minute of it came in {60 / speed:.2g} s")
    return figure


def _times(times_us: Any) -> NDArray[np.datetime64]:
    return np.asarray(times_us).astype(np.int64).astype("M8[us]")


def _map(figure: Figure, chart: Axes, last: Areas, metres: int) -> None:
    """Draw each area as a square: its colour says how fast cars are, its size how many reports there were."""
    counts = np.array([area.reports for area in last.areas])
    south, west = np.array([corner(area.number, metres) for area in last.areas]).T
    cell = np.array(corner(1_001, metres)) - np.array(corner(0, metres))  # degrees north and east
    centres = np.column_stack([west + cell[1] / 2, south + cell[0] / 2])
    sides = LEAST_SIDE + (1 - LEAST_SIDE) * np.log(counts) / max(np.log(counts.max()), 1.0)
    unit = np.array([(-0.48, -0.48), (0.48, -0.48), (0.48, 0.48), (-0.48, 0.48)]) * cell[::-1]
    squares = centres[:, None, :] + unit[None] * sides[:, None, None]
    tiles = PolyCollection(list(squares), cmap=SPEEDS, norm=Normalize(0, MAX_KMH), linewidths=0)
    tiles.set_array(np.array([area.mean_kmh for area in last.areas]))
    chart.add_collection(tiles)
    ends = np.array([area.queue_end for area in last.areas])
    if ends.any():
        chart.plot(
            *centres[ends].T, "o", markersize=13, markerfacecolor="none", markeredgecolor="black", markeredgewidth=1.8,
            label="a queue ends here",
        )  # fmt: skip
        chart.legend(loc="lower left", frameon=True, framealpha=0.9, fontsize=11)
    _zoom(chart, centres, counts, cell)
    chart.set_facecolor(GROUND)
    chart.spines[:].set_visible(False)
    chart.set_aspect(cell[1] / cell[0])  # an area is a square
    chart.xaxis.set_major_formatter(lambda east, _: f"{-east:.2f}° W")
    chart.yaxis.set_major_formatter(lambda north, _: f"{north:.2f}° N")
    chart.tick_params(colors=QUIET, labelsize=9, length=0)
    chart.xaxis.set_major_locator(MaxNLocator(5))
    count = int(ends.sum())
    hour = f"{clock(last.end_us - FULL_WINDOW_MINUTES * 60_000_000)} to {clock(last.end_us)}"
    title(chart, f"{hour} UTC: {counts.sum():,} reports, {len(counts):,} areas, {count:,} {plural(count, 'end')} of queues")
    bar = figure.colorbar(tiles, ax=chart, location="bottom", shrink=0.6, aspect=40, pad=0.02)
    bar.outline.set_visible(False)
    bar.set_label(f"mean speed in areas of {metres} m, in km/h; the larger a square, the more reports of cabs with a passenger")


def _zoom(chart: Axes, centres: Any, counts: Any, cell: Any) -> None:
    """Show where nearly all reports are."""
    for axis, limits in ((0, chart.set_xlim), (1, chart.set_ylim)):
        order = np.argsort(centres[:, axis])
        share = np.cumsum(counts[order]) / counts.sum()
        low, high = centres[order[np.searchsorted(share, [SHOWN, 1 - SHOWN]).clip(max=len(order) - 1)], axis]
        margin = 2.5 * cell[1 - axis]
        limits(low - margin, high + margin)


def _rates(panel: Axes, times: Any, history: TrafficHistory, city: City, windows: Sequence[WindowRow]) -> None:
    rates = np.array([look.fleet.rate_hz for look in history.looks])
    expected = [look.fleet.expected_hz for look in history.looks]
    latest = history.looks[-1].fleet
    title(panel, f"Arrivals: up to {rates.max():,.0f} reports per second of {latest.streams:,} cabs, each a stream")
    panel.fill_between(times, rates, step="post", color=INPUT, alpha=0.2, linewidth=0)
    panel.step(times, rates, where="post", color=INPUT, linewidth=1.5, label="came")
    panel.step(times, expected, where="post", color=EXPECTED, linewidth=1.3, linestyle=(0, (4, 3)), label="forecast")
    panel.set(ylabel="reports per second", ylim=(0, 1.35 * max(rates.max(), *expected, 1.0)))
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    panel.legend(loc="upper right", ncols=2, frameon=False)


def _city(panel: Axes, times: Any, history: TrafficHistory, city: City, windows: Sequence[WindowRow]) -> None:
    title(panel, f"The city: {city.mean_kmh[-1]:.0f} km/h on average, up to {city.areas.max():,} areas in a window")
    panel.plot(city.ends, city.mean_kmh, color=SPEED, linewidth=1.5)
    panel.set_ylabel("mean km/h", color=SPEED)
    panel.set_ylim(0, 1.3 * city.mean_kmh.max())
    right = panel.twinx()
    right.fill_between(city.ends, city.queue_ends, step="post", color=QUEUE, alpha=0.25, linewidth=0)
    right.step(city.ends, city.queue_ends, where="post", color=QUEUE, linewidth=1.2)
    right.spines[["top"]].set_visible(False)
    right.set_ylim(0, 1.3 * max(int(city.queue_ends.max()), 3))
    right.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    right.set_ylabel("areas where a queue ends", color=QUEUE)


def _latency(panel: Axes, times: Any, history: TrafficHistory, city: City, windows: Sequence[WindowRow]) -> None:
    since_us = history.query.out_us or 0
    steady = latency(windows, since_us=since_us)
    counted = [row.latency_s for row in windows if row.window_end_us >= since_us] or [row.latency_s for row in windows]
    shown = f"mean {steady.mean_s:.2f} s, p99 {steady.p99_s:.2f} s" if steady else "none ended after the first batch"
    title(panel, f"Latency, from the end of a window to its result: {shown}")
    ends = city.ends[-len(windows) :]
    panel.plot(ends, [row.latency_s for row in windows][-len(ends) :], color=LATENCY, linewidth=1.2)
    panel.set(ylabel="seconds", ylim=(0, 1.3 * max(counted)))


def _slots(panel: Axes, times: Any, history: TrafficHistory, city: City, windows: Sequence[WindowRow]) -> None:
    looks = history.looks
    lines = (
        ("splits of the fleet", SPLITS, [look.fleet.splits for look in looks]),
        ("slots for speeds", KEYS, [max(look.speeds.slots, 1) for look in looks]),
        ("pane slots", PANES, [look.slots.panes for look in looks]),
        ("window slots", WINDOWS, [look.slots.windows for look in looks]),
    )
    title(panel, "Splits and slots, as forecasts of the load asked for them")
    for place, (name, colour, values) in enumerate(lines):
        shift = 0.06 * (place - 1.5)  # lines of equal values lie side by side
        panel.step(times, np.array(values) + shift, where="post", color=colour, linewidth=1.6, label=name)
    panel.set(ylabel="tasks", ylim=(0, 1.5 * max(max(values) for _, _, values in lines)))
    panel.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    panel.legend(loc="upper right", ncols=2, frameon=False, fontsize=9)
