"""Measures how time grows with rows and dimensions, and draws docs/growth.png."""

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console

from benchmarks.dataframe import CORES, ours, written
from benchmarks.timing import duration, race, show
from skytide import kernels
from skytide.spark import local_session
from skytide.workloads.points import points

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "growth.png"
KINDS = ("independent", "anticorrelated")
SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
DIMENSIONS = (2, 4, 6, 8, 10, 12)
DATAFRAME_DIMENSIONS = (4, 8)

Times = dict[int, list[float]]  # for each number of dimensions, the seconds for each of SIZES


def run(console: Console, *, sizes: tuple[int, ...] = SIZES, picture: Path = PICTURE) -> dict[str, Any]:
    """Time the kernel and the DataFrame function, print the table, draw the picture, and return the figures."""
    measured = {f"kernel, {kind}": kernel_times(kind, sizes) for kind in KINDS}
    measured |= {f"DataFrame on local[{CORES}], {kind}": dataframe_times(kind, sizes) for kind in KINDS}
    show(
        console,
        "Growth: seconds of the kernel (best of 3) and of the DataFrame function (median of 3)",
        ["", "d", *(f"{n:,} rows" for n in sizes)],
        [[title, str(d), *map(duration, seconds)] for title, times in measured.items() for d, seconds in times.items()],
    )
    draw(measured, sizes).savefig(picture, metadata={"Software": None})
    console.print(f"Picture: {picture.parent.name}/{picture.name}")
    return {"rows": sizes, "seconds": measured}


def kernel_times(kind: str, sizes: tuple[int, ...]) -> Times:
    """Return the times of `kernels.skyline`."""
    kernels.skyline(points(kind, 1000, 2))

    def best(n: int, d: int) -> float:
        contestant = partial(kernels.skyline, points(kind, n, d))
        return race({"": contestant}, min_rounds=3, max_rounds=3, budget_s=0, slow_s=60)[""].best_s

    return {d: [best(n, d) for n in sizes] for d in DIMENSIONS}


def dataframe_times(kind: str, sizes: tuple[int, ...]) -> Times:
    """Return the times of `skytide.skyline`, from Parquet files to an Arrow table."""
    spark = local_session("skytide benchmarks", cores=CORES)

    def median(folder: Path, n: int, d: int) -> float:
        contestant = partial(ours, written(spark, folder, kind, n, d))
        contestant()
        return race({"": contestant}, min_rounds=3, max_rounds=3, budget_s=0, slow_s=60)[""].median_s

    with tempfile.TemporaryDirectory() as folder:
        return {d: [median(Path(folder), n, d) for n in sizes] for d in DATAFRAME_DIMENSIONS}


def draw(measured: dict[str, Times], sizes: tuple[int, ...]) -> Figure:
    """Return a figure with one panel per kind and function, and one line per number of dimensions."""
    figure = Figure(figsize=(9.6, 6.8), dpi=100, layout="constrained")
    panels = figure.subplots(2, 2, sharex=True, sharey=True).flat
    for panel, (title, times) in zip(panels, measured.items(), strict=True):
        _panel(panel, title, times, sizes)
    figure.supxlabel("rows")
    figure.supylabel("time")
    return figure


def _panel(panel: Axes, title: str, times: Times, sizes: tuple[int, ...]) -> None:
    shades = matplotlib.colormaps["viridis_r"]
    for d, seconds in times.items():
        panel.loglog(sizes, seconds, marker="o", markersize=4, color=shades(d / 13), label=f"{d} dimensions")
    panel.set_title(title, fontsize=10.5)
    panel.yaxis.set_major_formatter(lambda seconds, _: f"{seconds:g} s" if seconds >= 1 else f"{seconds * 1000:g} ms")
    panel.xaxis.set_major_formatter(lambda rows, _: f"{rows:,.0f}")
    panel.grid(which="major", color="0.85")
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(fontsize=8, frameon=False, reverse=True)
