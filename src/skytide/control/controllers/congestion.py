"""The elastic scaling of SPL (Gedik et al. 2014, as described in P2 section 5.4): try, remember what did not help, forget on change."""

from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

from skytide.control.controller import Controller, ControllerLogic, State
from skytide.errors.checks import is_finite, refused
from skytide.records import Decision, Evaluation


@dataclass(frozen=True)
class Congestion(Controller):
    """Adds one worker under congestion unless that did not help before, and removes one without it unless that was congested before.

    The congestion index is the share of the time in which the input would be held back: the input beyond what can be served. It is the
    elastic scaling of SPL (Gedik et al. 2014). See [Controllers](scaling.md#controllers).

    Parameters
    ----------
    congestion
        A query with a higher congestion index is congested.
    sensitivity
        A throughput below this share of the remembered one, or above it by the same factor, is a change of the load.

    Raises
    ------
    InvalidInput
        Unless both are between 0 and 1.

    Examples
    --------
    >>> from skytide.records import Allocation, Evaluation, Observation
    >>> seen = Observation(60, 10, Allocation(2), 900, 800, utilisation=1.6)
    >>> Congestion().build().decide(Evaluation(seen, 900, None, 1.6, lead_s=6), now_s=60).reason
    'congestion 0.38 over 0.1: 2 to 3'
    """

    former_name: ClassVar[str] = "Spl"

    congestion: float = 0.1
    sensitivity: float = 0.9

    def __post_init__(self) -> None:
        """Refuse values that are not shares."""
        for name in ("congestion", "sensitivity"):
            if not (is_finite(getattr(self, name)) and 0 < getattr(self, name) < 1):
                raise refused(name, getattr(self, name), "not a share", "choose one between 0 and 1")

    def build(self, resume: State | None = None) -> ControllerLogic:
        """Return the logic, from a snapshot if there is one."""
        return _Congestion(self, **(resume or {}))


class _Congestion(ControllerLogic):
    def __init__(self, config: Congestion, known: list[list[float]] | None = None) -> None:
        self._config = config
        self._tried = {int(n): (bool(congested), rate) for n, congested, rate in known or []}

    def snapshot(self) -> State:
        return {"known": [[n, int(congested), rate] for n, (congested, rate) in sorted(self._tried.items())]}

    def decide(self, seen: Evaluation, *, now_s: float) -> Decision:
        present, rate_hz = seen.seen.allocation, seen.seen.processed_rate_hz
        if not (isfinite(seen.demand_ratio) and isfinite(rate_hz)):
            return Decision(present, f"no utilisation was measured: stays at {present.workers}")
        if not seen.settled:
            return Decision(present, f"not all requested workers have started: stays at {present.workers}")
        n, index = present.workers, max(0.0, 1 - 1 / seen.demand_ratio) if seen.demand_ratio > 0 else 0.0
        congested = index > self._config.congestion
        self._forget(n, congested, rate_hz)
        self._tried[n] = (congested, rate_hz)
        reason = f"congestion {index:.2f} {'over' if congested else 'within'} {self._config.congestion:g}"
        if congested and self._useless(n, n - 1):
            return Decision(present.with_workers(n - 1), f"{reason}, but {n} did not help: {n} to {n - 1}")
        if congested and not self._useless(n + 1, n):
            return Decision(present.with_workers(n + 1), f"{reason}: {n} to {n + 1}")
        if congested:
            return Decision(present, f"{reason}, but {n + 1} did not help: stays at {n}")
        if n > 1 and not self._tried.get(n - 1, (False, 0.0))[0]:
            return Decision(present.with_workers(n - 1), f"{reason}: {n} to {n - 1}")
        return Decision(present, f"{reason}{f', but {n - 1} was congested' if n > 1 else ''}: stays at {n}")

    def _useless(self, more: int, fewer: int) -> bool:
        """Return whether one worker more did not serve more. If either was not congested, it served all its input, which says nothing."""
        if not (more in self._tried and fewer in self._tried):
            return False
        (more_congested, more_hz), (fewer_congested, fewer_hz) = self._tried[more], self._tried[fewer]
        return more_congested and fewer_congested and more_hz <= fewer_hz

    def _forget(self, n: int, congested: bool, rate_hz: float) -> None:
        """Forget what a change of the load has made untrue: with less load, that fewer were congested; with more, that more did not help."""
        if n not in self._tried:
            return
        was_congested, before_hz = self._tried[n]
        if rate_hz < self._config.sensitivity * before_hz or (was_congested and not congested):
            self._tried = {at: value for at, value in self._tried.items() if at > n}
        elif before_hz < self._config.sensitivity * rate_hz or (congested and not was_congested):
            self._tried = {at: value for at, value in self._tried.items() if at < n}
