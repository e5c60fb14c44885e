"""Processes that read or describe a source for Spark end silently when Spark ends before they do.

Whichever daemon the tasks have, these are processes of PySpark's own, which print a trace when nobody reads their last answer.
"""

import sys
import traceback
from types import SimpleNamespace, TracebackType

CLOSED = (BrokenPipeError, ConnectionResetError)
DAEMON, READER = "pyspark.daemon", "pyspark.sql.streaming.python_streaming_source_runner"


def end_quietly() -> None:
    """Print no trace in this process when its answer finds no reader, if its main program is PySpark's."""
    main = sys.modules["__main__"]
    program = getattr(getattr(main, "__spec__", None), "name", None)
    if program == DAEMON:  # prints what ends a worker that it forked
        main.traceback = SimpleNamespace(print_exc=_print_unless_closed, format_exc=traceback.format_exc)  # type: ignore[attr-defined]
    elif program == READER:  # tells Spark that it has ended, which may be why Spark has closed the connection
        sys.excepthook = _show_unless_closed


def _print_unless_closed() -> None:
    error = sys.exception()
    if error is None or not _is_only_closed(error):
        traceback.print_exc()


def _show_unless_closed(error_class: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not _is_only_closed(error):
        sys.__excepthook__(error_class, error, trace)


def _is_only_closed(error: BaseException) -> bool:
    """Return whether Spark has closed the connection, and nothing else was wrong before: telling Spark of another error may fail like that, too."""
    return isinstance(error, CLOSED) and all(isinstance(cause, (*CLOSED, EOFError)) for cause in _before(error))


def _before(error: BaseException) -> list[BaseException]:
    """Return an error, and all that it was raised from or while handling."""
    errors = [error]
    for link in errors:  # grows meanwhile
        errors += [other for other in (link.__cause__, link.__context__) if other is not None and other not in errors]
    return errors
