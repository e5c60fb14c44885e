"""Thresholds for the utilisation: the reactive baseline, which the paper calls rules (P2 section 5.4, SPEC E5)."""

from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

from skytide.control.controller import Controller, ControllerLogic, State
from skytide.errors import InvalidInput
from skytide.errors.checks import brief, is_real
from skytide.records import Decision, Evaluation


@dataclass(frozen=True)
class UtilisationThresholds(Controller):
    """Adds one worker above an upper utilisation, and removes one below a lower one.

    The utilisation is that of the demand: what comes in, is about to, and a share of what waits, over what the present workers can serve.
    The papers call it rules (P2 section 5.4). See [Controllers](scaling.md#controllers).

    Parameters
    ----------
    theta_max
        Above this utilisation, a worker is added.
    theta_min
        Below this utilisation, a worker is removed.

    Raises
    ------
    InvalidInput
        Unless 0 <= theta_min < theta_max.

    Examples
    --------
    >>> from skytide.records import Allocation, Evaluation, Observation
    >>> seen = Observation(60, 10, Allocation(2), 900, 900, utilisation=0.95)
    >>> decision = UtilisationThresholds(theta_max=0.9).build().decide(Evaluation(seen, 900, None, 0.95, lead_s=6), now_s=60)
    >>> decision.allocation.workers, decision.reason
    (3, 'utilisation 95 %, over 90 %: 2 to 3')
    """

    former_name: ClassVar[str] = "Rules"
    theta_max: float = 0.9
    theta_min: float = 0.8

    def __post_init__(self) -> None:
        """Refuse thresholds that cannot both be kept."""
        if not (is_real(self.theta_min) and is_real(self.theta_max) and 0 <= self.theta_min < self.theta_max):
            raise InvalidInput(
                value=f"theta_min={brief(self.theta_min)}, theta_max={brief(self.theta_max)}",
                reason="every utilisation would be too low or too high",
                remedy="choose 0 <= theta_min < theta_max",
            )

    def build(self, resume: State | None = None) -> ControllerLogic:
        """Return the logic; it has no state."""
        return _UtilisationThresholds(self)


class _UtilisationThresholds(ControllerLogic):
    def __init__(self, config: UtilisationThresholds) -> None:
        self._config = config

    def decide(self, seen: Evaluation, *, now_s: float) -> Decision:
        present, used = seen.seen.allocation, seen.demand_ratio
        if not isfinite(used):
            return Decision(present, f"no utilisation was measured: stays at {present.workers}")
        if used > self._config.theta_max:
            wanted, why = present.workers + 1, f"over {100 * self._config.theta_max:.0f} %"
        elif used < self._config.theta_min and present.workers > 1:
            wanted, why = present.workers - 1, f"under {100 * self._config.theta_min:.0f} %"
        else:
            return Decision(present, f"utilisation {100 * used:.0f} %: stays at {present.workers}")
        return Decision(present.with_workers(wanted), f"utilisation {100 * used:.0f} %, {why}: {present.workers} to {wanted}")

    def snapshot(self) -> State:
        return {}
