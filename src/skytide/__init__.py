"""Elastic stream processing on Apache Spark."""

from skytide.admission import Profile
from skytide.control import Fuzzy, GlobalThresholds, Guard, LocalThresholds, Mpc, Rules, Sarsa, Sizes, Spl, Static
from skytide.errors import InvalidInput, SkytideError
from skytide.lateness import DropRatio, FixedSlack, KSlack
from skytide.queries import Query, diff, high, low
from skytide.spark import (
    apply,
    autoscale,
    k_dominant,
    levels,
    register,
    skyband,
    skyline,
    stream,
    top_delta,
    top_k,
    workload,
)
from skytide.spark.fleet import fleet

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
