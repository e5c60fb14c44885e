"""What the experiments of P0 share: its twelve streams, and the costs of its machine."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from statistics import fmean

from skytide.lab.real_data import data
from skytide.loop.cycle import Cycle
from skytide.routing import AS_PID
from skytide.sim import Costs, Traffic, known_costs, run_panes, run_windows, traffic
from skytide.sim.elastic import PERIOD_S, THREADS, ElasticPlant
from skytide.windows import Windows
from skytide.workloads.variable import Replay
from skytide.workloads.workload import Workload

WINDOWS = Windows(1_000_000, 200_000)  # of P0 §5.3, and of Fig. 12
SETPOINT = 0.9
STEP_US = 10_000
SYNTHETIC_DELAY_US = 400_000  # at most: 200 ms on average, evenly spread (P0 Tab. 3)
CALIBRATION_S = 120.0
CATCH_UP_S = 25.0  # in which the levels catch up after their start with one thread each (P0 §5.2)


@dataclass(frozen=True)
class Reported:
    """A row of P0's Tab. 4 and 5."""

    pane_threads: float
    window_threads: float
    splitting_factor: float
    longer: float
    """By which share of the stream's length it took longer than the stream."""
    cv: float


@dataclass(frozen=True)
class Stream:
    """One of the streams of P0's Tab. 3, as it was recorded."""

    name: str
    series: str
    delay_ms: float | None
    """Mean of the heavy-tailed delays of a real stream; None: evenly spread, as in all synthetic ones."""
    skyline: Reported
    top_delta: Reported

    def workload(self) -> Workload:
        """Give the stream: its recorded rates, with delays of the law that Tab. 3 says."""
        late = {"delays": "uniform", "delay_us": SYNTHETIC_DELAY_US}
        if self.delay_ms is not None:
            late = {"delays": "pareto", "delay_us": int(self.delay_ms * 1_000)}
        return Workload(arrivals="replay", series=f"{data('rates_papers.parquet')}#{self.series}", tick_us=STEP_US, **late)  # type: ignore[arg-type]

    def traffic(self, windows: Windows = WINDOWS, length_s: float | None = None) -> Traffic:
        """Give what arrives, for the whole length of the record unless another one is asked for."""
        return traffic(self.workload(), windows, length_s or self.length_s)

    @property
    def length_s(self) -> float:
        """Give the length of the record."""
        grain_us, tuples = Replay(f"{data('rates_papers.parquet')}#{self.series}").grains(0)
        return grain_us * len(tuples) / 1e6


def _stream(name: str, series: str, delay_ms: float | None, skyline: tuple[float, ...], top_delta: tuple[float, ...]) -> Stream:
    return Stream(name, series, delay_ms, Reported(*skyline), Reported(*top_delta))


STREAMS = (
    _stream("RW", "elastic", None, (1.77, 12.6, 1.48, 0.0040, 1.60), (2.61, 17.0, 2.08, 0.0044, 1.43)),
    _stream("MAP 1K", "map_i1k", None, (4.28, 41.0, 3.37, 0.0139, 0.82), (5.43, 49.5, 4.31, 0.0192, 0.96)),
    _stream("MAP 2K", "map_i2k", None, (4.16, 38.8, 3.63, 0.0177, 0.95), (5.26, 46.28, 4.53, 0.0214, 1.24)),
    _stream("MAP 3K", "map_i3k", None, (4.30, 37.2, 3.54, 0.0237, 1.29), (5.65, 45.3, 4.81, 0.0268, 1.58)),
    _stream("MAP 4K", "map_i4k", None, (6.01, 36.8, 4.86, 0.0264, 1.85), (6.95, 43.06, 5.13, 0.0306, 1.99)),
    _stream("SS 0.6", "pareto_h0.6", None, (3.05, 31.5, 2.99, 0.0102, 0.86), (3.71, 38.6, 3.41, 0.0132, 0.97)),
    _stream("SS 0.7", "pareto_h0.7", None, (3.47, 34.7, 3.24, 0.0111, 1.17), (3.83, 41.8, 3.27, 0.0187, 1.34)),
    _stream("SS 0.8", "pareto_h0.8", None, (3.50, 30.9, 3.05, 0.0219, 2.30), (4.01, 37.9, 3.68, 0.0274, 2.97)),
    _stream("Game1", "game1_2x", 17.1, (3.82, 15.65, 2.74, 0.0121, 0.86), (4.11, 27.7, 2.98, 0.0145, 0.96)),
    _stream("Game2", "game2_2x", 14.1, (2.30, 25.3, 2.06, 0.0176, 1.15), (2.81, 33.5, 2.32, 0.0227, 1.23)),
    _stream("Game3", "game3_2x", 13.2, (1.98, 21.0, 1.89, 0.0023, 0.78), (2.59, 31.7, 2.09, 0.0057, 0.93)),
    _stream("Game4", "game4_2x", 12.2, (2.48, 28.9, 2.34, 0.0119, 1.12), (3.10, 35.3, 2.62, 0.0156, 1.96)),
)
CALIBRATED_ON = STREAMS[1]


def stream(name: str) -> Stream:
    """Give a stream by its name."""
    return next(known for known in STREAMS if known.name == name)


def scaled_costs(came: Traffic, rate_hz: float, row: Reported, origin: str) -> Costs:
    """Give the costs of P0's machine: the shape of the algorithm as measured here, and the speed as a row of P0's tables says.

    So many pane threads are at the setpoint when panes are split so many ways; and a pair of rows is so dear that so many window threads
    are at the setpoint.
    """
    pane_s = WINDOWS.slide_us / 1e6
    measured = known_costs("bnl")
    work_s = measured.curves["independent"].busy_by_size[int(rate_hz * pane_s / row.splitting_factor)] * row.splitting_factor
    costs = measured.faster(
        work_s / pane_s / (row.pane_threads * SETPOINT),
        f"scaled to {origin}: {row.pane_threads} pane threads, panes split {row.splitting_factor} ways, {row.window_threads} window threads",
    )
    _, panes = run_panes(came, costs, AS_PID, round(row.pane_threads), period_s=PERIOD_S)
    _, windows = run_windows(panes.results, costs, WINDOWS, THREADS, "WIN_FB_MERGE", came.length_s)
    load = sum(done.end_s - done.begin_s for done in windows.done) / came.length_s
    return replace(costs, pair_s=costs.pair_s * row.window_threads * SETPOINT / load)


@cache
def p0_costs(query: str = "skyline") -> Costs:
    """Give the costs of P0's machine by the row of MAP, I = 1,000; all other rows have to follow from it."""
    known = CALIBRATED_ON
    row, table = (known.skyline, "Tab. 4") if query == "skyline" else (known.top_delta, "Tab. 5")
    return scaled_costs(known.traffic(length_s=CALIBRATION_S), known.workload().process.mean_hz, row, f"P0 {table}, {known.name}")


def summary(plant: ElasticPlant, cycles: Sequence[Cycle], length_s: float, *, threads: int = THREADS) -> dict[str, float]:
    """Give what P0's tables say of a run: means over the stream's length, utilisations without the time it takes to catch up."""
    seen = [cycle.evaluation.seen for cycle in cycles if cycle.evaluation and cycle.at_s <= length_s]
    settled = [each for each in seen if each.at_s > CATCH_UP_S]
    out = plant.windows_a_second()
    return {
        "pane_threads": fmean(each.allocation.pane_slots or each.allocation.workers for each in seen),
        "window_threads": fmean(each.allocation.window_slots or 0 for each in seen),
        "splitting_factor": fmean(each.splitting_factor or 1.0 for each in seen),
        "pane_utilisation": fmean(each.pane_utilisation or 0.0 for each in settled),
        "sampled_utilisation": plant.sampled_utilisation(int(CATCH_UP_S / plant.period_s)) or 0.0,
        "window_utilisation": fmean(each.window_utilisation or 0.0 for each in settled),
        "longer": plant.completed_s / length_s - 1,
        "cv": float(out.std() / out.mean()) if out.any() else 0.0,
        "at_maximum": fmean(each.allocation.workers >= threads for each in seen),
        "changes": sum(one.allocation != two.allocation for one, two in pairwise(seen)),
    }
