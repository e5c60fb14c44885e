"""What the experiments of P0 share: its twelve streams, its PID, and the costs of its machine."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from math import inf
from statistics import fmean

from skytide.lateness import DropRatio
from skytide.loop.cycle import Cycle
from skytide.routing import TB_RR, LeastLoaded, Pid, PidLogic
from skytide.windows import Windows
from skytide.workloads.variable import Replay
from skytide.workloads.workload import Workload
from skytide_lab.data.real_data import data
from skytide_lab.experiments.scenarios import WHOLE, burst_stream, kernel_costs, played
from skytide_lab.sim import Costs, Traffic, run_panes, run_windows
from skytide_lab.sim.plants.elastic import PERIOD_S, ElasticPlant

WINDOWS = Windows(1_000_000, 200_000)  # of P0 §5.3, and of Fig. 12
SETPOINT = 0.9
TABLES_SETPOINT, TABLES_THREADS = 0.7, 59  # of the runs behind Tab. 4 and 5, by P0's published logs
GAMES_DROP = 0.05
STEP_US = 25_000
SYNTHETIC_DELAY_US = 400_000  # at most: 200 ms on average, evenly spread (P0 Tab. 3)
CALIBRATION_S = 120.0
CATCH_UP_S = 25.0  # the time the levels need to catch up after starting with one thread each (P0 §5.2)
PANES, PANES_RATE_HZ, PANES_DISPERSION = Windows(100_000, 100_000), 80_000, 1_000.0  # of P0 Fig. 9 to 11
EVEN_WORKERS, EVEN_UTILISATION = 6, 1.01  # of P0 Fig. 11, left, by its published data


@dataclass(frozen=True)
class P0Pid(Pid):
    """P0's regulator as published: the change is added to the factor, and is at most 0.2 per sample."""

    kp: float = 1.8
    kd: float = 2.0
    step: float = 0.2

    def build(self, resume: dict[str, object] | None = None) -> PidLogic:
        """Return the logic, always from its beginning."""
        return _Adding(self)


class _Adding(PidLogic):
    def sample(self, measured: float | None, low: float = 0.0, high: float = inf) -> float:
        config = self.config
        assert isinstance(config, P0Pid)
        if measured is None:
            return self.factor
        error = config.setpoint - measured
        before = error if self._previous is None else self._previous
        change = config.kp * error + config.kd * (error - before)
        wanted = self.factor + min(max(change, -config.step), config.step)
        self.factor = min(max(wanted, config.low, low), config.high, max(high, config.low))
        self._previous = error
        return self.factor


def p0_splitting(setpoint: float = SETPOINT, high: float = 100.0) -> LeastLoaded:
    """Return P0's way to split panes, with an upper limit for alpha."""
    return LeastLoaded(pid=P0Pid(setpoint=setpoint, high=high))


@dataclass(frozen=True)
class Reported:
    """A row of P0's Tab. 4 and 5."""

    pane_threads: float
    window_threads: float
    splitting_factor: float
    longer: float
    """How much longer than the stream it took, as a share of the stream's length."""
    cv: float


@dataclass(frozen=True)
class Stream:
    """One of the streams of P0's Tab. 3, as it was recorded."""

    name: str
    series: str
    delay_ms: float | None
    """Mean of the heavy-tailed delays of a real stream; None for evenly spread delays, as in all synthetic ones."""
    skyline: Reported
    top_delta: Reported

    def workload(self, seed: int = 0) -> Workload:
        """Return the stream: its recorded rates, with delays that follow the distribution of Tab. 3."""
        late = {"delays": "uniform", "delay_us": SYNTHETIC_DELAY_US}
        if self.delay_ms is not None:
            late = {"delays": "pareto", "delay_us": int(self.delay_ms * 1_000)}
        series = f"{data('rates_papers.parquet')}#{self.series}"
        return Workload(arrivals="replay", series=series, tick_us=STEP_US, seed=seed, **late)  # type: ignore[arg-type]

    def traffic(self, seed: int = 0, length_s: float | None = None) -> Traffic:
        """Return what arrives, for the whole recording unless `length_s` is shorter; the games ran with a slack that drops 5 %."""
        slack = None if self.delay_ms is None else DropRatio(GAMES_DROP)
        return played(self.workload(seed), WINDOWS, min(length_s or self.length_s, self.length_s), slack=slack)

    @property
    def length_s(self) -> float:
        """Return the length of the recording."""
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
    """Return a stream by its name."""
    return next(stream for stream in STREAMS if stream.name == name)


def with_rows(costs: Costs, tuples: int, kept: float) -> Costs:
    """Return the costs on the same machine for points of which `kept` rows remain out of `tuples`."""
    share = kept / costs.curves["independent"].kept_by_size[tuples]
    curve = costs.curves["independent"]
    return replace(costs, curves={**costs.curves, "independent": replace(curve, kept=tuple(share * value for value in curve.kept))})


@cache
def p0_costs(query: str = "skyline") -> Costs:
    """Return the costs of P0's machine, fitted to the row of MAP, I = 1,000; all other rows have to follow from it.

    The shape of the cost curve is as measured here. Its speed is chosen so that the row's number of pane threads is at the setpoint when
    panes are split as many ways as in the row; the cost of a pair of rows, so that its number of window threads is at the setpoint too.
    """
    stream, pane_s = CALIBRATED_ON, WINDOWS.slide_us / 1e6
    row, table = (stream.skyline, "Tab. 4") if query == "skyline" else (stream.top_delta, "Tab. 5")
    measured, came = kernel_costs(WHOLE), stream.traffic(length_s=CALIBRATION_S)
    size = int(stream.workload().process.mean_hz * pane_s / row.splitting_factor)
    work_s = measured.curves["independent"].busy_by_size[size] * row.splitting_factor
    costs = measured.faster(
        work_s / pane_s / (row.pane_threads * TABLES_SETPOINT),
        f"scaled to P0 {table}, {stream.name}: {row.pane_threads} pane threads, panes split {row.splitting_factor} ways, {row.window_threads} window threads",
    )
    _, panes = run_panes(came, costs, p0_splitting(TABLES_SETPOINT), round(row.pane_threads), period_s=PERIOD_S)
    _, windows = run_windows(panes.results, costs, WINDOWS, TABLES_THREADS, "WIN_FB_MERGE", came.length_s)
    load = sum(done.end_s - done.begin_s for done in windows.done) / came.length_s
    return replace(costs, pair_s=costs.pair_s * row.window_threads * SETPOINT / load)


@cache
def p0_pane_costs(kernel: str = WHOLE) -> Costs:
    """Return the costs of P0's machine for panes of 0.1 s: split evenly, six workers have a utilisation of 1.01 (P0 Fig. 11, left)."""
    stream = burst_stream(PANES_RATE_HZ, PANES_DISPERSION, PANES, 60.0, changing=False, seed=CALIBRATION_SEED)
    costs, text = (
        kernel_costs(kernel),
        f"scaled to P0 Fig. 11: utilisation {EVEN_UTILISATION} with {EVEN_WORKERS} workers and panes split evenly",
    )
    curve = costs.curves["independent"]
    pane_s = PANES.slide_us / 1e6
    first = curve.busy_by_size[int(PANES_RATE_HZ * pane_s / EVEN_WORKERS)] / pane_s
    scaled = costs.faster(first, text)
    for _ in range(CALIBRATION_ROUNDS):
        used = run_panes(stream, scaled, TB_RR, EVEN_WORKERS, period_s=PERIOD_S, warm_up_s=CATCH_UP_S)[0].utilisation
        first *= used / EVEN_UTILISATION
        scaled = costs.faster(first, text)
    return scaled


CALIBRATION_SEED, CALIBRATION_ROUNDS = 1_000, 5


def summary(plant: ElasticPlant, cycles: Sequence[Cycle], length_s: float, *, threads: int) -> dict[str, float]:
    """Return the columns of P0's tables for a run: means over the stream's length, utilisations without the time needed to catch up."""
    seen = [cycle.evaluation.seen for cycle in cycles if cycle.evaluation and cycle.at_s <= length_s]
    settled = [interval for interval in seen if interval.at_s > CATCH_UP_S] or seen
    out = plant.windows_per_second()
    return {
        "pane_threads": fmean(interval.allocation.pane_slots or interval.allocation.workers for interval in seen),
        "window_threads": fmean(interval.allocation.window_slots or 0 for interval in seen),
        "splitting_factor": fmean(interval.splitting_factor or 1.0 for interval in seen),
        "sampled_utilisation": plant.sampled_utilisation(int(CATCH_UP_S / plant.period_s)) or 0.0,
        "window_utilisation": fmean(interval.window_utilisation or 0.0 for interval in settled),
        "longer": plant.completed_s / length_s - 1,
        "cv": float(out.std() / out.mean()) if out.any() else 0.0,
        "at_maximum": fmean(interval.allocation.workers >= threads for interval in seen),
        "changes": sum(one.allocation != two.allocation for one, two in pairwise(seen)),
    }
