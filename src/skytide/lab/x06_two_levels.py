"""X6: elasticity alone, and together with the splitting of panes (P0 Fig. 9 and 10)."""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from statistics import fmean, median

from matplotlib.figure import Figure

from skytide.control.fuzzy import Fuzzy
from skytide.lab.elastic_ppq import CATCH_UP_S, SETPOINT
from skytide.lab.experiment import Claim, Experiment, Findings, Progress, Row
from skytide.lab.f11_even_splitting import p0_pane_costs
from skytide.lab.real_data import data
from skytide.routing import AS_PID, PB_RR, Splitting
from skytide.sim import traffic
from skytide.sim.elastic import INTERVAL_S, THREADS, ElasticPlant, Reading, run_elastic
from skytide.windows import Windows
from skytide.workloads.workload import Workload

PANES, RATE_HZ, LENGTH_S = Windows(100_000, 100_000), 80_000, 120.0
STEP_S, STEPS_S = 30.0, 180.0
STEP_THREADS = (3, 4, 6, 6)  # P0 Fig. 9, for the first four steps; what the last two have is not said
LATE = {"delay_us": 400_000, "tick_us": 5_000}
STREAMS: dict[str, dict[str, object]] = {
    "MAP": {"rate": RATE_HZ, "arrivals": "map", "dispersion": 1_000.0},
    "self-similar": {"rate": RATE_HZ, "arrivals": "selfsimilar", "hurst": 0.6},
}
WAYS: dict[str, Splitting] = {"elasticity only": PB_RR, "two levels": AS_PID}
READINGS: tuple[Reading, ...] = ("samples", "interval")
RUNS = [(stream, way, reading) for stream in STREAMS for way in WAYS for reading in READINGS] + [
    ("steps", "two levels", reading) for reading in READINGS
]


class TwoLevels(Experiment):
    """The pane level under bursts with and without splitting, and under steps of the rate."""

    id = "X6"
    title = "elasticity with and without splitting"
    source = "P0 Fig. 9, 10"

    def measure(self, tell: Progress) -> Findings:
        """Simulate both streams with both ways, and the steps, by either reading of the utilisation."""
        rows: list[Row] = []
        with ProcessPoolExecutor(2) as processes:
            for (stream, way, reading), found in zip(RUNS, processes.map(simulate, RUNS), strict=True):
                rows += found
                late = [row for row in found if row["end_s"] > CATCH_UP_S]
                said = f"utilisation {_mean(late, 'utilisation'):.2f} ({_mean(late, 'sampled'):.2f} by samples)"
                tell(f"{stream}, {way}, judged by {reading}: {said}, {_mean(late, 'workers'):.1f} workers")
        return Findings(rows, self._claims(rows), self._notes())

    def _claims(self, rows: list[Row]) -> list[Claim]:
        alone = {s: _late(rows, s, "elasticity only", "samples") for s in STREAMS}
        both = {s: _late(rows, s, "two levels", "samples") for s in STREAMS}
        lean = {s: _late(rows, s, "two levels", "interval") for s in STREAMS}
        served = {s: sum(r["processed_hz"] for r in part) / sum(r["arrival_hz"] for r in part) for s, part in alone.items()}
        levels = _levels(rows, "interval")
        return [
            Claim(
                "elasticity only: all 60 workers, and a utilisation of about 3 (MAP)",
                "; ".join(f"{s}: {part[-1]['workers']} workers, {_mean(part, 'sampled'):.2f}" for s, part in alone.items()),
                alone["MAP"][-1]["workers"] == THREADS and 2.2 <= _mean(alone["MAP"], "sampled") <= 3.8,
            ),
            Claim(
                "so the level withstands only a third of what comes in (MAP)",
                "; ".join(f"{s}: {share:.0%} of what came in was done" for s, share in served.items())
                + ", late: queues are unbounded, and a slot that is flooded by a pane is idle until its next one",
                served["MAP"] < 0.5,
            ),
            Claim(
                "two levels: the utilisation stays close to 0.9",
                "; ".join(
                    f"{s}: {_mean(part, 'sampled'):.2f} with {_mean(part, 'workers'):.0f} workers" for s, part in both.items()
                ),
                all(abs(_mean(part, "sampled") - SETPOINT) < 0.1 for part in both.values()),
            ),
            Claim(
                "(ours) judged over the whole interval, both levels need far fewer workers for the same rate",
                "; ".join(
                    f"{s}: {_mean(part, 'workers'):.1f} workers, {_mean(part, 'sampled'):.2f} by samples, {_mean(part, 'utilisation'):.2f} over the interval"
                    for s, part in lean.items()
                ),
                all(_mean(lean[s], "workers") < 0.5 * _mean(both[s], "workers") for s in STREAMS),
            ),
            Claim(
                "steps: 3, 4, 6 and 6 workers for 40,000, 50,000, 70,000 and 80,000 tuples a second",
                "steps: " + ", ".join(f"{n:g}" for n in levels) + " workers, judged over the interval",
                all(abs(found - wanted) <= 1 for found, wanted in zip(levels, STEP_THREADS, strict=False)),
            ),
            Claim(
                "steps: workers come with each step up (the fourth may do without), and go with each step down",
                "steps: " + ", ".join(f"{n:g}" for n in levels),
                levels[0] <= levels[1] <= levels[2] <= levels[3] and levels[3] > levels[4] > levels[5],
            ),
        ]

    def _notes(self) -> str:
        return (
            "the pane level alone: with P0's costs of Tab. 4, windows of 1 s every 0.1 s at these rates need several times its 60 threads. "
            "P0 does not say how the utilisation of a control interval is made of the PID's samples. Their mean stays at 0.9 with any number "
            "of workers, as the PID splits less where there are more; and while panes are split more than 1.5 ways, rule 8 goes on adding "
            "workers, up to the maximum. Over the interval, idle workers show, and workers go: see X8, whose threads come near P0's. "
            f"Rule 8 is also why the steps have more workers than P0's: it did not apply there if the window level was slow, of which Fig. 9 shows nothing. {p0_pane_costs().origin}"
        )

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw utilisation, workers and splitting by interval."""
        panels = [("steps", "two levels")] + [(stream, way) for stream in STREAMS for way in WAYS]
        axes = figure.subplots(2, len(panels), sharex="col")
        for column, (stream, way) in enumerate(panels):
            for row_axes, reading in zip(axes, READINGS, strict=True):
                axis = row_axes[column]
                mine = [r for r in rows if (r["stream"], r["way"], r["reading"]) == (stream, way, reading)]
                times = [r["end_s"] for r in mine]
                axis.bar(times, [r["workers"] for r in mine], INTERVAL_S * 0.9, color="tab:blue", alpha=0.4, label="workers")
                axis.bar(times, [r["splitting"] for r in mine], INTERVAL_S * 0.9, color="tab:orange", alpha=0.7, label="splitting")
                used = axis.twinx()
                used.plot(times, [r["sampled"] for r in mine], color="k", lw=0.8)
                used.set_ylim(0, 5)
                axis.set_title(f"{stream}, {way},\njudged by {reading}", fontsize="small")
        axes[0][0].legend(frameon=False, fontsize="small")
        figure.supxlabel("seconds; line: utilisation by samples, on the right", fontsize="small")


def simulate(run: tuple[str, str, Reading]) -> list[Row]:
    """Play one stream, and give a row for each control interval."""
    stream, way, reading = run
    if stream == "steps":
        made = Workload(arrivals="replay", series=f"{data('rates_papers.parquet')}#artificial", **LATE)  # type: ignore[arg-type]
    else:
        made = Workload(**STREAMS[stream], **LATE)  # type: ignore[arg-type]
    length_s = STEPS_S if stream == "steps" else LENGTH_S
    plant = ElasticPlant(traffic(made, PANES, length_s), p0_pane_costs(), None, strategy=WAYS[way], reading=reading)
    rows: list[Row] = []
    samples = int(INTERVAL_S / plant.period_s)
    for number, cycle in enumerate(run_elastic(plant, Fuzzy(maximum=THREADS), length_s)):
        if cycle.at_s > length_s or cycle.evaluation is None:
            break
        seen = cycle.evaluation.seen
        rows.append(
            {
                "stream": stream,
                "way": way,
                "reading": reading,
                "end_s": cycle.at_s,
                "workers": seen.allocation.workers,
                "utilisation": seen.pane_utilisation,
                "sampled": plant.sampled_utilisation(number * samples, (number + 1) * samples),
                "splitting": seen.splitting_factor,
                "arrival_hz": seen.arrival_rate_hz,
                "processed_hz": seen.processed_rate_hz,
            }
        )
    return rows


def _late(rows: Sequence[Row], stream: str, way: str, reading: str) -> list[Row]:
    mine = [row for row in rows if (row["stream"], row["way"], row["reading"]) == (stream, way, reading)]
    return [row for row in mine if row["end_s"] > CATCH_UP_S]


def _mean(rows: Sequence[Row], name: str) -> float:
    return fmean(row[name] for row in rows if row[name] is not None)


def _levels(rows: Sequence[Row], reading: str) -> list[float]:
    """Give the workers in the second half of each step."""
    mine = [row for row in rows if (row["stream"], row["reading"]) == ("steps", reading)]
    steps = range(int(STEPS_S / STEP_S))
    return [median(r["workers"] for r in mine if (s + 0.5) * STEP_S < r["end_s"] <= (s + 1) * STEP_S) for s in steps]


EXPERIMENT = TwoLevels()
