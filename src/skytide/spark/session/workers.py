"""Whether Spark's Python workers can do our work: they may run another Python than the driver, without skytide."""

import os
import shutil
import sys

from pyspark.sql import SparkSession

from skytide.errors import SkytideError
from skytide.spark.session.failure import reason

NEEDED = ("skytide", "pyarrow", "numpy", "numba", "pandas")
MAX_REASON = 200  # characters
_checked: set[str] = set()
"""The applications whose workers passed the check."""


def check_workers(spark: SparkSession) -> None:
    """Refuse a session whose Python workers cannot run our tasks; checked once per application.

    If workers run this very Python there is nothing to check; otherwise a job of one task inspects a worker.

    Parameters
    ----------
    spark
        The session of a query; workers of Spark Connect are not checked.

    Raises
    ------
    SkytideError
        If workers run another version of Python, or lack a package; the message says which, and what to set.
    """
    try:
        context = spark.sparkContext
        application, command, master = str(context.applicationId), str(context.pythonExec), str(context.master)
    except Exception:  # Spark Connect: its workers are not ours to choose
        return
    if application in _checked:
        return
    is_local = master.split("[", maxsplit=1)[0] == "local"
    path = shutil.which(command)
    if not (is_local and path and os.path.abspath(path) == os.path.abspath(sys.executable)):
        lacking = _inspect(spark)
        if lacking:
            raise SkytideError(f"Spark's Python workers run {command!r}, and {lacking}; {_remedy(is_local)}")
    _checked.add(application)


def _inspect(spark: SparkSession) -> str:
    """Return what is wrong with a worker; empty if nothing is."""
    needed, version = NEEDED, sys.version_info[:2]

    def inspect(_: object) -> str:  # sent by value: a module of skytide could not be imported where it is missing
        import importlib.util
        import sys

        if sys.version_info[:2] != version:
            return "that is Python {}.{}, not {}.{} as here".format(*sys.version_info[:2], *version)
        missing = [name for name in needed if importlib.util.find_spec(name) is None]
        return f"{sys.executable} has no {', '.join(missing)}" if missing else ""

    try:
        return str(spark.sparkContext.parallelize([0], 1).map(inspect).collect()[0])
    except Exception as error:
        return f"our tasks do not run there ({reason(str(error))[:MAX_REASON]})"


def _remedy(is_local: bool) -> str:
    if is_local:
        return (
            f"before the session starts, set PYSPARK_PYTHON={sys.executable}, or activate the environment of this Python; "
            "skytide.spark.local_session() does that by itself"
        )
    return "ship an environment with skytide to the executors and set PYSPARK_PYTHON to its Python: see 'With your own session' in the README"
