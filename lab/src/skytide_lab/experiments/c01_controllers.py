"""C1: all controllers, a static peak and Spark's own allocation on the same loads (beyond the papers)."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from math import pi, sin
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from matplotlib.figure import Figure

from skytide.control import CONTROLLERS, Controller, ControllerLogic, Guard, Static, controller_of
from skytide.records import Decision, Evaluation
from skytide.sim.replay import play
from skytide_lab.data.real_data import data
from skytide_lab.experiments.estimate import Mean, column, mean_of
from skytide_lab.experiments.experiment import SEEDS, Experiment, Findings, Piece, Row
from skytide_lab.experiments.l01_scale import busiest_day
from skytide_lab.experiments.verdict import Claim, of_all
from skytide_lab.sim.plants.micro_batches import Costs, MicroBatches

PEAK, USED = 8, 0.65  # workers that the peak needs, and the share of their time that its rows take
COSTS = Costs(row_s=0.0025, task_s=0.01, batch_s=0.3, lead_s=8.0, cold_s=3.0)  # as measured on a standalone cluster
TRIGGER_S, TASKS = 2.0, 2 * PEAK
BOUND_S = 5.0
GOAL, ALLOWED = 0.4, 0.01


@dataclass(frozen=True)
class SparkAllocation(Controller):
    """Spark's dynamic allocation: twice as many executors while tasks wait, and one goes when it has had no task for a minute.

    A query that runs a batch every few seconds gives every executor a task in each batch, so none is ever idle that long.
    """

    def build(self, resume: object = None) -> ControllerLogic:
        """Return the logic; it has no state."""
        return _SparkAllocation()


class _SparkAllocation(ControllerLogic):
    def decide(self, seen: Evaluation, *, now_s: float) -> Decision:
        present = seen.seen.allocation
        waiting = seen.demand_ratio > 1
        wanted = 2 * present.workers if waiting else present.workers
        return Decision(present.with_workers(wanted), f"{'tasks wait' if waiting else 'no task waits'}: {wanted}")

    def snapshot(self) -> dict[str, object]:
        return {}


@dataclass(frozen=True)
class Load:
    """A load in steps, and how often a controller looks at it."""

    rates: Callable[[], np.ndarray]
    step_s: float
    interval_s: float
    down_after_s: float


def hill() -> np.ndarray:
    """Return a load that rises and falls within six minutes, as in `make bench-scaling`."""
    return np.array([0.1 + 0.9 * sin(pi * at / 360) ** 4 for at in range(360)])


def world_cup() -> np.ndarray:
    """Return the load of a web site over a day, minute by minute, in steps of 10 s."""
    return np.repeat(busiest_day()[1], 6)


def quotes() -> np.ndarray:
    """Return the quotes of a trading day, minute by minute, in steps of 10 s: the rate may double from one minute to the next."""
    times = pq.read_table(data("quotes_20131007.parquet"), columns=["ts"])["ts"].cast("int64").to_numpy() // 60_000_000
    return np.repeat(np.bincount(times - times.min()).astype(float), 6)


LOADS = {
    "hill": Load(hill, 1.0, 5.0, 15.0),
    "World Cup": Load(world_cup, 10.0, 30.0, 120.0),
    "quotes": Load(quotes, 10.0, 30.0, 120.0),
}
STATIC, SPARKS = "static peak", "Spark's own"
CONTESTANTS: dict[str, Controller] = {
    STATIC: Static(PEAK),
    SPARKS: SparkAllocation(),
    **{name: make() for name, make in CONTROLLERS.items() if name != "static"},
    "mpc:4 s": controller_of("mpc:4 s"),
}


@dataclass(frozen=True)
class Comparison(Experiment):
    """Three loads, each scaled so that its peak needs eight workers."""

    id = "C1"
    title = "all controllers on the same loads"
    source = "beyond the papers"
    question = "How much does each controller save, compared with as many workers as the peak needs, and how often is it too late?"
    seconds = 120.0

    seeds: Sequence[int] = SEEDS
    steps: int | None = None

    def pieces(self) -> Sequence[Piece]:
        """Return one piece per load and controller."""
        return [(load, contestant) for load in reversed(LOADS) for contestant in CONTESTANTS]

    def play(self, *piece: Any) -> list[Row]:
        """Play a load with a controller, several times, and return the rows."""
        name, contestant = piece
        load, controller = LOADS[name], CONTESTANTS[contestant]
        rates = load.rates()[: self.steps]
        usual_hz = np.repeat(rates / rates.max() * PEAK * USED / COSTS.row_s, round(load.step_s))
        first = PEAK if contestant == STATIC else max(1, round(usual_hz[0] * COSTS.row_s / USED))
        rows: list[Row] = []
        for seed in self.seeds:
            rates_hz = np.random.default_rng(seed).poisson(usual_hz).astype(float).tolist()
            plant = MicroBatches(rates_hz, COSTS, first, partitions=TASKS, trigger_s=TRIGGER_S)
            guard = Guard(1, PEAK, scale_down_after=timedelta(seconds=load.down_after_s) if load.down_after_s else 0)
            measured = play(plant, controller, guard, interval_s=load.interval_s, bound_s=BOUND_S).saso
            saved = 1 - measured.worker_seconds / (PEAK * len(rates_hz))
            rows.append({"load": name, "contestant": contestant, "seed": seed, "saved": saved, **asdict(measured)})
        return rows

    def conclude(self, rows: Sequence[Row]) -> Findings:
        """Judge the controllers on each load, and return the findings."""
        return Findings([_claim(rows, name) for name in LOADS], _notes(rows))

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw the worker seconds saved against the share of violations: the best are at the top left."""
        for axis, name in zip(figure.subplots(1, len(LOADS), sharey=True), LOADS, strict=True):
            for contestant in CONTESTANTS:
                late, saved = (_mean(rows, name, contestant, what) for what in ("violation_share", "saved"))
                axis.errorbar(100 * late.mean, 100 * saved.mean, 100 * saved.half, 100 * late.half, "o")
                axis.annotate(contestant, (100 * late.mean, 100 * saved.mean), fontsize=8)
            axis.axhline(100 * GOAL, color="0.7", lw=0.8)
            axis.axvline(100 * ALLOWED, color="0.7", lw=0.8)
            axis.set(title=name, xlabel=f"intervals later than {BOUND_S:g} s (%)", xscale="symlog", xlim=(-0.3, 100))
        figure.axes[0].set(ylabel="worker seconds saved (%)")


def _mean(rows: Sequence[Row], load: str, contestant: str, what: str) -> Mean:
    return mean_of(column(rows, what, load=load, contestant=contestant))


def _claim(rows: Sequence[Row], load: str) -> Claim:
    own = {
        name: (_mean(rows, load, name, "saved"), _mean(rows, load, name, "violation_share"))
        for name in CONTESTANTS
        if name not in (STATIC, SPARKS)
    }
    good = {name: saved.low >= GOAL and late.high <= ALLOWED for name, (saved, late) in own.items()}
    best = max((name for name in own if own[name][1].mean <= ALLOWED), key=lambda name: own[name][0].mean, default=None)
    return Claim(
        f"(ours) {load}: controllers save at least {GOAL:.0%} of the static peak with violations in at most {ALLOWED:.0%} of the intervals",
        f"{load}: best {_figures(rows, load, best) if best else 'none without too many violations'}",
        of_all(good.values()),
        "" if all(good.values()) else "not " + ", ".join(_figures(rows, load, name) for name, yes in good.items() if not yes),
    )


def _figures(rows: Sequence[Row], load: str, name: str) -> str:
    saved, late, changes = (_mean(rows, load, name, what) for what in ("saved", "violation_share", "reconfigurations"))
    return f"{name} saves {saved:.0%} with {late:.1%} violations and {changes:.0f} changes"


def _notes(rows: Sequence[Row]) -> str:
    table = "; ".join(
        f"{load}: " + ", ".join(_figures(rows, load, name) for name in CONTESTANTS if name != STATIC) for load in LOADS
    )
    return (
        f"means over seeds with 95 % confidence intervals; simulated: batches every {TRIGGER_S:g} s of {TASKS} tasks, {COSTS.batch_s:g} s beside its tasks, a row takes {COSTS.row_s * 1e3:g} ms, an executor comes {COSTS.lead_s:g} s after it was requested, and is cold for {COSTS.cold_s:g} s; a violation "
        f"is an interval with a mean latency above {BOUND_S:g} s. Spark's own allocation is modelled by what it does; `make bench-scaling` runs the real one. {table}"
    )


EXPERIMENT = Comparison()
TOY = Comparison(seeds=(0, 1), steps=120)
