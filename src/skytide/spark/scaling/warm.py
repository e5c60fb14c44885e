"""A first task for a new executor, so that the query does not pay for its cold start.

The first task in an executor loads classes, starts Python and imports what Arrow needs. That takes seconds, and the whole batch
waits for it. Here a small job of its own does that, with tasks that prefer exactly that executor. It uses `mapInArrow`, as Spark
reuses a Python worker only for tasks of the same kind. A query that has tasks waiting may still come first. Where no query has tasks
in Python, none is started.
"""

import logging
import threading
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from skytide.spark.compat import located, numbers_of
from skytide.spark.scaling.gateway import Executor


def warm(spark: SparkSession, executor: Executor, *, python: bool = True) -> None:
    """Run one task per core of an executor, and wait for them; if it is busy meanwhile they run elsewhere, which does no harm."""
    cores = numbers_of(spark, located(spark, [f"executor_{executor.host}_{executor.id}"] * executor.cores))
    if not python:
        cores.collect()
        return

    def first_task(
        batches: Iterator[pa.RecordBatch],
    ) -> Iterator[pa.RecordBatch]:  # defined in here, so that workers do not need skytide
        from importlib import import_module

        import_module("pandas")  # and numpy with it
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"core": batch.column(0)})

    cores.mapInArrow(first_task, "core int").collect()


def warm_behind(spark: SparkSession, executor: Executor, *, python: bool = True) -> None:
    """Warm an executor without waiting for it; if it dies meanwhile, or Spark stops, others notice."""

    def run() -> None:
        try:
            warm(spark, executor, python=python)
        except Exception as error:
            logging.getLogger(__name__).debug("executor %s was not warmed: %s", executor.id, error)

    threading.Thread(target=run, name=f"warm-{executor.id}", daemon=True).start()
