"""P2's trading application: its machine, its two streams, and a run of it under a controller (P2 sections 5.1 and 5.3)."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from skytide.control.controller import Controller
from skytide.control.guard import Guard
from skytide.control.models import power_w
from skytide.control.mpc import P2_FREQUENCIES_GHZ, Mpc
from skytide.control.saso import Saso, Step, saso
from skytide.lab.real_data import data
from skytide.loop.cycle import Loop
from skytide.records import Allocation
from skytide.sim.operator import Operator
from skytide.workloads.variable import RandomWalk

Floats = NDArray[np.float64]
REPLICAS, FASTEST_GHZ = 12, P2_FREQUENCIES_GHZ[-1]
CAPACITY_HZ, PEAK_HZ, SLIDE = 8e5, 5.5e5, 25  # quotes a second in P2 Fig. 8 and 7, and quotes for a triggering tuple
SERVICE_S = REPLICAS * SLIDE / CAPACITY_HZ
STEP_S = 0.1
KEEPS_UP = 0.95
WALK_S = 180
OPEN_S, CLOSE_S = 9.5 * 3600, 16 * 3600  # of the exchange
FASTER = 100
ALPHAS = {"Th-Node": (200, 200), "Th-Power": (200, 300), "Lat-Node": (2, 3), "Lat-Power": (2, 4)}
"""P2 Tab. 6: for the random walk, and for the real quotes."""


@cache
def real_rates() -> Floats:
    """Give triggering tuples a second in steps, of a trading day in 234 s."""
    times = pq.read_table(data("quotes_20131007.parquet"), columns=["ts"])["ts"].cast("timestamp[us]").cast("int64").to_numpy()
    of_day_s = times / 1e6 % 86_400
    open_s = of_day_s[(of_day_s >= OPEN_S) & (of_day_s < CLOSE_S)] - OPEN_S
    return _to_peak(np.bincount((open_s / FASTER / STEP_S).astype(int)).astype(float))


def walk_rates(seed: int) -> Floats:
    """Give triggering tuples a second in steps, of a random walk."""
    return _to_peak(RandomWalk(1.0).expected(0, int(WALK_S / STEP_S), tick_us=int(STEP_S * 1e6), seed=seed))


def _to_peak(counts: Floats) -> Floats:
    """Scale counts so that the busiest second has P2's peak, in triggering tuples."""
    second = int(1 / STEP_S)
    busiest = np.convolve(counts, np.ones(second) / second, "valid").max()
    return np.asarray(counts * PEAK_HZ / SLIDE / busiest)


@dataclass(frozen=True)
class Unprinted:
    """What P2 does not print, and has to be chosen."""

    move_s: float = 0.01
    """How long moved keys wait: replicas exchange pointers in shared memory."""
    bound_s: float = 4 * SERVICE_S
    """The latency to keep."""
    watt_scale: float = 1.0
    """What a replica at full speed costs where watts count, over what it costs where replicas count."""


CHOSEN = Unprinted()


def strategy(name: str, *, real: bool, horizon: int = 1, switching: bool = True, chosen: Unprinted = CHOSEN) -> Mpc:
    """Give one of P2's strategies, with P2's weights as they are printed: the mean forecast, and nothing in reserve."""
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
        scaled=False,
    )


@dataclass(frozen=True)
class Run:
    """What came of a run: the measures, and replicas and frequency of each second."""

    saso: Saso
    seconds: tuple[Allocation, ...]


def play(
    rates: Floats,
    controller: Controller,
    *,
    interval_s: int = 1,
    bound_s: float | None = None,
    move_s: float = CHOSEN.move_s,
    seed: int = 0,
) -> Run:
    """Play the operator under a controller that acts at every interval; whether it keeps up is judged every second.

    A latency is judged at every interval, as that is when it is measured.
    """
    start = Allocation(REPLICAS, frequency_ghz=FASTEST_GHZ)
    plant = Operator(rates, SERVICE_S, step_s=STEP_S, start=start, move_s=move_s, seed=seed)
    loop = Loop(plant, plant, controller, Guard.bounds(1, REPLICAS))
    steps = []
    arrived = served = 0.0
    for second in range(1, int(plant.length_s) + 1):
        plant.advance(second)
        used = plant.current()
        violated = plant.served - served < KEEPS_UP * (plant.arrived - arrived)
        arrived, served = plant.arrived, plant.served
        cycle = loop.cycle(second) if second % interval_s == 0 else None
        if bound_s is not None:
            violated = cycle is not None and cycle.evaluation is not None and (cycle.evaluation.seen.latency_s or 0.0) > bound_s
        steps.append(Step(used, violated, 1.0, float(power_w(used.workers, used.frequency_ghz or FASTEST_GHZ))))
    return Run(saso(steps), tuple(step.allocation for step in steps))
