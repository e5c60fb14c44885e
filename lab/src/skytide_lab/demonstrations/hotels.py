"""`skytide hotels`: which of 100,000 hotels can be the best choice for anyone?"""

import time
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from skytide import diff, high, low, skyline
from skytide.cli.folders import writable
from skytide.spark.session.local import local_session
from skytide_lab.data.hotels import CITIES, hotels
from skytide_lab.demonstrations.folders import make_room, save_picture

COUNT = 100_000
SHOWN = 12
SAMPLED = 10  # one in this many hotels is drawn


def run(out: Path) -> None:
    """Find the skyline of every city; print one, write all as Parquet and as a picture."""
    writable(out)
    console = Console(highlight=False, soft_wrap=True)
    table, picture = out / "hotels", out / "hotels.png"
    make_room(table, picture)

    console.print("Starting Spark ...")
    spark = local_session("skytide hotels")
    try:
        every = hotels(spark, COUNT)
        console.print(f"Comparing {COUNT:,} hotels by price, distance, stars and rating ...")
        start = time.perf_counter()
        best = skyline(every, low("price"), low("distance_km"), high("stars"), high("rating"), diff("city"))
        best.write.mode("append").parquet(str(table))
        seconds = time.perf_counter() - start
        winners = spark.read.parquet(str(table)).orderBy("city", "price", "name").toArrow()
        sample = every.where(f"pmod(xxhash64(name), {SAMPLED}) = 0").toArrow()
    finally:
        spark.stop()

    save_picture(_draw(sample, winners), picture)
    console.print(_table(winners, CITIES[0]))
    console.print(
        f"[bold]{winners.num_rows:,}[/] of {COUNT:,} hotels are beaten by no other in their city "
        f"({seconds:.1f} s, most of it the warm-up of a fresh Spark)."
    )
    console.print(f"Table:   {table}\nPicture: {picture}")


def _table(winners: pa.Table, city: str) -> Table:
    rows = [row for row in winners.to_pylist() if row["city"] == city]
    table = Table(title=f"{city}: {SHOWN} of {len(rows)} winners, from cheap to expensive", title_style="bold")
    for name in ("hotel", "price", "km to centre", "stars", "rating"):
        table.add_column(name, justify="left" if name in ("hotel", "stars") else "right")
    for i in range(SHOWN):
        row = rows[i * (len(rows) - 1) // (SHOWN - 1)]
        stars = "★" * row["stars"]
        table.add_row(row["name"], f"{row['price']:.0f}", f"{row['distance_km']:.1f}", stars, f"{row['rating']:.1f}")
    return table


def _draw(sample: pa.Table, winners: pa.Table) -> Figure:
    figure = Figure(figsize=(12, 7.5), layout="constrained")
    figure.suptitle(f"Of {COUNT:,} hotels, {winners.num_rows:,} are worth a look", fontsize=18, weight="bold")
    colours = ListedColormap(matplotlib.colormaps["plasma_r"]([0.1, 0.3, 0.5, 0.7, 0.95]))
    panels = figure.subplots(2, 3, sharex=True, sharey=True)
    for panel, city in zip(panels.flat, CITIES, strict=True):
        all_of, best_of = _columns(sample, city), _columns(winners, city)
        panel.scatter(all_of["distance_km"], all_of["price"], s=4, color="#c3c9d1", linewidths=0)
        dots = panel.scatter(
            best_of["distance_km"], best_of["price"], c=best_of["stars"], s=26, cmap=colours, vmin=0.5, vmax=5.5,
            edgecolors="white", linewidths=0.5,
        )  # fmt: skip
        panel.set_title(f"{city}: {len(best_of['price'])}", loc="left")
        panel.set_xscale("function", functions=(np.sqrt, np.square))
        panel.set_yscale("log")
        panel.set(xlim=(0, 36), ylim=(8, 520), xticks=[0, 1, 3, 6, 10, 20, 30])
        panel.set_yticks([10, 20, 50, 100, 200, 500], ["10", "20", "50", "100", "200", "500"])
        panel.minorticks_off()
        panel.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("km to the centre (grey: a tenth of all hotels; coloured: beaten by none in their city)")
    figure.supylabel("price per night")
    figure.colorbar(dots, ax=panels, label="stars", ticks=[1, 2, 3, 4, 5], shrink=0.5, aspect=15)
    return figure


def _columns(table: pa.Table, city: str) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = table.filter(pc.field("city") == city).to_pydict()
    return columns
