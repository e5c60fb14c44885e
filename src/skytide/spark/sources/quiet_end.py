"""Processes that read or describe a source for Spark end silently when Spark ends before they do.

Whichever daemon the tasks have, these are processes of PySpark's own, which print a trace when nobody reads their last answer.
"""

import sys
import traceback
from types import SimpleNamespace, TracebackType

DAEMON, READER = "pyspark.daemon", "pyspark.sql.streaming.python_streaming_source_runner"


def end_quietly() -> None:
    """Print no trace in this process when its answer finds no reader, if its main program is PySpark's."""
    main = sys.modules["__main__"]
    program = getattr(getattr(main, "__spec__", None), "name", None)
    if program == DAEMON:  # prints what ends a worker that it forked
        main.traceback = SimpleNamespace(print_exc=_print_unless_broken_pipe, format_exc=traceback.format_exc)  # type: ignore[attr-defined]
    elif program == READER:  # tells Spark that it has ended, which may be why Spark has closed the connection
        sys.excepthook = _show_unless_broken_pipe


def _print_unless_broken_pipe() -> None:
    if not isinstance(sys.exception(), BrokenPipeError):
        traceback.print_exc()


def _show_unless_broken_pipe(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not isinstance(error, BrokenPipeError):
        sys.__excepthook__(kind, error, trace)
