"""How many notes Spark keeps of a query, so that it can go back to older states."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame

from skytide.spark.checkpoint.retention import KEPT, OLDER_US
from skytide.spark.compat import analysed_plan

RETAINED = "spark.sql.streaming.minBatchesToRetain"
MAX_RETAINED = 1_000
"""Spark lists all its notes after every batch, so more would cost too much."""
_WITH_STATE = re.compile(r"^\W*(Aggregate|Deduplicate|Distinct|FlatMapGroups|GlobalLimit|Join|TransformWithState)", re.MULTILINE)
_lock = threading.Lock()


def has_state(rows: DataFrame) -> bool:
    """Return whether Spark keeps state of its own for a stream; a join with rows that do not stream counts, too."""
    return _WITH_STATE.search(analysed_plan(rows).toString()) is not None


@contextmanager
def notes_retained(rows: DataFrame, trigger_us: int | None) -> Iterator[None]:
    """Let Spark keep its notes of the last hour of a query that starts meanwhile, which is when Spark reads how many, but never fewer than is set.

    For an input with state of its own, Spark would keep as many versions of that state, too: then the setting is left alone.
    """
    spark = rows.sparkSession
    wanted = min(MAX_RETAINED, OLDER_US // max(trigger_us or 1, 1) + KEPT)
    with _lock:
        before = spark.conf.get(RETAINED) or "0"
        if int(before) >= wanted or has_state(rows):
            yield
            return
        spark.conf.set(RETAINED, str(wanted))
        try:
            yield
        finally:
            spark.conf.set(RETAINED, before)
