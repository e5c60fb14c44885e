"""FUGU in virtual time: hosts, the operators of many queries, and the costs of moving them (P4 §II and V).

Each query is a filter, which sees all events, and a window over the events of its sector. `skytide_lab.hosts.manager` decides which
operators go where. One step is one measurement point, in which loads are fluid: what a host cannot do stays as a backlog with its
operators, so nothing is lost.
"""

from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from skytide.control.guard import Guard
from skytide.control.judging import WorkersByLoad
from skytide.control.models.operator import kingman
from skytide.errors import InvalidInput
from skytide.records import Allocation, Outcome
from skytide.sim.drive import ROUNDING_S, VirtualPlant, drive
from skytide.workloads.identity import derive
from skytide_lab.hosts.manager import HostsSeen, Manager, Placed
from skytide_lab.hosts.placement import Bin, Item, first_fit

Floats = NDArray[np.float64]

HOSTS, QUERIES, INTERVAL_S = 10, 35, 5.0  # P4 §V: up to 10 hosts, 35 queries, about 700 points in at least an hour
MEAN_LOAD = 2.9  # hosts that all operators keep busy on average: P4 has 0.5 fewer hosts at a utilisation of 0.57 than at 0.52
WINDOW_S = (1, 60)  # random in P4; the range is ours
# These are ours as well, as P4 does not print them:
MOVE_S, MOVED_EVENT_S = 2.0, 50e-6  # time to redirect and start an operator, and to extract, send and replay an event of its state
HOP_S = 0.001  # between two hosts
MAX_STEADY = 0.95  # up to this load a queue counts as steady; the backlog accounts for what is above
NETWORK_HZ, MEMORY_EVENTS = 100_000.0, 1e7  # of a host


@dataclass(frozen=True)
class Day:
    """Events per second, by measurement point and sector."""

    name: str
    rate_hz: Floats
    arrival_scv: float = 1.0
    """Squared coefficient of variation of the time between two events."""

    def __post_init__(self) -> None:
        """Refuse tables that are not rates."""
        if self.rate_hz.ndim != 2 or not self.rate_hz.size or not np.isfinite(self.rate_hz).all() or self.rate_hz.min() < 0:
            raise InvalidInput(
                value=f"the rates of {self.name!r}", reason="not rates by point and sector", remedy="give a table of rates >= 0"
            )


@dataclass(frozen=True)
class Operators:
    """The filters of all queries, then their windows."""

    load: Floats
    """The share of a host that each operator takes, by point."""
    rate_hz: Floats
    """Events per second of each operator, by point."""
    window_s: Floats
    """The window of each operator; 0 for filters, which have no state."""
    event_s: Floats
    """The time per event of each operator."""

    @property
    def queries(self) -> int:
        """Return the number of queries."""
        return int(self.load.shape[1]) // 2

    def item(self, number: int, cpu: float, point: int) -> Item:
        """Return an operator as an item for bin packing."""
        rate_hz, other = float(self.rate_hz[point, number]), (number + self.queries) % (2 * self.queries)
        return Item(str(number), cpu, rate_hz, rate_hz * float(self.window_s[number]), (str(other),))


def operators(day: Day, seed: int, queries: int = QUERIES, mean_load: float = MEAN_LOAD) -> Operators:
    """Return the operators of random queries, with random windows and sectors. Costs are chosen so that random queries have the mean load."""
    sectors = day.rate_hz.shape[1]
    draws = [derive(seed, "query", number) for number in range(queries)]
    window_s = np.array([rng.integers(WINDOW_S[0], WINDOW_S[1] + 1) for rng in draws], dtype=float)
    sector = np.array([rng.integers(sectors) for rng in draws])
    total_hz = day.rate_hz.sum(axis=1)
    # Putting an event into a window costs more than looking at its sector, and more the longer the window is: on average both
    # operators of a query take the same time.
    look_s = mean_load / (2 * queries * total_hz.mean())
    put_s = look_s * sectors * (0.5 + window_s / sum(WINDOW_S))
    rate_hz = np.hstack([np.repeat(total_hz[:, None], queries, axis=1), day.rate_hz[:, sector]])
    cost_s = np.concatenate([np.full(queries, look_s), put_s])
    return Operators(rate_hz * cost_s, rate_hz, np.concatenate([np.zeros(queries), window_s]), cost_s)


@dataclass
class Point:
    """The measurements of an interval, and how many operators moved at its end."""

    hosts: int
    load_min: float
    load_mean: float
    load_max: float
    latency_s: float
    """Mean time from an event to its result, over all queries."""
    moved: int = 0


class Fugu(VirtualPlant):
    """The plant, behind the port of the control cycle: `observe(now)` plays up to now, `request` moves operators."""

    lead_s = 0.0

    def __init__(self, operators: Operators, fill: float, arrival_scv: float = 1.0) -> None:
        """Place all operators by first fit on hosts that are filled up to a load."""
        self.operators, self._scv = operators, arrival_scv
        self.backlog_s: Floats = np.zeros(operators.load.shape[1])
        """The waiting work of each operator."""
        self.done_s = 0.0
        self.points: list[Point] = []
        self.where: NDArray[np.int64] = np.zeros(operators.load.shape[1], dtype=np.int64)
        """The place of each operator's host."""
        self.names: list[str | None] = [None] * HOSTS
        """The name of each host in use: a host that is allocated again has another name."""
        self._pause_s = np.zeros(operators.load.shape[1])
        self.allocated = self._named = 0
        items = [operators.item(number, float(load), 0) for number, load in enumerate(operators.load[0])]
        placed = first_fit(items, [Bin(str(slot), fill, spare=True) for slot in range(HOSTS)])
        for number in range(len(items)):
            self.where[number] = int(placed.places.get(str(number), number % HOSTS))
        self.name_hosts(self._offered())

    @property
    def finished(self) -> bool:
        """Return whether the day is over."""
        return len(self.points) >= len(self.operators.load)

    def size(self) -> Placed:
        """Return the hosts in use, and where operators are."""
        where = sorted((str(number), self.names[slot] or "") for number, slot in enumerate(self.where.tolist()))
        return Placed(sum(name is not None for name in self.names), where=tuple(where))

    def observe(self, now_s: float) -> HostsSeen | None:
        """Play all intervals that end by now, and return what was measured since the last call; loads are those of the last interval."""
        passed: list[HostsSeen] = []
        while not self.finished and (len(self.points) + 1) * INTERVAL_S <= now_s + ROUNDING_S:
            passed.append(self._pass(len(self.points)))
        if not passed:
            return None
        came_hz, done_hz = (fmean(getattr(seen, name) for seen in passed) for name in ("arrival_rate_hz", "processed_rate_hz"))
        return replace(passed[-1], interval_s=len(passed) * INTERVAL_S, arrival_rate_hz=came_hz, processed_rate_hz=done_hz)

    def request(self, wanted: Allocation, now_s: float) -> Outcome:
        """Move operators, taking and releasing hosts as needed, and return what was done."""
        if not isinstance(wanted, Placed):
            raise InvalidInput(value=repr(wanted), reason="it has no places for operators", remedy="ask the manager")
        offered = self._offered()
        slots = {name: slot for slot, name in [*enumerate(self.names), *offered.items()] if name is not None}
        point, moved = max(0, len(self.points) - 1), 0
        for number, slot in ((int(item), slots[host]) for item, host in wanted.where):
            if slot != self.where[number]:
                self._move(number, slot, point)
                moved += 1
        if self.points:
            self.points[-1].moved += moved
        self.name_hosts(offered)
        return Outcome("done" if moved else "kept", f"{moved} operators move, {sum(name is not None for name in self.names)} hosts")

    def _pass(self, point: int) -> HostsSeen:
        load = self.operators.load[point]
        latency_s, allocation = self._latency_s(point), self.size()
        have_s = self.backlog_s + load * INTERVAL_S
        served = np.minimum(1.0, INTERVAL_S / np.maximum(self._by_host(have_s), 1e-12))[self.where]
        done_s = np.minimum(have_s * served, np.maximum(0.0, INTERVAL_S - self._pause_s))
        self.backlog_s = have_s - done_s
        self.done_s += float(done_s.sum())
        self._pause_s = np.maximum(0.0, self._pause_s - INTERVAL_S)
        busy = self._by_host(done_s) / INTERVAL_S
        loads = tuple((name, float(busy[slot])) for slot, name in enumerate(self.names) if name is not None)
        values = [value for _, value in loads]
        mean = sum(values) / len(values)
        self.points.append(Point(len(values), min(values), mean, max(values), latency_s))
        rates_hz = self.operators.rate_hz[point]
        event_s = self.operators.event_s
        return HostsSeen(
            at_s=(point + 1) * INTERVAL_S,
            interval_s=INTERVAL_S,
            allocation=allocation,
            arrival_rate_hz=float(rates_hz.sum()),
            processed_rate_hz=float((done_s / event_s).sum()) / INTERVAL_S,
            utilisation=float(load.sum()) / len(values),
            latency_s=latency_s,
            loads=loads,
            items=tuple(self.operators.item(number, float(taken_s) / INTERVAL_S, point) for number, taken_s in enumerate(done_s)),
            spare=tuple(self._offered().values()),
            network=NETWORK_HZ,
            memory=MEMORY_EVENTS,
        )

    def _by_host(self, values: Floats) -> Floats:
        return np.bincount(self.where, values, HOSTS).astype(np.float64)

    def _latency_s(self, point: int) -> float:
        """Return the mean latency of the queries: waiting and service at both hosts, the hop between them, and pauses for moves."""
        load, rate_hz = self.operators.load[point], self.operators.rate_hz[point]
        pause_s = np.minimum(self._pause_s, INTERVAL_S)
        rho, events_hz = self._by_host(load), self._by_host(rate_hz)
        service_s = rho / np.maximum(events_hz, 1e-9)
        wait_s = steady_wait_s(rho, service_s, self._scv)
        wait_s += backlog_wait_s(self._by_host(self.backlog_s + pause_s * load), rho, INTERVAL_S)
        queries = self.operators.queries
        at_operator_s = (wait_s + service_s)[self.where]
        # Events that come in a pause wait at the predecessor until it is over.
        stalled_s = pause_s * (self._pause_s - pause_s / 2) / INTERVAL_S
        apart = self.where[:queries] != self.where[queries:]
        of_query = (
            at_operator_s[:queries] + at_operator_s[queries:] + HOP_S * apart + np.maximum(stalled_s[:queries], stalled_s[queries:])
        )
        return float(of_query.mean())

    def _move(self, number: int, slot: int, point: int) -> None:
        self.where[number] = slot
        state = self.operators.rate_hz[point, number] * self.operators.window_s[number]
        self._pause_s[number] = MOVE_S + MOVED_EVENT_S * float(state)

    def _offered(self) -> dict[int, str]:
        """Return the name that each free place would have."""
        free = [slot for slot, name in enumerate(self.names) if name is None]
        return {slot: str(self._named + 1 + at) for at, slot in enumerate(free)}

    def name_hosts(self, offered: dict[int, str]) -> None:
        """Release hosts without operators, and name those that got their first operator."""
        used = set(self.where.tolist())
        for slot in range(HOSTS):
            if slot not in used:
                self.names[slot] = None
            elif self.names[slot] is None:
                self.allocated += 1
                self.names[slot] = offered[slot]
                self._named = max(self._named, int(offered[slot]))


def steady_wait_s(rho: Floats, service_s: Floats, arrival_scv: float) -> Floats:
    """Return the mean wait in a steady queue (SPEC E2) with service times whose standard deviation equals their mean."""
    waits: Floats = kingman(np.minimum(rho, MAX_STEADY), arrival_scv**0.5, 1.0) * service_s
    return waits


def backlog_wait_s(backlog_s: Floats, rho: Floats, interval_s: float) -> Floats:
    """Return the mean wait behind a backlog over an interval in which it grows or shrinks steadily (fluid queue).

    >>> backlog_wait_s(np.array([2.0, 2.0, 0.0]), np.array([0.0, 1.2, 1.2]), 5.0)
    array([0.4, 2.5, 0.5])
    """
    end_s = backlog_s + (rho - 1) * interval_s
    drained = backlog_s**2 / (2 * np.maximum(1 - rho, 1e-9) * interval_s)
    return np.where(end_s >= 0, (backlog_s + end_s) / 2, drained)


@dataclass(frozen=True)
class FuguOutcome:
    """The figures of a day, as in P4."""

    load_min: float
    load_mean: float
    load_max: float
    latency_p10_s: float
    latency_median_s: float
    latency_p90_s: float
    hosts: float
    allocated: int
    """Hosts that were taken in the course of the day; one that was released and taken again counts twice."""
    moved: int


def run_fugu(day: Day, technique: WorkersByLoad, seed: int, fill: float | None = None) -> tuple[FuguOutcome, list[Point]]:
    """Play a day with a technique, and return its outcome and its points; hosts are filled up to its target, or to another load."""
    plant = Fugu(operators(day, seed), fill or technique.target, day.arrival_scv)
    drive(plant, Manager(technique, fill), Guard.bounds(1, HOSTS), interval_s=INTERVAL_S)
    points = plant.points
    p10, median, p90 = np.percentile([point.latency_s for point in points], [10, 50, 90])

    def mean(name: str) -> float:
        return float(np.mean([getattr(point, name) for point in points]))

    return FuguOutcome(
        load_min=mean("load_min"),
        load_mean=mean("load_mean"),
        load_max=mean("load_max"),
        latency_p10_s=float(p10),
        latency_median_s=float(median),
        latency_p90_s=float(p90),
        hosts=mean("hosts"),
        allocated=plant.allocated,
        moved=sum(point.moved for point in points),
    ), points
