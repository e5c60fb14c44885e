"""Continuous queries as people write them: `stream(df).window(...).skyline(...).start(...)`."""

from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import TimestampNTZType, TimestampType

from skytide.errors import InvalidInput
from skytide.errors.checks import kind_of, refused, words
from skytide.lateness import Slack
from skytide.queries import Query
from skytide.spark.asking import Asking
from skytide.spark.continuous import ContinuousQuery, asked
from skytide.spark.fleet import Fleet
from skytide.spark.keyed import Keyed, KeyedWindowed, key_columns, slack_of
from skytide.spark.pane_source import OwnSource
from skytide.spark.workload_source import WorkloadStream
from skytide.windows import Windows, sliding


def stream(source: DataFrame | Fleet | WorkloadStream, *, time: str = "ts") -> "Stream":
    """Start a chain over a DataFrame, streaming or not, a `fleet(...)` or a `workload(...)`; `time` names the column with the time of each tuple."""
    remedy = "pass a DataFrame, skytide.fleet(...) or skytide.workload(...)"
    kind_of("source", source, (DataFrame, Fleet, WorkloadStream), reason="no stream", remedy=remedy)
    own = None if isinstance(source, DataFrame) else source
    df = source if isinstance(source, DataFrame) else source.load(_session())
    if not isinstance(time, str) or time not in df.columns:
        raise refused("time", time, "there is no such column", f"choose one of {', '.join(df.columns)}")
    kind = df.schema[time].dataType
    if not isinstance(kind, TimestampType | TimestampNTZType):
        raise InvalidInput(
            value=f"time={time!r} of type {kind.simpleString()}",
            reason="windows need a timestamp",
            remedy=f'cast it first: df.withColumn("{time}", F.timestamp_millis("{time}")), or to_timestamp',
        )
    return Stream(df, time, own)


def _session() -> SparkSession:
    try:
        return SparkSession.active()  # of this thread, or else the one that all threads share
    except PySparkException:
        raise InvalidInput(
            value="no Spark session", reason="a source of skytide's own runs on Spark too", remedy="start a SparkSession first"
        ) from None


@dataclass(frozen=True)
class Stream:
    """Tuples with a time."""

    df: DataFrame
    time: str
    source: OwnSource | None = None

    def window(self, length: Any, slide: Any = None, slack: Slack | None = None) -> "Windowed":
        """Cut the stream into windows; `slack` says how long to wait for late tuples (the longest delay seen, if not given)."""
        return Windowed(self.df, self.time, sliding(length, slide), slack_of(slack), self.source)

    def keyed(self, *keys: str) -> "Keyed":
        """Work on the tuples of each key on their own: `.keyed("symbol").count_window(1_000, slide=25)`."""
        return Keyed(self.df, self.time, key_columns(self.df, self.time, keys), self.source)

    def count_window(
        self, length: int, slide: int | None = None, slack: Slack | None = None, *, tick: Any = "100 ms"
    ) -> "KeyedWindowed":
        """Cut the stream into windows of so many tuples, in order of time, one every `slide` tuples; they come out a `tick` at a time."""
        return Keyed(self.df, self.time, (), self.source).count_window(length, slide, slack, tick=tick)


@dataclass(frozen=True)
class Windowed(Asking):
    """A stream cut into windows. A query on it gives a DataFrame if the rows do not stream, otherwise something to start."""

    df: DataFrame
    time: str
    windows: Windows
    slack: Slack
    source: OwnSource | None = None

    def aggregate(self, *measures: str, keys: tuple[str, ...] | list[str] | str = ()) -> Any:
        """Ask for aggregates of each window, as SQL writes them: `.aggregate("count(*)", "avg(price) AS mean", keys="symbol")`."""
        kind_of(
            "keys", keys, (str, tuple, list), reason="not names of columns", remedy='give one or several, as ("symbol", "venue")'
        )
        names = (keys,) if isinstance(keys, str) else tuple(keys)
        for key in names:
            words("keys", key, "symbol")
        return self.apply(self._aggregate(measures, names, self.time))

    def apply(self, query: Query) -> Any:
        """Ask any query, also one of your own."""
        return asked(ContinuousQuery, self.df, self.time, self.windows, self.slack, query, self.source)
