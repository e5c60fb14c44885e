"""The tables and the picture of `benchmarks.stream.growth`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from rich.console import Console

from benchmarks.timing import show

TRIGGER_S = 0.5

Table = Mapping[float, Mapping[str, float]]
"""By the size that grows, what was measured; with names of columns as people read them."""
AXES = {  # by the name of a table: the label of its sizes, whether that axis is logarithmic, the label of its values
    "dimensions": ("dimensions", False, "busy seconds per million tuples"),
    "panes": ("panes per window (8 dimensions)", True, "busy seconds per million tuples"),
    "late": ("share of late tuples (8 dimensions)", False, "busy seconds per million tuples"),
    "slots": ("slots of the pane level (real cluster, 2 real cores)", True, "seconds per batch"),
    "tasks": ("tasks of a job (real cluster)", False, "seconds per job"),
    "executors": ("executors (simulated, 100,000 tuples/s each)", True, "seconds per batch"),
}

COLORS = {"pane level": "C0", "window level": "C1", "batch": "0.3", "dropped, KSlack": "C2", "dropped, no slack": "C3"}


def report(console: Console, tables: Mapping[str, Table], driver_task_s: float, limits: Mapping[str, float]) -> None:
    """Print all tables."""
    for name, table in tables.items():
        along, _, what = AXES[name]
        columns = list(next(iter(table.values())))
        show(
            console,
            f"{along}: {what}",
            [name, *columns],
            [[f"{x:g}", *(f"{row[each]:.3f}" for each in columns)] for x, row in table.items()],
        )
    console.print(f"The driver computes {driver_task_s * 1e3:.2f} ms per task.")
    for name, executors in limits.items():
        size = f"with about {executors:,.0f}" if executors < math.inf else f"not with {max(tables['executors']):,.0f}"
        console.print(f"{name}: a batch takes longer than the trigger's interval {size} executors.")


def draw(tables: Mapping[str, Table]) -> Figure:
    """Return a figure with one panel per table; shares have an axis of their own."""
    figure = Figure(figsize=(13.2, 7.6), dpi=100, layout="constrained", facecolor="white")
    for panel, (name, table) in zip(figure.subplots(2, 3).flat, tables.items(), strict=True):
        along, logarithmic, what = AXES[name]
        columns = list(next(iter(table.values())))
        shares = [column for column in columns if column.startswith("dropped")]
        _lines(panel, table, [column for column in columns if column not in shares], "upper left")
        panel.set(xlabel=along, ylabel=what)
        panel.grid(color="0.9")
        if logarithmic:
            panel.set_xscale("log")
            panel.set_xticks(list(table), [f"{x:,g}" for x in table], fontsize=8.5)
            panel.minorticks_off()
        if name == "executors":
            panel.set(yscale="log", ylim=(min(table[min(table)].values()) / 2, None))
            panel.yaxis.set_major_formatter(lambda seconds, _: f"{seconds:g}")
            panel.axhline(TRIGGER_S, color="0.5", lw=0.8)
            panel.annotate(
                f"trigger: {TRIGGER_S:g} s", (min(table), TRIGGER_S), xytext=(0, 3), textcoords="offset points", fontsize=8
            )
        if shares:
            right = panel.twinx()
            _lines(right, table, shares, "upper right", linestyle="--")
            right.set_ylabel("share of tuples dropped")
            right.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
            panel.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    return figure


def _lines(panel: Axes, table: Table, columns: Sequence[str], place: str, **style: Any) -> None:
    for marker, column in zip("osD^v", columns, strict=False):
        color = COLORS.get(column)
        panel.plot(list(table), [row[column] for row in table.values()], marker=marker, ms=4, color=color, label=column, **style)
    panel.set_ylim(0, 1.25 * max(row[column] for row in table.values() for column in columns) + 1e-9)  # room for the legend
    panel.spines["top"].set_visible(False)
    panel.legend(fontsize=8, frameon=False, loc=place)
