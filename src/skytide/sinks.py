"""Where results go: `query.start(skytide.sinks.Parquet("/data/best"), checkpoint=...)`.

A sink of your own is a subclass of `Sink`. What is named here is loaded when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skytide.spark.sinks.base import CheckpointIdentity, Sink, Staged
    from skytide.spark.sinks.console import Console
    from skytide.spark.sinks.files import Files
    from skytide.spark.sinks.format import Format
    from skytide.spark.sinks.function import Function
    from skytide.spark.sinks.memory import Memory
    from skytide.spark.sinks.parquet import Parquet
    from skytide.spark.sinks.table import Table

__all__ = ["CheckpointIdentity", "Console", "Files", "Format", "Function", "Memory", "Parquet", "Sink", "Staged", "Table"]

_IN_BASE = ("CheckpointIdentity", "Sink", "Staged")


if not TYPE_CHECKING:  # for a type checker there is what is imported above, and nothing else

    def __getattr__(name: str) -> object:
        """Load what is asked for."""
        if name not in __all__:
            raise AttributeError(f"module 'skytide.sinks' has no attribute {name!r}")
        module = "base" if name in _IN_BASE else name.lower()
        try:
            sink = globals()[name] = getattr(import_module(f"skytide.spark.sinks.{module}"), name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "pyspark":
                raise
            raise ModuleNotFoundError(
                f"skytide.sinks.{name} needs Spark: pyspark is not installed; pip install 'pyspark>=4.3,<4.4'", name=error.name
            ) from error
        return sink


def __dir__() -> list[str]:
    """Name what there is, loaded or not."""
    return sorted({*globals(), *__all__})
