"""X3: window tasks assigned to slots in turn, or to slots as they become free (P3 §5.3, Fig. 12 and 13)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from matplotlib.figure import Figure

from skytide.routing import AS_PID
from skytide.windows import Windows
from skytide_lab.experiments.estimate import Mean, column, mean_of
from skytide_lab.experiments.experiment import SEEDS, Experiment, Findings, Piece, Row
from skytide_lab.experiments.scenarios import burst_stream, p3_costs
from skytide_lab.experiments.verdict import Claim, of_all
from skytide_lab.scheduling.windows import Policy
from skytide_lab.sim import Result, run_panes, run_windows

WINDOWS, RATE_HZ = Windows(1_000_000, 200_000), 50_000
POLICIES: tuple[Policy, ...] = ("WIN_RR", "WIN_FB")
STEADY, MAX_DISPERSION = 100, 8_000
PANE_SLOTS = {2_500: 3, 6_000: 4}  # of Fig. 13, by burstiness; Fig. 12 has as many as it needs
MACHINE_SLOTS = 12  # P3's 20 cores minus four pane workers, generator, consumer and two emitters: "the best performance achieved"
MAX_SLOTS, NEAR = 60, 0.01


@dataclass(frozen=True)
class WindowTasks(Experiment):
    """Plays WIN_RR and WIN_FB behind AS_PID, over levels of bursts and numbers of slots."""

    id = "X3"
    title = "window tasks in turn or by feedback"
    source = "P3 Fig. 12, 13"
    question = "What share of the windows per second is kept under bursts if windows are bound to workers, and if tasks go to idle workers?"
    seconds = 70.0

    seeds: Sequence[int] = SEEDS
    length_s: float = 60.0
    dispersions: Sequence[int] = (STEADY, 1_000, 2_500, 4_000, 6_000, MAX_DISPERSION)
    slots: Sequence[int] = (4, 6, 8, 10, MACHINE_SLOTS)

    def pieces(self) -> Sequence[Piece]:
        """Return one piece per figure and seed."""
        return [(seed, figure) for seed in self.seeds for figure in (12, 13)]

    def play(self, *piece: Any) -> list[Row]:
        """Play with as many slots as a steady stream needs (Fig. 12), or with more and more (Fig. 13), and return the rows."""
        seed, figure = piece
        cases: list[tuple[int, int, int]] = []
        if figure == 12:
            panes = max(PANE_SLOTS.values())
            cases = [(d, panes, n) for d in self.dispersions for n in sorted({self._enough(seed), MACHINE_SLOTS})]
        else:
            cases = [(dispersion, panes, n) for (dispersion, panes), n in product(PANE_SLOTS.items(), self.slots)]
        rows: list[Row] = []
        results: dict[tuple[int, int], tuple[list[Result], float]] = {}
        for dispersion, panes, slots in cases:
            if (dispersion, panes) not in results:
                results[dispersion, panes] = self._panes(dispersion, panes, seed)
            came, used = results[dispersion, panes]
            for policy in POLICIES:
                outcome, _ = run_windows(came, p3_costs(), WINDOWS, slots, policy, self.length_s)
                labels = {"figure": figure, "seed": seed, "dispersion": dispersion, "policy": policy, "slots": slots}
                rows.append({**labels, "pane_utilisation": used, **asdict(outcome)})
        return rows

    def _panes(self, dispersion: int, slots: int, seed: int) -> tuple[list[Result], float]:
        stream = burst_stream(RATE_HZ, dispersion, WINDOWS, self.length_s, changing=False, seed=seed)
        outcome, stage = run_panes(stream, p3_costs(), AS_PID, slots)
        return stage.results, outcome.utilisation

    def _enough(self, seed: int) -> int:
        """Return the smallest number of slots with which a steady stream is served as fast as with `MAX_SLOTS`."""
        steady, _ = self._panes(STEADY, max(PANE_SLOTS.values()), seed)

        def rate(slots: int) -> float:
            return run_windows(steady, p3_costs(), WINDOWS, slots, "WIN_FB", self.length_s)[0].throughput

        best = rate(MAX_SLOTS)
        return next(n for n in range(1, MAX_SLOTS + 1) if rate(n) >= best - NEAR)

    def conclude(self, rows: Sequence[Row]) -> Findings:
        """Compare the two policies, and return the findings."""
        dispersions = sorted({row["dispersion"] for row in rows if row["figure"] == 12})
        fewest = {row["seed"]: min(r["slots"] for r in rows if r["figure"] == 12 and r["seed"] == row["seed"]) for row in rows}

        def rates(policy: str, *, few: bool) -> list[Mean]:
            mine = [r for r in rows if r["figure"] == 12 and r["slots"] == (fewest[r["seed"]] if few else MACHINE_SLOTS)]
            return [mean_of(column(mine, "throughput", policy=policy, dispersion=d)) for d in dispersions]

        fed, turn = (rates(policy, few=False) for policy in ("WIN_FB", "WIN_RR"))
        few = rates("WIN_FB", few=True)
        many = sorted({(row["dispersion"], row["slots"]) for row in rows if row["figure"] == 13 and row["slots"] > 5})
        worse = {
            at: mean_of(
                a / b
                for a, b in zip(
                    *(column(rows, "imbalance", figure=13, policy=p, dispersion=at[0], slots=at[1]) for p in POLICIES), strict=True
                )
            )
            for at in many
        }
        slots = sorted(set(fewest.values()))
        used = mean_of(column(rows, "pane_utilisation", figure=12, dispersion=dispersions[-1], policy="WIN_FB"))
        return Findings(
            [
                Claim(
                    "WIN_FB loses 10 % at worst, up to I = 8,000",
                    "WIN_FB keeps " + ", ".join(f"{value:.0%} (I = {d:,})" for d, value in zip(dispersions, fed, strict=True)),
                    of_all(value.mean >= 0.895 for value in fed),
                    "with only the slots that a steady stream needs: " + ", ".join(f"{value:.0%}" for value in few),
                ),
                Claim(
                    "WIN_RR drops with bursts and is always below WIN_FB",
                    "WIN_RR keeps " + ", ".join(f"{value:.0%} (I = {d:,})" for d, value in zip(dispersions, turn, strict=True)),
                    of_all([turn[-1].mean < turn[0].mean - 0.05, *(a.mean <= b.mean for a, b in zip(turn, fed, strict=True))]),
                ),
                Claim(
                    "with more than five slots the load is less balanced with WIN_RR",
                    "load ratio of WIN_RR over that of WIN_FB: "
                    + ", ".join(f"{value:.2f} (I = {d:,}, {n})" for (d, n), value in worse.items()),
                    of_all(value.mean > 1 for value in worse.values()),
                ),
            ],
            f"Means over seeds with 95 % confidence intervals. The rate is that of all windows until the last one is out, drain included, relative to the ideal rate. P3 does not say how many window slots "
            f"Fig. 12 has: here {MACHINE_SLOTS}, as many as its machine has left; a steady stream (I = 100) is served as fast as with {MAX_SLOTS} from {', '.join(map(str, slots))} slots on, depending on the seed. There are "
            f"{max(PANE_SLOTS.values())} pane slots, whose utilisation is {used:.2f} at the highest burstiness. {p3_costs().origin}",
        )

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw both figures."""
        axes = figure.subplots(1, 3)
        for policy in POLICIES:
            dispersions = sorted({row["dispersion"] for row in rows if row["figure"] == 12})
            means = [
                mean_of(column(rows, "throughput", figure=12, policy=policy, dispersion=d, slots=MACHINE_SLOTS))
                for d in dispersions
            ]
            axes[0].errorbar(dispersions, [m.mean for m in means], [m.half for m in means], marker=".", label=policy)
            for axis, dispersion in zip(axes[1:], PANE_SLOTS, strict=True):
                slots = sorted({row["slots"] for row in rows if row["figure"] == 13})
                means = [
                    mean_of(column(rows, "imbalance", figure=13, policy=policy, dispersion=dispersion, slots=n)) for n in slots
                ]
                axis.errorbar(slots, [m.mean for m in means], [m.half for m in means], marker=".", label=policy)
                axis.set(title=f"load ratio, I = {dispersion:,}", xlabel="window slots")
        axes[0].set(title="share of the ideal rate", xlabel="index of dispersion", ylim=(0, 1.05))
        axes[0].legend(frameon=False)


EXPERIMENT = WindowTasks()
TOY = WindowTasks(seeds=(0, 1), length_s=6.0, dispersions=(STEADY, MAX_DISPERSION), slots=(4, 8))
