"""Many small streams through one source: what P1 calls input stream admission, on Spark."""

from skytide.spark.fleet.fleet import Fleet, fleet

__all__ = ["Fleet", "fleet"]
