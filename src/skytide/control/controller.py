"""The base of every controller: a frozen configuration that builds a logic, and a logic that turns evaluations into decisions."""

from abc import ABC, abstractmethod
from dataclasses import Field, fields, is_dataclass
from typing import Any, ClassVar

from skytide.records import Decision, Evaluation

State = dict[str, Any]
"""Plain values that JSON can hold."""


class ControllerLogic(ABC):
    """Turns evaluations into decisions. Limits, delays and the like are not its concern: see `guard`."""

    @abstractmethod
    def decide(self, seen: Evaluation, *, now_s: float) -> Decision:
        """Return what the query should run with from now on, and why. To change nothing, return the allocation that was observed."""

    @abstractmethod
    def snapshot(self) -> State:
        """Return the state, from which `build` can continue."""


class Controller(ABC):
    """A way to choose the size of a query. To write one of your own, derive from this class, preferably as a frozen dataclass.

    Examples
    --------
    >>> from skytide.control import Fuzzy
    >>> isinstance(Fuzzy(), Controller), isinstance(Fuzzy().build(), ControllerLogic)
    (True, True)

    More in [scaling.md](scaling.md).
    """

    follows_load: ClassVar[bool] = True
    """Whether an idle query goes to the minimum; not with a controller that keeps its size whatever comes."""
    former_name: ClassVar[str] = ""
    """What its class was called when it first learned something; empty if that is its present name."""

    def __str__(self) -> str:
        """Return its name and the options that differ from their defaults."""
        if not is_dataclass(self):
            return repr(self)
        own = [field for field in fields(self) if getattr(self, field.name) != _default(field)]
        return f"{type(self).__name__}({', '.join(f'{field.name}={getattr(self, field.name)!r}' for field in own)})"

    def identity(self) -> str:
        """Return under which name a store keeps what it learned: its class and options; a class that was renamed keeps its first name."""
        name = type(self).__name__
        return repr(self).replace(
            name, vars(type(self)).get("former_name") or name, 1
        )  # classes that derive from it have names of their own

    @abstractmethod
    def build(self, resume: State | None = None) -> ControllerLogic:
        """Return a new logic, or one that continues from a snapshot."""


def _default(field: "Field[Any]") -> Any:
    return field.default_factory() if callable(field.default_factory) else field.default
