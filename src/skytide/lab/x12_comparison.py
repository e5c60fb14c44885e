"""X12: model predictive control against rules and the strategy of SPL (P2 Tab. 7)."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from skytide.control.controller import Controller
from skytide.control.rules import Rules
from skytide.control.spl import Spl
from skytide.lab.experiment import Claim, Experiment, Findings, Progress, Row
from skytide.lab.trading import Run, play, real_rates, strategy

RUNS = 10
TH_NODE = strategy("Th-Node", real=True, horizon=2)
CASES: dict[str, tuple[Controller, int]] = {
    "rules 0.90/0.80": (Rules(0.9, 0.8), 4),
    "rules 0.95/0.80": (Rules(0.95, 0.8), 4),
    "SPL": (Spl(congestion=0.1, sensitivity=0.9), 4),
    "Th-Node 4 s": (TH_NODE, 4),
    "Th-Node 2 s": (TH_NODE, 2),
}
P2_TABLE = {
    "rules 0.90/0.80": (39.17, 62, 1.07, 4.63),
    "rules 0.95/0.80": (29, 59, 1.06, 4.58),
    "SPL": (40.18, 58, 1, 4.63),
    "Th-Node 4 s": (11, 56, 1, 4.51),
    "Th-Node 2 s": (24.77, 54, 1.04, 4.50),
}
MEASURES = {
    "reconfigurations": "reconfigurations",
    "violations": "violations",
    "amplitude": "amplitude",
    "mean_workers": "replicas",
}
OURS, OTHERS = "Th-Node 4 s", ("rules 0.90/0.80", "rules 0.95/0.80", "SPL")


class Comparison(Experiment):
    """Five controllers on the real quotes."""

    id = "X12"
    title = "model predictive control, rules and SPL on real quotes"
    source = "P2 Tab. 7"

    def measure(self, tell: Progress) -> Findings:
        """Play each controller several times."""
        rows: list[Row] = []
        for name, (controller, interval_s) in CASES.items():
            runs = [play(real_rates(), controller, interval_s=interval_s, seed=seed) for seed in range(RUNS)]
            rows.append(
                {"controller": name, **_means(runs), **{f"p2_{m}": v for m, v in zip(MEASURES, P2_TABLE[name], strict=True)}}
            )
            tell(
                f"{name}: " + ", ".join(f"{label} {rows[-1][m]:.2f} (P2: {rows[-1]['p2_' + m]:g})" for m, label in MEASURES.items())
            )
        return Findings(
            rows, [_fewest(rows, measure, label) for measure, label in MEASURES.items() if measure != "amplitude"], NOTES
        )

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw each measure beside P2's."""
        for axis, (measure, label) in zip(figure.subplots(2, 2).flat, MEASURES.items(), strict=True):
            at = np.arange(len(rows))
            axis.bar(at, [row[measure] for row in rows], width=0.38, label="here")
            axis.bar(at + 0.4, [row["p2_" + measure] for row in rows], width=0.38, label="P2")
            axis.set_xticks(at + 0.2, [row["controller"] for row in rows], fontsize=8)
            axis.set(ylabel=label)
        figure.axes[0].legend(frameon=False)


NOTES = (
    f"means of {RUNS} runs; violations are counted every second, as P2 has more of them than control steps. The quotes are three symbols of "
    "one day in 2013, rougher and with a lower mean than P2's 2,836 symbols; SPL's congestion is what comes in beyond what can be "
    "served over a whole control step, so that it does not see bursts within one"
)


def _means(runs: list[Run]) -> Row:
    return {measure: float(np.mean([getattr(run.saso, measure) for run in runs])) for measure in MEASURES}


def _fewest(rows: list[Row], measure: str, label: str) -> Claim:
    """Give P2's claim that its strategy has the fewest of something."""
    value = {row["controller"]: row[measure] for row in rows}
    paper = ", ".join(f"{row['p2_' + measure]:g} ({row['controller']})" for row in rows if row["controller"] in (OURS, *OTHERS))
    found = ", ".join(f"{value[name]:.2f} ({name})" for name in (OURS, *OTHERS))
    return Claim(f"Th-Node has the fewest {label}: {paper}", f"{label}: {found}", all(value[OURS] < value[name] for name in OTHERS))


EXPERIMENT = Comparison()
