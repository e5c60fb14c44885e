"""X6: elasticity alone, and combined with the splitting of panes (P0 §5.2, Fig. 9 and 10)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from statistics import fmean, median
from typing import Any

from matplotlib.figure import Figure

from skytide.control.controllers.fuzzy import Fuzzy
from skytide.routing import AS_PID, PB_RR, Splitting
from skytide.workloads.workload import Workload
from skytide_lab.data.real_data import data
from skytide_lab.experiments.elastic_ppq import CATCH_UP_S, PANES, PANES_RATE_HZ, SETPOINT, p0_pane_costs, p0_splitting
from skytide_lab.experiments.estimate import Mean, column, mean_of
from skytide_lab.experiments.experiment import SEEDS, Experiment, Findings, Piece, Row
from skytide_lab.experiments.scenarios import played
from skytide_lab.experiments.verdict import Claim, of_all
from skytide_lab.sim.plants.elastic import INTERVAL_S, THREADS, ElasticPlant, run_elastic

STEPS, STEP_S = "steps", 30.0
STEP_THREADS, LOGGED_STEPS = (
    (3, 4, 6, 6),
    (3, 4, 6, 6, 5, 3),
)  # by P0 Fig. 9 and its text for the first four steps; by its log for all
LATE = {"delay_us": 400_000, "tick_us": 10_000}
STREAMS: dict[str, dict[str, object]] = {
    "MAP": {"rate": PANES_RATE_HZ, "arrivals": "map", "dispersion": 1_000.0},
    "self-similar": {"rate": PANES_RATE_HZ, "arrivals": "selfsimilar", "hurst": 0.6},
}
ALONE, BOTH, BELOW_BASE, OURS = "elasticity only", "two levels", "two levels, alpha up to 1", "two levels, skytide's PID"
WAYS: dict[str, Splitting] = {ALONE: PB_RR, BOTH: p0_splitting(), BELOW_BASE: p0_splitting(high=1.0), OURS: AS_PID}
SPLIT = tuple(way for way in WAYS if way != ALONE)
"""P0 does not say whether alpha has an upper limit: without one a level is at its setpoint with any number of workers, as panes are split less."""


@dataclass(frozen=True)
class TwoLevels(Experiment):
    """Plays the pane level under bursts with and without splitting, and under steps of the rate."""

    id = "X6"
    title = "elasticity with and without splitting"
    source = "P0 Fig. 9, 10"
    question = "Are more workers enough against bursts, or do panes have to be split as well?"
    seconds = 140.0

    seeds: Sequence[int] = SEEDS
    length_s: float = 120.0
    steps: int = 6

    def pieces(self) -> Sequence[Piece]:
        """Return one piece per stream, way and seed."""
        return [(stream, way, seed) for seed in self.seeds for stream, way in [*product(STREAMS, WAYS), *product([STEPS], SPLIT)]]

    def play(self, *piece: Any) -> list[Row]:
        """Play a stream, and return one row for the run and one per control interval."""
        stream, way, seed = piece
        if stream == STEPS:
            made = Workload(arrivals="replay", series=f"{data('rates_papers.parquet')}#artificial", seed=seed, **LATE)  # type: ignore[arg-type]
        else:
            made = Workload(**STREAMS[stream], seed=seed, **LATE)  # type: ignore[arg-type]
        length_s = self.steps * STEP_S if stream == STEPS else self.length_s
        came = played(made, PANES, length_s, bursts="of events")
        plant = ElasticPlant(came, p0_pane_costs(), None, strategy=WAYS[way])
        cycles = run_elastic(plant, Fuzzy(maximum=THREADS), length_s)
        labels = {"stream": stream, "way": way, "seed": seed}
        late_s = [
            computed - (pane + 1) * came.pane_s
            for pane, computed in plant.panes.computed_s.items()
            if pane * came.pane_s > CATCH_UP_S
        ]
        done = (
            sum(CATCH_UP_S < at <= length_s for at in plant.panes.computed_s.values())
            / max(length_s - CATCH_UP_S, 1e-9)
            * came.pane_s
        )
        rows: list[Row] = [{**labels, "figure": "run", "late_s": fmean(late_s) if late_s else 0.0, "panes_done": done}]
        for cycle in cycles:
            if cycle.at_s > length_s or cycle.evaluation is None:
                break
            seen = cycle.evaluation.seen
            rows.append(
                {
                    **labels,
                    "figure": "interval",
                    "end_s": cycle.at_s,
                    "workers": seen.allocation.workers,
                    "utilisation": seen.pane_utilisation,
                    "splitting": plant_splitting(plant, cycle.at_s),
                }
            )
        return rows

    def conclude(self, rows: Sequence[Row]) -> Findings:
        """Compare the ways after the level has caught up, and return the findings."""
        seeds = sorted({row["seed"] for row in rows})

        def mean(name: str, stream: str, way: str) -> Mean:
            mine = [
                r
                for r in rows
                if r["figure"] == "interval" and (r["stream"], r["way"]) == (stream, way) and r["end_s"] > CATCH_UP_S
            ]
            return mean_of(fmean(r[name] for r in mine if r["seed"] == seed) for seed in seeds)

        def of_run(name: str, stream: str, way: str) -> Mean:
            return mean_of(column(rows, name, figure="run", stream=stream, way=way))

        levels = {way: [_levels(rows, way, seed) for seed in seeds] for way in SPLIT}
        steps = {way: [mean_of(each) for each in zip(*found, strict=True)] for way, found in levels.items()}
        near = {
            way: [abs(n.mean - wanted) <= 1 for n, wanted in zip(found, STEP_THREADS, strict=False)] for way, found in steps.items()
        }
        text = "; ".join(
            f"{', '.join(f'{n:.1f}' for n in found)} ({way.removeprefix('two levels, ')})" for way, found in steps.items()
        )
        used = mean("utilisation", "MAP", ALONE)
        kept = {(stream, way): mean("utilisation", stream, way) for stream in STREAMS for way in SPLIT}
        most = {stream: mean("workers", stream, ALONE) for stream in STREAMS}
        return Findings(
            [
                Claim(
                    "elasticity only: the maximum of 60 workers, and a utilisation of about 3 (MAP): only a third of the stream is sustained",
                    "; ".join(
                        f"{s}: {most[s]:.1f} workers, utilisation {mean('utilisation', s, ALONE):.2f}, panes {of_run('late_s', s, ALONE):.1f} s late"
                        for s in STREAMS
                    ),
                    of_all([most["MAP"].mean >= 0.95 * THREADS, 2.2 <= used.mean <= 3.8]),
                ),
                Claim(
                    "two levels: the utilisation stays close to 0.9",
                    "; ".join(
                        f"{s}, {way.removeprefix('two levels, ')}: {kept[s, way]:.2f} with {mean('workers', s, way):.1f} workers, panes {of_run('late_s', s, way):.1f} s late"
                        for s, way in kept
                    ),
                    of_all(abs(value.mean - SETPOINT) < 0.1 for value in kept.values()),
                ),
                Claim(
                    "steps: 3, 4, 6 and 6 workers for 40,000, 50,000, 70,000 and 80,000 tuples per second",
                    f"workers by step: {text}",
                    of_all(each for found in near.values() for each in found),
                    "; ".join(f"within one worker in {sum(found)} of {len(found)} steps ({way})" for way, found in near.items()),
                ),
                Claim(
                    "steps: workers are added with steps up, and removed with each step down",
                    f"workers by step: {text}",
                    of_all(
                        all(a <= b for a, b in pairwise(found[:4])) and all(a > b for a, b in pairwise(found[3:]))
                        for each in levels.values()
                        for found in each
                    ),
                ),
            ],
            f"Means over seeds with 95 % confidence intervals, after the first {CATCH_UP_S:g} s. The third is 1/rho, read off the utilisation: measured by when panes are done, "
            f"{of_run('panes_done', 'MAP', ALONE):.0%} of the panes per second do come out, but late, as in P0's own log. Fig. 9 and 10 show the pane level alone, for which "
            "P0's controller assumes that the window level is at its setpoint and that panes are not split, so its rule 8 never adds workers; the utilisation of an interval is the plain mean of its samples. "
            f"The regulators are P0's as published, P0's with an upper limit, and skytide's, which changes alpha in proportion to it. P0's log has {', '.join(map(str, LOGGED_STEPS))} workers for the steps, and for MAP a utilisation of 0.89 with 8.8 workers. {p0_pane_costs().origin}",
        )

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw utilisation, workers and splitting per interval for the first seed."""
        panels = [(STEPS, BOTH)] + [(stream, way) for stream in STREAMS for way in (ALONE, BOTH)]
        axes = figure.subplots(1, len(panels))
        first = min(row["seed"] for row in rows)
        for axis, (stream, way) in zip(axes, panels, strict=True):
            mine = [r for r in rows if r["figure"] == "interval" and (r["stream"], r["way"], r["seed"]) == (stream, way, first)]
            times = [r["end_s"] for r in mine]
            axis.bar(times, [r["workers"] for r in mine], INTERVAL_S * 0.9, color="tab:blue", alpha=0.4, label="workers")
            axis.bar(times, [r["splitting"] for r in mine], INTERVAL_S * 0.9, color="tab:orange", alpha=0.7, label="splitting")
            used = axis.twinx()
            used.plot(times, [r["utilisation"] for r in mine], color="k", lw=0.8)
            used.set_ylim(0, 5)
            axis.set_title(f"{stream}, {way}", fontsize="small")
        axes[0].legend(frameon=False, fontsize="small")
        figure.supxlabel("seconds; line: utilisation, on the right", fontsize="small")


def plant_splitting(plant: ElasticPlant, at_s: float) -> float:
    """Return the mean number of partitions of the panes that closed in the interval before a time."""
    parts = {r.pane: r.partitions for r in plant.panes.results if at_s - INTERVAL_S < plant.panes.closed_s[r.pane] <= at_s}
    return fmean(parts.values()) if parts else 1.0


def _levels(rows: Sequence[Row], way: str, seed: int) -> list[float]:
    """Return the median number of workers in the second half of each step."""
    mine = [row for row in rows if row["figure"] == "interval" and (row["stream"], row["way"], row["seed"]) == (STEPS, way, seed)]
    steps = range(round(max(row["end_s"] for row in mine) / STEP_S))
    return [median(r["workers"] for r in mine if (s + 0.5) * STEP_S < r["end_s"] <= (s + 1) * STEP_S) for s in steps]


EXPERIMENT = TwoLevels()
TOY = TwoLevels(seeds=(0, 1), length_s=30.0, steps=2)
