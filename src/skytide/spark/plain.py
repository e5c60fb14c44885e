"""Windows without panes: what a Spark user writes today, kept as the slow twin and to compare with."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from skytide.queries import Skyline, combine
from skytide.queries.preferences import Preference


def rows_by_window(df: DataFrame, time: str, length: str, slide: str, preferences: Sequence[Preference]) -> DataFrame:
    """Give the skyline of each window, computed from copies of all its tuples."""
    query = Skyline(combine(tuple(preferences)), "error", False)
    copied = df.withColumn("window_start", F.window(time, length, slide)["start"])

    def answer(rows: pa.Table) -> pa.Table:
        return query.window(query.pane(rows))

    return copied.groupBy("window_start").applyInArrow(answer, copied.schema)
