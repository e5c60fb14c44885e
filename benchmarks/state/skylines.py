"""Skylines with much state: of thousands of groups, and of anticorrelated tuples, of which most are candidates. In real time."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import skytide
from benchmarks.state.common import START_US, Bench, Found, session
from benchmarks.stream import measure as in_time
from benchmarks.stream.peers import SLIDE, WINDOW, WINDOW_US, Contestant, Started, preferences, skyline_of, skytide_chain
from benchmarks.timing import Disagreement, Limit
from skytide import diff
from skytide.spark.sources.workload import WorkloadStream

GROUPED, ANTICORRELATED = "diff of groups", "8 anticorrelated columns"


@dataclass(frozen=True)
class Sizes:
    """Loads, the number of groups, and how long it is watched."""

    groups: int = 10_000
    grouped_hz: int = 100_000
    anticorrelated_hz: int = 200_000
    seconds: tuple[float, float, float] = (15.0, 30.0, 45.0)
    """Of the warm-up, of the measurement, and for catching up in between at most."""


QUICK = Sizes(50, 500, 500, (4.0, 6.0, 10.0))


def skylines(bench: Bench) -> Found:
    """Measure whether both keep up, by the rule of `make bench-stream`."""
    sizes = QUICK if bench.quick else Sizes()
    in_time.WARM_UP_S, in_time.MEASURED_S, in_time.CATCHES_UP_WITHIN_S = sizes.seconds
    entries = {
        GROUPED: (grouped(sizes.groups), sizes.grouped_hz, "independent"),
        ANTICORRELATED: (skytide_chain(True, skyline_of), sizes.anticorrelated_hz, "anticorrelated"),
    }
    rows, goals, figures = [], [], {}
    with session("skylines") as spark:
        check(spark, bench, sizes)
        for name, (contestant, rate_hz, points) in entries.items():
            found = in_time.measure(spark, contestant, rate_hz, points)
            verdict = "keeps up" if found.kept_up else found.why
            latencies = [f"{found.latency_mean_s:.2f}", f"{found.latency_p99_s:.2f}"]
            rows.append([name, f"{rate_hz:,}", verdict, *latencies, f"{found.cpu_s_per_million:.2f}"])
            goals.append(
                Limit(f"skyline, {name}, {rate_hz:,}/s: seconds of latency (keeps up: {found.kept_up})", _late(found), 3.0)
            )
            figures[name] = vars(found)
    title = f"Skylines of 1 s every 200 ms in real time, local[2]; {sizes.groups:,} groups"
    return Found(title, ["skyline", "tuples/s", "verdict", "mean s", "p99 s", "CPU s/million"], rows, goals, figures)


def _late(found: in_time.Measured) -> float:
    return found.latency_mean_s if found.kept_up else float("inf")


def grouped(groups: int) -> Contestant:
    """Return a skyline for each of many groups."""

    def start(spark: SparkSession, source: WorkloadStream, folder: str, trigger: str) -> Started:
        rows = source.load(spark).selectExpr("*", f"id % {groups} AS g")
        asked = skytide.stream(rows, time="ts").window(WINDOW, slide=SLIDE).skyline(*preferences(source), diff("g"))
        run = asked.start("parquet", path=f"{folder}/results", checkpoint=f"{folder}/checkpoint", trigger=trigger)
        return Started(run.query, lambda: {row.window_end_us: row.latency_s for row in run.windows()})

    return start


def check(spark: SparkSession, bench: Bench, sizes: Sizes) -> None:
    """Compare a full window of a short stream with all pairs of its tuples, for both kinds."""
    for name, contestant, points, groups in (
        (GROUPED, grouped(20), "independent", 20),
        (ANTICORRELATED, skytide_chain(True, skyline_of), "anticorrelated", 1),
    ):
        folder = bench.folder / points
        source = skytide.workload(
            rate=1_500, arrivals="constant", points=points, pace="fast", duration="4 s", start=START_US, dimensions=8
        )
        contestant(spark, source, str(folder), "availableNow").query.awaitTermination()
        ticks = 4_000_000 // source.workload.tick_us
        tuples = pa.Table.from_batches(list(source.workload.tuples(0, ticks, START_US)))
        found = pq.read_table(folder / "results")
        starts = found["window_start"].cast(pa.int64()).to_numpy()
        times = tuples["ts"].cast(pa.int64()).to_numpy()
        start_us = int(np.unique(starts)[len(np.unique(starts)) // 2])
        inside = tuples.filter(pa.array((times >= start_us) & (times < start_us + WINDOW_US)))
        expected = undominated(inside, groups)
        if not expected or sorted(found.filter(pa.array(starts == start_us))["id"].to_pylist()) != expected:
            raise Disagreement(f"skyline, {name}: another one than that of all pairs")


def undominated(rows: pa.Table, groups: int) -> list[int]:
    """Return the ids of the tuples that no other one of their group dominates, by comparing all pairs."""
    ids = rows["id"].to_numpy()
    cloud = np.column_stack([rows[name].to_numpy() for name in rows.column_names if name.startswith("x")])
    best = []
    for row, at in enumerate(cloud):
        rivals = cloud[ids % groups == ids[row] % groups]
        if not ((rivals <= at).all(axis=1) & (rivals < at).any(axis=1)).any():
            best.append(int(ids[row]))
    return sorted(best)
