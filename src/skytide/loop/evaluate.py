"""What the latest observations mean together."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from skytide.records import Evaluation, MicroBatch, Observation

RECENT = 5  # observations over which medians are taken
ODD = 5.0  # times the highest load of late: a step, or one odd interval, which only the next one can tell
QUIET = 2  # intervals without a tuple after which a query is idle
CATCH_UP_S = 120.0  # within which a backlog is to be worked off


def evaluate(history: Sequence[Observation], *, lead_s: float, settled: bool = True) -> Evaluation:
    """Return what the latest observation means.

    >>> from skytide.records import Allocation
    >>> seen = Observation(60, 10, Allocation(2), 900, 800, utilisation=1.1, service_s=0.0025, backlog=12_000)
    >>> evaluate([seen], lead_s=6).demand_hz
    1000.0
    """
    now = history[-1]
    demand_hz = max(now.arrival_rate_hz, now.expected_rate_hz or 0.0) + now.backlog / CATCH_UP_S
    measured_s = [seen.service_s for seen in history[-RECENT:] if seen.service_s is not None and _alike(seen, now)]
    service_s = median(measured_s) if measured_s else None
    demand_ratio = now.utilisation
    if now.arrival_rate_hz > 0:
        demand_ratio *= demand_hz / now.arrival_rate_hz
    elif service_s is not None:  # nothing comes, but something may wait
        demand_ratio = demand_hz * service_s / max(1, now.allocation.workers)
    return Evaluation(
        seen=now,
        demand_hz=demand_hz,
        service_s=service_s,
        demand_ratio=demand_ratio,
        lead_s=lead_s,
        settled=settled,
        batch=_usual_batch([seen for seen in history[-RECENT:] if _alike(seen, now)]),
    )


def is_odd(seen: Observation, before: Sequence[Observation]) -> bool:
    """Return whether far more came than in the latest intervals.

    >>> from skytide.records import Allocation
    >>> usual = Observation(60, 10, Allocation(2), 900, 900, utilisation=0.7)
    >>> is_odd(replace(usual, arrival_rate_hz=90_000), [usual] * 3), is_odd(replace(usual, arrival_rate_hz=1_800), [usual] * 3)
    (True, False)
    """
    recent = [one.arrival_rate_hz for one in list(before)[-RECENT:]]
    return len(recent) >= QUIET and 0 < ODD * max(recent) < seen.arrival_rate_hz


def is_idle(history: Sequence[Observation]) -> bool:
    """Return whether nothing has come for a while, and nothing waits or is expected."""
    latest = list(history)[-QUIET:]
    return len(latest) == QUIET and not any(
        seen.arrival_rate_hz or seen.processed_rate_hz or seen.backlog or seen.expected_rate_hz for seen in latest
    )


def _usual_batch(history: Sequence[Observation]) -> MicroBatch | None:
    """Return the latest batch, with medians of its times."""
    batches = [seen.batch for seen in history if seen.batch is not None and seen.batch.rows > 0]
    if not batches:
        return None
    return replace(
        batches[-1],
        fixed_s=median(batch.fixed_s for batch in batches),
        work_s=median(batch.work_s / batch.rows for batch in batches) * batches[-1].rows,
        spread_s=median(batch.spread_s for batch in batches),
    )


def _alike(seen: Observation, now: Observation) -> bool:
    """Return whether a tuple took as long then as it does now, as far as the frequency goes."""
    return seen.allocation.frequency_ghz == now.allocation.frequency_ghz
