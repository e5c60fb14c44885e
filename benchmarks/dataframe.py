"""The skyline of a DataFrame, compared with the self join that Spark users write today, and with moocore on the driver."""

import tempfile
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

import skytide
from benchmarks.kernel import moocore_skyline
from benchmarks.timing import Goal, announce, check_agreement, durations, race, show
from skytide.spark import local_session
from skytide.workloads.points import CLOUDS, points

CORES = 2
CASES = tuple((kind, d) for kind in CLOUDS for d in (2, 4, 6, 8))
JOINED = (("independent", 6), ("anticorrelated", 4))  # also with many rows, of which a self join takes minutes
SMALL, LARGE = 20_000, 1_000_000


def run(console: Console, *, small: int = SMALL, large: int = LARGE) -> dict[str, Any]:
    """Race on every cloud, print the table and whether goals are reached, and return the figures."""
    spark = local_session("skytide benchmarks", cores=CORES)
    with tempfile.TemporaryDirectory() as folder:
        cells = []
        for n, (kind, d) in product((small, large), CASES):
            cells.append(compare(spark, Path(folder), kind, n, d, joined=n == small or (kind, d) in JOINED))
            console.print(
                f"{kind} {n:,} x {d}: {', '.join(f'{name} {took:.3f} s' for name, took in cells[-1]['median_s'].items())}"
            )
    show(
        console,
        f"DataFrame on local[{CORES}], from {CORES} Parquet files to an Arrow table: median times (* run once)",
        ["points", "skyline", "skytide", "on the driver", "self join", "over driver", "over join"],
        [
            [
                *(f"{cell['kind']} {cell['n']:,} x {cell['d']}", f"{cell['skyline']:,}"),
                *durations(cell["median_s"], cell["rounds"]),
                *(() if "over_join" in cell else ("-",)),
                *(f"{cell[ratio]:.2f}" if ratio in cell else "-" for ratio in ("over_driver", "over_join")),
            ]
            for cell in cells
        ],
    )
    for cell in cells[-len(CASES) :]:
        ours, theirs = (f"{cell['driver_bytes'][name] / 1e6:,.2f} MB" for name in ("skytide", "on the driver"))
        console.print(f"{cell['kind']} {cell['n']:,} x {cell['d']}: the driver holds {ours} instead of {theirs}")
    goals = [
        _goal("the self join", "over_join", small, 1.0, cells),
        _goal("the self join", "over_join", large, 50.0, cells),
        _goal("moocore on the driver", "over_driver", large, 1.5, cells),
    ]
    return {"cells": cells, "goals": announce(console, goals)}


def compare(spark: SparkSession, folder: Path, kind: str, n: int, d: int, *, joined: bool) -> dict[str, Any]:
    """Race on one cloud, and return the figures. The self join runs only once where it takes long."""
    table = written(spark, folder, kind, n, d)
    contestants = {"skytide": ours, "on the driver": on_driver} | ({"self join": self_join} if joined else {})
    for warm_up in (ours, on_driver):
        warm_up(table)
    starters = {name: partial(contestant, table) for name, contestant in contestants.items()}
    runs = race(starters, min_rounds=5, max_rounds=15, budget_s=12.0, slow_s=5.0)  # slower ones run once
    ids = {name: np.sort(run.answer["id"].to_numpy()) for name, run in runs.items()}
    check_agreement(f"{kind} {n:,} x {d}", ids)
    median_s = {name: run.median_s for name, run in runs.items()}
    return {
        "kind": kind,
        "n": n,
        "d": d,
        "skyline": len(ids["skytide"]),
        "rounds": {name: len(run.seconds) for name, run in runs.items()},
        "seconds": {name: run.seconds for name, run in runs.items()},
        "median_s": median_s,
        **({"over_join": median_s["self join"] / median_s["skytide"]} if joined else {}),
        "over_driver": median_s["on the driver"] / median_s["skytide"],
        "driver_bytes": {"skytide": runs["skytide"].answer.nbytes, "on the driver": table.toArrow().nbytes},
    }


def written(spark: SparkSession, folder: Path, kind: str, n: int, d: int) -> DataFrame:
    """Write points with an id, one file per core, and return them as a DataFrame."""
    cloud = points(kind, n, d)
    rows = pa.table({"id": np.arange(n), **{f"d{k}": cloud[:, k] for k in range(d)}})
    target = folder / f"{kind}-{n}-{d}"
    target.mkdir()
    for part in range(CORES):
        start, end = n * part // CORES, n * (part + 1) // CORES
        pq.write_table(rows.slice(start, end - start), target / f"{part}.parquet")
    return spark.read.parquet(str(target))


def ours(table: DataFrame) -> pa.Table:
    """Return the skyline by skytide."""
    return skytide.skyline(table, *map(skytide.low, _dimensions(table))).toArrow()


def self_join(table: DataFrame) -> pa.Table:
    """Return the rows for which there is no better one, as Spark users write it today."""
    names = _dimensions(table)
    no_worse = " AND ".join(f"b.{name} <= a.{name}" for name in names)
    better = " OR ".join(f"b.{name} < a.{name}" for name in names)
    query = f"SELECT * FROM {{rows}} a WHERE NOT EXISTS (SELECT 1 FROM {{rows}} b WHERE {no_worse} AND ({better}))"
    return table.sparkSession.sql(query, rows=table).toArrow()


def on_driver(table: DataFrame) -> pa.Table:
    """Fetch all rows, and return the skyline by moocore."""
    rows = table.select("*").toArrow()  # a new plan each time: an old one could reuse its results
    cloud: NDArray[np.float64] = np.column_stack([rows[name].to_numpy() for name in _dimensions(table)])
    return rows.filter(pa.array(moocore_skyline(cloud)))


def _dimensions(table: DataFrame) -> list[str]:
    return table.columns[1:]


def _goal(peer: str, ratio: str, n: int, at_least: float, cells: list[dict[str, Any]]) -> Goal:
    worst = min(cell[ratio] for cell in cells if cell["n"] == n and ratio in cell)
    return Goal(f"times as fast as {peer}, {n:,} rows, worst cell", worst, at_least)
