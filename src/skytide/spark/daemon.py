"""A daemon for Spark's Python workers that has the kernels ready before it forks: `spark.python.daemon.module`.

A worker forked from it starts with everything imported and compiled code loaded, so that its first task is as fast as the next.
"""

import gc
from collections.abc import Callable

import numpy as np
import pyspark.daemon
import pyspark.worker

from skytide.kernels import count_dominators, skyline

POINTS = (300, 4)  # rows and dimensions


def warm_up() -> None:
    """Call the kernels once, on points that pass through all of their parts."""
    points = np.random.default_rng(0).random(POINTS)
    skyline(points)
    half = np.arange(len(points)) < len(points) // 2
    count_dominators(points, 1, tested=half, dominating=~half)


def ending_silently(worker: Callable[..., int]) -> Callable[..., int]:
    """Return a worker that ends silently when the Spark that it works for has ended."""

    def run(*arguments: object) -> int:
        try:
            return worker(*arguments)
        except BrokenPipeError:
            return 1

    return run


if __name__ == "__main__":
    warm_up()
    pyspark.daemon.worker = ending_silently(pyspark.daemon.worker)
    gc.collect()
    gc.freeze()  # PySpark collects garbage after every task, and would visit all that is imported here each time
    pyspark.daemon.manager()
