"""How Spark runs a query: each of its batches goes through the engine."""

import weakref

from pyspark.sql import DataFrame

from skytide.spark.api.retained import notes_retained
from skytide.spark.api.run import Run
from skytide.spark.checkpoint import Place
from skytide.spark.engine.engine import Engine
from skytide.spark.engine.jobs import SparkJobs, describe
from skytide.spark.session.failure import cut_off
from skytide.spark.sources.panes import OwnSource


def launch(
    rows: DataFrame,
    engine: Engine,
    jobs: SparkJobs,
    place: Place,
    trigger_us: int | None,
    *,
    name: str | None,
    flush: bool,
    source: OwnSource | None,
) -> Run:
    """Start Spark's query over rows, and return the handle; let go of the checkpoint if that fails."""
    held = weakref.ref(engine)  # Java keeps this function after the query has ended, and must not keep its rows in memory

    def run_batch(batch: DataFrame, batch_id: int) -> None:
        alive = held()
        assert alive is not None, "a query that runs has an engine"
        describe(batch.sparkSession, alive.status())
        try:
            alive.run_batch(jobs.on(batch.sparkSession), batch, batch_id)
        except Exception as error:
            alive.store.release()  # the query ends with this
            if (short := cut_off(error)) is not None:
                raise short from None
            raise

    writer = rows.writeStream.foreachBatch(run_batch).option("checkpointLocation", place.spark)
    if name:
        writer = writer.queryName(name)
    every = {"availableNow": True} if trigger_us is None else {"processingTime": f"{trigger_us} microseconds"}
    try:
        engine.finish_flush(jobs)
        with notes_retained(rows, trigger_us):
            query = writer.trigger(**every).start()
    except BaseException:
        engine.store.release()
        raise
    return Run(query, engine, jobs, flush, source)
