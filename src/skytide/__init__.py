"""Elastic stream processing on Apache Spark.

What is named here is loaded when it is first asked for: a process that needs one part does not wait for the others. Here is what most
programs need. All controllers are in `skytide.controllers`, ways to wait for late tuples in `skytide.slacks`, queries in `skytide.queries`,
what tests of your own need in `skytide.testing`, and names for annotations in `skytide.typing`.
"""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skytide import controllers, queries, sinks, slacks, testing, typing  # noqa: F401
    from skytide.admission import Profile
    from skytide.control import Guard
    from skytide.errors import InvalidInput, SkytideError
    from skytide.keyed import KeyedOperator
    from skytide.queries import Mergeable, Query, collect, diff, high, low
    from skytide.spark.api.dataframe import apply, k_dominant, levels, skyband, skyline, top_delta, top_k
    from skytide.spark.api.options import Parallelism, Sides
    from skytide.spark.api.query import ContinuousQuery
    from skytide.spark.api.run import Run
    from skytide.spark.api.sql import register
    from skytide.spark.api.stream import stream
    from skytide.spark.fleet import Fleet, fleet
    from skytide.spark.scaling import Scaler, autoscale
    from skytide.spark.sources.workload import workload

__version__ = "0.1.0"

__all__ = [
    "ContinuousQuery",
    "Fleet",
    "Guard",
    "InvalidInput",
    "KeyedOperator",
    "Mergeable",
    "Parallelism",
    "Profile",
    "Query",
    "Run",
    "Scaler",
    "Sides",
    "SkytideError",
    "apply",
    "autoscale",
    "collect",
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
    "admission": "Profile",
    "control": "Guard",
    "errors": "InvalidInput SkytideError",
    "keyed": "KeyedOperator",
    "queries": "Mergeable Query collect diff high low",
    "spark.fleet": "Fleet fleet",
    "spark.api.query": "ContinuousQuery",
    "spark.api.dataframe": "apply k_dominant levels skyband skyline top_delta top_k",
    "spark.api.run": "Run",
    "spark.api.sql": "register",
    "spark.api.stream": "stream",
    "spark.scaling": "Scaler autoscale",
    "spark.api.options": "Parallelism Sides",
    "spark.sources.workload": "workload",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}
NAMESPACES = ("controllers", "queries", "sinks", "slacks", "testing", "typing")

_NOW_IN = {
    "controllers": "Controller Fuzzy GlobalThresholds LocalThresholds Mpc Sarsa Static",
    "queries": "Expression Measure Nulls Preference",
    "sinks": "Sink",
    "slacks": "DropRatio FixedSlack KSlack Slack",
    "typing": "AggregatedFrame Cycle Duration FleetStatus History Keyed KeyedWindowed RoutingTable ScalerStatus SideSink "
    "SplitStatus Splitting Status Stream WindowRow Windowed WorkloadStream",
}
_RENAMED = {
    "AggregatedKeys": "ContinuousQuery",
    "AggregatedQuery": "ContinuousQuery",
    "Event": "typing.ScalingEvent",
    "KeyedQuery": "ContinuousQuery",
    "Rules": "controllers.UtilisationThresholds",
    "Sizes": "controllers.Proportional",
    "Spl": "controllers.Congestion",
}
MOVED = {name: f"{module}.{name}" for module, names in _NOW_IN.items() for name in names.split()} | _RENAMED
"""Names that were here, and what to write instead, after `skytide.`; they can be imported for now."""


if not TYPE_CHECKING:  # for a type checker there is what is imported above, and nothing else

    def __getattr__(name: str) -> object:
        """Load what is asked for."""
        if name in MOVED:
            warnings.warn(f"skytide.{name} has moved: write skytide.{MOVED[name]}", DeprecationWarning, stacklevel=2)
        elif name not in _HOME and name not in NAMESPACES:
            raise AttributeError(f"module 'skytide' has no attribute {name!r}")
        try:
            if name in NAMESPACES:
                return import_module(f"skytide.{name}")
            if name in MOVED:
                module, _, current = f"skytide.{MOVED[name]}".rpartition(".")
                return getattr(import_module(module), current)
            loaded = globals()[name] = getattr(import_module(f"skytide.{_HOME[name]}"), name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "pyspark":
                raise
            raise ModuleNotFoundError(
                f"skytide.{name} needs Spark: pyspark is not installed; pip install 'pyspark>=4.3,<4.4'", name=error.name
            ) from error
        return loaded


def __dir__() -> list[str]:
    """Name what there is, loaded or not."""
    return sorted({*globals(), *_HOME, *NAMESPACES})
