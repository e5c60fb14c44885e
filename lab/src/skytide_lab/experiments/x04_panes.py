"""X4: windows computed from panes, or each window from its tuples, on the real engine (P3 Fig. 14)."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib.figure import Figure

from skytide.lateness import FixedSlack
from skytide.queries import Query, Skyline, combine, low
from skytide.records import Step
from skytide.spark.api.stream import stream
from skytide.spark.session.local import local_session
from skytide.spark.sources.workload import workload
from skytide_lab.experiments.experiment import Experiment, Findings, Piece, Row
from skytide_lab.experiments.scenarios import START_US
from skytide_lab.experiments.unshared import Unshared
from skytide_lab.experiments.verdict import Claim, of_all

CLOUDS = {"correlated": 8, "independent": 6, "anticorrelated": 4}  # kind of points: dimensions


@dataclass(frozen=True)
class PanesOrTuples(Experiment):
    """Runs windows of 1 s with 1 to 20 panes and three kinds of points both ways on local Spark."""

    id = "X4"
    title = "windows from panes against windows from tuples"
    source = "P3 Fig. 14"
    question = "How much time is saved if windows are computed from panes that they share?"
    alone_seconds = 150.0

    rate_hz: int = 100_000
    stream_s: int = 5
    rounds: int = 2
    panes_per_window: Sequence[int] = (1, 2, 5, 10, 20)

    def alone(self) -> Sequence[Piece]:
        """Return one piece per kind of points."""
        return [(cloud,) for cloud in CLOUDS]

    def play(self, *piece: Any) -> list[Row]:
        """Time the tasks of both levels in both ways over the same stream, and compare the results, and return the rows."""
        cloud, rows = piece[0], list[Row]()
        local_session("skytide lab")
        query = Skyline(combine(tuple(low(f"x{i}") for i in range(CLOUDS[cloud]))))
        self._run(query, cloud, 1)  # the first run of a query is slower, and does not count
        for panes in self.panes_per_window:
            rounds = [[self._run(asked, cloud, panes) for asked in (query, Unshared(query))] for _ in range(self.rounds)]
            paned_s, plain_s = (min(way) for way in zip(*([busy_s for busy_s, _ in times] for times in rounds), strict=True))
            (_, one), (_, two) = rounds[0]
            if not one.equals(two):
                raise AssertionError(f"{cloud}, {panes} panes: the two ways return different windows")
            rows.append(
                {"points": cloud, "panes_per_window": panes, "paned_s": paned_s, "plain_s": plain_s, "ratio": paned_s / plain_s}
            )
        return rows

    def conclude(self, rows: Sequence[Row]) -> Findings:
        """Judge how the ratio changes with the number of panes per window, and return the findings."""
        by = {(row["points"], row["panes_per_window"]): row["ratio"] for row in rows}
        numbers = sorted({row["panes_per_window"] for row in rows})
        first, last = next(n for n in numbers if n > 1), numbers[-1]
        return Findings(
            [
                Claim(
                    "the gain of panes grows with the number of panes per window",
                    "time with panes over time without: "
                    + "; ".join(f"{cloud} {by[cloud, first]:.2f} at {first}, {by[cloud, last]:.2f} at {last}" for cloud in CLOUDS),
                    of_all(by[cloud, last] < by[cloud, first] < 1.1 for cloud in CLOUDS),
                )
            ],
            f"{self.rate_hz:,} tuples per second for {self.stream_s} s as a stream on local Spark; busy time of the tasks of both levels, without Spark's own time, the best of {self.rounds}; "
            "the other way computes each window from all of its tuples with the same kernel. The stream is the same in all rounds: what differs is the machine",
        )

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw the ratio over the number of panes per window."""
        axis = figure.subplots()
        for cloud in CLOUDS:
            mine = [row for row in rows if row["points"] == cloud]
            axis.plot([row["panes_per_window"] for row in mine], [row["ratio"] for row in mine], marker="o", label=cloud)
        axis.axhline(1, color="0.7", lw=0.8)
        axis.set(xlabel="panes per window", ylabel="time with panes / time without", ylim=(0, None))
        axis.legend(frameon=False)

    def _run(self, query: Query, cloud: str, panes: int) -> tuple[float, pa.Table]:
        """Return how long tasks were busy with a stream, and the windows that came out."""
        source = workload(
            rate=self.rate_hz, points=cloud, dimensions=CLOUDS[cloud], pace="fast", duration=f"{self.stream_s} s", start=START_US
        )
        asked = stream(source).window("1 s", slide=f"{1_000 // panes} ms", slack=FixedSlack(0)).apply(query)
        with tempfile.TemporaryDirectory(prefix="skytide-lab-") as folder:
            run = asked.start("parquet", path=f"{folder}/out", checkpoint=f"{folder}/checkpoint", trigger="availableNow")
            run.await_termination()
            busy_s = run.seconds()
            table = pq.read_table(f"{folder}/out", columns=["window_start", "id"])
        return busy_s[Step.PANE_TASKS] + busy_s[Step.WINDOW_TASK], table.sort_by(
            [("window_start", "ascending"), ("id", "ascending")]
        )


EXPERIMENT = PanesOrTuples()
TOY = PanesOrTuples(rate_hz=2_000, stream_s=2, rounds=1, panes_per_window=(1, 5, 10))
