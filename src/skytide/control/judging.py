"""Judging each host by its own load: what P4's techniques have in common, for Spark's executors and for FUGU's hosts (SPEC E6).

A judge decides which hosts should give load away, and which should be released. What happens then is not its concern: FUGU moves operators,
a Spark query gets another number of executors (`WorkersByLoad`).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from skytide.control.controller import Controller, ControllerLogic, State
from skytide.control.models.sizing import ROUNDING, rounded_up
from skytide.errors import InvalidInput
from skytide.errors.checks import brief, is_finite
from skytide.records import Decision, Evaluation
from skytide.windows import Duration, duration_s

Action = Literal["in", "out"]
MIN_SPREAD = 0.1


@dataclass(frozen=True)
class Verdict:
    """A host that should give load away ("out"), or be released ("in")."""

    host: str
    action: Action
    load: float
    why: str


class Judge(ABC):
    """Turns loads into verdicts. Hosts may come and go between two calls."""

    def __init__(self, grace_s: float, resting_since_s: Mapping[str, float] | None = None) -> None:
        """Let hosts rest for a grace period after they were affected by a change."""
        self._grace_s = grace_s
        self._resting_since_s = dict(resting_since_s or {})

    @abstractmethod
    def judge(self, loads: Mapping[str, float], *, now_s: float) -> list[Verdict]:
        """Return verdicts; hosts without a verdict stay as they are."""

    def acted(self, hosts: Collection[str], *, touched: Collection[str], now_s: float) -> None:
        """Note that the verdicts on some hosts were carried out; the hosts this touched rest for the grace period."""
        for host in touched:
            self._resting_since_s[host] = now_s

    def refused(self, host: str) -> None:
        """Note that the verdict on a host cannot be carried out, as there is no room."""

    def undone(self, host: str) -> None:
        """Note that the verdict on a host was not carried out, or not yet, for other reasons."""

    def snapshot(self) -> State:
        """Return the state, from which a judge can continue."""
        return {"resting_since_s": dict(self._resting_since_s)}

    def _rests(self, host: str, now_s: float) -> bool:
        """Return whether a host is within its grace period; setting the clock back ends it."""
        since_s = self._resting_since_s.get(host)
        return since_s is not None and 0 <= now_s - since_s < self._grace_s

    def _forget(self, present: Collection[str]) -> None:
        self._resting_since_s = {host: at for host, at in self._resting_since_s.items() if host in present}


@dataclass(frozen=True)
class WorkersByLoad(Controller):
    """Chooses the number of workers by the verdicts on each; load is assumed to be divisible."""

    lower: float = 0.3
    """A worker with less load may be released."""
    upper: float = 0.8
    """A worker with more load gives some away."""
    target: float = 0.6
    """The load that it keeps then."""
    grace: Duration | int = "30 s"
    """How long workers that a change affected are left alone."""

    def __post_init__(self) -> None:
        """Refuse thresholds that make no sense."""
        loads = (self.lower, self.target, self.upper)
        ordered = all(map(is_finite, loads)) and 0 < self.lower < self.target < self.upper <= 1
        if not (ordered and self.upper - self.lower >= MIN_SPREAD - ROUNDING):
            raise InvalidInput(
                value=f"lower={brief(self.lower)}, target={brief(self.target)}, upper={brief(self.upper)}",
                reason=f"not loads of a worker in this order, {MIN_SPREAD} apart",
                remedy="choose 0 < lower < target < upper <= 1, as 0.3, 0.6, 0.8",
            )
        duration_s(self.grace, "grace")

    @property
    def grace_s(self) -> float:
        """Return the same in seconds."""
        return duration_s(self.grace, "grace")

    @abstractmethod
    def judge(self, resume: State | None = None) -> Judge:
        """Return a new judge, or one that continues from a snapshot."""

    def build(self, resume: State | None = None) -> ControllerLogic:
        """Return the logic."""
        return _Workers(self, **(resume or {}))


class _Workers(ControllerLogic):
    def __init__(
        self,
        config: WorkersByLoad,
        judge: State | None = None,
        workers: int | None = None,
        names: Sequence[str] = (),
        wished: Sequence[str] = (),
    ) -> None:
        self._config, self._judge = config, config.judge(judge)
        self._workers = workers
        self._names = list(names)
        self._wished = list(wished)  # the workers for whose sake the latest decision wanted a change

    def snapshot(self) -> State:
        return {"judge": self._judge.snapshot(), "workers": self._workers, "names": self._names, "wished": self._wished}

    def decide(self, seen: Evaluation, *, now_s: float) -> Decision:
        workers = max(1, seen.seen.allocation.workers)
        loads = worker_loads(seen, self._names)
        if not loads:
            return Decision(
                seen.seen.allocation.with_workers(workers), f"neither loads nor utilisation are known: stays at {workers}"
            )
        self._follow_up(workers, loads, now_s)
        self._workers, self._names, self._wished = workers, list(loads), []
        verdicts = self._judge.judge(loads, now_s=now_s)
        over, under = ([v for v in verdicts if v.action == action] for action in ("out", "in"))
        if over:
            wanted, reason = self._out(over, loads, workers)
        elif under:
            wanted, reason = self._in(under, loads, workers)
        else:
            wanted, reason = (
                workers,
                f"loads {min(loads.values()):.2f} to {max(loads.values()):.2f} call for no change: stays at {workers}",
            )
        return Decision(seen.seen.allocation.with_workers(wanted), reason)

    def _follow_up(self, workers: int, loads: Mapping[str, float], now_s: float) -> None:
        """Tell the judge the result of the latest decision. Only an actual change counts: a wish may be delayed or limited."""
        if self._wished and workers != self._workers:
            self._judge.acted(self._wished, touched=loads, now_s=now_s)
        else:
            for host in self._wished:
                self._judge.undone(host)

    def _out(self, over: list[Verdict], loads: Mapping[str, float], workers: int) -> tuple[int, str]:
        target, hosts = self._config.target, {v.host for v in over}
        why = max(over, key=lambda v: v.load).why + (f" (and {len(over) - 1} more)" if len(over) > 1 else "")
        excess = sum(v.load - target for v in over)
        room = self._room(loads, hosts, workers)
        added = rounded_up((excess - room) / target)
        if added <= 0:
            for host in hosts:
                self._judge.refused(host)
            return workers, f"{why}, but the others have room for {room:.2f} up to the target {target:.2f}: stays at {workers}"
        self._wished = sorted(hosts)
        return workers + added, f"{why}: {workers} to {workers + added}"

    def _in(self, under: list[Verdict], loads: Mapping[str, float], workers: int) -> tuple[int, str]:
        least = min(under, key=lambda v: (v.load, v.host))
        for verdict in under:
            if verdict is not least:
                self._judge.undone(verdict.host)
        room = self._room(loads, {least.host}, workers)
        if workers == 1:
            self._judge.undone(least.host)
            return 1, f"{least.why}, but one worker is needed: stays at 1"
        if room < least.load:
            self._judge.refused(least.host)
            return workers, f"{least.why}, but the others only have room for {room:.2f}: stays at {workers}"
        self._wished = [least.host]
        return workers - 1, f"{least.why}, and the others have room for {room:.2f}: {workers} to {workers - 1}"

    def _room(self, loads: Mapping[str, float], without: Collection[str], workers: int) -> float:
        """Return how much load the other workers can take up to the target; unknown workers can take all of it."""
        others = sum(max(0.0, self._config.target - load) for host, load in loads.items() if host not in without)
        return others + max(0, workers - len(loads)) * self._config.target


def worker_loads(seen: Evaluation, names: Sequence[str] = ()) -> dict[str, float]:
    """Return the load of each worker; if none is measured, all have the utilisation of the whole, under their previous names.

    A measured load cannot exceed 1, so with a utilisation above 1 the loads are scaled up to that mean.

    >>> from skytide.records import Allocation, Observation
    >>> busy = Observation(60, 10, Allocation(2), 900, 800, utilisation=1.5, loads=(("1", 1.0), ("2", 0.5)))
    >>> worker_loads(Evaluation(busy, demand_hz=900, service_s=None, demand_ratio=1.5, lead_s=6))
    {'1': 2.0, '2': 1.0}
    """
    whole = max(0.0, seen.demand_ratio) if math.isfinite(seen.demand_ratio) else None
    loads = {host: max(0.0, load) for host, load in seen.seen.loads if math.isfinite(load)}
    if whole is None:
        return loads
    if not loads:
        workers = max(1, seen.seen.allocation.workers)
        made_up = (str(number) for number in range(1, 2 * workers + 1) if str(number) not in names)
        return dict.fromkeys([*names, *made_up][:workers], whole)
    mean = sum(loads.values()) / len(loads)
    if whole > max(1.0, mean):
        return {host: load * whole / mean if mean > 0 else whole for host, load in loads.items()}
    return loads
