"""No engine at all: a loop over panes that keeps the last five; skylines by moocore in two threads, aggregates by Polars."""

from collections import deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from benchmarks.peers.common import COLUMNS, PANES, TICK_US, TICKS_PER_PANE, Array, Clock, Task


def main() -> None:
    """Run until stopped."""
    task = Task.told()
    clock = Clock(task)
    arrived: list[Array] = []
    panes: deque[Array] = deque(maxlen=PANES)  # of the skyline what is left of them, for aggregates all their tuples
    with ThreadPoolExecutor(task.workers) as pool:
        while True:
            clock.wait()
            for tick in clock.come():
                arrived.append(task.tick(tick))
                if len(arrived) < TICKS_PER_PANE:
                    continue
                if task.query == "skyline":
                    parts = [arrived[worker :: task.workers] for worker in range(task.workers)]
                    panes.append(task.partial(list(pool.map(task.partial, parts))))
                else:
                    panes.append(np.concatenate(arrived))
                arrived = []
                if tick >= PANES * TICKS_PER_PANE - 1:
                    answer = task.answer(panes) if task.query == "skyline" else aggregate(panes)
                    task.write(clock.start_us + (tick + 1) * TICK_US, answer)


def aggregate(panes: Iterable[Array]) -> Array:
    """Return count, mean and maximum."""
    import polars as pl

    rows = pl.concat([pl.DataFrame(points, schema=COLUMNS) for points in panes])
    return np.array(rows.select(pl.len(), pl.mean("x0"), pl.max("x1").alias("most")).row(0))


if __name__ == "__main__":
    main()
