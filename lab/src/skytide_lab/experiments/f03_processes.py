"""F3: arrival processes at two time scales, and whether they have the parameters that were asked for (P0 Fig. 3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from skytide.workloads.workload import Workload
from skytide_lab.data.burstiness import hurst, index_of_dispersion
from skytide_lab.experiments.estimate import column, mean_of
from skytide_lab.experiments.experiment import SEEDS, Experiment, Findings, Piece, Row
from skytide_lab.experiments.verdict import Claim, of_all

RATE_HZ, TICK_US = 30_000, 10_000
BURSTS = (1_000.0, 2_500.0, 4_000.0, 6_000.0, 8_000.0)
HURSTS = (0.5, 0.6, 0.7, 0.8, 0.9)
ASKED = [*(("map", "dispersion", asked) for asked in BURSTS), *(("selfsimilar", "hurst", asked) for asked in HURSTS)]
SHOWN = {
    "Poisson": Workload(rate=RATE_HZ, tick_us=TICK_US),
    "MAP, I = 4,000": Workload(rate=RATE_HZ, arrivals="map", dispersion=4_000.0, tick_us=TICK_US),
    "self-similar, H = 0.8": Workload(rate=RATE_HZ, arrivals="selfsimilar", hurst=0.8, tick_us=TICK_US),
    "random walk": Workload(rate=RATE_HZ, arrivals="walk", tick_us=TICK_US),
    "on-off": Workload(rate=RATE_HZ, arrivals="onoff", on_us=2_000_000, off_us=4_000_000, tick_us=TICK_US),
}


@dataclass(frozen=True)
class Processes(Experiment):
    """Compares measured rates, indices of dispersion and Hurst parameters with those that were asked for."""

    id = "F3"
    title = "arrival processes at two time scales"
    source = "P0 Fig. 3, SPEC L1, L2"
    question = "Do generated streams have the parameters that were asked for?"
    seconds = 8.0

    seeds: Sequence[int] = SEEDS
    length_s: int = 8_192

    def pieces(self) -> Sequence[Piece]:
        """Return one piece per seed."""
        return [(seed,) for seed in self.seeds]

    def play(self, *piece: Any) -> list[Row]:
        """Generate each process and estimate its parameters, and return the rows."""
        return [self._row(piece[0], *asked) for asked in ASKED]

    def _row(self, seed: int, process: str, parameter: str, asked: float) -> Row:
        made = Workload(rate=RATE_HZ, arrivals=process, tick_us=TICK_US, seed=seed, **{parameter: asked})  # type: ignore[arg-type]
        ticks = min(2**18, self.length_s * 100) if process == "selfsimilar" else self.length_s * 1_000_000 // TICK_US
        counts = made.counts(0, ticks)
        error = abs(counts.mean() * 1e6 / TICK_US / RATE_HZ - 1)
        measured = (index_of_dispersion if parameter == "dispersion" else hurst)(counts)
        return {
            "seed": seed,
            "process": process,
            "parameter": parameter,
            "asked": asked,
            "measured": measured,
            "rate_error": float(error),
        }

    def conclude(self, rows: Sequence[Row]) -> Findings:
        """Compare the means of the measured parameters over seeds with those that were asked for, and return the findings."""
        means = {(name, asked): mean_of(column(rows, "measured", parameter=name, asked=asked)) for _, name, asked in ASKED}
        bursts = {asked: mean for (name, asked), mean in means.items() if name == "dispersion"}
        memory = {asked: mean for (name, asked), mean in means.items() if name == "hurst"}
        rates = [mean_of(column(rows, "rate_error", parameter=name, asked=asked)) for _, name, asked in ASKED]
        return Findings(
            [
                Claim(
                    "I = 1,000 to 8,000 within 20 %",
                    "I: " + ", ".join(f"{mean:,.0f} for {asked:,.0f}" for asked, mean in bursts.items()),
                    of_all(abs(mean.mean / asked - 1) <= 0.2 for asked, mean in bursts.items()),
                ),
                Claim(
                    "H = 0.5 to 0.9 within 0.05",
                    "H: " + ", ".join(f"{mean:.3f} for {asked:g}" for asked, mean in memory.items()),
                    of_all(abs(mean.mean - asked) <= 0.05 for asked, mean in memory.items()),
                ),
                Claim(
                    "mean rates within 2 %",
                    f"rates are off by at most {max(rate.mean for rate in rates):.1%}",
                    of_all(rate.mean <= 0.02 for rate in rates),
                ),
            ],
            f"means over seeds with 95 % confidence intervals; {self.length_s:,} s at {RATE_HZ:,} tuples per second (a whole cycle of 2,621 s for self-similar arrivals), ticks of 10 ms",
        )

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
TOY = Processes(seeds=(0, 1), length_s=256)
