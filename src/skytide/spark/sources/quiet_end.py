"""Processes that describe a source to Spark end silently when Spark ends before they do.

They are forked from PySpark's own daemon, whichever daemon the tasks have, and it prints a trace when nobody reads its last answer.
"""

import sys
import traceback
from types import SimpleNamespace


def end_quietly() -> None:
    """Print no trace in this process when its answer finds no reader, if PySpark's daemon is its main program."""
    main = sys.modules["__main__"]
    if getattr(main, "traceback", None) is traceback and hasattr(main, "manager") and hasattr(main, "worker"):
        main.traceback = SimpleNamespace(print_exc=_print_unless_broken_pipe, format_exc=traceback.format_exc)  # type: ignore[attr-defined]


def _print_unless_broken_pipe() -> None:
    if not isinstance(sys.exception(), BrokenPipeError):
        traceback.print_exc()
