"""F11: splitting all panes evenly, or as little as the load allows (P0 Fig. 11)."""

from collections.abc import Sequence
from dataclasses import asdict

from matplotlib.figure import Figure

from skytide.lab.experiment import Claim, Experiment, Findings, Progress, Row
from skytide.lab.scenarios import burst_stream
from skytide.routing import AS_PID, PB_RR, TB_RR
from skytide.sim import Costs, known_costs, run_panes
from skytide.windows import Windows

PANES, RATE_HZ, DISPERSION, LENGTH_S = Windows(100_000, 100_000), 80_000, 1_000.0, 60.0
WORKERS = tuple(range(1, 13))
ENOUGH = 7  # workers with which P0's PID removes the bottleneck
EIGHT_SPLIT = 5.18  # ways, with eight workers


class EvenSplitting(Experiment):
    """TB_RR and AS_PID with 1 to 12 workers."""

    id = "F11"
    title = "even splitting against the PID's"
    source = "P0 Fig. 11"

    def measure(self, tell: Progress) -> Findings:
        """Simulate both with every number of workers."""
        stream = burst_stream(RATE_HZ, DISPERSION, PANES, LENGTH_S, changing=False)
        costs = p0_pane_costs()
        rows: list[Row] = []
        per_pane = RATE_HZ * PANES.slide_us / 1e6
        for strategy in (TB_RR, AS_PID):
            for workers in WORKERS:
                outcome, _ = run_panes(stream, costs, strategy, workers, period_s=0.25, warm_up_s=20.0)
                rows.append(
                    {"strategy": strategy.name, "workers": workers, "kept_share": outcome.kept_a_pane / per_pane, **asdict(outcome)}
                )
            tell(f"{strategy.name}: " + ", ".join(f"{row['utilisation']:.2f}" for row in rows[-len(WORKERS) :]))
        whole, _ = run_panes(stream, costs, PB_RR, WORKERS[-1])
        even = {row["workers"]: row for row in rows if row["strategy"] == "TB_RR"}
        tuned = {row["workers"]: row for row in rows if row["strategy"] == "AS_PID"}
        enough = next((n for n in WORKERS if tuned[n]["utilisation"] < 1), None)
        claims = [
            Claim(
                "27 % of the tuples reach the window level without splitting, 58 % when split twelve ways",
                f"{whole.kept_a_pane / per_pane:.0%} without splitting, {even[12]['kept_share']:.0%} when split twelve ways",
                abs(whole.kept_a_pane / per_pane - 0.27) < 0.07 and abs(even[12]["kept_share"] - 0.58) < 0.10,
            ),
            Claim(
                "seven workers are enough with the PID", f"{enough} are enough", enough is not None and abs(enough - ENOUGH) <= 1
            ),
            Claim(
                "with eight workers the PID splits panes 5.18 ways and 43 % of the tuples pass, in place of 54 %",
                f"with eight: {tuned[8]['splitting_factor']:.2f} ways, {tuned[8]['kept_share']:.0%} in place of {even[8]['kept_share']:.0%}",
                abs(tuned[8]["splitting_factor"] - EIGHT_SPLIT) < 1 and abs(tuned[8]["kept_share"] - 0.43) < 0.05,
            ),
            Claim(
                "with too few workers it splits as much as possible",
                f"with four: {tuned[4]['splitting_factor']:.2f} of 4",
                tuned[4]["splitting_factor"] > 3.5,
            ),
        ]
        return Findings(rows, claims, costs.origin)

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw utilisation and the share of tuples that pass."""
        for axis, strategy in zip(figure.subplots(1, 2), ("TB_RR", "AS_PID"), strict=True):
            mine = [row for row in rows if row["strategy"] == strategy]
            axis.bar([row["workers"] for row in mine], [row["kept_share"] for row in mine], color="0.85", label="share that passes")
            axis.plot([row["workers"] for row in mine], [row["utilisation"] for row in mine], marker="o", label="utilisation")
            if strategy == "AS_PID":
                axis.plot(
                    WORKERS, [row["splitting_factor"] / row["workers"] for row in mine], marker=".", label="splitting / workers"
                )
            axis.axhline(0.9, color="0.6", ls=":", lw=0.8)
            axis.set(title=strategy, xlabel="workers", ylim=(0, 2))
            axis.legend(frameon=False)


def p0_pane_costs() -> Costs:
    """Give the costs of P0's machine: eight workers are at the setpoint when panes are split 5.18 ways."""
    measured = known_costs("bnl")
    size = int(RATE_HZ * PANES.slide_us / 1e6 / EIGHT_SPLIT)
    load = measured.curves["independent"].busy_by_size[size] * EIGHT_SPLIT / (PANES.slide_us / 1e6)
    return measured.faster(load / (8 * 0.9), "scaled to P0 Fig. 11: utilisation 0.9 with 8 workers and panes split 5.18 ways")


EXPERIMENT = EvenSplitting()
