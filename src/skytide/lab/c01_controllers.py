"""C1: all controllers, a static peak and Spark's own allocation on the same loads (beyond the papers)."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from math import pi, sin

import numpy as np
import pyarrow.parquet as pq
from matplotlib.figure import Figure

from skytide.control import CONTROLLERS, Controller, ControllerLogic, Guard, Static
from skytide.lab.experiment import Claim, Experiment, Findings, Progress, Row
from skytide.lab.l01_scale import busiest_day
from skytide.lab.real_data import data
from skytide.records import Allocation, Decision, Evaluation
from skytide.sim.operator import Operator
from skytide.sim.replay import play

PEAK, USED = 8, 0.8  # workers that the peak needs, and how far it uses them
SERVICE_S, LEAD_S, COLD_S = 0.0025, 8.0, 3.0  # as measured on a standalone cluster
BOUND_S = 5.0
GOAL, ALLOWED = 0.4, 0.01


@dataclass(frozen=True)
class SparkAllocation(Controller):
    """Spark's dynamic allocation: twice as many while tasks wait, and one goes when it had no task for a minute.

    A query that runs a batch every few seconds gives every executor a task in each, so that none is ever idle for so long.
    """

    def build(self, resume: object = None) -> ControllerLogic:
        """Give the logic; it has no state."""
        return _SparkAllocation()


class _SparkAllocation(ControllerLogic):
    def decide(self, seen: Evaluation, *, now_s: float) -> Decision:
        present = seen.seen.allocation
        waiting = seen.utilisation > 1
        wanted = 2 * present.workers if waiting else present.workers
        return Decision(present.with_workers(wanted), f"{'tasks wait' if waiting else 'no task waits'}: {wanted}")

    def snapshot(self) -> dict[str, object]:
        return {}


@dataclass(frozen=True)
class Load:
    """A load by steps, up to 1, and how often it is looked at."""

    rates: Callable[[], np.ndarray]
    step_s: float
    interval_s: float
    down_after_s: float


def hill() -> np.ndarray:
    """Rise and fall within six minutes, as in `make bench-scaling`."""
    return np.array([0.1 + 0.9 * sin(pi * at / 360) ** 4 for at in range(360)])


def world_cup() -> np.ndarray:
    """Give a day of a web site by minutes, each divided into steps of 10 s."""
    return np.repeat(busiest_day()[1], 6)


def quotes() -> np.ndarray:
    """Give the quotes of a trading day by minutes: from one to the next the rate may double."""
    times = pq.read_table(data("quotes_20131007.parquet"), columns=["ts"])["ts"].cast("int64").to_numpy() // 60_000_000
    return np.repeat(np.bincount(times - times.min()).astype(float), 6)


LOADS = {
    "hill": Load(hill, 1.0, 5.0, 15.0),
    "World Cup": Load(world_cup, 10.0, 30.0, 120.0),
    "quotes": Load(quotes, 10.0, 30.0, 120.0),
}
CONTESTANTS: dict[str, Controller] = {
    "static peak": Static(PEAK),
    "Spark's own": SparkAllocation(),
    **{name: make() for name, make in CONTROLLERS.items() if name != "static"},
}


class Comparison(Experiment):
    """Three loads, each scaled so that its peak needs eight workers."""

    id = "C1"
    title = "all controllers on the same loads"
    source = "beyond the papers"

    def measure(self, tell: Progress) -> Findings:
        """Play each load with each controller."""
        rows: list[Row] = []
        for name, load in LOADS.items():
            rates = load.rates()
            rates_hz = rates / rates.max() * PEAK * USED / SERVICE_S
            for contestant, controller in CONTESTANTS.items():
                first = PEAK if contestant == "static peak" else max(1, round(rates_hz[0] * SERVICE_S / USED))
                plant = Operator(
                    rates_hz, SERVICE_S, step_s=load.step_s, start=Allocation(first), lead_s=LEAD_S, cold_s=COLD_S, service_cv=0.3
                )
                guard = Guard(1, PEAK, scale_down_after=timedelta(seconds=load.down_after_s) if load.down_after_s else 0)
                found = play(plant, controller, guard, interval_s=load.interval_s, bound_s=BOUND_S).saso
                rows.append({"load": name, "contestant": contestant, **asdict(found)})
            static = next(row["worker_seconds"] for row in rows if row["load"] == name)
            for row in rows:
                if row["load"] == name:
                    row["saved"] = 1 - row["worker_seconds"] / static
            tell(f"{name}: " + ", ".join(_said(row) for row in rows if row["load"] == name))
        return Findings(rows, [_claim(rows, name) for name in LOADS], _notes())

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw what was saved over what was in violation: best is top left."""
        for axis, name in zip(figure.subplots(1, len(LOADS), sharey=True), LOADS, strict=True):
            for row in (row for row in rows if row["load"] == name):
                axis.plot(100 * row["violation_share"], 100 * row["saved"], "o")
                axis.annotate(row["contestant"], (100 * row["violation_share"], 100 * row["saved"]), fontsize=8)
            axis.axhline(100 * GOAL, color="0.7", lw=0.8)
            axis.axvline(100 * ALLOWED, color="0.7", lw=0.8)
            axis.set(title=name, xlabel=f"intervals later than {BOUND_S:g} s (%)", xscale="symlog", xlim=(-0.3, 100))
        figure.axes[0].set(ylabel="worker seconds saved (%)")


def _claim(rows: Sequence[Row], load: str) -> Claim:
    own = [row for row in rows if row["load"] == load and row["contestant"] in CONTROLLERS]
    good = [row for row in own if row["violation_share"] <= ALLOWED]
    best = max(good, key=lambda row: float(row["saved"]), default=None)
    return Claim(
        f"(ours) {load}: a controller saves at least {GOAL:.0%} of the static peak with at most {ALLOWED:.0%} of the intervals in violation",
        f"{load}: best {_said(best) if best else 'none without too many violations'}",
        best is not None and best["saved"] >= GOAL,
    )


def _said(row: Row) -> str:
    return f"{row['contestant']} saves {row['saved']:.0%} with {row['violation_share']:.1%} in violation and {row['reconfigurations']} changes"


def _notes() -> str:
    return (
        f"simulated: a tuple takes {SERVICE_S * 1e3:g} ms, a worker comes {LEAD_S:g} s after it was asked for, is paid from then on, and is cold for {COLD_S:g} s; a violation "
        f"is an interval with a mean latency above {BOUND_S:g} s. Spark's own allocation is modelled by what it does; `make bench-scaling` runs the real one"
    )


EXPERIMENT = Comparison()
