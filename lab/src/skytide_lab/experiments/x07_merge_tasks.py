"""X7: idle window slots merge waiting results (P0 §5.2, Fig. 12 and 13)."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from skytide.control.controllers.fuzzy import Fuzzy
from skytide_lab.experiments.elastic_ppq import CATCH_UP_S, SETPOINT, TABLES_THREADS, WINDOWS, p0_costs, p0_splitting, with_rows
from skytide_lab.experiments.estimate import Mean, mean_of
from skytide_lab.experiments.experiment import SEEDS, Experiment, Findings, Piece, Row
from skytide_lab.experiments.scenarios import burst_stream
from skytide_lab.experiments.verdict import Claim, of_all
from skytide_lab.scheduling.windows import Merge, Policy
from skytide_lab.sim.plants.elastic import ElasticPlant, run_elastic

RATE_HZ, DISPERSION = 30_000, 1_000.0
KEPT = 3_636  # rows of a window's result in the stream of Fig. 12, by P0's published log; the streams of Tab. 4 have more
DEFAULT, OPT = "fb-default", "fb-opt"
POLICIES: dict[str, Policy] = {DEFAULT: "WIN_FB", OPT: "WIN_FB_MERGE"}


@dataclass(frozen=True)
class MergeTasks(Experiment):
    """Plays both variants, with both levels scaled by the fuzzy rules."""

    id = "X7"
    title = "merging waiting results"
    source = "P0 Fig. 12, 13"
    question = "How much does it save if idle workers merge results whose window is busy?"
    seconds = 40.0

    seeds: Sequence[int] = SEEDS
    length_s: float = 150.0

    def pieces(self) -> Sequence[Piece]:
        """Return one piece per variant and seed."""
        return [(variant, seed) for seed in self.seeds for variant in POLICIES]

    def play(self, *piece: Any) -> list[Row]:
        """Play both levels, and return one row per control interval."""
        variant, seed = piece
        stream = burst_stream(RATE_HZ, DISPERSION, WINDOWS, self.length_s, changing=False, seed=seed)
        costs = with_rows(p0_costs(), RATE_HZ * WINDOWS.length_us // 1_000_000, KEPT)
        plant = ElasticPlant(stream, costs, WINDOWS, policy=POLICIES[variant], strategy=p0_splitting())
        cycles = run_elastic(plant, Fuzzy(maximum=TABLES_THREADS), self.length_s, threads=TABLES_THREADS)
        seen = [cycle.evaluation.seen for cycle in cycles if cycle.evaluation and cycle.at_s <= self.length_s]
        tasks = plant.windows.stage.done if plant.windows else []
        merges = sum(isinstance(done.task, Merge) for done in tasks)
        return [
            {
                "variant": variant,
                "seed": seed,
                "end_s": interval.at_s,
                "slots": interval.allocation.window_slots,
                "utilisation": interval.window_utilisation,
                "idle": 1 - fmean(load for slot, load in interval.loads if slot.startswith("window")),
                "merges": merges,
                "updates": len(tasks) - merges,
            }
            for interval in seen
        ]

    def conclude(self, rows: Sequence[Row]) -> Findings:
        """Compare the variants once the levels, which start with one slot each, have caught up, and return the findings."""
        seeds = sorted({row["seed"] for row in rows})

        def means(name: str, variant: str) -> list[float]:
            mine = [row for row in rows if row["variant"] == variant and row["end_s"] > CATCH_UP_S]
            return [fmean(row[name] for row in mine if row["seed"] == seed) for seed in seeds]

        idle_less = mean_of(1 - two / max(one, 1e-9) for one, two in zip(means("idle", DEFAULT), means("idle", OPT), strict=True))
        slots, used = ([mean_of(means(name, variant)) for variant in POLICIES] for name in ("slots", "utilisation"))
        merges, updates = means("merges", OPT), means("updates", OPT)
        over: Mean = mean_of(m / max(u, 1) for m, u in zip(merges, updates, strict=True))
        of_tasks = mean_of(m / max(m + u, 1) for m, u in zip(merges, updates, strict=True))
        return Findings(
            [
                Claim("idle time 45 % lower on average", f"idle time {idle_less:.0%} lower", 0.30 <= idle_less.mean <= 0.60),
                Claim(
                    "fewer workers (log: 17.0 instead of 27.8)",
                    f"{slots[1]:.1f} slots instead of {slots[0]:.1f}",
                    slots[1].mean < slots[0].mean,
                ),
                Claim(
                    "37 % of the tasks are MERGE (by the log: MERGE over WIN_UPDATE; 27 % of all tasks)",
                    f"MERGE tasks are {over:.0%} of the WIN_UPDATE tasks, {of_tasks:.0%} of all",
                    of_all([abs(over.mean - 0.37) <= 0.12, abs(of_tasks.mean - 0.27) <= 0.09]),
                ),
                Claim(
                    "both keep the utilisation near the setpoint",
                    f"mean utilisation {used[0]:.2f} and {used[1]:.2f}",
                    of_all(abs(value.mean - SETPOINT) < 0.2 for value in used),
                ),
            ],
            f"Means over seeds with 95 % confidence intervals. Both levels are scaled by P0's fuzzy rules, from one thread each to {TABLES_THREADS} in total. The stream of Fig. 12 is not that of Tab. 4: a window's "
            f"result has {KEPT:,} rows by P0's log, so the measured share of rows that are kept is scaled to match. {p0_costs().origin}",
        )

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw slots, utilisation and idle time per interval for the first seed."""
        first = min(row["seed"] for row in rows)
        for axis, name in zip(figure.subplots(3, 1, sharex=True), ("slots", "utilisation", "idle"), strict=True):
            for variant in POLICIES:
                mine = [row for row in rows if row["variant"] == variant and row["seed"] == first]
                axis.plot([row["end_s"] for row in mine], [row[name] for row in mine], label=variant)
            axis.set(ylabel=name)
        figure.axes[0].legend(frameon=False)
        figure.axes[-1].set(xlabel="seconds")


EXPERIMENT = MergeTasks()
TOY = MergeTasks(seeds=(0, 1), length_s=30.0)
