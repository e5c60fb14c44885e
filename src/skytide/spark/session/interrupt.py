"""Ctrl-C: pressed once, a query or a command ends in good order; pressed twice, at once."""

import logging
import signal
import threading
from types import FrameType
from typing import Any, Self

_PY4J = logging.getLogger("py4j")
_NOTHING = logging.CRITICAL + 1


class Interrupt:
    """Notes Ctrl-C, as a context around the start of Spark and all that follows. It does nothing outside of the main thread, which alone gets signals."""

    def __init__(self) -> None:
        """Start without a Ctrl-C."""
        self.requested = False
        self._spark_runs = False
        self._before: Any = None

    def __enter__(self) -> Self:
        """Take over from the present handler. While Spark starts nothing is cut short: its Java process would be left behind."""
        if _PY4J.level == _NOTHING:  # the program went on after it was aborted
            _PY4J.setLevel(logging.NOTSET)
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the handler that was there before."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def spark_runs(self) -> None:
        """Take over again, from the handler that Spark installed, which kills all its jobs; from now on the second Ctrl-C aborts."""
        self._spark_runs = True
        if self._before is not None:
            signal.signal(signal.SIGINT, self._on_signal)

    def _on_signal(self, _: int, __: FrameType | None) -> None:
        if self.requested and self._spark_runs:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            _silence()
            raise KeyboardInterrupt
        self.requested = True


def _silence() -> None:
    """Let py4j, and nobody else, be silent: it would report the call that is cut short, and all that fail as Spark ends."""
    _PY4J.setLevel(_NOTHING)
