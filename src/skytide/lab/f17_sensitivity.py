"""F17: how often the controller decides, and how often the PID samples (P0 Fig. 17)."""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from statistics import fmean

from matplotlib.figure import Figure

from skytide.control.fuzzy import Fuzzy
from skytide.lab.elastic_ppq import SETPOINT, WINDOWS, p0_costs, stream, summary
from skytide.lab.experiment import Claim, Experiment, Findings, Progress, Row
from skytide.sim.elastic import THREADS, ElasticPlant, Reading, run_elastic

INTERVALS_S = (1.0, 2.5, 5.0, 10.0)
PERIODS_S = (0.1, 0.25, 0.5, 1.0)
LENGTH_S = 415.0  # all of Game1
READINGS: tuple[Reading, ...] = ("samples", "interval")
TENS = 10  # samples an interval


class Sensitivity(Experiment):
    """Game1 with skyline, over lengths of the control interval and of the PID's samples."""

    id = "F17"
    title = "control interval and PID period"
    source = "P0 Fig. 17"

    def measure(self, tell: Progress) -> Findings:
        """Simulate every pair, by either reading of the pane level's utilisation."""
        p0_costs()
        rows: list[Row] = []
        with ProcessPoolExecutor(2) as processes:
            for found in processes.map(simulate, [(reading, interval_s) for reading in READINGS for interval_s in INTERVALS_S]):
                rows += found
                said = ", ".join(f"{row['error']:.1%} ({row['period_s']:g} s)" for row in found)
                tell(f"judged by {found[0]['reading']}, decision every {found[0]['interval_s']:g} s: error {said}")
        return Findings(
            rows,
            [claim for reading in READINGS for claim in self._claims([row for row in rows if row["reading"] == reading], reading)],
            "Game1; the lengths are ours, as P0's are only in its figure; the error is that of the mean of all samples after the first 25 s. P0 does "
            "not say how the controller reads the utilisation (see X6). Judged over the interval, there are only as many workers as the interval "
            "needs: with samples shorter than the time in which the tuples of a pane arrive (200 ms), no splitting brings those few down to 0.9. "
            f"{p0_costs().origin}",
        )

    def _claims(self, rows: Sequence[Row], reading: str) -> list[Claim]:
        many = [row["error"] for row in rows if row["interval_s"] / row["period_s"] >= TENS]
        few = [row["error"] for row in rows if row["interval_s"] / row["period_s"] < TENS]
        cvs = {i: fmean(row["cv"] for row in rows if row["interval_s"] == i) for i in INTERVALS_S}
        return [
            Claim(
                f"with tens of samples an interval the error is 1 to 2 % (judged by {reading})",
                f"by {reading}, with {TENS} and more samples: {min(many):.1%} to {max(many):.1%}",
                max(many) <= 0.02,
            ),
            Claim(
                f"with fewer it is larger (judged by {reading})",
                f"by {reading}, with fewer samples: {fmean(few):.1%} on average, in place of {fmean(many):.1%}",
                fmean(few) > fmean(many),
            ),
            Claim(
                f"the CV of the throughput grows with the interval (judged by {reading})",
                f"by {reading}: " + ", ".join(f"{cv:.2f} at {i:g} s" for i, cv in cvs.items()),
                all(cvs[one] <= cvs[two] for one, two in pairwise(INTERVALS_S)),
            ),
        ]

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw a line an interval, a row of panels a reading."""
        for axes, reading in zip(figure.subplots(2, 2), READINGS, strict=True):
            for axis, name in zip(axes, ("error", "cv"), strict=True):
                for interval_s in INTERVALS_S:
                    mine = [row for row in rows if (row["reading"], row["interval_s"]) == (reading, interval_s)]
                    axis.plot([row["period_s"] for row in mine], [row[name] for row in mine], marker="o", label=f"{interval_s:g} s")
                axis.set(title=f"{name}, judged by {reading}", xlabel="PID period (s)", ylim=(0, None))
        figure.axes[0].legend(frameon=False, title="control interval")


def simulate(run: tuple[Reading, float]) -> list[Row]:
    """Play the stream with one control interval and all periods."""
    reading, interval_s = run
    came = stream("Game1").traffic(length_s=LENGTH_S)
    rows = []
    for period_s in PERIODS_S:
        plant = ElasticPlant(came, p0_costs(), WINDOWS, period_s=period_s, reading=reading)
        found = summary(plant, run_elastic(plant, Fuzzy(maximum=THREADS), LENGTH_S, interval_s=interval_s), LENGTH_S)
        error = abs(found["sampled_utilisation"] / SETPOINT - 1)
        rows.append({"reading": reading, "interval_s": interval_s, "period_s": period_s, "error": error, **found})
    return rows


EXPERIMENT = Sensitivity()
