"""The classic real data set of the skyline literature: statistics of NBA players, stored so that smaller is better."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Console

from benchmarks.kernel import moocore_skyline
from benchmarks.timing import check_agreement
from skytide import low, skyline
from skytide.spark import local_session

NAME = "nba_8d.parquet"
DEFAULT_FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"


def run(console: Console) -> dict[str, Any]:
    """Compute the skyline if the data is there, and return its size."""
    file = Path(os.environ.get("SKYTIDE_DATA", DEFAULT_FOLDER)) / NAME
    if not file.is_file():
        console.print(f"NBA: not run, as there is no {NAME}; set SKYTIDE_DATA to the folder that holds it")
        return {"found": False}
    players = local_session("skytide benchmarks").read.parquet(str(file))
    best = _sorted(skyline(players, *map(low, players.columns)).toArrow())
    every = _sorted(players.toArrow())
    check_agreement("NBA", {"skytide": best, "moocore": every[moocore_skyline(every)]})
    rows, dimensions = every.shape
    console.print(f"NBA {rows:,} x {dimensions}: {len(best):,} rows in the skyline")
    return {"found": True, "rows": rows, "dimensions": dimensions, "skyline": len(best)}


def _sorted(rows: pa.Table) -> NDArray[np.float64]:
    values = np.column_stack([column.to_numpy() for column in rows.columns])
    return np.ascontiguousarray(values[np.lexsort(values.T)])
