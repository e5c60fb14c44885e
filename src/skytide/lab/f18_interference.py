"""F18: other programs on the same machine (P0 Fig. 18)."""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise

from matplotlib.figure import Figure

from skytide.control.fuzzy import Fuzzy
from skytide.lab.elastic_ppq import WINDOWS, p0_costs, stream, summary
from skytide.lab.experiment import Claim, Experiment, Findings, Progress, Row
from skytide.sim.elastic import THREADS, ElasticPlant, run_elastic

LOADS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
VERY_HIGH = 0.5
VIRTUAL_CORES_A_CORE = 4  # of the processor that P0 uses
LENGTH_S = 415.0  # all of Game1
ROOMY = 4 * THREADS
RUNS = [*((load, THREADS) for load in LOADS), (max(load for load in LOADS if load < VERY_HIGH), ROOMY)]


class Interference(Experiment):
    """Game1 with skyline, over loads from outside."""

    id = "F18"
    title = "load of other programs"
    source = "P0 Fig. 18"

    def measure(self, tell: Progress) -> Findings:
        """Simulate every load."""
        p0_costs()
        rows: list[Row] = []
        with ProcessPoolExecutor(2) as processes:
            for row in processes.map(simulate, RUNS):
                rows.append(row)
                tell(
                    f"load {row['load']:.0%}, up to {row['limit']}: {row['slowdown']:.1f} times slower, {row['threads']:.1f} threads, "
                    f"{row['throughput']:.2f} windows a second, CV {row['cv']:.2f}, all threads in use for {row['at_maximum']:.0%} of the time"
                )
        return Findings(rows, self._claims([row for row in rows if row["limit"] == THREADS], rows[-1]), self._notes())

    def _claims(self, rows: Sequence[Row], roomy: Row) -> list[Claim]:
        calm, loaded = rows[0], [row for row in rows if row["load"] < VERY_HIGH]
        threads = [row["threads"] for row in rows]
        slower = [1 - row["throughput"] / calm["throughput"] for row in loaded]
        return [
            Claim(
                "more load, more threads",
                "threads: " + ", ".join(f"{n:.1f} ({row['load']:.0%})" for n, row in zip(threads, rows, strict=True)),
                all(one <= two * 1.03 for one, two in pairwise(threads)) and threads[-1] > threads[0],
            ),
            Claim(
                "no appreciable loss of throughput, except at very high loads",
                "less throughput: "
                + ", ".join(f"{1 - row['throughput'] / calm['throughput']:.1%} ({row['load']:.0%})" for row in rows[1:]),
                max(slower) <= 0.03,
            ),
            Claim(
                "the throughput becomes less steady",
                f"CV {calm['cv']:.2f} without load, {loaded[-1]['cv']:.2f} at {loaded[-1]['load']:.0%}",
                loaded[-1]["cv"] > calm["cv"],
            ),
            Claim(
                "(ours) where it is lost, threads were missing, not decisions",
                f"with up to {roomy['limit']} threads {1 - roomy['throughput'] / calm['throughput']:.1%} is lost at {roomy['load']:.0%}, with {roomy['threads']:.1f} on average",
                roomy["throughput"] >= 0.97 * calm["throughput"],
            ),
        ]

    def _notes(self) -> str:
        return (
            f"Game1. A load of 100 % is a busy thread on each of the {VIRTUAL_CORES_A_CORE} virtual cores of a core, and a core is taken to share its cycles "
            f"evenly among its threads: a load x makes work 1 + {VIRTUAL_CORES_A_CORE}x times as long. What P0's stress tests did to caches is not in it; how "
            f"high its very high loads are, its text does not say: here, {VERY_HIGH:.0%} and more. {p0_costs().origin}"
        )

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw threads, throughput and its variation by load."""
        for axis, name in zip(figure.subplots(1, 3), ("threads", "throughput", "cv"), strict=True):
            mine = [row for row in rows if row["limit"] == THREADS]
            axis.plot([row["load"] for row in mine], [row[name] for row in mine], marker="o")
            axis.set(title=name, xlabel="load", ylim=(0, None))


def simulate(run: tuple[float, int]) -> Row:
    """Play the stream under one load, with so many threads at most."""
    load, limit = run
    came = stream("Game1").traffic(length_s=LENGTH_S)
    slowdown = 1 + VIRTUAL_CORES_A_CORE * load
    plant = ElasticPlant(came, p0_costs(), WINDOWS, slowdown=lambda _: slowdown)
    found = summary(plant, run_elastic(plant, Fuzzy(maximum=limit), LENGTH_S, threads=limit), LENGTH_S, threads=limit)
    out = len(plant.windows.released_s) if plant.windows else 0
    said = {"load": load, "limit": limit, "slowdown": slowdown, "threads": found["pane_threads"] + found["window_threads"]}
    return {**said, "throughput": out / max(plant.completed_s, LENGTH_S), **found}


EXPERIMENT = Interference()
