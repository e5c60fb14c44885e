"""F18: other programs on the same machine (P0 §5.4, Fig. 18)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from matplotlib.figure import Figure

from skytide.control.controllers.fuzzy import Fuzzy
from skytide_lab.experiments.elastic_ppq import TABLES_THREADS, WINDOWS, p0_costs, p0_splitting, stream, summary
from skytide_lab.experiments.estimate import column, mean_of
from skytide_lab.experiments.experiment import SEEDS, Experiment, Findings, Piece, Row
from skytide_lab.experiments.verdict import Claim, of_all
from skytide_lab.sim.plants.elastic import ElasticPlant, run_elastic

PER_LOAD = (
    1.43  # at a load x, work takes 1 + 1.43 x times as long, by the threads of Fig. 18, left (stressors on other hyper-threads)
)
EVEN_SHARE = 4.0  # if a core shared its cycles evenly among the threads of its four virtual cores
HIGH, VERY_HIGH = 0.4, 0.8


@dataclass(frozen=True)
class Interference(Experiment):
    """Plays the skyline of Game1 under several loads of other programs."""

    id = "F18"
    title = "load of other programs"
    source = "P0 Fig. 18"
    question = "Does the system keep its throughput, by using more threads, when other programs use the machine too?"
    seconds = 60.0

    seeds: Sequence[int] = SEEDS
    length_s: float = 300.0
    loads: Sequence[float] = (0.0, 0.2, HIGH, 0.6, VERY_HIGH, 1.0)

    def pieces(self) -> Sequence[Piece]:
        """Return one piece per seed, load and slowdown."""
        slow = [(load, PER_LOAD) for load in self.loads] + [(HIGH, EVEN_SHARE)]
        return [(seed, load, factor) for seed in self.seeds for load, factor in reversed(slow)]

    def play(self, *piece: Any) -> list[Row]:
        """Play the stream under one load, and return the rows."""
        seed, load, per_load = piece
        came = stream("Game1").traffic(seed, self.length_s)
        slowdown = 1 + per_load * load
        plant = ElasticPlant(came, p0_costs(), WINDOWS, slowdown=lambda _: slowdown, strategy=p0_splitting())
        cycles = run_elastic(plant, Fuzzy(maximum=TABLES_THREADS), self.length_s, threads=TABLES_THREADS)
        measured = summary(plant, cycles, self.length_s, threads=TABLES_THREADS)
        out = len(plant.windows.released_s) if plant.windows else 0
        labels = {
            "seed": seed,
            "load": load,
            "per_load": per_load,
            "threads": measured["pane_threads"] + measured["window_threads"],
        }
        return [{**labels, "throughput": out / max(plant.completed_s, self.length_s), **measured}]

    def conclude(self, rows: Sequence[Row]) -> Findings:
        """Compare each load with none, and return the findings."""
        loads = sorted({row["load"] for row in rows})
        threads = {x: mean_of(column(rows, "threads", load=x, per_load=PER_LOAD)) for x in loads}
        cvs = {x: mean_of(column(rows, "cv", load=x, per_load=PER_LOAD)) for x in loads}
        calm = column(rows, "throughput", load=0.0, per_load=PER_LOAD)

        def lost(load: float, per_load: float = PER_LOAD) -> list[float]:
            return [
                1 - now / before for now, before in zip(column(rows, "throughput", load=load, per_load=per_load), calm, strict=True)
            ]

        losses = {x: mean_of(lost(x)) for x in loads if x}
        return Findings(
            [
                Claim(
                    "more load, more threads",
                    "threads: " + ", ".join(f"{n:.1f} ({x:.0%})" for x, n in threads.items()),
                    of_all(threads[a].mean <= threads[b].mean * 1.03 for a, b in pairwise(loads))
                    if threads[loads[-1]].mean > threads[0.0].mean
                    else False,
                ),
                Claim(
                    "no appreciable loss of throughput, except at very high loads",
                    "throughput lost: " + ", ".join(f"{value:.1%} ({x:.0%})" for x, value in losses.items()),
                    of_all(value.mean <= 0.03 for x, value in losses.items() if x < VERY_HIGH),
                ),
                Claim(
                    "the throughput becomes less steady",
                    ", ".join(f"CV {cv:.2f} ({x:.0%})" for x, cv in cvs.items()),
                    cvs[loads[-1]].mean > cvs[0.0].mean,
                ),
            ],
            f"Means over seeds with 95 % confidence intervals, on the first 300 s of Game1. A load x makes work take 1 + {PER_LOAD} x times as long, as the threads of Fig. 18 (left) imply; the right panel, the throughput, "
            f"is the test. If a core shared its cycles evenly among its four virtual cores (1 + {EVEN_SHARE:g} x), {mean_of(lost(HIGH, EVEN_SHARE)):.1%} would be lost at {HIGH:.0%}. {p0_costs().origin}",
        )

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw threads, throughput and its variation over the load."""
        for axis, name in zip(figure.subplots(1, 3), ("threads", "throughput", "cv"), strict=True):
            loads = sorted({row["load"] for row in rows})
            means = [mean_of(column(rows, name, load=x, per_load=PER_LOAD)) for x in loads]
            axis.errorbar(loads, [m.mean for m in means], [m.half for m in means], marker="o")
            axis.set(title=name, xlabel="load", ylim=(0, None))


EXPERIMENT = Interference()
TOY = Interference(seeds=(0, 1), length_s=30.0, loads=(0.0, HIGH, 1.0))
