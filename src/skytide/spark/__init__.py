"""The real plant: everything that touches Apache Spark, and the only layer that imports pyspark."""

from skytide.spark.dataframe import apply, k_dominant, levels, skyband, skyline, top_delta, top_k
from skytide.spark.scaling import autoscale
from skytide.spark.session import local_session
from skytide.spark.sql import register
from skytide.spark.stream import stream
from skytide.spark.workload_source import workload

__all__ = [
    "apply",
    "autoscale",
    "k_dominant",
    "levels",
    "local_session",
    "register",
    "skyband",
    "skyline",
    "stream",
    "top_delta",
    "top_k",
    "workload",
]
