"""What the control cycle needs from the world. Spark and the simulator both implement these ports, and one contract test runs on both."""

from collections.abc import Callable
from typing import Any, Protocol

from skytide.records import Allocation, Observation, Outcome, ScalingEvent

OnEvent = Callable[[ScalingEvent], None]
"""What is called with everything that people should know."""


class Plant(Protocol):
    """Whatever runs a query: it is watched, and resized. One whose workers need no care has no `keep`, `track` and `close` of its own."""

    what: str = "workers"
    """What its workers are called."""

    @property
    def lead_s(self) -> float:
        """How long it takes until an added worker works, as far as is known."""

    @property
    def is_changing(self) -> bool:
        """Whether something is under way that `track` should see soon."""
        return False

    @property
    def is_expecting(self) -> bool:
        """Whether that may be at any moment, so that it is worth looking often."""
        return self.is_changing

    def observe(self, now_s: float) -> Observation | None:
        """Return what was measured since the last call, or None if nothing was."""

    def size(self) -> Allocation:
        """Return what is there, and stays."""

    def request(self, wanted: Allocation, now_s: float) -> Outcome:
        """Ask for another size, and return what became of it; what comes may be less, and come later."""

    def keep(self, wanted: Allocation) -> None:
        """Note that what is there, or was asked for, is still wanted: others who use it must not take it away. What is not wanted any more, and did not come, is called off."""
        return None

    def track(self, now_s: float) -> None:
        """Look after workers that come and go."""
        return None

    def close(self) -> None:
        """Leave the query as it is."""
        return None


class StateStore(Protocol):
    """Where what a controller learned survives a restart."""

    def load(self) -> dict[str, Any]:
        """Return what was saved last, or an empty dict."""

    def save(self, state: dict[str, Any]) -> None:
        """Save a state in place of the one before."""
