"""From clients to results in virtual time: splits that read streams, nodes that process, and nodes that merge (P1 §3, §6.5).

Splits are assigned by the same planner as on Spark, and the numbers of processing and merging nodes follow from a forecast (SPEC E7).
Tuples go to processing nodes by the shares that frequency-aware hashing gives them. Every node serves its queue in order.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skytide.admission import Admission, Profile, Sample, admit
from skytide.control.models.sizing import Sizing, rounded_up, sizing
from skytide.workloads.fleet import SHARES
from skytide.workloads.identity import derive
from skytide_lab.sim.fleet import TICK_S, Counts, FleetTraffic, Floats

SPREAD = 0.1  # share of the cycle within which the streams begin to rise


@dataclass(frozen=True)
class Machines:
    """The capacities of nodes, and the costs of a change; P1 prints none of these."""

    capacity_hz: float = 10_000.0
    """The capacity of a split, and of a processing node."""
    results_per_tuple: float = 0.1
    merge_hz: float = 9_000.0
    headroom: float = 0.1
    redirect_s: float = 1.0
    choke_s: float = 0.2
    """How long nothing passes while nodes are added or removed."""

    def sized(self, forecast_hz: float) -> Sizing:
        """Return the numbers of nodes that a forecast requires."""
        results_hz = self.capacity_hz * self.results_per_tuple
        return sizing(
            forecast_hz, 1 / self.capacity_hz, capacity_hz=results_hz, merge_cost_s=1 / self.merge_hz, headroom=self.headroom
        )


@dataclass(frozen=True, eq=False)
class Deployment:
    """Which split reads each stream, and how many nodes process and merge."""

    splits: NDArray[np.int32]
    nodes: Sizing


@dataclass(frozen=True)
class Moment:
    """The state at the end of a tick."""

    at_s: float
    rate_hz: float
    splits: int
    processing: int
    merging: int
    redirected: int
    """Streams that are being redirected."""
    client_s: float
    """How long the oldest tuple that no split has read has waited."""
    processing_s: float
    """How long the slowest processing node, and then the merging nodes, need for what is waiting there."""
    merging_s: float

    @property
    def latency_s(self) -> float:
        """Return how long the tuples of a result take on the slowest path."""
        return self.client_s + self.processing_s + self.merging_s


Assign = Callable[[Sample], Deployment]
Shares = Callable[[int], Floats]


def trend_traffic(streams: int, low_hz: float, high_hz: float, seconds: float, seed: int) -> FleetTraffic:
    """Return random streams that rise from one rate to another and fall back, each at its own time; declared as in P1 §6.2.1."""
    random = derive(seed, "fleet", "trend")
    shares = random.uniform(*SHARES, streams)
    late = random.uniform(-SPREAD / 2, SPREAD / 2, streams)
    at = (np.arange(round(seconds / TICK_S)) + 0.5) * TICK_S / seconds
    wave = np.clip(1 - np.abs(2 * (at[None, :] - late[:, None]) - 1), 0.0, 1.0)
    rates = (shares / shares.sum())[:, None] * (low_hz + (high_hz - low_hz) * wave)
    traffic = FleetTraffic(random.poisson(rates * TICK_S), {})
    profiles = [
        Profile(min_hz=float(row.min()), max_hz=float(row.max()), period=f"{seconds} s", transition="trend") for row in rates
    ]
    return FleetTraffic(traffic.counts, dict(zip(traffic.names, profiles, strict=True)))


def elastic(admission: Admission, traffic: FleetTraffic, machines: Machines) -> Assign:
    """Return an assignment by a planner; nodes follow the rates that its strategy expects, now or as far as it looks ahead."""
    planner = admission.build()

    def assign(sample: Sample) -> Deployment:
        plan = planner.plan(sample, traffic.profiles)
        return Deployment(plan.splits, machines.sized(max(float(plan.next_hz.sum()), float(plan.expected_hz.sum()))))

    return assign


def static(traffic: FleetTraffic, nodes: int, machines: Machines) -> Assign:
    """Return an assignment that never changes: streams are spread in the order of their highest rates."""
    highest = np.array([traffic.profiles[name].max_hz or 0.0 for name in traffic.names])
    splits, loads = np.zeros(len(highest), np.int32), np.zeros(nodes)
    for stream in np.argsort(-highest, kind="stable"):
        splits[stream] = int(loads.argmin())
        loads[splits[stream]] += highest[stream]
    fixed = Deployment(splits, Sizing(nodes, machines.sized(nodes * machines.capacity_hz * (1 - machines.headroom)).merging))
    return lambda sample: fixed


def run_elastic_fleet(traffic: FleetTraffic, assign: Assign, shares: Shares, machines: Machines, period_s: float) -> list[Moment]:
    """Play streams through all nodes, with a new assignment in every period, and return the state after each tick."""
    plant, every = _Plant(traffic, shares, machines), round(period_s / TICK_S)
    moments = []
    for tick in range(traffic.counts.shape[1]):
        if tick % every == 0:
            plant.follow(assign(plant.sample(tick * TICK_S)))
        moments.append(plant.step(tick))
    return moments


class _Plant:
    """Clients with their buffers, splits, processing and merging nodes."""

    def __init__(self, traffic: FleetTraffic, shares: Shares, machines: Machines) -> None:
        self._traffic, self._shares, self._machines = traffic, shares, machines
        streams = len(traffic.counts)
        self._came = np.cumsum(traffic.counts, axis=1)
        self._arrived, self._taken = np.zeros(streams, np.int64), np.zeros(streams, np.int64)
        self._oldest = np.zeros(streams, np.int64)  # the tick in which the next tuple to be read came
        self._blocked_ticks = np.zeros(streams, np.int64)
        self._choked_ticks = 0
        self._now: Deployment | None = None
        self._nodes: dict[int, float] = {}  # what waits at each processing node, including removed ones
        self._merge = 0.0

    def sample(self, now_s: float) -> Sample:
        waiting = self._arrived - self._taken
        return Sample(now_s, self._traffic.names, self._arrived, waiting, np.zeros(len(waiting), np.bool_))

    def follow(self, wanted: Deployment) -> None:
        """Redirect streams, and add or remove nodes: what waits at a removed node is still processed there (P1 §3.3)."""
        if self._now is not None:
            self._blocked_ticks[wanted.splits != self._now.splits] = _ticks(self._machines.redirect_s)
            if wanted.nodes != self._now.nodes:
                self._choked_ticks = _ticks(self._machines.choke_s)
        self._now = wanted

    def step(self, tick: int) -> Moment:
        assert self._now is not None
        machines, nodes = self._machines, self._now.nodes
        come = self._traffic.counts[:, tick]
        self._arrived = self._arrived + come
        taken = self._take(tick)
        self._taken = self._taken + taken
        processing_s = self._process(float(taken.sum()), nodes)
        merging_s = self._merge / (nodes.merging * machines.merge_hz)
        blocked = int(np.count_nonzero(self._blocked_ticks))
        moment = Moment(
            at_s=(tick + 1) * TICK_S,
            rate_hz=float(come.sum()) / TICK_S,
            splits=len(np.unique(self._now.splits)),
            processing=nodes.processing,
            merging=nodes.merging,
            redirected=blocked,
            client_s=self._client_s(tick),
            processing_s=processing_s,
            merging_s=merging_s,
        )
        self._blocked_ticks = np.maximum(self._blocked_ticks - 1, 0)
        self._choked_ticks = max(0, self._choked_ticks - 1)
        return moment

    def _take(self, tick: int) -> Counts:
        assert self._now is not None
        waiting = self._arrived - self._taken
        free = np.where(self._blocked_ticks > 0, 0, waiting) * (self._choked_ticks == 0)
        budget = round(self._machines.capacity_hz * TICK_S)
        return admit(free, self._now.splits, budget, turn=tick)

    def _client_s(self, tick: int) -> float:
        """Return how long the oldest tuple that no split has read has waited."""
        waits = self._arrived > self._taken
        rows = np.arange(len(self._oldest))
        while True:
            behind = waits & (self._came[rows, self._oldest] <= self._taken)
            if not behind.any():
                return float(((tick - self._oldest)[waits]).max(initial=0)) * TICK_S
            self._oldest += behind

    def _process(self, tuples: float, nodes: Sizing) -> float:
        """Let nodes work for a tick, and return how long the slowest one still needs."""
        can = self._machines.capacity_hz * TICK_S
        for node, share in enumerate(self._shares(nodes.processing).tolist()):
            self._nodes[node] = self._nodes.get(node, 0.0) + tuples * share
        done = sum(min(can, waiting) for waiting in self._nodes.values())
        self._nodes = {node: max(0.0, waiting - can) for node, waiting in self._nodes.items()}
        merged = self._machines.merge_hz * TICK_S * nodes.merging
        self._merge = max(0.0, self._merge + done * self._machines.results_per_tuple - merged)
        return max(self._nodes.values()) / self._machines.capacity_hz


def _ticks(seconds: float) -> int:
    return rounded_up(seconds / TICK_S)  # a part of a tick counts as a whole one, so that nothing that takes time is free
