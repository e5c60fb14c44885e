"""What the latest observations mean together."""

from collections.abc import Sequence
from statistics import median

from skytide.records import Evaluation, Observation

RECENT = 5  # observations over which the median time for a tuple is taken
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
    )


def _alike(seen: Observation, now: Observation) -> bool:
    """Return whether a tuple took as long then as it does now, as far as the frequency goes."""
    return seen.allocation.frequency_ghz == now.allocation.frequency_ghz
