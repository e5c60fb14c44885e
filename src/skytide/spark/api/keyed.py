"""Operators on the tuples of each key, as people write them: `stream(df).keyed("symbol").count_window(1_000, slide=25).apply(...)`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast, overload

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from skytide.errors import InvalidInput
from skytide.errors.checks import check_text, refused
from skytide.keyed import (
    Candlesticks,
    CountWindows,
    KeyedStep,
    OfEachKey,
    Operator,
    Tagged,
    TimeWindows,
    base_groups,
    hashes_of,
)
from skytide.keyed.operator import KeyedOperator
from skytide.keyed.ordering import check_order, order_names
from skytide.keyed.windows import TICK_US
from skytide.lateness import KSlack, Slack
from skytide.queries import Aggregate, Measure, Query
from skytide.queries.extremes import has_order
from skytide.queries.queryable import Queryable
from skytide.spark.api.aggregates import aggregate_of
from skytide.spark.api.binding import bind, check_collations
from skytide.spark.api.chain import AggregatedFrame, aggregated_frame, refuse_further
from skytide.spark.api.checks import check_asked, check_columns, check_copied
from skytide.spark.api.query import ContinuousQuery, ask
from skytide.spark.arrow import arrow_schema, bounded, map_in_arrow, spark_schema
from skytide.spark.engine.spec import QuerySpec
from skytide.spark.sources.panes import OwnSource
from skytide.windows import Duration, duration_us, sliding

GROUP = "__skytide_group"
END_OF_TIME_US = 2**62
KeyedAnswer = TypeVar("KeyedAnswer", ContinuousQuery, DataFrame)
COUNT_BOUNDS = ("row_start", "row_end", "window_start", "window_end")


def slack_of(slack: Slack | None) -> Slack:
    """Return the slack, or the default one if it is None."""
    if slack is not None and not isinstance(slack, Slack):
        raise refused("slack", slack, "not a slack", 'pass KSlack(), DropRatio(0.01) or FixedSlack("2 s")')
    return slack or KSlack()


def key_columns(df: DataFrame, time: str, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of key columns as the DataFrame has them, or refuse them."""
    if not keys:
        raise InvalidInput(value="keyed()", reason="no key is named", remedy='name one: keyed("symbol"), or leave keyed() out')
    kinds = arrow_schema(df.schema)
    columns = []
    for key in keys:
        check_text("keyed", key, "symbol")
        name = _existing(df, key)
        if name is None:
            raise InvalidInput(
                value=f"keyed({key!r})", reason="there is no such column", remedy=f"choose one of {', '.join(df.columns)}"
            )
        if not has_order(kinds.field(name).type):
            remedy = "choose fields of it, or cast it to a string first"
            raise InvalidInput(value=f"keyed({key!r})", reason=f"a {kinds.field(name).type} cannot be a key", remedy=remedy)
        if name == time:
            raise InvalidInput(value=f"keyed({key!r})", reason="that is the time of the tuples", remedy="choose another column")
        if name in columns:
            raise InvalidInput(value=f"keyed({key!r})", reason="named twice", remedy="name each column once")
        check_collations(df, {key: name})
        columns.append(name)
    return tuple(columns)


def order_columns(df: DataFrame, time: str, order: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of columns that order tuples of equal times, as the DataFrame has them, or refuse them."""
    names = tuple(_existing(df, name) or name for name in order_names(order))
    if names:
        check_order(names, time, arrow_schema(df.schema))
        check_collations(df, {f"order={name!r}": name for name in names})
    return names


def _existing(df: DataFrame, name: str) -> str | None:
    """Return the name of a column as the DataFrame has it, or None if there is none."""
    cased = df.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    return {column if cased else column.lower(): column for column in df.columns}.get(name if cased else name.lower())


@dataclass(frozen=True)
class Keyed(Generic[KeyedAnswer]):
    """Tuples with a time and a key."""

    df: DataFrame
    time: str
    keys: tuple[str, ...]
    source: OwnSource | None = None
    order: tuple[str, ...] = ()
    """Columns that order tuples of equal times."""

    def count_window(
        self, length: int, slide: int | None = None, slack: Slack | None = None, *, tick: Duration = "100 ms"
    ) -> "KeyedWindowed[KeyedAnswer]":
        """Return windows of `length` tuples of each key, in order of time, one every `slide` tuples (default: `length`).

        Windows come out in steps of a `tick` of the stream's time. Each step costs a little: if much time passes within a batch, as when
        history is replayed, choose a longer one.
        """
        windows = CountWindows(length, length if slide is None else slide, duration_us(tick, "tick"))
        return KeyedWindowed(self.df, self.time, self.keys, windows, slack_of(slack), self.source, self.order)

    def window(self, length: Duration, slide: Duration | None = None, slack: Slack | None = None) -> "KeyedWindowed[KeyedAnswer]":
        """Return windows of time of the tuples of each key."""
        windows = TimeWindows(sliding(length, slide))
        return KeyedWindowed(self.df, self.time, self.keys, windows, slack_of(slack), self.source, self.order)

    def apply(self, operator: KeyedOperator, *, slack: Slack | None = None, tick: Duration = "100 ms") -> KeyedAnswer:
        """Pass the tuples of each key to an operator of your own, in order of time; `slack` says how long to wait for late ones.

        Tuples are passed on in steps of a `tick` of the stream's time. Each step costs a little: if much time passes within a batch, as
        when history is replayed, choose a longer one.
        """
        return cast(KeyedAnswer, _ask(self, None, slack_of(slack), None, Operator(operator), duration_us(tick, "tick")))


@dataclass(frozen=True)
class KeyedWindowed(Queryable[KeyedAnswer]):
    """Windows of the tuples of each key. A query on them is a DataFrame if the rows do not stream, otherwise something to start."""

    df: DataFrame
    time: str
    keys: tuple[str, ...]
    windows: CountWindows | TimeWindows
    slack: Slack
    source: OwnSource | None = None
    order: tuple[str, ...] = ()
    """Columns that order tuples of equal times."""

    def candlesticks(self, *, price: str, volume: str) -> KeyedAnswer:
        """Ask for open, high, low and close of each window, its volume, and how many quotes it has."""
        return self.apply(Candlesticks(price=price, volume=volume, time=self.time))

    @overload
    def aggregate(self: "KeyedWindowed[ContinuousQuery]", *measures: str | Column | Measure) -> ContinuousQuery: ...

    @overload
    def aggregate(self: "KeyedWindowed[DataFrame]", *measures: str | Column | Measure) -> AggregatedFrame: ...

    def aggregate(self, *measures: str | Column | Measure) -> object:
        """Ask for aggregates of each window, as in `Windowed.aggregate`: `.aggregate("avg(price) AS mean")`.

        Those of windows of time can be asked further: `.top_k(3, by="mean")` are the best keys of each window.
        """
        if isinstance(self.windows, TimeWindows):
            # Partial results of a key can be merged, so its tuples need not be in one place: no key is too frequent.
            query = OfEachKey.of(aggregate_of(self.df, measures, self.keys, self.time))
            return ask(self.df, self.time, self.windows.windows, self.slack, query, self.source)
        return _ask(self, self.windows, self.slack, aggregate_of(self.df, measures, (), self.time), None)

    def apply(self, query: Query | KeyedOperator) -> KeyedAnswer:
        """Ask any query, or pass each window to an operator of your own."""
        given = (query, None) if isinstance(query, Query) else (None, Operator(query))
        return cast(KeyedAnswer, _ask(self, self.windows, self.slack, *given))


def _ask(
    keyed: "Keyed[Any] | KeyedWindowed[Any]",
    windows: CountWindows | TimeWindows | None,
    slack: Slack,
    query: Query | None,
    operator: Operator | None,
    tick_us: int = TICK_US,
) -> ContinuousQuery | DataFrame:
    """Return a continuous query, or the results as a DataFrame if the rows do not stream."""
    taken = () if windows is None else COUNT_BOUNDS if isinstance(windows, CountWindows) else COUNT_BOUNDS[2:]
    df: DataFrame = keyed.df
    helpers: tuple[str, ...] = ()
    if query is not None:
        check_asked(df, query)
    check_columns(df, taken=taken)
    written = query  # before expressions become columns
    if query is not None:
        df, query, names = bind(df, query)
        helpers = tuple(names)
    columns = arrow_schema(df.schema)
    check_copied("apply", query if query is not None else operator and operator.own)
    identity = cast(Query | Operator, written or operator).identity()
    asked = cast(Query | Operator, operator if query is None else query)
    step = KeyedStep.of(asked, keyed.keys, keyed.time, columns, windows, helpers, keyed.order, tick_us)
    tagged = Tagged(keyed.keys, asked=query)
    spec = QuerySpec(tagged, keyed.time, columns, step.tick, slack, helpers, step, identity.of_keys(keyed.keys))
    if df.isStreaming:
        return ContinuousQuery(df, spec, keyed.source)
    results = _of_rows(df, step)
    return aggregated_frame(results, refuse_further) if isinstance(query, Aggregate) else results


def _of_rows(df: DataFrame, step: KeyedStep) -> DataFrame:
    """Return the results for rows that do not stream, in one lazy plan: a task works on the keys of one group."""
    fields = bounded(df.schema, step.time)
    columns = step.columns

    def tag(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tagged = Tagged(step.keys)
        for batch in batches:
            rows = pa.Table.from_batches([batch]).cast(columns)
            rows = rows.filter(rows[step.time].is_valid()) if rows[step.time].null_count else rows
            tagged.pane(rows)
            groups = base_groups(hashes_of(rows, step.keys))
            yield from rows.append_column(GROUP, pa.array(groups)).to_batches()

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = pa.Table.from_batches(list(batches))
        rows = rows.rename_columns([*columns.names, GROUP]).drop_columns([GROUP]).cast(columns)
        yield from step.work(rows, hashes_of(rows, step.keys), [], [], None, END_OF_TIME_US).results.to_batches()

    tagged = map_in_arrow(
        df, tag, StructType([*df.schema.fields, *spark_schema(StructType([]), pa.schema([(GROUP, pa.int64())])).fields])
    )
    return tagged.groupBy(GROUP).applyInArrow(work, spark_schema(fields, step.results))
