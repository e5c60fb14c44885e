"""How many nodes a forecast requires (P1 eq. 1a and 1b, SPEC E7)."""

from dataclasses import dataclass
from math import ceil

from skytide.errors import InvalidInput

ROUNDING = 1e-9
"""A number of workers or steps that exceeds a whole one by no more is a rounding error: 10.000000001 nodes are ten, not eleven."""


@dataclass(frozen=True)
class Sizing:
    """Numbers of nodes that process, and of nodes that merge their results."""

    processing: int
    merging: int


def sizing(forecast_hz: float, cost_s: float, *, capacity_hz: float, merge_cost_s: float, headroom: float = 0.1) -> Sizing:
    """Return the fewest nodes that serve a forecast and leave some headroom.

    `cost_s` is the time of a node per tuple. Every processing node is assumed to send `capacity_hz` results per second, each of which
    takes a merging node `merge_cost_s`: P1 sizes the merge for processing nodes that are used to their limit.

    >>> sizing(9_000, 0.001, capacity_hz=1_000, merge_cost_s=0.0002, headroom=0.1)
    Sizing(processing=10, merging=3)
    """
    if not 0 <= headroom < 1:
        raise InvalidInput(
            value=f"headroom={headroom!r}", reason="not a share of a node", remedy="choose at least 0 and less than 1"
        )
    if min(forecast_hz, cost_s, capacity_hz, merge_cost_s) < 0:
        raise InvalidInput(
            value=f"forecast_hz={forecast_hz}, cost_s={cost_s}, capacity_hz={capacity_hz}, merge_cost_s={merge_cost_s}",
            reason="a rate or a cost is below 0",
            remedy="give rates and costs as measured",
        )
    processing = max(1, rounded_up(forecast_hz * cost_s / (1 - headroom)))
    return Sizing(processing, max(1, rounded_up(processing * capacity_hz * merge_cost_s / (1 - headroom))))


def rounded_up(number: float) -> int:
    """Return the next whole number, unless a number exceeds a whole one only by rounding.

    >>> rounded_up(10.000000000001), rounded_up(10.1)
    (10, 11)
    """
    return ceil(number - ROUNDING)
