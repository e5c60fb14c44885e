"""P2's trading application: its machine, its two streams, and a run under a controller (P2 sections 5.1 and 5.3)."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from skytide.control.controller import Controller
from skytide.control.controllers.mpc import Mpc
from skytide.control.guard import Guard
from skytide.control.models.operator import power_w
from skytide.control.saso import KEEPS_UP, Saso, Step, saso
from skytide.records import Allocation, Observation
from skytide.sim.drive import drive
from skytide.sim.operator import Operator
from skytide.workloads.identity import derive
from skytide_lab.data.real_data import CLOSE_S, DAY_S, OPEN_S, data

Floats = NDArray[np.float64]
P2_FREQUENCIES_GHZ = (1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2.0)
REPLICAS, FASTEST_GHZ = 12, P2_FREQUENCIES_GHZ[-1]
CAPACITY_HZ, PEAK_HZ, SLIDE = 8e5, 5.5e5, 25  # quotes per second in P2 Fig. 8 and 7, and quotes per triggering tuple
SERVICE_S = REPLICAS * SLIDE / CAPACITY_HZ
STEP_S = 0.1
WALK_S, WALK_STEP, WALK_MEAN_HZ = 180, 0.06, 297_000.0
"""Length of P2's random walk (§5.1), its change per second and its mean, as in P2's published rates, whose peak is 458,000."""
FASTER = 100
ALPHAS = {"Th-Node": (200, 200), "Th-Power": (200, 300), "Lat-Node": (2, 3), "Lat-Power": (2, 4)}
"""The weights of P2 Tab. 6, for the random walk and for the real quotes."""


@cache
def real_rates() -> Floats:
    """Return the triggering tuples per second, step by step, of a trading day replayed in 234 s."""
    times = pq.read_table(data("quotes_20131007.parquet"), columns=["ts"])["ts"].cast("timestamp[us]").cast("int64").to_numpy()
    of_day_s = times / 1e6 % DAY_S
    open_s = of_day_s[(of_day_s >= OPEN_S) & (of_day_s < CLOSE_S)] - OPEN_S
    return _to_peak(np.bincount((open_s / FASTER / STEP_S).astype(int)).astype(float))


def walk_rates(seed: int) -> Floats:
    """Return the triggering tuples per second, step by step, of a random walk that ends where it began."""
    walk = np.cumsum(derive(seed, "trading", "walk").standard_normal(WALK_S) * WALK_STEP)
    rates = np.exp(walk - np.arange(1, WALK_S + 1) / WALK_S * walk[-1])
    return np.repeat(rates * (WALK_MEAN_HZ / SLIDE / rates.mean()), int(1 / STEP_S))


def _to_peak(counts: Floats) -> Floats:
    """Return counts scaled so that the busiest second has P2's peak, in triggering tuples."""
    second = int(1 / STEP_S)
    busiest = np.convolve(counts, np.ones(second) / second, "valid").max()
    return np.asarray(counts * PEAK_HZ / SLIDE / busiest)


@dataclass(frozen=True)
class Unprinted:
    """Values that P2 does not print, so that they have to be chosen."""

    move_s: float = 0.01
    """How long moved keys wait: replicas exchange pointers in shared memory."""
    bound_s: float = 4 * SERVICE_S
    """The latency that must not be exceeded."""
    service_s: float = SERVICE_S
    """The service time of a triggering tuple at the highest frequency."""
    watt_scale: float = 1.0
    """The cost of a replica at full speed where watts count, relative to its cost where replicas count."""


CHOSEN = Unprinted()
OUR_CORES, OUR_QUOTES_HZ = 2, 101_000.0
OUR_SERVICE_S = OUR_CORES * SLIDE / OUR_QUOTES_HZ
OUR_OPERATOR = Unprinted(bound_s=4 * OUR_SERVICE_S, service_s=OUR_SERVICE_S)
"""The costs of `AlgoTrader` on our engine, with P2's windows: `python -m benchmarks.keyed zipf` on two quiet cores, Spark's own time included."""


def strategy(name: str, *, real: bool, horizon: int = 1, switching: bool = True, chosen: Unprinted = CHOSEN) -> Mpc:
    """Return one of P2's strategies with P2's weights as printed, the mean forecast, and nothing in reserve."""
    return Mpc(
        bound_s=chosen.bound_s if name.startswith("Lat") else None,
        power=name.endswith("Power"),
        horizon=horizon,
        alpha=ALPHAS[name][int(real)],
        beta=0.5 * (chosen.watt_scale if name.endswith("Power") else 1.0),
        gamma=0.4 if switching else 0.0,
        coverage=0.0,
        headroom=0.0,
        maximum=REPLICAS,
        frequencies_ghz=P2_FREQUENCIES_GHZ,
        scaled=False,
    )


@dataclass(frozen=True)
class Run:
    """The result of a run: the measures, and the replicas and frequency of each second."""

    saso: Saso
    seconds: tuple[Allocation, ...]


class Blocking(Operator):
    """The operator as SPL sees it: congestion is the share of the time in which its splitter is blocked, as no replica is free."""

    def observe(self, now_s: float) -> Observation | None:
        """Return what was measured, with the utilisation from which `Congestion` derives that share."""
        first = len(self.steps)
        seen = super().observe(now_s)
        if seen is None:
            return None
        blocked = sum(step.blocked for step in self.steps[first:]) / max(1, len(self.steps) - first)
        return replace(seen, utilisation=1 / max(1 - blocked, 0.01), backlog=0.0)


def play(
    rates: Floats,
    controller: Controller,
    *,
    interval_s: int = 1,
    bound_s: float | None = None,
    chosen: Unprinted = CHOSEN,
    start: int = REPLICAS,
    blocking: bool = False,
    seed: int = 0,
) -> Run:
    """Return a run of the operator under a controller that acts at every interval; whether it keeps up is judged every second.

    A latency bound is judged at every interval, as that is when latency is measured.
    """
    began = Allocation(start, frequency_ghz=FASTEST_GHZ)
    make = Blocking if blocking else Operator
    plant = make(rates, chosen.service_s, step_s=STEP_S, start=began, move_s=chosen.move_s, seed=seed)
    cycles = drive(plant, controller, Guard.bounds(1, REPLICAS), interval_s=interval_s)
    late = {
        cycle.at_s
        for cycle in cycles
        if bound_s is not None and cycle.evaluation and (cycle.evaluation.seen.latency_s or 0.0) > bound_s
    }
    second = int(1 / STEP_S)
    steps = []
    for at in range(second, len(plant.steps) + 1, second):
        played = plant.steps[at - second : at]
        used = played[-1].allocation
        behind = sum(step.served for step in played) < KEEPS_UP * sum(step.arrived for step in played)
        violated = behind if bound_s is None else at / second in late
        steps.append(Step(used, violated, 1.0, float(power_w(used.workers, used.frequency_ghz or FASTEST_GHZ))))
    return Run(saso(steps), tuple(step.allocation for step in steps))
