"""The cost of a plan: quality of service, resources and changes (P2 section 3.3.1), on scales that follow from what is observed.

- Quality: P2's cost of a configuration relative to its cost where demand is just met, minus 1, with no gain beyond that: for
  throughput alpha (T_S/T_A - 1), for a latency R and its bound alpha (exp(R/bound - 1) - 1). Where tuples are served one by one, no size
  can keep a bound below the service time of a tuple, so the bound counts as at least twice that time. A query of micro-batches has a
  model of its own, and a floor: a bound below it is given up, and only throughput counts.
- Resources: beta times workers (or watts), relative to those of now or of the highest need, whichever is more.
- Changes: gamma times the square of the change on the same scale. P2's balance of beta and gamma was found with about 5 replicas, so
  the scale is a fifth of the workers. A change of any size has a small cost of its own: the thousandth worker is not worth a
  reconfiguration. It is higher by the share of the planned time in which state has to be loaded again.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skytide.control.models import micro_batch
from skytide.control.models.operator import power_w, waiting_s
from skytide.control.models.optimiser import Problem
from skytide.control.models.sizing import rounded_up
from skytide.records import Allocation, MicroBatch

Floats = NDArray[np.float64]
P2_REPLICAS = 5
ANY_CHANGE = 0.1
MAX_RELOAD = 0.4  # of the planned time: otherwise one of two workers would stay for ever
MAX_WORKERS = 1e6  # a higher need is an error of measurement, and the guard has the last word
STEEPEST = 20.0  # exponent beyond which a latency is just far too long
ALL = 128  # up to this range, every number of workers is considered; beyond, only some
OFFSETS = np.unique(np.rint(1.35 ** np.arange(40)).astype(np.int64))


@dataclass(frozen=True)
class Demand:
    """What the next steps require."""

    rates_hz: tuple[float, ...]
    service_s: float
    """Time of a worker per tuple at the present frequency."""
    arrival_cv: float
    service_cv: float
    correction: float
    batch: MicroBatch | None = None
    """What batches are like; None where tuples are served one by one."""
    reload_share: float = 0.0
    """The time that state takes to be loaded again after a change, over that of the planned steps."""


@dataclass(frozen=True)
class Objective:
    """The costs of configurations; see `Mpc` for what the values mean."""

    bound_s: float | None
    power: bool
    alpha: float
    beta: float
    gamma: float
    headroom: float
    minimum: int
    maximum: int | None
    frequencies_ghz: tuple[float, ...]
    """Empty: the frequency stays as it is."""
    scaled: bool
    percentile: float | None = None
    """Of the latency that is bounded; None: the mean."""

    def used(self, allocation: Allocation, demand: Demand) -> float:
        """Return the utilisation of an allocation at the present frequency in the first step."""
        if demand.batch is not None:
            return float(micro_batch.utilisation(demand.batch, demand.rates_hz[0], max(1, allocation.workers)))
        return demand.rates_hz[0] * demand.service_s / max(1, allocation.workers)

    def latency_s(self, allocation: Allocation, demand: Demand, percentile: float | None = None) -> float:
        """Return the latency of an allocation at the present frequency in the first step."""
        workers = max(1.0, allocation.workers)
        if demand.batch is not None:
            return float(micro_batch.latency_s(demand.batch, demand.rates_hz[0], workers, percentile))
        used, service_s, count = map(np.array, (self.used(allocation, demand), demand.service_s, workers))
        return float(self._latency_s(used, service_s, count, demand))

    def floor_s(self, demand: Demand) -> float | None:
        """Return the latency that no size can beat in the first step, if that is more than the bound."""
        if demand.batch is None or self.bound_s is None:
            return None
        floor_s = micro_batch.floor_s(demand.batch, demand.rates_hz[0], self.percentile)
        return floor_s if floor_s > self.bound_s else None

    def overload(self, present: Allocation, demand: Demand) -> Allocation | None:
        """Return the largest configuration if even that cannot serve the first step, otherwise None."""
        if self.maximum is None:
            return None
        fastest = max(self.frequencies_ghz, default=None)
        speed = fastest / self._frequency(present) if fastest else 1.0
        if demand.rates_hz[0] * demand.service_s < self.maximum * speed:
            return None
        return self._allocation(present, self.maximum, fastest)

    def problem(self, present: Allocation, demand: Demand) -> tuple[list[Allocation], Problem]:
        """Return the configurations to consider, and their costs."""
        now_ghz = self._frequency(present)
        fastest = max(self.frequencies_ghz, default=now_ghz)
        needs = np.minimum(np.array(demand.rates_hz) * demand.service_s * now_ghz / fastest / (1 - self.headroom), MAX_WORKERS)
        wanted = [rounded_up(need) for need in needs] + self._enough(demand)
        counts = candidates(present.workers, wanted, self.minimum, self.maximum)
        frequencies = np.array(self.frequencies_ghz or (now_ghz,))
        workers = np.repeat(counts, len(frequencies)).astype(float)
        ghz = np.tile(frequencies, len(counts))
        scale = max(float(needs.max()), present.workers * now_ghz / fastest, 1.0)
        used = self._used(needs, workers, ghz, now_ghz, fastest, demand)
        step = self._quality(used, workers, ghz, now_ghz, demand) + self._resources(workers, ghz, scale, fastest)
        between = self._changes(workers[:, None] - workers, ghz[:, None] - ghz, scale, fastest, demand.reload_share)
        first = self._changes(workers - present.workers, ghz - now_ghz, scale, fastest, demand.reload_share)
        chosen_ghz = ghz.tolist() if self.frequencies_ghz else [None] * len(workers)
        options = [self._allocation(present, int(n), f) for n, f in zip(workers.tolist(), chosen_ghz, strict=True)]
        return options, Problem(step, first, between)

    def _enough(self, demand: Demand) -> list[int]:
        """Return how many workers each step of a query of micro-batches needs; nothing for another."""
        if demand.batch is None:
            return []
        bound_s = None if self.floor_s(demand) else self.bound_s
        enough = [
            micro_batch.fewest_workers(demand.batch, rate_hz, bound_s=bound_s, percentile=self.percentile)
            for rate_hz in demand.rates_hz
        ]
        return [min(count, int(MAX_WORKERS)) for count in enough]

    def _used(self, needs: Floats, workers: Floats, ghz: Floats, now_ghz: float, fastest: float, demand: Demand) -> Floats:
        """Return the utilisation of each configuration in each step, where 1 is all but the headroom."""
        if demand.batch is None:
            return needs[:, None] / (workers * ghz / fastest)
        rates_hz = np.array(demand.rates_hz)[:, None]
        full: Floats = micro_batch.utilisation(demand.batch, rates_hz, workers) * now_ghz / ghz / (1 - self.headroom)
        return full

    def _quality(self, used: Floats, workers: Floats, ghz: Floats, now_ghz: float, demand: Demand) -> Floats:
        service_s = demand.service_s * now_ghz / ghz
        behind: Floats = np.maximum(used - 1, 0)
        if self.bound_s is None:
            between_ms = 1e3 / np.maximum(np.array(demand.rates_hz), 1e-9)
            return self.alpha * behind if self.scaled else self.alpha * between_ms[:, None] * (1 + behind)  # P2 (11): alpha T_S
        if demand.batch is not None:
            if self.floor_s(demand):
                return self.alpha * behind
            rates_hz = np.array(demand.rates_hz)[:, None] * (now_ghz / ghz)  # slower cores are like more tuples
            latency_s = micro_batch.latency_s(demand.batch, rates_hz, workers, self.percentile)
            late_or_behind: Floats = self.alpha * (np.expm1((latency_s / self.bound_s - 1).clip(0, STEEPEST)) + behind)
            return late_or_behind
        latency_s = self._latency_s(used, service_s, workers, demand)
        if self.scaled:
            reachable_s = max(self.bound_s * (1 - self.headroom), 2 * float(service_s.min()))
            over = latency_s / reachable_s - 1
            late: Floats = np.expm1(over.clip(0, STEEPEST))
            return self.alpha * (late + behind)
        steep: Floats = np.exp(np.minimum(latency_s / self.bound_s, STEEPEST))
        return self.alpha * steep * (1 + behind)  # P2 (12)

    def _latency_s(self, used: Floats, service_s: Floats, workers: Floats, demand: Demand) -> Floats:
        wait_s = waiting_s(used, demand.arrival_cv, demand.service_cv, service_s / workers)
        return demand.correction * wait_s + service_s

    def _resources(self, workers: Floats, ghz: Floats, scale: float, fastest: float) -> Floats:
        if self.power:
            # P2 prints no scale for watts: unscaled, a core at full speed costs as much as where cores are counted.
            return self.beta * power_w(workers, ghz) / power_w(scale if self.scaled else 1.0, fastest)
        return self.beta * (workers / scale if self.scaled else workers)

    def _changes(self, workers: Floats, ghz: Floats, scale: float, fastest: float, reload_share: float) -> Floats:
        if not self.scaled:
            step_ghz = float(np.diff(np.sort(self.frequencies_ghz)).min()) if len(self.frequencies_ghz) > 1 else 1.0
            return self.gamma * (workers**2 + (ghz / step_ghz) ** 2)  # P2 (15), frequencies as steps: section 5.3.4
        far = (workers / scale) ** 2 + (ghz / fastest) ** 2
        reload = min(reload_share, MAX_RELOAD) * (workers != 0)
        cost: Floats = self.gamma * (P2_REPLICAS * far + ANY_CHANGE * (far > 0) + reload)
        return cost

    def _frequency(self, present: Allocation) -> float:
        return present.frequency_ghz or max(self.frequencies_ghz, default=1.0)

    def _allocation(self, present: Allocation, workers: int, frequency_ghz: float | None) -> Allocation:
        sized = present.with_workers(workers)
        if frequency_ghz is None or frequency_ghz == present.frequency_ghz:
            return sized
        return Allocation(sized.workers, sized.pane_slots, sized.window_slots, frequency_ghz)


def candidates(present: int, needs: list[int], minimum: int, maximum: int | None) -> NDArray[np.int64]:
    """Return the numbers of workers to consider: all if there are few; if many, those near the present and needed ones, sparser with distance.

    >>> candidates(2, [3], 1, 6).tolist()
    [1, 2, 3, 4, 5, 6]
    >>> len(candidates(3_000, [3_400, 3_500, 3_600], 1, 5_000)) < 200
    True
    """
    top = maximum if maximum is not None else 2 * max(present, *needs, minimum) + 8
    if top - minimum < ALL:
        return np.arange(minimum, top + 1)
    centres = np.array([present, *needs])
    near = np.concatenate([centres, *(centre + sign * OFFSETS for centre in centres for sign in (-1, 1)), [minimum, top]])
    return np.unique(near.clip(minimum, top))
