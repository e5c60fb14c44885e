"""No controller at all: always the same size, the baseline of every comparison (SPEC E5)."""

from dataclasses import dataclass
from typing import ClassVar

from skytide.control.controller import Controller, ControllerLogic, State
from skytide.errors.checks import is_integer, refused
from skytide.records import Decision, Evaluation


@dataclass(frozen=True)
class Static(Controller):
    """Always uses the same number of workers, for instance as many as the peak needs.

    It is the baseline of every comparison. See [Controllers](scaling.md#controllers).

    Parameters
    ----------
    workers
        The number of workers.

    Raises
    ------
    InvalidInput
        If there is less than one worker.

    Examples
    --------
    >>> from skytide.records import Allocation, Evaluation, Observation
    >>> seen = Observation(60, 10, Allocation(2), 900, 800, utilisation=1.1)
    >>> Static(4).build().decide(Evaluation(seen, 900, None, 1.1, lead_s=6), now_s=60).reason
    'always 4'
    """

    workers: int
    follows_load: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse sizes below 1."""
        if not is_integer(self.workers, 1):
            raise refused("workers", self.workers, "nothing would be done", "choose a whole number of at least 1")

    def build(self, resume: State | None = None) -> ControllerLogic:
        """Return the logic; it has no state."""
        return _Static(self.workers)


class _Static(ControllerLogic):
    def __init__(self, workers: int) -> None:
        self._workers = workers

    def decide(self, seen: Evaluation, *, now_s: float) -> Decision:
        return Decision(seen.seen.allocation.with_workers(self._workers), f"always {self._workers}")

    def snapshot(self) -> State:
        return {}
