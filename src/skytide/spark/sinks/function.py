"""A function that takes results."""

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
        self._function = function

    def publish(self, sequence: int, staged: Staged) -> None:
        """Call the function with a DataFrame, unless there is nothing to hand over."""
        if staged:
            self._function(staged.frame(), sequence)

    def describe(self) -> str:
        """Return that it is a function; nobody knows what it does."""
        return "function"
