"""Runs any controller on a recording, or on any series of rates: what it would have done, and how well."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from skytide.control.controller import Controller
from skytide.control.guard import Guard
from skytide.control.saso import KEEPS_UP, Saso, Step, saso
from skytide.errors import InvalidInput
from skytide.loop.cycle import Cycle
from skytide.records import Observation
from skytide.sim.drive import VirtualPlant, drive
from skytide.sim.operator import Operator


@dataclass(frozen=True)
class Played:
    """A run of a controller."""

    saso: Saso
    steps: list[Step]
    seen: list[Observation]
    cycles: list[Cycle]


class PaidPlant(VirtualPlant, Protocol):
    """A plant that tells what its workers cost."""

    @property
    def worker_s(self) -> float:
        """Return the time of all workers so far, as it is paid for."""


def play(plant: PaidPlant, controller: Controller, guard: Guard, *, interval_s: float, bound_s: float | None = None) -> Played:
    """Let a controller steer a plant to its end, and return the run; a latency above `bound_s`, or without it falling behind, is a violation."""
    guard = guard.patient(3 * interval_s)
    cycles = drive(plant, controller, guard, interval_s=interval_s)
    seen = [cycle.evaluation.seen for cycle in cycles if cycle.evaluation is not None]
    steps = [Step(now.allocation, violated(now, bound_s), now.interval_s, now.power_w) for now in seen]
    paid = replace(saso(steps), worker_seconds=plant.worker_s)  # also while there was nothing to see
    return Played(paid, steps, seen, cycles)


def violated(seen: Observation, bound_s: float | None) -> bool:
    """Return whether the quality of service was violated in an interval (SPEC E8)."""
    if bound_s is not None:
        return seen.latency_s is not None and seen.latency_s > bound_s
    return seen.processed_rate_hz < KEEPS_UP * seen.arrival_rate_hz


def recorded(seen: Sequence[Observation], bound_s: float | None = None) -> Saso:
    """Return the measures of what really happened."""
    return saso(Step(interval.allocation, violated(interval, bound_s), interval.interval_s, interval.power_w) for interval in seen)


def plant_of(seen: Sequence[Observation], *, lead_s: float, cold_s: float) -> Operator:
    """Return a plant with the recorded input and time per tuple, interval by interval."""
    if not seen:
        raise InvalidInput(value="an empty recording", reason="nothing can be replayed", remedy="record at least one interval")
    costs = [_cost_s(interval) for interval in seen]
    measured = sorted(cost for cost in costs if cost is not None)
    if not measured:
        raise InvalidInput(
            value="the recording",
            reason="the time per tuple is unknown: no interval has service_s, or a utilisation and an input rate",
            remedy="record a time with some load",
        )
    usual = measured[len(measured) // 2]
    interval_s = sorted(interval.interval_s for interval in seen)[len(seen) // 2]
    step_s = min(1.0, interval_s)
    rates: list[float] = []
    services: list[float] = []
    for interval, cost in zip(seen, costs, strict=True):
        count = max(1, round(interval.interval_s / step_s))
        rates += [interval.arrival_rate_hz] * count
        services += [cost if cost is not None else usual] * count
    return Operator(
        rates,
        services,
        step_s=step_s,
        start=seen[0].allocation.with_workers(max(1, seen[0].allocation.workers)),
        lead_s=lead_s,
        cold_s=cold_s,
    )


def _cost_s(seen: Observation) -> float | None:
    if seen.service_s:
        return seen.service_s
    if seen.arrival_rate_hz > 0 and 0 < seen.utilisation < float("inf"):
        return seen.utilisation * max(1, seen.allocation.workers) / seen.arrival_rate_hz
    return None
