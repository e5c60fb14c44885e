"""What every controller is: a frozen configuration that builds a logic, and a logic that answers evaluations with decisions."""

from abc import ABC, abstractmethod
from dataclasses import Field, fields, is_dataclass
from typing import Any

from skytide.records import Decision, Evaluation

State = dict[str, Any]
"""Plain values, as JSON can hold them."""


class ControllerLogic(ABC):
    """Evaluations in, decisions out. Limits, delays and the like are not its business: see `guard`."""

    @abstractmethod
    def decide(self, seen: Evaluation, *, now_s: float) -> Decision:
        """Say what the query should work with from now on, and why. To leave it as it is, answer with the allocation that was seen."""

    @abstractmethod
    def snapshot(self) -> State:
        """Return what was learned."""


class Controller(ABC):
    """A way to choose the size of a query, best as a frozen dataclass."""

    def __str__(self) -> str:
        """Return its name, and what was set."""
        if not is_dataclass(self):
            return repr(self)
        own = [each for each in fields(self) if getattr(self, each.name) != _default(each)]
        return f"{type(self).__name__}({', '.join(f'{each.name}={getattr(self, each.name)!r}' for each in own)})"

    @abstractmethod
    def build(self, resume: State | None = None) -> ControllerLogic:
        """Return a new logic, or one that goes on from a snapshot."""


def _default(field: "Field[Any]") -> Any:
    return field.default_factory() if callable(field.default_factory) else field.default
