"""Elastic stream processing on Apache Spark.

What is named here is loaded when it is first asked for: a process that needs one part does not wait for the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skytide.admission import Profile
    from skytide.control import (
        Congestion,
        Controller,
        Fuzzy,
        GlobalThresholds,
        Guard,
        LocalThresholds,
        Mpc,
        Proportional,
        Sarsa,
        Static,
        UtilisationThresholds,
    )
    from skytide.errors import InvalidInput, SkytideError
    from skytide.keyed import KeyedOperator, RoutingTable
    from skytide.lateness import DropRatio, FixedSlack, KSlack, Slack
    from skytide.loop.cycle import Cycle
    from skytide.queries import Expression, Measure, Mergeable, Nulls, Preference, Query, collect, diff, high, low
    from skytide.records import Status, WindowRow
    from skytide.records.fleet import FleetStatus, SplitStatus
    from skytide.routing import Splitting
    from skytide.spark.fleet import Fleet, fleet
    from skytide.spark.query.aggregated import AggregatedFrame, AggregatedQuery
    from skytide.spark.query.continuous import ContinuousQuery
    from skytide.spark.query.dataframe import apply, k_dominant, levels, skyband, skyline, top_delta, top_k
    from skytide.spark.query.keyed import AggregatedKeys, Keyed, KeyedQuery, KeyedWindowed
    from skytide.spark.query.run import Run
    from skytide.spark.query.sql import register
    from skytide.spark.query.stream import Stream, Windowed, stream
    from skytide.spark.scaling import History, Scaler, ScalerStatus, ScalingEvent, autoscale
    from skytide.spark.sinks.sinks import SideSink, Sink
    from skytide.spark.sources.workload import WorkloadStream, workload
    from skytide.windows import Duration

__version__ = "0.1.0"

__all__ = [
    "AggregatedFrame",
    "AggregatedKeys",
    "AggregatedQuery",
    "Congestion",
    "ContinuousQuery",
    "Controller",
    "Cycle",
    "DropRatio",
    "Duration",
    "Expression",
    "FixedSlack",
    "Fleet",
    "FleetStatus",
    "Fuzzy",
    "GlobalThresholds",
    "Guard",
    "History",
    "InvalidInput",
    "KSlack",
    "Keyed",
    "KeyedOperator",
    "KeyedQuery",
    "KeyedWindowed",
    "LocalThresholds",
    "Measure",
    "Mergeable",
    "Mpc",
    "Nulls",
    "Preference",
    "Profile",
    "Proportional",
    "Query",
    "RoutingTable",
    "Run",
    "Sarsa",
    "Scaler",
    "ScalerStatus",
    "ScalingEvent",
    "SideSink",
    "Sink",
    "SkytideError",
    "Slack",
    "SplitStatus",
    "Splitting",
    "Static",
    "Status",
    "Stream",
    "UtilisationThresholds",
    "WindowRow",
    "Windowed",
    "WorkloadStream",
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
    "admission": ("Profile",),
    "control": (
        "Congestion",
        "Controller",
        "Fuzzy",
        "GlobalThresholds",
        "Guard",
        "LocalThresholds",
        "Mpc",
        "Proportional",
        "Rules",
        "Sarsa",
        "Sizes",
        "Spl",
        "Static",
        "UtilisationThresholds",
    ),
    "errors": ("InvalidInput", "SkytideError"),
    "loop.cycle": ("Cycle",),
    "lateness": ("DropRatio", "FixedSlack", "KSlack", "Slack"),
    "queries": ("Expression", "Measure", "Mergeable", "Nulls", "Preference", "Query", "collect", "diff", "high", "low"),
    "records": ("Status", "WindowRow"),
    "spark.query.aggregated": ("AggregatedFrame", "AggregatedQuery"),
    "spark.query.continuous": ("ContinuousQuery",),
    "spark.query.dataframe": ("apply", "k_dominant", "levels", "skyband", "skyline", "top_delta", "top_k"),
    "spark.fleet": ("Fleet", "fleet"),
    "spark.query.keyed": ("AggregatedKeys", "Keyed", "KeyedQuery", "KeyedWindowed"),
    "spark.query.run": ("Run",),
    "spark.scaling": (
        "Event",
        "History",
        "Scaler",
        "ScalerStatus",
        "ScalingEvent",
        "autoscale",
    ),
    "spark.sinks.sinks": ("SideSink", "Sink"),
    "spark.query.sql": ("register",),
    "spark.query.stream": ("Stream", "Windowed", "stream"),
    "spark.sources.workload": ("WorkloadStream", "workload"),
    "records.fleet": (
        "FleetStatus",
        "SplitStatus",
    ),
    "keyed": (
        "KeyedOperator",
        "RoutingTable",
    ),
    "routing": ("Splitting",),
    "windows": ("Duration",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # for a type checker there is what is imported above, and nothing else

    def __getattr__(name: str) -> object:
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
