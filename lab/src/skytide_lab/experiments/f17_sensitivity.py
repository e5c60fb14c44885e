"""F17: how often the controller decides, and how often the PID samples (P0 §5.3, Fig. 17)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from skytide.control.controllers.fuzzy import Fuzzy
from skytide_lab.experiments.elastic_ppq import (
    SETPOINT,
    TABLES_SETPOINT,
    TABLES_THREADS,
    WINDOWS,
    p0_costs,
    p0_splitting,
    stream,
    summary,
)
from skytide_lab.experiments.estimate import column, mean_of
from skytide_lab.experiments.experiment import SEEDS, Experiment, Findings, Piece, Row
from skytide_lab.experiments.verdict import Claim, flips, of_all
from skytide_lab.sim.plants.elastic import ElasticPlant, run_elastic

TENS = 10  # the least number of samples per interval that counts as "tens"
SETPOINTS = (SETPOINT, TABLES_SETPOINT, 0.8)
"""The one that P0 names in its text, that of the runs behind its tables, which include Game1, and one between: the figure does not say which it had."""


@dataclass(frozen=True)
class Sensitivity(Experiment):
    """Plays the skyline of Game1 with several lengths of the control interval and of the PID's sampling period."""

    id = "F17"
    title = "control interval and PID period"
    source = "P0 Fig. 17"
    question = "How do the lengths of the control interval and of the sampling period affect how exactly the setpoint is kept and how steady the throughput is?"
    seconds = 140.0

    seeds: Sequence[int] = SEEDS
    fewer_seeds: Sequence[int] = SEEDS[:2]
    length_s: float | None = None
    intervals_s: Sequence[float] = (1.0, 2.5, 5.0, 10.0)
    periods_s: Sequence[float] = (0.25, 0.5, 1.0)

    def pieces(self) -> Sequence[Piece]:
        """Return one piece per seed and interval; fewer for setpoints other than that of the text."""
        others = product(self.fewer_seeds, self.intervals_s, SETPOINTS[1:])
        return sorted([*product(self.seeds, self.intervals_s, SETPOINTS[:1]), *others])

    def play(self, *piece: Any) -> list[Row]:
        """Play the stream with one control interval and all periods, and return the rows."""
        seed, interval_s, setpoint = piece
        came = stream("Game1").traffic(seed, self.length_s)
        rows: list[Row] = []
        for period_s in self.periods_s:
            plant = ElasticPlant(came, p0_costs(), WINDOWS, period_s=period_s, strategy=p0_splitting(setpoint))
            cycles = run_elastic(plant, Fuzzy(maximum=TABLES_THREADS), came.length_s, interval_s=interval_s, threads=TABLES_THREADS)
            measured = summary(plant, cycles, came.length_s, threads=TABLES_THREADS)
            labels = {"seed": seed, "setpoint": setpoint, "interval_s": interval_s, "period_s": period_s}
            rows.append({**labels, "error": abs(measured["sampled_utilisation"] / setpoint - 1), **measured})
        return rows

    def conclude(self, rows: Sequence[Row]) -> Findings:
        """Judge the setpoint of the text, note what others change, and return the findings."""
        claims = {setpoint: _claims([row for row in rows if row["setpoint"] == setpoint]) for setpoint in SETPOINTS}
        base = claims[SETPOINT]
        errors = {setpoint: column(rows, "error", setpoint=setpoint) for setpoint in SETPOINTS}
        others = ". ".join(
            f"With {setpoint} the error is {min(errors[setpoint]):.1%} to {max(errors[setpoint]):.1%}: {flips(base, claims[setpoint])}"
            for setpoint in SETPOINTS[1:]
        )
        return Findings(
            base,
            f"Means over seeds with 95 % confidence intervals, on Game1 with a setpoint of {SETPOINT}, as in P0's text; its figure does not name one, and the published runs of Game1 have two. {others}. "
            "The lengths are ours, as P0 shows its own only in the figure; periods are at least 250 ms, as in P0: shorter ones "
            "than the 200 ms in which a pane arrives see only one pane. The error is that of the plain mean of all samples after the first 25 s. P0's figure plots values other "
            f"than its published run outputs, which show no trend. {p0_costs().origin}",
        )

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw a line per interval, with the setpoint of the text."""
        rows = [row for row in rows if row["setpoint"] == SETPOINT]
        for axis, name in zip(figure.subplots(1, 2), ("error", "cv"), strict=True):
            for interval_s in sorted({row["interval_s"] for row in rows}):
                periods = sorted({row["period_s"] for row in rows})
                means = [mean_of(column(rows, name, interval_s=interval_s, period_s=p)) for p in periods]
                axis.errorbar(periods, [m.mean for m in means], [m.half for m in means], marker="o", label=f"{interval_s:g} s")
            axis.set(title=name, xlabel="PID period (s)", ylim=(0, None))
        figure.axes[0].legend(frameon=False, title="control interval")


def _claims(rows: Sequence[Row]) -> list[Claim]:
    """Compare many samples per interval with few."""
    cases = sorted({(row["interval_s"], row["period_s"]) for row in rows})
    errors = {case: mean_of(column(rows, "error", interval_s=case[0], period_s=case[1])) for case in cases}
    many = {case: error for case, error in errors.items() if case[0] / case[1] >= TENS}
    few = {case: error for case, error in errors.items() if case[0] / case[1] < TENS}
    intervals = sorted({case[0] for case in cases})
    cvs = [mean_of(column(rows, "cv", interval_s=interval)) for interval in intervals]
    means = [fmean(error.mean for error in part.values()) if part else float("nan") for part in (many, few)]
    return [
        Claim(
            "with tens of samples per interval the error is 1 to 2 %",
            f"with {TENS} or more samples: " + ", ".join(f"{error:.1%} ({i:g} s, {p:g} s)" for (i, p), error in many.items()),
            of_all(error.mean <= 0.025 for error in many.values()),
        ),
        Claim(
            "with fewer it is larger",
            f"with fewer samples {means[1]:.1%} on average, instead of {means[0]:.1%}",
            means[1] > means[0],
        ),
        Claim(
            "the CV of the throughput grows with the interval",
            ", ".join(f"{cv:.2f} ({i:g} s)" for i, cv in zip(intervals, cvs, strict=True)),
            of_all(one.mean <= two.mean for one, two in pairwise(cvs)),
        ),
    ]


EXPERIMENT = Sensitivity()
TOY = Sensitivity(seeds=(0, 1), fewer_seeds=(0,), length_s=30.0, intervals_s=(1.0, 5.0), periods_s=(0.25, 0.5))
