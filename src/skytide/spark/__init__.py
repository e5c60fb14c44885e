"""The real plant: everything that touches Apache Spark, and the only layer that imports pyspark."""

import warnings
from typing import TYPE_CHECKING, Any

from skytide.spark.session.quick import QUICK_TASKS, SPECULATION

if TYPE_CHECKING:
    from skytide.spark.session.local import local_session

__all__ = ["QUICK_TASKS", "SPECULATION", "local_session"]


def __getattr__(name: str) -> Any:
    """Load what needs pyspark when it is first used: Spark's workers choose before that which pyspark to load."""
    if name == "SECOND_TRIES":
        warnings.warn("skytide.spark.SECOND_TRIES is called SPECULATION now", DeprecationWarning, stacklevel=2)
        return SPECULATION
    if name != "local_session":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from skytide.spark.session.local import local_session

    return local_session
