"""How long tasks with state wait for the executor that had it: so short that new executors get work.

Spark prefers to run a task with state where the state is in memory, and lets it wait for that executor, although others are free: for
`spark.locality.wait`, 3 s by default, and again as long for another on the same host. A query whose stages are shorter than that would
never use a new executor. Waiting for a moment is enough to keep what is balanced where it is. The scheduler reads the setting for
every stage, so it can be changed while Spark runs.
"""

import contextlib

from pyspark.sql import SparkSession

from skytide.spark.compat import scheduler_setting, set_scheduler_setting

KEY = "spark.locality.wait"
KEYS = (KEY, *(f"{KEY}.{level}" for level in ("process", "node", "rack")))
SHORT = "100ms"


class Locality:
    """That of an application."""

    def __init__(self, spark: SparkSession) -> None:
        """Change nothing yet."""
        self._spark = spark
        self._advised = self._held = False

    def hold(self, needed: bool) -> str:
        """Shorten the wait as long as that is needed, and return what has to be said about it; what somebody has set is left alone."""
        if needed == self._held:
            return ""
        if not needed:
            self._held = False
            with contextlib.suppress(Exception):  # Spark may have ended
                set_scheduler_setting(self._spark, KEY, None)
            return ""
        if self._advised:
            return ""
        if own := [f"{key}={value}" for key in KEYS if (value := scheduler_setting(self._spark, key)) is not None]:
            self._advised = True
            return f"tasks with state wait for the executor that had it, and new ones may get no work: with {KEY}={SHORT} instead of {', '.join(own)} they would"
        set_scheduler_setting(self._spark, KEY, SHORT)
        self._held = True
        return f"tasks with state wait {SHORT} for the executor that had it, so that new ones get work ({KEY})"
