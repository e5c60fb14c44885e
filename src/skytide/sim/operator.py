"""An elastic operator by counts: the plant on which all controllers are compared, and P2's plant (P2 sections 2 to 5).

Tuples come at given rates, wait in a queue, and are served by workers that take some clock ticks per tuple. Requested workers come after
a lead time; after a change, keys that moved wait for their new worker, and if that has just started, until it has warmed up. Time passes
in short steps, by numbers of tuples instead of single ones, so a day takes about a second.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from skytide.control.models.operator import kingman, power_w
from skytide.errors import InvalidInput
from skytide.records import Allocation, Observation, Outcome
from skytide.sim.drive import ROUNDING_S, VirtualPlant
from skytide.workloads.identity import derive

Floats = NDArray[np.float64]
QUEUE_LOAD = 0.98  # beyond this load, waiting tuples are counted and need no formula


@dataclass(frozen=True)
class PlayedStep:
    """What happened in a step."""

    allocation: Allocation
    arrived: float
    served: float
    blocked: bool
    """Whether tuples were waiting for a free worker at its end."""


@dataclass
class _Interval:
    """What happened since the latest observation."""

    began_s: float
    workers: int | None = None
    arrived: float = 0.0
    served: float = 0.0
    could: float = 0.0
    busy_s: float = 0.0
    there_s: float = 0.0
    waited_s: float = 0.0
    """The total time of all tuples from arrival to result."""


class Operator(VirtualPlant):
    """The plant, behind the port of the control cycle: `observe(now)` plays up to now.

    >>> plant = Operator([100.0] * 60, service_s=0.016, start=Allocation(2), arrival_cv=0, service_cv=0)
    >>> plant.observe(10).utilisation
    0.8
    """

    def __init__(
        self,
        rates_hz: Sequence[float] | Floats,
        service_s: float | Sequence[float] | Floats,
        *,
        step_s: float = 1.0,
        start: Allocation | None = None,
        lead_s: float = 0.0,
        cold_s: float = 0.0,
        move_s: float = 0.0,
        arrival_cv: float = 1.0,
        service_cv: float = 0.5,
        seed: int = 0,
    ) -> None:
        """Create a plant from the rate of each step, and the time per tuple of a worker at the initial frequency (constant, or for each step).

        `lead_s` is the time until a requested worker is there, `cold_s` until it works, and `move_s` until keys have moved.
        """
        rates, costs = np.asarray(rates_hz, float), np.broadcast_to(np.asarray(service_s, float), np.shape(rates_hz))
        _check(rates, costs, step_s)
        self._step_s, self._lead_s, self._cold_s, self._move_s = step_s, lead_s, cold_s, move_s
        self._cv = (arrival_cv, service_cv)
        come = rates * step_s
        draws = derive(seed, "operator").standard_normal((2, len(come)))
        self._come: list[float] = np.rint((come + arrival_cv * np.sqrt(come) * draws[0]).clip(min=0)).tolist()
        vary = (1 + service_cv / np.sqrt(np.maximum(come, 1)) * draws[1]).clip(min=0.1)
        self._ticks: list[float] = (costs * vary).tolist()
        self._now = start or Allocation(1)
        self._start_ghz = self._now.frequency_ghz
        self._coming: list[tuple[float, int]] = []
        self._ready = self._held = 0.0
        self._stall_s, self._stalled, self._cold = 0.0, 0.0, 0  # how long, what share of the keys, and how many workers
        self._at = 0
        self._interval = _Interval(0.0)
        self.arrived = self.served = 0.0
        self.steps: list[PlayedStep] = []
        """What happened in each step so far."""
        self.worker_s = 0.0
        """The worker time to pay for: from the moment workers are requested."""

    @property
    def length_s(self) -> float:
        """Return how long tuples come."""
        return len(self._come) * self._step_s

    @property
    def now_s(self) -> float:
        """Return the time that has been reached."""
        return self._at * self._step_s

    @property
    def backlog(self) -> float:
        """Return the number of waiting tuples."""
        return self._ready + self._held

    @property
    def lead_s(self) -> float:
        """Return how long it takes until an added worker works."""
        return self._lead_s + self._cold_s

    def size(self) -> Allocation:
        """Return the present allocation."""
        return self._now

    def request(self, wanted: Allocation, now_s: float) -> Outcome:
        """Request workers, release them, or set the frequency, which takes no time; return what was done."""
        coming = sum(count for _, count in self._coming)
        more = max(1, wanted.workers) - self._now.workers - coming
        before_ghz, ghz = self._now.frequency_ghz, wanted.frequency_ghz or self._now.frequency_ghz
        self._now = replace(self._now, frequency_ghz=ghz)
        if more > 0:
            self._coming.append((now_s + self._lead_s, more))
            self._join(now_s)
            return Outcome("asked", f"requested {more} more, there in {self._lead_s:g} s")
        cancelled = self._cancel(-more)
        leaving = -more - cancelled
        if leaving > 0:
            self._stall(leaving / self._now.workers, self._move_s)
            self._now = self._now.with_workers(self._now.workers - leaving)
        text = f"{leaving} released" + (f", {cancelled} cancelled" if cancelled else "")
        if not more and ghz == before_ghz:
            return Outcome("kept", text)
        return Outcome("asked" if self._coming else "done", text)  # "asked": the rest of what was requested before still comes

    def advance(self, until_s: float) -> None:
        """Let time pass in whole steps; after the last rate no tuples come."""
        while self._at * self._step_s < until_s - ROUNDING_S:
            self._join(self._at * self._step_s)
            self._step()
            self._at += 1

    @property
    def finished(self) -> bool:
        """Return whether no more tuples come."""
        return self._at >= len(self._come)

    def observe(self, now_s: float) -> Observation | None:
        """Play up to now, and return what was measured since the last call."""
        self.advance(min(now_s, max(self.length_s, self.now_s)))  # after the last rate there is nothing to observe
        seen, length_s = self._interval, self.now_s - self._interval.began_s
        if length_s <= 0:
            return None
        self._interval = _Interval(self.now_s)
        workers = seen.workers or self._now.workers
        ghz = self._now.frequency_ghz
        busy = seen.busy_s / seen.there_s
        return Observation(
            at_s=self.now_s,
            interval_s=length_s,
            allocation=replace(self._now.with_workers(workers), frequency_ghz=ghz),
            arrival_rate_hz=seen.arrived / length_s,
            processed_rate_hz=seen.served / length_s,
            utilisation=seen.arrived / seen.could if seen.could else (float("inf") if seen.arrived else 0.0),
            service_s=seen.busy_s / seen.served if seen.served else None,
            backlog=self.backlog,
            latency_s=seen.waited_s / seen.served if seen.served else None,
            arrival_cv=self._cv[0],
            service_cv=self._cv[1],
            loads=tuple((f"worker {at}", busy) for at in range(workers)),
            power_w=None if ghz is None else float(power_w(seen.there_s / length_s, ghz)),
        )

    def _step(self) -> None:
        step_s, at, workers, seen = self._step_s, self._at, self._now.workers, self._interval
        came = self._come[at] if at < len(self._come) else 0.0
        cost_s = self._ticks[min(at, len(self._ticks) - 1)]
        if self._start_ghz and self._now.frequency_ghz:
            cost_s *= self._start_ghz / self._now.frequency_ghz
        still = min(self._stall_s, step_s) / step_s
        working = workers - self._cold * still
        held = came * self._stalled * still
        before = self._ready + self._held
        self._ready += came - held
        self._held += held
        if still < 1:
            self._ready, self._held = self._ready + self._held, 0.0
        could = working * step_s / cost_s
        done = min(self._ready, could)
        self._ready -= done
        self._stall_s = max(0.0, self._stall_s - step_s)
        if not self._stall_s:
            self._stalled, self._cold = 0.0, 0
        load = min(came / could, QUEUE_LOAD) if could else QUEUE_LOAD
        # Each worker has the queue of its keys, so tuples wait for one worker, not for all: P2's formula needs its correction.
        queue_s = kingman(load, *self._cv) * cost_s
        seen.waited_s += (before + self._ready + self._held) / 2 * step_s + done * (queue_s + cost_s)
        seen.workers = workers if seen.workers is None else min(seen.workers, workers)
        seen.arrived += came
        seen.served += done
        seen.could += could
        seen.busy_s += done * cost_s
        seen.there_s += workers * step_s
        self.arrived += came
        self.served += done
        self.steps.append(PlayedStep(self._now, came, done, self._ready + self._held > 0))
        self.worker_s += (workers + sum(count for _, count in self._coming)) * step_s

    def _join(self, now_s: float) -> None:
        """Add the workers whose time has come."""
        while self._coming and self._coming[0][0] <= now_s + ROUNDING_S:
            _, count = self._coming.pop(0)
            self._now = self._now.with_workers(self._now.workers + count)
            self._stall(count / self._now.workers, self._move_s + self._cold_s, cold=count)

    def _stall(self, share: float, length_s: float, cold: int = 0) -> None:
        if length_s > 0:
            self._stall_s = max(self._stall_s, length_s)
            self._stalled = min(1.0, self._stalled + share)
            self._cold = min(self._cold + cold, self._now.workers - 1)

    def _cancel(self, limit: int) -> int:
        """Cancel up to `limit` requests that have not been met yet, the latest first, and return how many."""
        left = limit
        while left > 0 and self._coming:
            ready_s, count = self._coming.pop()
            if count > left:
                self._coming.append((ready_s, count - left))
            left -= min(count, left)
        return limit - left


def _check(rates: Floats, costs: Floats, step_s: float) -> None:
    """Refuse series that cannot be played."""
    wrong = None
    if rates.ndim != 1 or not len(rates) or not np.isfinite(rates).all() or (rates < 0).any():
        wrong = ("rates_hz", "not a series of rates", "give a finite rate of 0 or more for each step")
    elif not np.isfinite(costs).all() or (costs <= 0).any():
        wrong = ("service_s", "not a time per tuple", "give a time above 0, or one for each step")
    elif not step_s > 0:
        wrong = ("step_s", "no time would pass", "choose more than 0")
    if wrong:
        raise InvalidInput(value=wrong[0], reason=wrong[1], remedy=wrong[2])
