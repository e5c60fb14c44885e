"""X7: idle window slots merge results that wait (P0 Fig. 12 and 13)."""

from collections.abc import Sequence
from statistics import fmean

from matplotlib.figure import Figure

from skytide.control.fuzzy import Fuzzy
from skytide.lab.elastic_ppq import CALIBRATED_ON, CATCH_UP_S, SETPOINT, WINDOWS, scaled_costs
from skytide.lab.experiment import Claim, Experiment, Findings, Progress, Row
from skytide.lab.scenarios import burst_stream
from skytide.routing import Merge, Policy
from skytide.sim import Costs, Traffic
from skytide.sim.elastic import THREADS, ElasticPlant, run_elastic

RATE_HZ, DISPERSION, LENGTH_S = 30_000, 1_000.0, 150.0
NAMES: dict[Policy, str] = {"WIN_FB": "fb-default", "WIN_FB_MERGE": "fb-opt"}


class MergeTasks(Experiment):
    """Both variants, with both levels scaled by the fuzzy rules."""

    id = "X7"
    title = "merging results that wait"
    source = "P0 Fig. 12, 13"

    def measure(self, tell: Progress) -> Findings:
        """Simulate both levels with either variant."""
        stream = burst_stream(RATE_HZ, DISPERSION, WINDOWS, LENGTH_S, changing=False)
        costs = scaled_costs(stream, RATE_HZ, CALIBRATED_ON.skyline, f"P0 Tab. 4, {CALIBRATED_ON.name}")
        rows: list[Row] = []
        merges = 0.0
        for policy, name in NAMES.items():
            measured, merged = play(stream, costs, policy)
            rows += [{"variant": name, **row} for row in measured]
            merges = max(merges, merged)
            tell(f"{name}: {_mean(rows, name, 'slots'):.1f} slots, idle {_mean(rows, name, 'idle'):.0%}, {merged:.0%} merges")
        idle_less = 1 - _mean(rows, "fb-opt", "idle") / _mean(rows, "fb-default", "idle")
        slots = [_mean(rows, name, "slots") for name in NAMES.values()]
        used = [_mean(rows, name, "utilisation") for name in NAMES.values()]
        return Findings(
            rows,
            [
                Claim("idle time 45 % lower on average", f"idle time {idle_less:.0%} lower", 0.30 <= idle_less <= 0.60),
                Claim("fewer workers", f"{slots[1]:.1f} slots in place of {slots[0]:.1f}", slots[1] < slots[0]),
                Claim("37 % of the tasks are MERGE", f"{merges:.0%} of the tasks are MERGE", abs(merges - 0.37) <= 0.12),
                Claim(
                    "both keep the utilisation near the setpoint",
                    f"mean utilisation {used[0]:.2f} and {used[1]:.2f}",
                    all(abs(value - SETPOINT) < 0.2 for value in used),
                ),
            ],
            f"both levels are scaled by P0's fuzzy rules, from one thread each up to {THREADS} in all; {costs.origin}",
        )

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw slots, utilisation and idle time by interval."""
        for axis, name in zip(figure.subplots(3, 1, sharex=True), ("slots", "utilisation", "idle"), strict=True):
            for variant in NAMES.values():
                mine = [row for row in rows if row["variant"] == variant]
                axis.plot([row["end_s"] for row in mine], [row[name] for row in mine], label=variant)
            axis.set(ylabel=name)
        figure.axes[0].legend(frameon=False)
        figure.axes[-1].set(xlabel="seconds")


def play(stream: Traffic, costs: Costs, policy: Policy) -> tuple[list[Row], float]:
    """Simulate both levels; give a row for each control interval, and the share of merges among the tasks."""
    plant = ElasticPlant(stream, costs, WINDOWS, policy=policy)
    cycles = run_elastic(plant, Fuzzy(maximum=THREADS), LENGTH_S)
    seen = [cycle.evaluation.seen for cycle in cycles if cycle.evaluation and cycle.at_s <= LENGTH_S]
    rows: list[Row] = [
        {
            "end_s": each.at_s,
            "slots": each.allocation.window_slots,
            "utilisation": each.window_utilisation,
            "idle": 1 - fmean(load for slot, load in each.loads if slot.startswith("window")),
        }
        for each in seen
    ]
    tasks = plant.windows.stage.done if plant.windows else []
    return rows, sum(isinstance(done.task, Merge) for done in tasks) / max(1, len(tasks))


def _mean(rows: Sequence[Row], variant: str, name: str) -> float:
    """Give the mean after the time in which the levels catch up with their single slots."""
    return fmean(row[name] for row in rows if row["variant"] == variant and row["end_s"] > CATCH_UP_S)


EXPERIMENT = MergeTasks()
