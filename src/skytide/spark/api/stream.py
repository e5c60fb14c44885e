"""Continuous queries as people write them: `stream(df).window(...).skyline(...).start(...)`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, cast, overload

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import TimestampNTZType, TimestampType

from skytide.errors import InvalidInput
from skytide.errors.checks import check_bool, check_text, check_type, refused
from skytide.lateness import Slack
from skytide.queries import Measure, Query, Queryable
from skytide.spark.api.aggregates import aggregate_of
from skytide.spark.api.chain import AggregatedFrame
from skytide.spark.api.keyed import Keyed, KeyedWindowed, key_columns, order_columns, slack_of
from skytide.spark.api.query import ContinuousQuery, ask
from skytide.spark.fleet import Fleet
from skytide.spark.sources.panes import OwnSource
from skytide.spark.sources.workload import WorkloadStream
from skytide.windows import Duration, Windows, sliding

StreamAnswer = TypeVar("StreamAnswer", ContinuousQuery, DataFrame)


@overload
def stream(
    source: Fleet | WorkloadStream, *, time: str = "ts", order: str | Sequence[str] = (), streaming: Literal[True] = True
) -> "Stream[ContinuousQuery]": ...


@overload
def stream(
    source: DataFrame, *, time: str = "ts", order: str | Sequence[str] = (), streaming: Literal[False]
) -> "Stream[DataFrame]": ...


@overload
def stream(
    source: DataFrame, *, time: str = "ts", order: str | Sequence[str] = (), streaming: Literal[True] | None = None
) -> "Stream[ContinuousQuery]": ...


def stream(
    source: DataFrame | Fleet | WorkloadStream,
    *,
    time: str = "ts",
    order: str | Sequence[str] = (),
    streaming: bool | None = None,
) -> "Stream[Any]":
    """Return the start of a chain over rows with a time: windows, then a query. On rows that do not stream it is a DataFrame, otherwise something to start.

    Parameters
    ----------
    source
        A DataFrame, streaming or not, a `fleet(...)` or a `workload(...)`.
    time
        The column with the time of each row, a timestamp.
    order
        A column or several that order rows of a key with equal times, for count windows and operators on keys: a sequence number,
        or Kafka's partition and offset. NULL comes first. Without it, and where rows are equal in these, too, the values of all
        columns decide. Other queries do not depend on the order of rows.
    streaming
        Whether the rows stream: a DataFrame of the other kind is refused, and type checkers know the results. Without it all is
        accepted, and type checkers assume that the rows stream.

    Raises
    ------
    InvalidInput
        If the source is none of these, or of the other kind, or has no such column with timestamps, or none to order rows by.

    Examples
    --------
    ```python
    stream(trades, time="ts").window("1 min", slide="10 s").skyline(low("price"))
    ```

    More in [streaming.md](streaming.md).
    """
    remedy = "pass a DataFrame, skytide.fleet(...) or skytide.workload(...)"
    check_type("source", source, (DataFrame, Fleet, WorkloadStream), reason="not a stream", remedy=remedy)
    own = None if isinstance(source, DataFrame) else source
    df = source if isinstance(source, DataFrame) else source.load(_session())
    if streaming is not None:
        check_bool("streaming", streaming)
        if streaming != df.isStreaming:
            remedy = (
                "read it with spark.readStream, or leave the argument out"
                if streaming
                else "read it with spark.read, or leave the argument out"
            )
            raise refused("streaming", streaming, f"the rows {'stream' if df.isStreaming else 'do not stream'}", remedy)
    if not isinstance(time, str) or time not in df.columns:
        raise refused("time", time, "there is no such column", f"choose one of {', '.join(df.columns)}")
    time_type = df.schema[time].dataType
    if not isinstance(time_type, TimestampType | TimestampNTZType):
        raise InvalidInput(
            value=f"time={time!r} of type {time_type.simpleString()}",
            reason="windows need a timestamp",
            remedy=f'cast it first: df.withColumn("{time}", F.timestamp_millis("{time}")), or to_timestamp',
        )
    return Stream(df, time, own, order_columns(df, time, order))


def _session() -> SparkSession:
    try:
        return SparkSession.active()  # that of this thread, or else the one that all threads share
    except PySparkException:
        raise InvalidInput(
            value="no Spark session", reason="a source of skytide's own needs one", remedy="start a SparkSession first"
        ) from None


@dataclass(frozen=True)
class Stream(Generic[StreamAnswer]):
    """Tuples with a time."""

    df: DataFrame
    time: str
    source: OwnSource | None = None
    order: tuple[str, ...] = ()
    """Columns that order tuples of equal times."""

    def window(self, length: Duration, slide: Duration | None = None, slack: Slack | None = None) -> "Windowed[StreamAnswer]":
        """Return the stream cut into windows; `slack` says how long to wait for late tuples (default: the longest delay seen so far)."""
        return Windowed(self.df, self.time, sliding(length, slide), slack_of(slack), self.source)

    @overload
    def keyed(self: "Stream[ContinuousQuery]", *keys: str) -> Keyed[ContinuousQuery]: ...

    @overload
    def keyed(self: "Stream[DataFrame]", *keys: str) -> Keyed[DataFrame]: ...

    def keyed(self, *keys: str) -> Keyed[Any]:
        """Return the tuples of each key on their own: `.keyed("symbol").count_window(1_000, slide=25)`."""
        return Keyed[Any](self.df, self.time, key_columns(self.df, self.time, keys), self.source, self.order)

    @overload
    def count_window(
        self: "Stream[ContinuousQuery]",
        length: int,
        slide: int | None = None,
        slack: Slack | None = None,
        *,
        tick: Duration = "100 ms",
    ) -> KeyedWindowed[ContinuousQuery]: ...

    @overload
    def count_window(
        self: "Stream[DataFrame]", length: int, slide: int | None = None, slack: Slack | None = None, *, tick: Duration = "100 ms"
    ) -> KeyedWindowed[DataFrame]: ...

    def count_window(
        self, length: int, slide: int | None = None, slack: Slack | None = None, *, tick: Duration = "100 ms"
    ) -> KeyedWindowed[Any]:
        """Return windows of `length` tuples, in order of time, one every `slide` tuples; they come out in steps of a `tick`."""
        return Keyed[Any](self.df, self.time, (), self.source, self.order).count_window(length, slide, slack, tick=tick)


@dataclass(frozen=True)
class Windowed(Queryable[StreamAnswer]):
    """A stream cut into windows. A query on them is a DataFrame if the rows do not stream, otherwise something to start."""

    df: DataFrame
    time: str
    windows: Windows
    slack: Slack
    source: OwnSource | None = None

    @overload
    def aggregate(
        self: "Windowed[ContinuousQuery]", *measures: str | Column | Measure, keys: Sequence[str] = ()
    ) -> ContinuousQuery: ...

    @overload
    def aggregate(self: "Windowed[DataFrame]", *measures: str | Column | Measure, keys: Sequence[str] = ()) -> AggregatedFrame: ...

    def aggregate(self, *measures: str | Column | Measure, keys: Sequence[str] = ()) -> object:
        """Ask for aggregates of each window, as Spark users write them: `.aggregate("count(*)", F.avg("price").alias("mean"), keys="symbol")`.

        SQL texts and Columns may have expressions inside and over aggregates: `sum(price * size) / sum(size) AS vwap`; for a function of
        your own, use `skytide.collect`. The results can be asked further, window by window: `.top_k(3, by="vwap")`.
        """
        check_type(
            "keys",
            keys,
            (str, tuple, list),
            reason="not names of columns",
            remedy='give one or several, such as ("symbol", "venue")',
        )
        names = (keys,) if isinstance(keys, str) else tuple(keys)
        for key in names:
            check_text("keys", key, "symbol")
        return self._ask(aggregate_of(self.df, measures, names, self.time))

    def group_by(self, *keys: str) -> "Grouped[StreamAnswer]":
        """Return the windows grouped by columns, as Spark users write it: `.group_by("symbol").agg("avg(price) AS mean")`.

        It is the same query as `.aggregate("avg(price) AS mean", keys="symbol")`.
        """
        if not keys:
            raise InvalidInput(
                value="group_by()",
                reason="no column is named",
                remedy='name one: group_by("symbol"), or use .aggregate(...) without keys',
            )
        for key in keys:
            check_text("group_by", key, "symbol")
        return Grouped(self, keys)

    groupBy = group_by

    def apply(self, query: Query) -> StreamAnswer:
        """Ask any query, also one of your own."""
        return cast(StreamAnswer, self._ask(query))

    def _ask(self, query: Query) -> ContinuousQuery | DataFrame:
        return ask(self.df, self.time, self.windows, self.slack, query, self.source)


@dataclass(frozen=True)
class Grouped(Generic[StreamAnswer]):
    """Windows grouped by columns, to be aggregated."""

    windowed: Windowed[StreamAnswer]
    keys: tuple[str, ...]

    @overload
    def agg(self: "Grouped[ContinuousQuery]", *measures: str | Column | Measure) -> ContinuousQuery: ...

    @overload
    def agg(self: "Grouped[DataFrame]", *measures: str | Column | Measure) -> AggregatedFrame: ...

    def agg(self, *measures: str | Column | Measure) -> object:
        """Ask for aggregates of each group of each window, written as in `Windowed.aggregate`: `.agg("count(*)", F.avg("price").alias("mean"))`."""
        if not measures:
            raise InvalidInput(value="agg()", reason="nothing to aggregate", remedy='name some: agg("count(*)")')
        return cast(Windowed[Any], self.windowed).aggregate(*measures, keys=self.keys)
