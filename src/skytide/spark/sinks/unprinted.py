"""Writing with options that nobody reads in Spark's plans."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

REDACTED = "spark.sql.redaction.options.regex"


@contextmanager
def unprinted(spark: SparkSession) -> Iterator[None]:
    """Let no option appear in Spark's plans, whatever its name is; this is the session of the batch."""
    before = spark.conf.get(REDACTED)
    spark.conf.set(REDACTED, "(?s).*")
    try:
        yield
    finally:
        spark.conf.set(REDACTED, before or "")
