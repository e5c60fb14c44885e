"""Priorities of queries, where the largest number of executors does not suffice: weights of Spark's fair scheduler."""

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from skytide.errors import InvalidInput
from skytide.errors.checks import is_integer, refused
from skytide.spark.compat import move_to_pool, scheduling_mode, set_weight

MAX_PRIORITY = 1_000


class Priorities:
    """A pool of Spark's scheduler for each query, with its priority as the weight; a query without a priority has 1.

    Spark divides executors among pools with waiting tasks in proportion to their weights. So it matters only while there are not enough.
    """

    def __init__(self, spark: SparkSession, priorities: Mapping[str, int]) -> None:
        """Refuse what is no priority, and a Spark that does not divide its executors fairly."""
        self._spark, self._priorities = spark, checked(priorities)
        mode = scheduling_mode(spark)
        if mode != "FAIR":
            raise InvalidInput(
                value="priorities=",
                reason=f"Spark was started with spark.scheduler.mode={mode}: whoever comes first is served first",
                remedy='start it with .config("spark.scheduler.mode", "FAIR"), as this cannot be changed later',
            )

    def weights(self, names: Iterable[str]) -> dict[str, float]:
        """Return the weights of queries."""
        return {name: float(self._priorities.get(name, 1)) for name in names}

    def apply(self, name: str, query: StreamingQuery) -> str:
        """Give a query that runs its weight, from its next job on, and return what was done in words."""
        weight = self._priorities.get(name, 1)
        pool = f"skytide-{query.id}"
        set_weight(self._spark, pool, weight)
        if move_to_pool(query, pool):
            return f"query {name} has priority {weight} from its next job on"
        return (
            f"query {name} cannot have priority {weight}: this Java does not let anybody move a query that runs. "
            f'Before it is started, call spark.sparkContext.setLocalProperty("spark.scheduler.pool", ...)'
        )


def checked(priorities: Any) -> dict[str, int]:
    """Return priorities, unless one is none."""
    if not isinstance(priorities, Mapping):
        raise refused("priorities", priorities, "not a table of names", 'give a number per name of a query, as {"orders": 2}')
    for name, priority in priorities.items():
        if not isinstance(name, str) or not is_integer(priority, 1, MAX_PRIORITY):
            raise refused(
                "priorities", {name: priority}, "not a name and a whole number", f"give whole numbers from 1 to {MAX_PRIORITY:,}"
            )
    return dict(priorities)
