"""A fleet in virtual time: many streams, the splits that read them, and the cost of redirecting one (P1 §6.1 to §6.3).

The planner is the same as on Spark, and splits admit tuples by the same fair shares. A stream keeps what has not been admitted yet.
While it is being redirected nothing of it is admitted: what comes meanwhile is buffered at the client, and the redirection is over when
that has been worked off.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skytide.admission import Admission, Profile, Sample, admit
from skytide.errors.checks import check_choice, check_number, refused
from skytide.workloads.arrivals import BLOCK, OnOff
from skytide.workloads.fleet import FLEETS, PERIOD_S
from skytide.workloads.identity import derive
from skytide_lab.sim.bin_packing import min_bins

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

TICK_US = 200_000
TICK_S = TICK_US / 1e6
BURST_S = IDLE_S = PERIOD_S / 2  # mean lengths; P1 prints neither these nor the period of the other workloads
WORKLOADS = (*FLEETS, "bursty")
TRANSITIONS = {"step": "jump", "trend": "trend"}


@dataclass(frozen=True)
class FleetTraffic:
    """The tuples of each stream (a row) in each tick, and the profiles of the streams."""

    counts: Counts
    profiles: Mapping[str, Profile]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the streams."""
        return _names(len(self.counts))


def fleet_traffic(workload: str, streams: int, rate_hz: float, seconds: float, seed: int) -> FleetTraffic:
    """Return one of P1's workloads, drawn at random: `streams` streams with `rate_hz` tuples per second together.

    Profiles have what P1 §6.2.1 declared for DRF-M: peak rates, whether rates jump or have a trend, and the lengths of bursts.
    """
    check_choice("workload", workload, WORKLOADS)
    draw = _bursts if workload == "bursty" else _fluctuations
    counts, profiles = draw(workload, streams, rate_hz, round(seconds / TICK_S), seed)
    return FleetTraffic(counts, dict(zip(_names(streams), profiles, strict=True)))


def _names(streams: int) -> tuple[str, ...]:
    return tuple(f"s{number:04d}" for number in range(streams))


def _fluctuations(workload: str, streams: int, rate_hz: float, ticks: int, seed: int) -> tuple[Counts, list[Profile]]:
    """Return Poisson arrivals at rates that are steady, or go up and down."""
    fleet = FLEETS[workload](rate_hz, streams)
    rates_hz = fleet.rates_hz((np.arange(ticks, dtype=np.float64) + 0.5) * TICK_S, seed)
    cycle = {} if fleet.shape == "steady" else {"period": f"{PERIOD_S} s", "transition": TRANSITIONS[fleet.shape]}
    counts: Counts = derive(seed, "fleet", "tuples", workload).poisson(rates_hz * TICK_S)
    return counts, [Profile(max_hz=peak, **cycle) for peak in rates_hz.max(axis=1).tolist()]  # type: ignore[arg-type]


def _bursts(workload: str, streams: int, rate_hz: float, ticks: int, seed: int) -> tuple[Counts, list[Profile]]:
    """Return tuples at equal distances during bursts, and none between bursts."""
    rates = FLEETS["constw"](rate_hz, streams).rates_hz(np.zeros(1), seed)[:, 0].tolist()
    bursts = [OnOff(rate, round(BURST_S * 1e6), round(IDLE_S * 1e6)) for rate in rates]
    blocks = -(-ticks // BLOCK) * BLOCK
    expected = [burst.expected(0, blocks, tick_us=TICK_US, seed=seed * streams + row) for row, burst in enumerate(bursts)]
    first = derive(seed, "fleet", "tuples", workload).random((streams, 1))
    come = np.floor(np.cumsum(np.array(expected)[:, :ticks], axis=1) + first).astype(np.int64)
    lengths = {"high": f"{BURST_S} s", "low": f"{IDLE_S} s", "transition": "jump"}
    return np.diff(come, axis=1, prepend=0), [Profile(max_hz=burst.peak_hz, **lengths) for burst in bursts]  # type: ignore[arg-type]


@dataclass(frozen=True)
class FleetOutcome:
    """What a strategy did, as means over the periods."""

    redirections: float
    given_up: float
    """Redirections of streams whose split was given up; the other streams left an overloaded split."""
    buffered: float
    """Tuples that came to a client while its stream was being redirected."""
    delay_s: float
    """How long the redirections of a period took in total."""
    splits: float
    optimal: float
    """A lower bound on the number of splits."""
    latency_s: float
    """The backlog of the most loaded split, in seconds of its capacity."""
    violations: float
    """Share of the periods in which the latency was above the bound."""

    @property
    def above_optimal(self) -> float:
        """Return the share of splits above the optimal number."""
        return self.splits / max(self.optimal, 1.0) - 1


class Clients:
    """What each stream has sent, how much of it is waiting, and how long it is still being redirected."""

    def __init__(self, streams: int) -> None:
        """Start with nothing."""
        self.arrived, self.waiting, self._owed, self._blocked_ticks = (np.zeros(streams, np.int64) for _ in range(4))

    def redirect(self, rows: NDArray[np.intp], ticks: int) -> None:
        """Start to redirect streams."""
        self._blocked_ticks[rows] = ticks

    def tick(self, come: Counts, splits: NDArray[np.int32], budget: int, turn: int) -> tuple[int, int]:
        """Let tuples come and be admitted, up to a budget per split; return how many were buffered, and how many streams are still delayed."""
        blocked = self._blocked_ticks > 0
        self.arrived, self.waiting = self.arrived + come, self.waiting + come
        taken = admit(np.where(blocked, 0, self.waiting), splits, budget, turn=turn)
        self.waiting = self.waiting - taken
        self._owed = np.where(blocked, self.waiting, np.maximum(self._owed - taken, 0))
        self._blocked_ticks = np.maximum(self._blocked_ticks - 1, 0)
        return int(come[blocked].sum()), int(np.count_nonzero(blocked | (self._owed > 0)))


def run_fleet(admission: Admission, traffic: FleetTraffic, *, redirect_s: float = 1.0, warm_up_s: float = PERIOD_S) -> FleetOutcome:
    """Play a fleet, and return its outcome without the first seconds, in which rates are learned."""
    check_number("redirect_s", redirect_s, above=0, meaning="seconds, more than 0")
    planner, clients, suspended = admission.build(), Clients(len(traffic.counts)), np.zeros(len(traffic.counts), np.bool_)
    names, capacity_hz, ticks = traffic.names, admission.capacity_hz, round(admission.period_s / TICK_S)
    periods = range(0, traffic.counts.shape[1] - ticks + 1, ticks)
    if not periods or periods[-1] * TICK_S < warm_up_s:
        length_s = traffic.counts.shape[1] * TICK_S
        remedy = f"play at least a period of {admission.period_s:g} s more than the warm-up"
        raise refused("warm_up_s", warm_up_s, f"no period is left of {length_s:g} s of traffic", remedy)
    before = np.full(len(names), -1, np.int32)
    seen: list[tuple[float, ...]] = []
    for first in periods:
        counts = traffic.counts[:, first : first + ticks]
        plan = planner.plan(Sample(first * TICK_S, names, clients.arrived, clients.waiting, suspended), traffic.profiles)
        clients.redirect(plan.redirected, round(redirect_s / TICK_S))
        buffered, delayed, latency_s = 0, 0, 0.0
        for tick, come in enumerate(counts.T, first):
            more, still = clients.tick(come, plan.splits, round(capacity_hz * TICK_S), tick)
            buffered, delayed = buffered + more, delayed + still
            latency_s = max(latency_s, float(np.bincount(plan.splits, clients.waiting).max()) / capacity_hz)
        if first * TICK_S >= warm_up_s:
            given_up = int(np.count_nonzero(np.isin(before[plan.redirected], plan.closed)))
            optimal = min_bins(counts.sum(axis=1) / admission.period_s, capacity_hz)
            late = latency_s > admission.bound_s
            seen.append((len(plan.redirected), given_up, buffered, delayed * TICK_S, len(plan.open), optimal, latency_s, late))
        before = plan.splits
    return FleetOutcome(*np.mean(seen, axis=0).tolist())
