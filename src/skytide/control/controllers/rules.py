"""Rules with two thresholds: the reactive baseline (P2 section 5.4, SPEC E5)."""

from dataclasses import dataclass
from math import isfinite

from skytide.control.controller import Controller, ControllerLogic, State
from skytide.errors import InvalidInput
from skytide.errors.checks import brief, is_real
from skytide.records import Decision, Evaluation


@dataclass(frozen=True)
class Rules(Controller):
    """One worker more above an upper utilisation, one fewer below a lower one."""

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
        return _Rules(self)


class _Rules(ControllerLogic):
    def __init__(self, config: Rules) -> None:
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
