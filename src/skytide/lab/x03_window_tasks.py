"""X3: tasks of windows given out in turn or as slots become free (P3 Fig. 12 and 13)."""

from collections.abc import Sequence
from dataclasses import asdict

from matplotlib.figure import Figure

from skytide.lab.experiment import Claim, Experiment, Findings, Progress, Row
from skytide.lab.scenarios import burst_stream, p3_costs
from skytide.routing import AS_PID, Policy
from skytide.sim import run_panes, run_windows
from skytide.windows import Windows

WINDOWS, RATE_HZ, LENGTH_S = Windows(1_000_000, 200_000), 50_000, 120.0
DISPERSIONS = (100, 1_000, 2_500, 4_000, 6_000, 8_000)
POLICIES: tuple[Policy, ...] = ("WIN_RR", "WIN_FB")
PANE_SLOTS = 8  # so many that the pane level is no bottleneck
MOST_SLOTS = 60
BALANCED = {2_500: PANE_SLOTS, 6_000: PANE_SLOTS}  # burstiness: slots of the pane level (P3 has 3 and 4)
SLOTS = (4, 8, 16, 24, 32, 40, 48)


class WindowTasks(Experiment):
    """WIN_RR and WIN_FB behind AS_PID, over levels of bursts and numbers of slots."""

    id = "X3"
    title = "window tasks in turn or by feedback"
    source = "P3 Fig. 12, 13"

    def measure(self, tell: Progress) -> Findings:
        """Simulate with as many slots as a steady stream needs, and with more and more."""
        rows: list[Row] = []
        costs = p3_costs()
        steady, _ = self._panes(100, PANE_SLOTS)
        slots = next(
            n for n in range(1, MOST_SLOTS) if run_windows(steady, costs, WINDOWS, n, "WIN_FB", LENGTH_S)[0].throughput > 0.985
        )
        tell(f"a steady stream needs {slots} window slots")
        for dispersion in DISPERSIONS:
            results, _ = self._panes(dispersion, PANE_SLOTS)
            for policy in POLICIES:
                outcome, _ = run_windows(results, costs, WINDOWS, slots, policy, LENGTH_S)
                rows.append({"figure": 12, "dispersion": dispersion, "policy": policy, "slots": slots, **asdict(outcome)})
            tell(
                f"I = {dispersion:,}: {rows[-2]['throughput']:.0%} of the ideal rate in turn, {rows[-1]['throughput']:.0%} by feedback"
            )
        for dispersion, pane_slots in BALANCED.items():
            results, _ = self._panes(dispersion, pane_slots)
            for n in SLOTS:
                for policy in POLICIES:
                    outcome, _ = run_windows(results, costs, WINDOWS, n, policy, LENGTH_S)
                    rows.append({"figure": 13, "dispersion": dispersion, "policy": policy, "slots": n, **asdict(outcome)})
        feedback = [row["throughput"] for row in rows if row["figure"] == 12 and row["policy"] == "WIN_FB"]
        turn = [row["throughput"] for row in rows if row["figure"] == 12 and row["policy"] == "WIN_RR"]
        latency = [[row["latency_s"] for row in rows if row["figure"] == 12 and row["policy"] == policy] for policy in POLICIES]
        many = [row for row in rows if row["figure"] == 13 and row["slots"] > 5]
        worse = [one["imbalance"] / two["imbalance"] for one, two in zip(many[::2], many[1::2], strict=True)]
        return Findings(
            rows,
            [
                Claim(
                    "WIN_FB keeps at least 90 % of the ideal rate up to I = 8,000",
                    f"WIN_FB keeps at least {min(feedback):.0%}",
                    min(feedback) >= 0.9,
                ),
                Claim(
                    "WIN_RR drops with bursts and is always below WIN_FB",
                    f"WIN_RR keeps {turn[0]:.0%} at I = 100 and {turn[-1]:.0%} at I = 8,000, against {feedback[0]:.0%} and {feedback[-1]:.0%}",
                    turn[-1] < 0.9 and all(one <= two + 1e-9 for one, two in zip(turn, feedback, strict=True)),
                ),
                Claim(
                    "(ours) windows come out later in turn than by feedback",
                    "mean latency in turn and by feedback: "
                    + ", ".join(
                        f"{one:.1f} and {two:.1f} s (I = {d:,})" for d, one, two in zip(DISPERSIONS, *latency, strict=True)
                    ),
                    all(one > two for one, two in zip(*latency, strict=True)),
                ),
                Claim(
                    "with more than five slots the load is less balanced with WIN_RR",
                    f"the load ratio of WIN_RR is {min(worse):.2f} to {max(worse):.2f} times that of WIN_FB",
                    all(ratio > 1 for ratio in worse),
                ),
            ],
            f"{slots} window slots, the fewest for a steady stream, and {PANE_SLOTS} pane slots. Queues are unbounded, so over a long stream the rate is "
            f"that of the mean load, which is as even in turn as by feedback; what bursts cost in turn is time. {costs.origin}",
        )

    def _panes(self, dispersion: int, slots: int) -> tuple[list, object]:  # type: ignore[type-arg]
        stream = burst_stream(RATE_HZ, dispersion, WINDOWS, LENGTH_S, changing=False)
        outcome, stage = run_panes(stream, p3_costs(), AS_PID, slots)
        return stage.results, outcome

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw both figures."""
        axes = figure.subplots(1, 3)
        for policy in POLICIES:
            mine = [row for row in rows if row["figure"] == 12 and row["policy"] == policy]
            axes[0].plot([row["dispersion"] for row in mine], [row["throughput"] for row in mine], marker=".", label=policy)
            for axis, dispersion in zip(axes[1:], BALANCED, strict=True):
                mine = [row for row in rows if (row["figure"], row["policy"], row["dispersion"]) == (13, policy, dispersion)]
                axis.plot([row["slots"] for row in mine], [row["imbalance"] for row in mine], marker=".", label=policy)
                axis.set(title=f"load ratio, I = {dispersion:,}", xlabel="window slots")
        axes[0].set(title="share of the ideal rate", xlabel="index of dispersion", ylim=(0, 1.05))
        axes[0].legend(frameon=False)


EXPERIMENT = WindowTasks()
