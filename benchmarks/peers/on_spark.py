"""Skytide on its own source and on any streaming DataFrame, and Spark alone, as `benchmarks.stream` has them."""

import signal
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import skytide
from benchmarks.peers.common import COLUMNS, Task, when_out
from benchmarks.stream.peers import Contestant, Latencies, aggregate_of, recompute, skyline_of, skytide_chain, spark_aggregate
from skytide.spark import local_session

ANSWERS = {"skyline": COLUMNS, "aggregate": ["count", "mean", "most"]}


def contestant(task: Task) -> tuple[Contestant, str]:
    """Return who computes, and the trigger that suits it best."""
    if task.form == "Spark alone":
        alone = partial(recompute, kernel=task.not_dominated) if task.query == "skyline" else spark_aggregate
        return alone, "0 seconds"  # the next batch when the last is done
    ask = {"skyline": skyline_of, "aggregate": aggregate_of}[task.query]
    return skytide_chain(task.form == "own source", ask), "auto"


def files(task: Task, results: Path, latencies: Latencies) -> None:
    """Write what is in Parquet as the other peers write it, with the times at which it was there."""
    table = pq.read_table([str(path) for path in results.rglob("*.parquet") if "_windows" not in str(path)])
    starts = table["window_start"].cast("int64").to_numpy()
    rows = np.column_stack([table[name].to_numpy() for name in ANSWERS[task.query]])
    for end_us, latency_s in latencies.items():
        answer = rows[starts == end_us - 1_000_000]
        when_out(task.write(end_us, answer if task.query == "skyline" else answer[0]), end_us / 1e6 + latency_s)


def main() -> None:
    """Run until told to end, and then write the answers."""
    task = Task.told()
    told_to_end = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told_to_end.set())
    spark = local_session("skytide bench", cores=task.workers, **{"spark.driver.memory": "4g"})
    compute, trigger = contestant(task)
    first = skytide.workload(rate=2_000, arrivals="constant", pace="fast", duration="3 s", start=1_700_000_000_000_000)
    compute(spark, first, f"{task.folder}/first", "availableNow").query.awaitTermination()  # workers start, kernels are loaded
    source = skytide.workload(rate=task.rate_hz, arrivals="constant", start=task.start_us())
    started = compute(spark, source, f"{task.folder}/spark", trigger)
    while not told_to_end.wait(0.5):
        if newest := max(started.latencies(), default=0):
            task.write(newest, np.empty(0))  # says that this window is there; what is in it comes at the end
    latencies = started.latencies()
    started.query.stop()
    files(task, Path(task.folder, "spark", "results"), latencies)
    spark.stop()


if __name__ == "__main__":
    main()
