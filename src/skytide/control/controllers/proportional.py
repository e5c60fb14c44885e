"""As many workers as a forecast requires (P1 §3.2, SPEC E7): before the load is there, if the source can forecast it."""

from dataclasses import dataclass
from typing import ClassVar

from skytide.control.controller import Controller, ControllerLogic, State
from skytide.control.models.sizing import sizing
from skytide.errors.checks import is_finite, refused
from skytide.records import Decision, Evaluation
from skytide.windows import Duration, duration_s, duration_us


@dataclass(frozen=True)
class Proportional(Controller):
    """Uses as many workers as the expected load keeps busy, plus some headroom.

    A backlog that exceeds the latency bound is worked off within the bound. If the source forecasts its load, as a fleet does, workers come
    before the load is there. In P1 these are the sizes of the processing level. See [Controllers](scaling.md#controllers).

    Parameters
    ----------
    latency
        The latency bound.
    headroom
        The share of each worker that is kept free.

    Raises
    ------
    InvalidInput
        If the bound is not a length of time, or the headroom not a share of a worker.

    Examples
    --------
    >>> from skytide.records import Allocation, Evaluation, Observation
    >>> seen = Observation(60, 10, Allocation(2), 900, 800, utilisation=1.1, service_s=0.004)
    >>> Proportional(headroom=0.2).build().decide(Evaluation(seen, 1_000, 0.004, 1.2, lead_s=6), now_s=60).allocation.workers
    5
    >>> Proportional(headroom=1.0)
    Traceback (most recent call last):
    ...
    skytide.errors.InvalidInput: headroom=1.0: not a share of a worker; choose at least 0 and less than 1
    """

    former_name: ClassVar[str] = "Sizes"
    latency: Duration = "5 s"
    headroom: float = 0.2

    def __post_init__(self) -> None:
        """Refuse options that cannot be planned with."""
        duration_us(self.latency, "latency")
        if not (is_finite(self.headroom) and 0 <= self.headroom < 1):
            raise refused("headroom", self.headroom, "not a share of a worker", "choose at least 0 and less than 1")

    @property
    def bound_s(self) -> float:
        """Return the latency bound in seconds."""
        return duration_s(self.latency, "latency")

    def build(self, resume: State | None = None) -> ControllerLogic:
        """Return the logic."""
        return _Proportional(self, **(resume or {}))


class _Proportional(ControllerLogic):
    def __init__(self, config: Proportional, service_s: float | None = None) -> None:
        self._config = config
        self._service_s = service_s  # the latest measurement: an idle query has none

    def decide(self, seen: Evaluation, *, now_s: float) -> Decision:
        present, now = seen.seen.allocation, seen.seen
        service_s = self._service_s = seen.service_s or self._service_s
        if service_s is None or not is_finite(seen.demand_hz):
            return Decision(present, f"the time per tuple or the input rate was not measured: stays at {present.workers}")
        expected_hz = max(now.arrival_rate_hz, now.expected_rate_hz or 0.0)
        late = now.latency_s is not None and now.latency_s > self._config.bound_s
        demand_hz = max(seen.demand_hz, expected_hz + now.backlog / self._config.bound_s if late else 0.0)
        wanted = sizing(demand_hz, service_s, capacity_hz=0.0, merge_cost_s=0.0, headroom=self._config.headroom).processing
        source = "expected" if now.expected_rate_hz is not None else "measured"
        why = f"{demand_hz:,.0f} tuples per second ({source}) of {service_s * 1e6:,.3g} µs each need {wanted} workers"
        return Decision(present.with_workers(wanted), why)

    def snapshot(self) -> State:
        return {"service_s": self._service_s}
