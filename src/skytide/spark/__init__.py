"""The real plant: everything that touches Apache Spark, and the only layer that imports pyspark."""

from skytide.spark.session.local import local_session

__all__ = ["local_session"]
