"""S2: the strategies of X13 on Spark, with 80 real streams in files; then the cabs of San Francisco, one stream each."""

import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from matplotlib.figure import Figure

from skytide.admission import STRATEGIES, Profile
from skytide.spark.fleet import fleet
from skytide.spark.session.local import local_session
from skytide.workloads.fleet import PERIOD_S, Sfvar
from skytide_lab.data.real_data import data
from skytide_lab.experiments.experiment import Experiment, Findings, Piece, Row
from skytide_lab.experiments.verdict import Claim

STREAMS, RATE_HZ, CAPACITY_HZ = 80, 4_000.0, 500.0
"""At the peak as many splits are open as P1 had machines; a real split can take hundreds of times as much."""
WALK = "80, rising and falling"
CABS_SPEED = 900
TICK_S = 0.25
SCHEMA = "ts timestamp, n bigint"


@dataclass(frozen=True)
class FleetOnSpark(Experiment):
    """Real files, real tasks, real time; only the capacity of a split is set by hand, so that the load needs several."""

    id = "S2"
    title = "80 streams on Spark under five strategies, and 500 cabs"
    source = "P1 Fig. 10 and 11, on Spark"
    question = "Do the strategies for many streams do on Spark what they do in the simulator?"
    alone_seconds = 300.0

    stream_s: float = 45.0
    warm_up_s: float = 10.0
    strategies: Sequence[str] = tuple(STRATEGIES)

    def alone(self) -> Sequence[Piece]:
        """Return the only piece."""
        return [()]

    def play(self, *piece: Any) -> list[Row]:
        """Play one workload under each strategy, and the cabs once, and return the rows."""
        spark = local_session("skytide lab")
        rows: list[Row] = []
        profiles = {f"s{n}": Profile(transition="jump", period=f"{PERIOD_S} s") for n in range(STREAMS)}
        replace(self, stream_s=max(self.warm_up_s, 2.0), warm_up_s=0.0)._run(
            spark, "drfm", _walk(), profiles
        )  # the first run of a session is slower
        for name in self.strategies:
            rows.append({"streams": WALK, "strategy": name, **self._run(spark, name, _walk(), profiles)})
        cabs = {"streams": "cabs", "strategy": "drfm", **self._run(spark, "drfm", _cabs(), {}, capacity_hz=2_000.0)}
        return [*rows, cabs]

    def conclude(self, rows: Sequence[Row]) -> Findings:
        """Compare the strategies, and return the findings."""
        by = {row["strategy"]: row["redirections"] for row in rows if row["streams"] == WALK}
        rest = max(moved for name, moved in by.items() if name != "par")
        least = min(moved for name, moved in by.items() if name != "drfm")
        missing = sum(row["missing"] for row in rows)
        return Findings(
            [
                Claim("(ours) every record is read once", f"{missing:.0f} records missing or doubled", missing == 0),
                Claim(
                    "PAR moves most of the streams all the time",
                    f"{by['par']:.0f} redirections, the next strategy {rest:.0f}",
                    by["par"] > 0 and by["par"] >= 2 * rest,
                ),
                Claim(
                    "DRF-M moves the fewest",
                    f"{by['drfm']:.0f} redirections, the best of the others {least:.0f}",
                    by["drfm"] <= least,
                ),
            ],
            f"the capacity of a split is set to {CAPACITY_HZ:.0f} tuples per second here; one run each, in real time, on a machine that may be busy: X13 simulates the same with several seeds",
        )

    def _run(
        self,
        spark: Any,
        strategy: str,
        feed: Callable[[Path, float, float], int],
        profiles: dict[str, Profile],
        *,
        capacity_hz: float = CAPACITY_HZ,
    ) -> Row:
        """Write streams in real time, read them under a strategy, and return what was measured after a warm-up."""
        folder = Path(tempfile.mkdtemp(prefix="skytide-lab-"))
        (folder / "feeds").mkdir()
        read = fleet(folder / "feeds", schema=SCHEMA, strategy=strategy, capacity_hz=capacity_hz, splits=64)
        for name, profile in profiles.items():
            read.declare(name, profile)
        counted = [0]
        writing = threading.Thread(target=lambda: counted.__setitem__(0, _write(feed, folder / "feeds", self.stream_s)))
        got: list[int] = []
        query = (
            read.load(spark, checkpoint=folder / "c")
            .writeStream.foreachBatch(lambda batch, _: got.append(batch.count()))
            .option("checkpointLocation", str(folder / "c"))
            .trigger(processingTime="1 second")
            .start()
        )
        looks = []
        try:
            writing.start()
            began = time.monotonic()
            while writing.is_alive():
                writing.join(0.5)
                if time.monotonic() - began > self.warm_up_s:
                    looks.append(read.status())
            query.processAllAvailable()
        finally:
            query.stop()
            shutil.rmtree(folder, ignore_errors=True)
        needed = [max(1, ceil(look.rate_hz / capacity_hz)) for look in looks]
        return {
            "redirections": float(looks[-1].redirections - looks[0].redirections),
            "buffered": fmean(look.buffered for look in looks),
            "splits": fmean(look.splits for look in looks),
            "splits_above_load": fmean(look.splits / need - 1 for look, need in zip(looks, needed, strict=True)),
            "planning_ms": fmean(look.planning_s for look in looks) * 1e3,
            "missing": float(abs(counted[0] - sum(got))),
        }

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw what each strategy did."""
        shown = [row for row in rows if row["streams"] != "cabs"]
        for axis, what in zip(figure.subplots(1, 3), ("redirections", "buffered", "splits_above_load"), strict=True):
            axis.bar([row["strategy"] for row in shown], [row[what] for row in shown])
            axis.set(title=what.replace("_", " "))


def _write(feed: Callable[[Path, float, float], int], folder: Path, length_s: float) -> int:
    began, at, written = time.monotonic(), 0.0, 0
    while at < length_s:
        time.sleep(max(0.0, began + at + TICK_S - time.monotonic()))
        now = min(time.monotonic() - began, length_s)
        written += feed(folder, at, now)
        at = now
    return written


def _walk() -> Callable[[Path, float, float], int]:
    """Return a function that writes what P1's workload sfvar brings from one time to another, and returns the number of tuples."""
    process, owed = Sfvar(RATE_HZ, STREAMS), np.zeros(STREAMS)

    def feed(folder: Path, since_s: float, until_s: float) -> int:
        nonlocal owed
        owed = owed + process.rates_hz(np.array([until_s]), seed=5)[:, 0] * (until_s - since_s)
        due = np.floor(owed).astype(int)
        owed -= due
        return sum(_append(folder / f"s{stream}.jsonl", int(count)) for stream, count in enumerate(due))

    return feed


def _cabs() -> Callable[[Path, float, float], int]:
    """Return a function that writes the reports of the cabs `CABS_SPEED` times as fast as they came, and returns their number."""
    table = pq.read_table(data("cabs_20080520.parquet"), columns=["ts", "cab"]).sort_by("ts")
    times = np.asarray(table["ts"].cast("int64")) / 1e6
    middle = times[0] + 8 * 3_600
    cabs = np.asarray(pc.cast(table["cab"], "string"))

    def feed(folder: Path, since_s: float, until_s: float) -> int:
        first, last = np.searchsorted(times, [middle + since_s * CABS_SPEED, middle + until_s * CABS_SPEED])
        names, counts = np.unique(cabs[first:last], return_counts=True)
        return sum(_append(folder / f"{name}.jsonl", int(count)) for name, count in zip(names, counts, strict=True))

    return feed


def _append(path: Path, count: int) -> int:
    line = json.dumps({"ts": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "n": count}) + "\n"
    if count:
        with path.open("a") as file:
            file.write(line * count)
    return count


EXPERIMENT = FleetOnSpark()
TOY = FleetOnSpark(stream_s=6.0, warm_up_s=2.0, strategies=("drfm", "par"))
