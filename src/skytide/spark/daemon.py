"""A daemon for Spark's Python workers that has the kernels ready before it forks: `spark.python.daemon.module`.

A worker forked from it starts with everything imported and compiled code loaded, so that its first task is as fast as the next.
"""

import gc
import re
import sys
import zipfile
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from skytide.kernels import beaten, first_dominators, skyline, smallest_k

FEW, MANY, STAIRS = 100, 300, 5000  # points: compared pair by pair, scanned by cells, and in two dimensions sifted by stairs
DIMENSIONS = 8
IMPORTED = (  # by tasks: here once, instead of once in each worker
    "pandas",
    "pyspark.worker",
    "pyspark.sql.conversion",
    "skytide.spark.engine.keys",
    "skytide.spark.engine.windows",
    "skytide.spark.fleet.reader",
    "skytide.spark.sources.panes",
    "skytide.spark.sources.workload",
)
ARCHIVE, VERSION = "pyspark.zip", "pyspark/version.py"


def prefer_installed(path: list[str]) -> list[str]:
    """Return a search path without Spark's archive of pyspark, if the same version is installed.

    Spark puts the archive first, and Python compiles all modules of an archive whenever it loads them: half a second for each executor.
    """
    try:
        installed = version("pyspark")
    except PackageNotFoundError:
        return path
    return [entry for entry in path if Path(entry).name != ARCHIVE or _version_in(entry) != installed]


def _version_in(archive: str) -> str | None:
    try:
        with zipfile.ZipFile(archive) as files:
            match = re.search(r"""__version__.*=\s*["'](.+)["']""", files.read(VERSION).decode())
    except (OSError, KeyError, zipfile.BadZipFile):
        return None
    return match and match[1]


def warm_up() -> None:
    """Import what tasks need, and call the kernels once, on points that pass through all of their parts."""
    for module in IMPORTED:
        import_module(module)
    stairs = np.arange(float(STAIRS))
    skyline(np.column_stack([stairs, -stairs]))
    points = np.random.default_rng(0).random((MANY, DIMENSIONS))
    few = points[:FEW]
    for some in (few, points):
        skyline(some)
    beaten(points, few)  # by which a large skyline is sifted
    first_dominators(points, few, np.arange(FEW))
    smallest_k(few, points)


def ending_silently(worker: Callable[..., int]) -> Callable[..., int]:
    """Return a worker that ends silently when the Spark that it works for has ended."""

    def run(*arguments: object) -> int:
        try:
            return worker(*arguments)
        except BrokenPipeError:
            return 1

    return run


def main() -> None:
    """Get ready, and fork a worker whenever Spark asks for one."""
    sys.path[:] = prefer_installed(sys.path)
    warm_up()
    daemon = import_module("pyspark.daemon")
    daemon.worker = ending_silently(daemon.worker)  # type: ignore[attr-defined]
    gc.collect()
    gc.freeze()  # PySpark collects garbage after every task, and would visit all that is imported here each time
    daemon.manager()


if __name__ == "__main__":
    main()
