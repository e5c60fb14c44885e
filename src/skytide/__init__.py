"""Elastic stream processing on Apache Spark.

What is named here is loaded when it is first asked for: a process that needs one part does not wait for the others.
"""

import warnings
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
    from skytide.spark.api.chain import AggregatedFrame
    from skytide.spark.api.dataframe import apply, k_dominant, levels, skyband, skyline, top_delta, top_k
    from skytide.spark.api.keyed import Keyed, KeyedWindowed
    from skytide.spark.api.options import Parallelism, Sides
    from skytide.spark.api.query import ContinuousQuery
    from skytide.spark.api.run import Run
    from skytide.spark.api.sql import register
    from skytide.spark.api.stream import Stream, Windowed, stream
    from skytide.spark.fleet import Fleet, fleet
    from skytide.spark.scaling import History, Scaler, ScalerStatus, ScalingEvent, autoscale
    from skytide.spark.sinks.base import SideSink, Sink, SinkFunction
    from skytide.spark.sources.workload import WorkloadStream, workload
    from skytide.windows import Duration

__version__ = "0.1.0"

__all__ = [
    "AggregatedFrame",
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
    "KeyedWindowed",
    "LocalThresholds",
    "Measure",
    "Mergeable",
    "Mpc",
    "Nulls",
    "Parallelism",
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
    "Sides",
    "Sink",
    "SinkFunction",
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
    "spark.api.chain": ("AggregatedFrame",),
    "spark.api.query": ("ContinuousQuery",),
    "spark.api.dataframe": ("apply", "k_dominant", "levels", "skyband", "skyline", "top_delta", "top_k"),
    "spark.fleet": ("Fleet", "fleet"),
    "spark.api.keyed": ("Keyed", "KeyedWindowed"),
    "spark.api.options": ("Parallelism", "Sides"),
    "spark.api.run": ("Run",),
    "spark.scaling": (
        "Event",
        "History",
        "Scaler",
        "ScalerStatus",
        "ScalingEvent",
        "autoscale",
    ),
    "spark.sinks.base": ("SideSink", "Sink", "SinkFunction"),
    "spark.api.sql": ("register",),
    "spark.api.stream": ("Stream", "Windowed", "stream"),
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
_RENAMED = {
    "AggregatedKeys": "ContinuousQuery",
    "AggregatedQuery": "ContinuousQuery",
    "KeyedQuery": "ContinuousQuery",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # for a type checker there is what is imported above, and nothing else

    def __getattr__(name: str) -> object:
        """Load what is asked for."""
        if name in _RENAMED:
            warnings.warn(f"skytide.{name} has moved: write skytide.{_RENAMED[name]}", DeprecationWarning, stacklevel=2)
            name = _RENAMED[name]
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
