"""Elastic stream processing on Apache Spark.

What is named here is loaded when it is first asked for: a process that needs one part does not wait for the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skytide.admission import Profile
    from skytide.control import Fuzzy, GlobalThresholds, Guard, LocalThresholds, Mpc, Rules, Sarsa, Sizes, Spl, Static
    from skytide.errors import InvalidInput, SkytideError
    from skytide.lateness import DropRatio, FixedSlack, KSlack
    from skytide.queries import Query, diff, high, low
    from skytide.spark.dataframe import apply, k_dominant, levels, skyband, skyline, top_delta, top_k
    from skytide.spark.fleet import fleet
    from skytide.spark.scaling import autoscale
    from skytide.spark.sql import register
    from skytide.spark.stream import stream
    from skytide.spark.workload_source import workload

__version__ = "0.1.0"

__all__ = [
    "DropRatio",
    "FixedSlack",
    "Fuzzy",
    "GlobalThresholds",
    "Guard",
    "InvalidInput",
    "KSlack",
    "LocalThresholds",
    "Mpc",
    "Profile",
    "Query",
    "Rules",
    "Sarsa",
    "Sizes",
    "SkytideError",
    "Spl",
    "Static",
    "apply",
    "autoscale",
    "diff",
    "fleet",
    "high",
    "k_dominant",
    "levels",
    "low",
    "register",
    "skyband",
    "skyline",
    "stream",
    "top_delta",
    "top_k",
    "workload",
]

_HOMES = {
    "admission": ("Profile",),
    "control": ("Fuzzy", "GlobalThresholds", "Guard", "LocalThresholds", "Mpc", "Rules", "Sarsa", "Sizes", "Spl", "Static"),
    "errors": ("InvalidInput", "SkytideError"),
    "lateness": ("DropRatio", "FixedSlack", "KSlack"),
    "queries": ("Query", "diff", "high", "low"),
    "spark.dataframe": ("apply", "k_dominant", "levels", "skyband", "skyline", "top_delta", "top_k"),
    "spark.fleet": ("fleet",),
    "spark.scaling": ("autoscale",),
    "spark.sql": ("register",),
    "spark.stream": ("stream",),
    "spark.workload_source": ("workload",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load what is asked for."""
    if name not in _HOME:
        raise AttributeError(f"module 'skytide' has no attribute {name!r}")
    try:
        found = globals()[name] = getattr(import_module(f"skytide.{_HOME[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyspark":
            raise
        raise ModuleNotFoundError(
            f"skytide.{name} needs Spark: pyspark is not installed; pip install 'pyspark>=4.3,<4.4'", name=error.name
        ) from error
    return found


def __dir__() -> list[str]:
    """Name what there is, loaded or not."""
    return sorted({*globals(), *_HOME})
