"""Streams and costs for the simulator's plants."""

from dataclasses import replace

from skytide.windows import Windows
from skytide.workloads.workload import Workload
from skytide_lab.sim import Costs, Curve, Traffic, traffic

SLIDING = Windows(500_000, 100_000)
# Every tuple costs 50 us, a tenth of each partition is kept, and a pair of rows costs 1 us.
FLAT = Costs("made up", {"independent": Curve((1, 10_000), (0.1, 1_000.0), (50e-6, 0.5))}, 1e-6)
CHEAP_WINDOWS = replace(FLAT, pair_s=1e-8)


def stream(rate: float = 20_000, seconds: float = 6.0, **more: object) -> Traffic:
    return traffic(Workload(rate=rate, delay_us=50_000, tick_us=10_000, **more), SLIDING, seconds)  # type: ignore[arg-type]


BURSTS = stream(arrivals="map", dispersion=800.0)
GAPS = stream(rate=2_000, arrivals="onoff", on_us=300_000, off_us=900_000)
