"""What a query of micro-batches would do with any number of workers and any load: one model for every controller.

A batch of N rows takes D = F + N k s seconds. F is fixed, k is the time of tasks per row, and s the share of that work that is left as
time: n tasks on w slots run in ceil(n / w) waves, so s = ceil(n / w) / n, or 1 / w if the number of tasks is not known. With a trigger
of T seconds a batch has the rows of T seconds, or, once batches take longer, of as long as they take. So

    utilisation = rate k s / (1 - F / T),    latency of a row = half the time from batch to batch + D.

The utilisation is the load over what could be served: 1.3 is 30 % too much, and at 1 a batch takes exactly its interval. At most four
fifths of T count as F: if F alone fills the interval, no number of workers helps. Without a trigger the next batch begins at once, and
batches become as long as they must: there the utilisation is such that at 1 half of each batch is work.
"""

from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skytide.records import MicroBatch

Floats = NDArray[np.float64]
MAX_FIXED = 0.8  # of the trigger's interval
UNTIMED_LEFT = 0.5  # of a batch, without an interval
FULL = 0.999  # of what workers can do without end: nearer to 1, batches become endless
MOST = 1 << 20  # workers, where nothing limits them
MEAN_WAIT = 0.5  # of the time from batch to batch
USED = 0.9  # utilisation beyond which no size is chosen
WAITS = (np.arange(40) + 0.5) / 40  # where in a period a row may come


def left_share(batch: MicroBatch, workers: ArrayLike) -> Floats:
    """Return which share of the time of all tasks a batch takes with so many workers.

    >>> left_share(MicroBatch(900, 0.2, 1.8, tasks=12), [1, 5, 6, 12, 20]).round(3).tolist()
    [1.0, 0.25, 0.167, 0.083, 0.083]
    """
    slots = np.maximum(np.asarray(workers, dtype=float) * batch.cores, 1.0)
    if batch.tasks is None:
        return 1.0 / slots
    tasks = max(1, batch.tasks)
    return np.ceil(tasks / np.floor(slots + 1e-9)) / tasks


def utilisation(batch: MicroBatch, rate_hz: ArrayLike, workers: ArrayLike) -> Floats:
    """Return the load over what so many workers could serve.

    >>> round(float(utilisation(MicroBatch(900, 0.2, 1.8, trigger_s=1.0), 900, 3)), 6)
    0.75
    """
    full: Floats = _demand(batch, rate_hz, workers) / time_left(batch)
    return full


def time_left(batch: MicroBatch) -> float:
    """Return the share of the interval that is left for work."""
    if batch.fixed_s <= 0:
        return 1.0
    return 1.0 - min(batch.fixed_s / batch.trigger_s, MAX_FIXED) if batch.trigger_s else UNTIMED_LEFT


def duration_s(batch: MicroBatch, rate_hz: ArrayLike, workers: ArrayLike) -> Floats:
    """Return how long batches take, once they have settled.

    >>> duration_s(MicroBatch(900, 0.2, 1.8, trigger_s=1.0), 900, [3, 2]).round(3).tolist()
    [0.8, 2.0]
    """
    demand = _demand(batch, rate_hz, workers)
    alone_s = batch.fixed_s / (1 - np.minimum(demand, FULL)) * np.maximum(demand / FULL, 1.0)  # batch after batch, without a pause
    if not batch.trigger_s:
        return alone_s
    timed_s = batch.fixed_s + demand * batch.trigger_s
    return np.where(timed_s <= batch.trigger_s, timed_s, np.maximum(timed_s, alone_s))


def latency_s(batch: MicroBatch, rate_hz: ArrayLike, workers: ArrayLike, percentile: float | None = None) -> Floats:
    """Return the latency of a row, from its arrival to the end of its batch: the mean, or a percentile.

    >>> batch = MicroBatch(900, 0.2, 1.8, trigger_s=1.0)
    >>> float(latency_s(batch, 900, 3)), float(latency_s(batch, 900, 3, percentile=95).round(2))
    (1.3, 1.75)
    """
    took_s = duration_s(batch, rate_hz, workers)
    period_s = np.maximum(took_s, batch.trigger_s or 0.0)
    if percentile is None:
        return took_s + MEAN_WAIT * period_s
    return took_s + _percentile_s(period_s, batch.spread_s, percentile / 100)


def floor_s(batch: MicroBatch, rate_hz: float, percentile: float | None = None) -> float:
    """Return the latency that no number of workers can beat.

    >>> floor_s(MicroBatch(900, 0.5, 1.8, trigger_s=5.0), 900)
    3.0
    """
    return float(latency_s(batch, rate_hz, batch.most_workers or MOST, percentile).round(2))


def fewest_workers(batch: MicroBatch, rate_hz: float, *, bound_s: float | None = None, percentile: float | None = None) -> int:
    """Return the fewest workers that are used to at most nine tenths, and keep a bound; if none do, as many as have tasks.

    >>> fewest_workers(MicroBatch(900, 0.2, 1.8, trigger_s=1.0), 900, bound_s=1.2)
    4
    """
    most = batch.most_workers or MOST

    def enough(workers: int) -> bool:
        used = float(utilisation(batch, rate_hz, workers))
        return used <= USED and (bound_s is None or float(latency_s(batch, rate_hz, workers, percentile)) <= bound_s)

    few, many = 0, 1
    while many < most and not enough(many):
        few, many = many, min(2 * many, most)
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if enough(middle) else (middle, many)
    return many


def level_utilisations(first_s: float, second_s: float, took_s: float, interval_s: float) -> tuple[float, float]:
    """Return the utilisations of two levels that run one after the other in each batch: P0's rho1 and rho2 for micro-batches.

    Each may take half of the interval (without what is fixed), or more if the other leaves more. So at least one is above 1 if and only if a batch
    does not fit into its interval, and a level with little work never is because of the other.

    >>> level_utilisations(0.3, 0.1, took_s=0.5, interval_s=1.0), level_utilisations(0.75, 0.15, took_s=1.15, interval_s=1.0)
    ((0.375, 0.166666667), (1.25, 0.4))
    """
    fixed_s = max(0.0, took_s - first_s - second_s)
    left_s = max(interval_s - fixed_s, (1 - MAX_FIXED) * interval_s)
    first = first_s / max(left_s / 2, left_s - second_s)
    second = second_s / max(left_s / 2, left_s - first_s)
    if took_s > interval_s:  # also where what is fixed fills the interval
        least = took_s / interval_s
        first, second = (max(first, least), second) if first_s >= second_s else (first, max(second, least))
    return round(first, 9), round(second, 9)


def _demand(batch: MicroBatch, rate_hz: ArrayLike, workers: ArrayLike) -> Floats:
    """Return the share of all time in which workers have to work."""
    row_s = batch.work_s / batch.rows if batch.rows > 0 else 0.0
    demand: Floats = np.asarray(rate_hz, dtype=float) * row_s * left_share(batch, workers)
    return demand


def _percentile_s(period_s: Floats, spread_s: float, share: float) -> Floats:
    """Return a percentile of what is added to the mean duration: a wait of up to a period, and the spread of durations."""
    if spread_s <= 0:
        return share * period_s
    normal = NormalDist(0.0, spread_s)

    def of_one(period: float) -> float:
        low, high = -6 * spread_s, period + 6 * spread_s
        for _ in range(40):
            middle = (low + high) / 2
            below = sum(normal.cdf(middle - wait * period) for wait in WAITS) / len(WAITS)
            low, high = (middle, high) if below < share else (low, middle)
        return high

    periods_s: Floats = np.vectorize(of_one, otypes=[float])(period_s)
    return periods_s
