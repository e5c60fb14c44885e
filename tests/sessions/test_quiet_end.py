"""What processes of Spark print when Spark ends before them: nothing, unless something else is wrong."""

import subprocess
import sys

import pytest

from skytide.spark.sources.quiet_end import DAEMON, READER

PROGRAM = """
import sys, traceback
from importlib.machinery import ModuleSpec
from skytide.spark.sources.quiet_end import end_quietly

__spec__ = ModuleSpec({program!r}, None)
end_quietly()
try:
    {error}
except BaseException:
    if {program!r} != {daemon!r}:
        raise
    traceback.print_exc()  # as PySpark's daemon does for a worker that it forked
"""


def printed(program: str, error: str) -> str:
    """Return what a process prints whose main program is `program` when it meets an error."""
    code = PROGRAM.format(program=program, error=error, daemon=DAEMON)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr


WHILE_HANDLING = """
    try:
        raise {first}
    except BaseException as first:
        raise {second}
"""


@pytest.mark.parametrize("program", [DAEMON, READER])
@pytest.mark.parametrize("error", ["BrokenPipeError", "ConnectionResetError"])
def test_an_answer_without_a_reader_prints_nothing(program: str, error: str) -> None:
    assert printed(program, f"raise {error}") == ""
    assert printed(program, WHILE_HANDLING.format(first="EOFError", second=error)) == ""


@pytest.mark.parametrize("program", [DAEMON, READER])
@pytest.mark.parametrize("second", ["BrokenPipeError", "BrokenPipeError from first"])
def test_an_error_that_nobody_can_be_told_of_is_printed(program: str, second: str) -> None:
    assert "ValueError: wrong\n" in printed(program, WHILE_HANDLING.format(first="ValueError('wrong')", second=second))


@pytest.mark.parametrize("program", [DAEMON, READER])
def test_any_other_error_is_printed(program: str) -> None:
    assert printed(program, "raise ValueError('wrong')").endswith("ValueError: wrong\n")


def test_a_program_of_somebody_else_is_left_as_it_is() -> None:
    assert printed("job", "raise BrokenPipeError").endswith("BrokenPipeError\n")
