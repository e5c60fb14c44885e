"""What the control cycle needs from the world. Spark and the simulator both implement these ports, and one contract test runs on both."""

from typing import Any, Protocol

from skytide.records import Allocation, Observation


class Metrics(Protocol):
    """Where observations come from."""

    def observe(self, now_s: float) -> Observation | None:
        """Return what was measured since the last call, or None if nothing was."""


class Actuator(Protocol):
    """What can be resized."""

    acts: bool
    """False: it only says what it would do."""

    def current(self) -> Allocation:
        """Return what is there now."""

    def apply(self, wanted: Allocation, now_s: float) -> str:
        """Ask for another size, and return what was done, in words; what comes may be less, and come later."""

    @property
    def lead_s(self) -> float:
        """How long it takes until an added worker works, as far as is known."""


class Store(Protocol):
    """Where state survives a restart."""

    def load(self) -> dict[str, Any]:
        """Return what was saved last, or an empty dict."""

    def save(self, state: dict[str, Any]) -> None:
        """Save a state in place of the one before."""


class Events(Protocol):
    """Where people see what happened."""

    def tell(self, at_s: float, text: str) -> None:
        """Report what happened at a time."""
