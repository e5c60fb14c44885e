"""The regulator of the splitting threshold with two laws, on the recording of experiment F17: changes that multiply the factor, and P3's, which are added."""

import argparse
from statistics import fmean, pstdev

from rich.console import Console

from benchmarks.timing import show
from skytide.control.controllers.fuzzy import Fuzzy
from skytide.routing import LeastLoaded, Pid
from skytide_lab.experiments.elastic_ppq import TABLES_THREADS, WINDOWS, p0_costs, p0_splitting, stream
from skytide_lab.experiments.f17_sensitivity import SETPOINTS
from skytide_lab.sim.plants.elastic import ElasticPlant, run_elastic

WARM_UP_S = 25.0
LAWS = {
    "changes multiply": lambda setpoint: LeastLoaded(pid=Pid(setpoint=setpoint, adds=False)),
    "P3 eq. 3: changes are added": lambda setpoint: LeastLoaded(pid=Pid(setpoint=setpoint)),
    "P0's published gains, added": p0_splitting,
}


def main() -> None:
    """Play the recording with each law, setpoint and seed, and print how well the setpoint is held."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pid_laws", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=140.0)
    parser.add_argument("--interval", type=float, default=5.0, help="seconds between decisions on the number of threads")
    parser.add_argument("--period", type=float, default=0.5, help="seconds between samples of the regulator")
    options = parser.parse_args()
    console = Console(width=130, highlight=False)
    rows = []
    for setpoint in SETPOINTS:
        for name, law in LAWS.items():
            figures = [played(law(setpoint), setpoint, seed, options) for seed in range(options.seeds)]
            rows.append([f"{setpoint:g}", name, *(f"{fmean(values):.3f}" for values in zip(*figures, strict=True))])
    show(
        console,
        "Game1 of P0, Fuzzy, the mean of all seeds",
        ["setpoint", "law", "mean error", "mean distance", "swing", "splitting"],
        rows,
    )


def played(splitting: LeastLoaded, setpoint: float, seed: int, options: argparse.Namespace) -> tuple[float, float, float, float]:
    """Return how far the mean utilisation is from the setpoint, how far a sample is on average, how samples swing, and the splitting factor."""
    came = stream("Game1").traffic(seed, options.seconds)
    plant = ElasticPlant(came, p0_costs(), WINDOWS, period_s=options.period, strategy=splitting)
    run_elastic(plant, Fuzzy(maximum=TABLES_THREADS), came.length_s, interval_s=options.interval, threads=TABLES_THREADS)
    samples = [each.utilisation for each in plant.panes.samples if each.utilisation is not None and each.end_s > WARM_UP_S]
    return (
        abs(fmean(samples) / setpoint - 1),
        fmean(abs(sample - setpoint) for sample in samples),
        pstdev(samples),
        plant.panes.router.splitting_factor,
    )


if __name__ == "__main__":
    main()
