"""A function that takes results."""

from typing import Any

from skytide.errors import InvalidInput
from skytide.errors.checks import refused
from skytide.spark.sinks.base import Sink, SinkFunction, Staged


class Function(Sink):
    """Calls a function of (results, sequence) for each batch with results; one that overwrites by the number has each window once."""

    def __init__(self, function: SinkFunction) -> None:
        """Call a function.

        Parameters
        ----------
        function
            A function of (results, sequence) that does the same again if it is called again with the same number.
        """
        if not callable(function):
            raise refused("function", function, "it cannot be called", "pass a function of (results, sequence)")
        self._function = function

    def publish(self, sequence: int, staged: Staged) -> None:
        """Call the function with a DataFrame, unless there is nothing to hand over."""
        if staged:
            self._function(staged.frame(), sequence)

    def describe(self) -> str:
        """Return that it is a function; nobody knows what it does."""
        return "function"


def made_sink(given: Any, argument: str) -> Sink | None:
    """Return the sink that an object is, or the function; None if it is neither, and a class of sinks is refused: it can be called, too."""
    if isinstance(given, type) and issubclass(given, Sink):
        name = given.__name__
        raise InvalidInput(value=f"{argument}={name}", reason="a class, not a sink", remedy=f"make one: {argument}={name}(...)")
    if isinstance(given, Sink):
        return given
    return Function(given) if callable(given) else None
