"""How many executors several queries need together: what each would take alone, and what it has to wait for others.

Each query has a demand: the time of its tasks per second of its stream. Demands add up, but that is not all: a batch has to be done before
the next one is due, and meanwhile executors also have the tasks of other queries. Those with a shorter trigger begin several batches in that
time, and those with a longer one begin one every now and then. As triggers are multiples of their interval since 1970, queries do begin at
the same moment, again and again. So a batch of query q needs

    W_q + sum over the others of W_o * max(1, left_q / T_o)

seconds of tasks within what is left of its interval: `left_q = T_q - F_q`. Here W are seconds of tasks per batch, T intervals and F what is fixed.
Where Spark divides executors fairly, by weights, another query gets at most w_o / w_q of what q gets meanwhile, so it takes at most that share
of W_q. This does not depend on how many executors there are: the batch of a query among others is again a micro-batch, with more work.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import TypeVar

from skytide.control.models.micro_batch import MAX_FIXED, time_left, utilisation
from skytide.records import MicroBatch, Observation

Key = TypeVar("Key", bound=Hashable)
UNTIMED_PERIODS = 2.0  # without a trigger, the time from batch to batch over what is fixed of it
MIN_PERIOD_S = 1e-3


@dataclass(frozen=True)
class Share:
    """What a query does alone, and how it is treated among others."""

    batch: MicroBatch
    rate_hz: float
    """Rows per second."""
    weight: float = 1.0
    """Its share of the executors while others work, too; counts only where Spark divides them fairly."""
    bound_s: float | None = None
    """The mean latency that it must keep, from the arrival of a row to the end of its batch."""

    @property
    def period_s(self) -> float:
        """The time from batch to batch."""
        return max(self.batch.trigger_s or UNTIMED_PERIODS * self.batch.fixed_s, MIN_PERIOD_S)

    @property
    def demand(self) -> float:
        """The seconds of tasks per second.

        >>> Share(MicroBatch(100, 0.2, 4.0, trigger_s=10), rate_hz=20).demand
        0.8
        """
        return self.rate_hz * self.batch.work_s / self.batch.rows if self.batch.rows > 0 else 0.0

    @property
    def left_s(self) -> float:
        """The time within which the tasks of a batch must be done."""
        period_s = self.period_s
        allowed_s = period_s if self.bound_s is None else min(period_s, self.bound_s - period_s / 2)
        least_s = (1 - MAX_FIXED) * period_s
        return (
            allowed_s - self.batch.fixed_s
            if allowed_s - self.batch.fixed_s >= least_s
            else max(period_s - self.batch.fixed_s, least_s)
        )


def total_demand(shares: Mapping[Key, Share]) -> float:
    """Return the seconds of tasks per second of all queries together: fewer workers cannot be enough."""
    return sum(share.demand for share in shares.values())


def among(shares: Mapping[Key, Share], *, fair: bool = False) -> dict[Key, MicroBatch]:
    """Return the batch of each query as it is among the others: with the work that executors do meanwhile for them.

    >>> often, seldom = Share(MicroBatch(100, 0.0, 20.0, trigger_s=10), 10), Share(MicroBatch(150, 0.0, 20.0, trigger_s=15), 10)
    >>> {name: batch.work_s for name, batch in among({"often": often, "seldom": seldom}).items()}
    {'often': 40.0, 'seldom': 50.0}
    """
    total, largest = total_demand(shares), max(shares, key=lambda key: shares[key].demand, default=None)
    found = dict[Key, MicroBatch]()
    for key, own in shares.items():
        others_s = sum(_meanwhile_s(own, other, fair) for name, other in shares.items() if name != key)
        if key == largest:  # whoever is treated well leaves its work to others, but somebody has to do it all
            others_s = max(others_s, (total - own.demand) * own.left_s)
        found[key] = _with_others(own, others_s)
    return found


def seen_among(seen: Observation, batch: MicroBatch) -> Observation:
    """Return what was observed of a query, with its batch as it is among others.

    >>> from skytide.records import Allocation
    >>> alone = MicroBatch(100, 0.0, 20.0, trigger_s=10)
    >>> seen = Observation(60, 10, Allocation(4), 10, 10, utilisation=0.5, service_s=0.2, batch=alone)
    >>> shared = seen_among(seen, replace(alone, work_s=50.0))
    >>> shared.utilisation, shared.service_s
    (1.25, 0.5)
    """
    if batch.rows <= 0:
        return replace(seen, batch=batch)
    used = float(utilisation(batch, seen.arrival_rate_hz, max(1, seen.allocation.workers)))
    service_s = batch.work_s / batch.rows / time_left(batch) / batch.cores
    return replace(seen, utilisation=max(used, seen.utilisation), service_s=service_s, batch=batch)


def _work_s(share: Share) -> float:
    return share.demand * share.period_s


def _meanwhile_s(own: Share, other: Share, fair: bool) -> float:
    """Return what executors do for another query until a batch of this one is done."""
    whole_s = _work_s(other) * max(1.0, own.left_s / other.period_s)
    return min(whole_s, _work_s(own) * other.weight / own.weight) if fair else whole_s


def _with_others(own: Share, others_s: float) -> MicroBatch:
    work_s = _work_s(own)
    if work_s <= 0:
        return own.batch
    factor = 1 + others_s / work_s
    tasks = None if own.batch.tasks is None else ceil(own.batch.tasks * factor - 1e-9)  # of the same length
    return replace(own.batch, work_s=own.batch.work_s * factor, tasks=tasks)
