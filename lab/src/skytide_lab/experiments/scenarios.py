"""The papers' streams, and the costs of the papers' machines, which several experiments share."""

from functools import cache, lru_cache

from skytide.routing import Splitting
from skytide.windows import Windows
from skytide.workloads.workload import Workload
from skytide_lab.sim import Costs, Traffic, known_costs, run_panes, traffic
from skytide_lab.sim.traffic import Bursts

START_US = 1_700_000_000_000_000  # event time at which streams on the real engine begin
PANES_PER_CLOUD = 10
CLOUDS = ("independent", "correlated", "anticorrelated")
STEP_US = 10_000
P3_RATE_HZ, P3_PANES = 100_000, Windows(100_000, 100_000)
P3_WORKERS_WITHOUT_BURSTS = 7
WHOLE, EARLY = "scans the whole result", "stops at the first row that dominates"
KERNELS = (WHOLE, EARLY)
"""The kernel that P0 and P3 publish, and block nested loops as usually written, whose costs are in `bnl.json`."""


def changing_cloud(pane: int) -> str:
    """Return the kind of points of a pane; it changes from time to time, as in P3's bursty streams (P3 does not say how often)."""
    return CLOUDS[pane // PANES_PER_CLOUD % len(CLOUDS)]


def burst_stream(
    rate_hz: float,
    dispersion: float | None,
    windows: Windows,
    length_s: float,
    *,
    changing: bool,
    seed: int,
    mean_delay_us: int = 200_000,
    bursts: Bursts = "of events",
    in_order: bool = False,
) -> Traffic:
    """Return a stream of the papers: bursts with an index of dispersion (None: Poisson), and evenly spread delays (P3 §4.3.2)."""
    arrivals = {"arrivals": "poisson"} if dispersion is None else {"arrivals": "map", "dispersion": dispersion}
    workload = Workload(rate=rate_hz, delay_us=2 * mean_delay_us, tick_us=STEP_US, seed=seed, **arrivals)
    return played(workload, windows, length_s, cloud=changing_cloud if changing else None, bursts=bursts, in_order=in_order)


played = lru_cache(maxsize=2)(traffic)
"""The traffic of a workload; that of the latest two is kept, as the next piece of an experiment often plays the same stream."""


@cache
def kernel_costs(kernel: str = WHOLE) -> Costs:
    """Return the costs of one of the kernels, on the machine where they were measured."""
    return known_costs("bnl").scanning_all() if kernel == WHOLE else known_costs("bnl")


@cache
def p3_costs(kernel: str = WHOLE) -> Costs:
    """Return the costs of P3's machine: the shape of the cost curve as measured here, and the speed as P3 reports it.

    P3 Fig. 8a: without bursts, it takes seven workers to serve 100,000 independent tuples per second in panes of 0.1 s.
    """
    measured = kernel_costs(kernel)
    size = P3_RATE_HZ * P3_PANES.slide_us // 1_000_000
    load = measured.curves["independent"].busy_by_size[size] / (P3_PANES.slide_us / 1e6)
    speed = load / (P3_WORKERS_WITHOUT_BURSTS - 0.5)
    return measured.faster(speed, "scaled to P3 Fig. 8a: 7 workers without bursts")


def min_slots(stream: Traffic, costs: Costs, strategy: Splitting, low: int = 1, high: int = 17) -> int:
    """Return the smallest number of slots, from `low` on, with which a strategy keeps up with a stream, or `high` if none does."""
    return next((n for n in range(low, high) if run_panes(stream, costs, strategy, n)[0].utilisation < 1), high)
