"""How busy slots are, and so whether a level can serve its input (P3 §4.1.2, SPEC S8)."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SlotUse:
    """What one slot did in a sampling period."""

    scheduled: int
    """Tuples that were sent to it."""
    processed: int
    """Tuples that it finished."""
    busy_s: float


def slot_utilisation(slots: Sequence[SlotUse], period_s: float) -> float | None:
    """Return the ratio of the input to what could have been served, or None if nothing was measured.

    What a slot could have served is what it did serve, and what it would have served in its idle time at the mean cost of a tuple. Slots
    are weighted by what is sent to them. Below 1 the level is not a bottleneck.

    >>> slot_utilisation([SlotUse(600, 600, 0.6), SlotUse(400, 400, 0.4)], period_s=1.0)
    0.52
    """
    processed, busy_s = sum(slot.processed for slot in slots), sum(slot.busy_s for slot in slots)
    scheduled = sum(slot.scheduled for slot in slots)
    if not scheduled or not processed or busy_s <= 0:
        return 0.0 if not scheduled and busy_s <= 0 else None
    tuple_s = busy_s / processed
    served = [slot.processed + max(0.0, period_s - slot.busy_s) / tuple_s for slot in slots]
    return sum(slot.scheduled**2 / (scheduled * max(can, 1.0)) for slot, can in zip(slots, served, strict=True))
