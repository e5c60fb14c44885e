"""F3: arrival processes at two time scales, and whether they are what was asked for (P0 Fig. 3)."""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.figure import Figure

from skytide.lab.experiment import Claim, Experiment, Findings, Progress, Row
from skytide.workloads.estimate import hurst, index_of_dispersion
from skytide.workloads.workload import Workload

RATE_HZ, TICK_US, LENGTH_S = 30_000, 10_000, 8_192
BURSTS = (1_000.0, 2_500.0, 4_000.0, 6_000.0, 8_000.0)
HURSTS = (0.5, 0.6, 0.7, 0.8, 0.9)
SHOWN = {
    "Poisson": Workload(rate=RATE_HZ, tick_us=TICK_US),
    "MAP, I = 4,000": Workload(rate=RATE_HZ, arrivals="map", dispersion=4_000.0, tick_us=TICK_US),
    "self-similar, H = 0.8": Workload(rate=RATE_HZ, arrivals="selfsimilar", hurst=0.8, tick_us=TICK_US),
    "random walk": Workload(rate=RATE_HZ, arrivals="walk", tick_us=TICK_US),
    "on-off": Workload(rate=RATE_HZ, arrivals="onoff", on_us=2_000_000, off_us=4_000_000, tick_us=TICK_US),
}


class Processes(Experiment):
    """What is asked for is what is measured: rates, indices of dispersion, Hurst parameters."""

    id = "F3"
    title = "arrival processes at two time scales"
    source = "P0 Fig. 3, SPEC L1, L2"

    def measure(self, tell: Progress) -> Findings:
        """Generate each process and estimate what it was asked for."""
        rows: list[Row] = []
        for asked in BURSTS:
            rows.append(self._row("map", "dispersion", asked, index_of_dispersion))
        for asked in HURSTS:
            rows.append(self._row("selfsimilar", "hurst", asked, hurst))
        for row in rows:
            tell(
                f"{row['process']}: {row['parameter']} asked {row['asked']:g}, measured {row['measured']:.4g}, rate off by {row['rate_error']:.2%}"
            )
        bursts = max(abs(row["measured"] / row["asked"] - 1) for row in rows if row["parameter"] == "dispersion")
        memory = max(abs(row["measured"] - row["asked"]) for row in rows if row["parameter"] == "hurst")
        rates = max(row["rate_error"] for row in rows)
        return Findings(
            rows,
            [
                Claim("I = 1,000 to 8,000 within 20 %", f"I is off by at most {bursts:.0%}", bursts <= 0.2),
                Claim("H = 0.5 to 0.9 within 0.05", f"H is off by at most {memory:.3f}", memory <= 0.05),
                Claim("mean rates within 2 %", f"rates are off by at most {rates:.1%}", rates <= 0.02),
            ],
            f"{LENGTH_S} s at {RATE_HZ:,} tuples a second (a whole cycle of 2,621 s for self-similar arrivals), ticks of 10 ms",
        )

    def _row(self, process: str, parameter: str, asked: float, estimate: Callable[..., float]) -> Row:
        made = Workload(rate=RATE_HZ, arrivals=process, tick_us=TICK_US, **{parameter: asked})  # type: ignore[arg-type]
        ticks = 2**18 if process == "selfsimilar" else LENGTH_S * 1_000_000 // TICK_US
        counts = made.counts(0, ticks)
        error = abs(counts.mean() * 1e6 / TICK_US / RATE_HZ - 1)
        return {
            "process": process,
            "parameter": parameter,
            "asked": asked,
            "measured": estimate(counts),
            "rate_error": float(error),
        }

    def draw(self, rows: Sequence[Row], figure: Figure) -> None:
        """Draw each process by second and by 10 ms."""
        axes = figure.subplots(len(SHOWN), 2)
        for (name, workload), (slow, fast) in zip(SHOWN.items(), axes, strict=True):
            counts = workload.counts(0, 60 * 100)
            slow.plot(counts.reshape(-1, 100).sum(axis=1) / 1e3, lw=0.8)
            fast.plot(np.arange(200) / 100, counts[2_500:2_700] / 10, lw=0.8)
            slow.set(title=f"{name}: a minute, by second", ylabel="1,000/s", ylim=(0, None))
            fast.set(title="two seconds, by 10 ms", ylim=(0, None))


EXPERIMENT = Processes()
