"""The cost of the first call of a kernel: compiling, or loading what an earlier process compiled."""

import json
import os
import subprocess
import sys
import tempfile
from operator import itemgetter
from typing import Any

from rich.console import Console

from benchmarks.timing import duration, show

PROGRAM = """
import json, time
start = time.perf_counter()
from skytide import kernels
from skytide.workloads.points import points
imported = time.perf_counter()
cloud = points("independent", 1000, 8)
seconds = []
for _ in range(2):
    before = time.perf_counter()
    kernels.skyline(cloud)
    seconds.append(time.perf_counter() - before)
print(json.dumps({"import_s": imported - start, "first_s": seconds[0], "second_s": seconds[1]}))
"""


def run(console: Console) -> dict[str, Any]:
    """Time fresh processes, the first of them without a cache, print the table, and return the figures."""
    with tempfile.TemporaryDirectory() as folder:
        processes = {
            "compiles": _seconds(folder),
            "finds the cache": min((_seconds(folder) for _ in range(3)), key=itemgetter("first_s")),
        }
    show(
        console,
        "First call of kernels.skyline, 1,000 x 8 points, in a fresh process",
        ["the process", "import skytide", "first call", "second call"],
        [[name, *(duration(seconds) for seconds in each.values())] for name, each in processes.items()],
    )
    return processes


def _seconds(cache: str) -> dict[str, float]:
    output = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"NUMBA_CACHE_DIR": cache},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    measured: dict[str, float] = json.loads(output)
    return measured
