"""X12: model predictive control against rules and the strategy of SPL (P2 §5.4, Tab. 7)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from skytide.control.controller import Controller
from skytide.control.controllers.congestion import Congestion
from skytide.control.controllers.utilisation import UtilisationThresholds
from skytide_lab.experiments.estimate import Mean, column, mean_of
from skytide_lab.experiments.experiment import Experiment, Findings, Piece, Row
from skytide_lab.experiments.trading import CHOSEN, OUR_OPERATOR, SLIDE, play, real_rates, strategy
from skytide_lab.experiments.verdict import OPEN, Claim, Verdict, of_all

START = 4  # replicas
TH_NODE = strategy("Th-Node", real=True, horizon=2)
CASES: dict[str, tuple[Controller, int]] = {
    "rules 0.90/0.80": (UtilisationThresholds(0.9, 0.8), 4),
    "rules 0.95/0.80": (UtilisationThresholds(0.95, 0.8), 4),
    "SPL": (Congestion(congestion=0.1, sensitivity=0.9), 4),
    "SPL by load": (Congestion(congestion=0.1, sensitivity=0.9), 4),
    "Th-Node 4 s": (TH_NODE, 4),
    "Th-Node 2 s": (TH_NODE, 2),
}
P2_TABLE = {
    "rules 0.90/0.80": (39.17, 62, 1.07, 4.63),
    "rules 0.95/0.80": (29, 59, 1.06, 4.58),
    "SPL": (40.18, 58, 1, 4.63),
    "SPL by load": (40.18, 58, 1, 4.63),
    "Th-Node 4 s": (11, 56, 1, 4.51),
    "Th-Node 2 s": (24.77, 54, 1.04, 4.50),
}
MEASURES = {
    "reconfigurations": "reconfigurations",
    "violations": "violations",
    "amplitude": "amplitude",
    "mean_workers": "replicas",
}
OURS, RULES, SPLS = "Th-Node 4 s", ("rules 0.90/0.80", "rules 0.95/0.80"), ("SPL", "SPL by load")
"""SPL's congestion is the share of the time in which the splitter is blocked; "by load", it is the load beyond what can be served in a step."""
OTHERS = (*RULES, *SPLS)
CAPACITIES_HZ = (50_000, 55_000, 60_000)
"""Quotes per second and replica: by P2 §5.2.2 between 50,000 and 66,667, as 6 replicas serve 300,000 but not 400,000, which 8 do."""
OUR_HZ = round(SLIDE / OUR_OPERATOR.service_s)
"""What a slot of our own operator serves."""


@dataclass(frozen=True)
class Comparison(Experiment):
    """Plays controllers on the real quotes, with three capacities of a replica."""

    id = "X12"
    title = "model predictive control, rules and SPL on real quotes"
    source = "P2 Tab. 7"
    question = "Does the predictive controller change less often, with fewer violations and fewer replicas, than rules and SPL?"
    seconds = 5.0

    seeds: Sequence[int] = tuple(range(10))
    seconds_played: int | None = None

    def pieces(self) -> Sequence[Piece]:
        """Return one piece per controller and capacity."""
        return [(name, capacity_hz) for capacity_hz in (*CAPACITIES_HZ, OUR_HZ) for name in CASES]

    def play(self, *piece: Any) -> list[Row]:
        """Play a controller several times, and return the rows."""
        name, capacity_hz = piece
        controller, interval_s = CASES[name]
        rates, chosen = (
            real_rates()[: self.seconds_played and self.seconds_played * 10],
            OUR_OPERATOR if capacity_hz == OUR_HZ else replace(CHOSEN, service_s=SLIDE / capacity_hz),
        )
        rows: list[Row] = []
        for seed in self.seeds:
            measured = play(
                rates, controller, interval_s=interval_s, chosen=chosen, start=START, blocking=name == "SPL", seed=seed
            ).saso
            theirs = {f"p2_{measure}": value for measure, value in zip(MEASURES, P2_TABLE[name], strict=True)}
            rows.append(
                {
                    "controller": name,
                    "capacity_hz": capacity_hz,
                    "seed": seed,
                    **{m: float(getattr(measured, m)) for m in MEASURES},
                    **theirs,
                }
            )
        return rows

    def conclude(self, rows: Sequence[Row]) -> Findings:
        """Judge the controllers with each capacity, and return the findings."""
        judged = [(measure, label) for measure, label in MEASURES.items() if measure != "amplitude"]
        ours = [_has_fewest(rows, measure, label, (OUR_HZ,)) for measure, label in judged]
        beside = "; ".join(f"{claim.verdict}: {claim.found}" for claim in ours)
        return Findings(
            [_has_fewest(rows, measure, label) for measure, label in judged],
            f"{NOTES}. With the costs of our own operator, as measured on two cores: {beside}",
        )

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw each measure next to P2's, with the middle capacity."""
        for axis, (measure, label) in zip(figure.subplots(2, 2).flat, MEASURES.items(), strict=True):
            at = np.arange(len(CASES))
            means = [_mean(rows, name, CAPACITIES_HZ[1], measure) for name in CASES]
            axis.bar(at, [m.mean for m in means], 0.38, yerr=[m.half for m in means], label="here")
            axis.bar(at + 0.4, [column(rows, "p2_" + measure, controller=name)[0] for name in CASES], 0.38, label="P2")
            axis.set_xticks(at + 0.2, list(CASES), fontsize=8)
            axis.set(ylabel=label)
        figure.axes[0].legend(frameon=False)


NOTES = (
    "means over runs with 95 % confidence intervals; violations are counted every second, as P2 has more of them than control steps; all start with 4 replicas. P2 does not print the capacity of a replica: "
    f"{', '.join(f'{hz:,}' for hz in CAPACITIES_HZ)} quotes per second are within what §5.2.2 allows, and all are played. SPL's congestion is the share of the time in which the splitter is blocked, or the load beyond what can be served in a control step: P2 does not say how it was measured. The quotes are of three symbols on "
    "one day in 2013, rougher and with a lower mean than P2's 2,836 symbols"
)


def _mean(rows: Sequence[Row], name: str, capacity_hz: int, measure: str) -> Mean:
    return mean_of(column(rows, measure, controller=name, capacity_hz=capacity_hz))


def _has_fewest(rows: Sequence[Row], measure: str, label: str, capacities_hz: Sequence[int] = CAPACITIES_HZ) -> Claim:
    """Return the verdict on P2's claim that its strategy has the fewest of something; if that depends on the capacity, it cannot be told."""
    holds = {}
    text = []
    for capacity_hz in capacities_hz:
        value = {name: _mean(rows, name, capacity_hz, measure) for name in (OURS, *OTHERS)}
        for spl in SPLS:
            holds[f"{capacity_hz:,} quotes per second and {spl}"] = all(
                value[OURS].mean < value[name].mean for name in (*RULES, spl)
            )
        text.append(f"{', '.join(f'{mean:.2f} ({name})' for name, mean in value.items())} at {capacity_hz:,}/s")
    verdict: Verdict = of_all(holds.values())
    open_ = verdict is Verdict.PART
    paper = ", ".join(f"{column(rows, 'p2_' + measure, controller=name)[0]:g} ({name})" for name in (OURS, *OTHERS))
    why = f"it holds with {', '.join(case for case, yes in holds.items() if yes)}; P2 prints neither" if open_ else ""
    return Claim(f"Th-Node has the fewest {label}: {paper}", f"{label}: {'; '.join(text)}", OPEN if open_ else verdict, why)


EXPERIMENT = Comparison()
TOY = Comparison(seeds=(0, 1), seconds_played=20)
