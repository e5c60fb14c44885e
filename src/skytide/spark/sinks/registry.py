"""All sinks: a new one is a file, and a line here."""

import os
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from skytide.errors import InvalidInput
from skytide.spark.checkpoint.place import folder_text
from skytide.spark.compat import short_name
from skytide.spark.sinks.base import Sink, refuse_ignored
from skytide.spark.sinks.console import Console
from skytide.spark.sinks.files import Files
from skytide.spark.sinks.format import Format
from skytide.spark.sinks.function import Function, made_sink
from skytide.spark.sinks.memory import Memory
from skytide.spark.sinks.parquet import Parquet
from skytide.spark.sinks.table import Table

CLASSES: tuple[type[Sink], ...] = (Parquet, Files, Memory, Console, Format, Table, Function)
NAMED = {name: cls for cls in CLASSES for name in cls.names}


def sink_of(given: Any, path: str | os.PathLike[str] | None, spark: SparkSession, options: Mapping[str, str] | None = None) -> Sink:
    """Return the sink that a user asked for: a sink or a function as it is, or the name of one, or of a format that Spark knows."""
    if (made := made_sink(given, "sink")) is not None:
        refuse_ignored(path, options)
        return made
    name = given.lower() if isinstance(given, str) else ""
    is_ours = name in NAMED and NAMED[name] is not Files  # Spark may lack the package of a format of files, such as Avro
    format = name if is_ours else short_name(spark, given) if name else None
    if format is None:
        raise InvalidInput(
            value=f"sink={given!r}",
            reason="not a sink, nor a format that this Spark knows",
            remedy="pass a sink of skytide.sinks, a function of (results, sequence), "
            f"one of {', '.join(repr(name) for name, cls in NAMED.items() if cls is not Files)}, or a format whose package Spark was started with",
        )
    return NAMED.get(format, Format).named(format, path, options)


def side_sink_of(given: Any, argument: str) -> Sink | None:
    """Return the sink for a side output: a sink, a function, or the path of a Parquet folder."""
    if given is None:
        return None
    if (made := made_sink(given, argument)) is not None:
        return made
    if isinstance(given, str | os.PathLike):
        return Parquet(folder_text(given, argument))
    raise InvalidInput(
        value=f"{argument}={given!r}",
        reason="not a sink",
        remedy="pass a sink of skytide.sinks, a function of (rows, sequence), or the path of a Parquet folder",
    )
