"""What several experiments share: the papers' streams, and the costs of the papers' machines."""

from functools import cache

from skytide.routing import PB_RR
from skytide.sim import Costs, Traffic, known_costs, run_panes, traffic
from skytide.windows import Windows
from skytide.workloads.workload import Workload

PANES_A_CLOUD = 10
CLOUDS = ("independent", "correlated", "anticorrelated")
STEP_US = 5_000
P3_RATE_HZ, P3_PANES = 100_000, Windows(100_000, 100_000)
P3_WORKERS_WITHOUT_BURSTS = 7


def changing_cloud(pane: int) -> str:
    """Give the kind of points of a pane that changes from time to time, as in P3's bursty streams (how often it does not say)."""
    return CLOUDS[pane // PANES_A_CLOUD % len(CLOUDS)]


def burst_stream(
    rate_hz: float, dispersion: float | None, windows: Windows, length_s: float, *, changing: bool, mean_delay_us: int = 200_000
) -> Traffic:
    """Give a stream of the papers: bursts of an index of dispersion (none: Poisson), delays evenly spread about a mean."""
    bursts = {"arrivals": "poisson"} if dispersion is None else {"arrivals": "map", "dispersion": dispersion}
    workload = Workload(rate=rate_hz, delay_us=2 * mean_delay_us, tick_us=STEP_US, **bursts)
    return traffic(workload, windows, length_s, cloud=changing_cloud if changing else None)


@cache
def p3_costs() -> Costs:
    """Give the costs of P3's machine: the shape of the algorithm as measured here, and the speed as P3 reports it.

    P3 Fig. 8a: without bursts, seven workers and no fewer serve 100,000 independent tuples a second in panes of 0.1 s.
    """
    measured = known_costs("bnl")
    size = P3_RATE_HZ * P3_PANES.slide_us // 1_000_000
    load = measured.curves["independent"].busy_by_size[size] / (P3_PANES.slide_us / 1e6)
    speed = load / (P3_WORKERS_WITHOUT_BURSTS - 0.5)
    return measured.faster(speed, "scaled to P3 Fig. 8a: 7 workers without bursts")


def fewest_slots(stream: Traffic, costs: Costs, most: int = 17) -> int | None:
    """Give the fewest slots with which panes in turn keep up with a stream."""
    return next((n for n in range(1, most + 1) if run_panes(stream, costs, PB_RR, n)[0].utilisation < 1), None)
