"""Queries and operators on the real engine, in this process: no Spark session, no Java, no waiting."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import pyarrow as pa

from skytide.errors import InvalidInput, SkytideError
from skytide.errors.checks import check_integer, check_type, refused
from skytide.errors.limits import MAX_SLOTS
from skytide.keyed import CountWindows, KeyedOperator, KeyedStep, Operator, Tagged, TimeWindows
from skytide.keyed.ordering import check_order, order_names
from skytide.lateness import KSlack, Slack
from skytide.queries import Query
from skytide.records import Status
from skytide.spark.checkpoint import Store
from skytide.spark.clock import Now
from skytide.spark.engine.cache import cache
from skytide.spark.engine.engine import Engine
from skytide.spark.engine.spec import QuerySpec
from skytide.spark.sinks.base import Sink, SinkFunction
from skytide.spark.sinks.function import Function, made_sink
from skytide.spark.sinks.roles import Sinks
from skytide.testing.clock import ManualClock
from skytide.testing.jobs import InProcess
from skytide.testing.rows import Rows, batch_of, key_names
from skytide.testing.sinks import Collected, Remembering
from skytide.windows import Duration, sliding

OUTPUTS = ("results", "windows", "late", "invalid")


@dataclass(frozen=True)
class Outputs:
    """What came out: of a batch, of a flush, or of everything so far."""

    results: pa.Table
    windows: pa.Table
    """A row for each window; for an operator on keys, one for each batch with results."""
    late: pa.Table
    invalid: pa.Table
    """Rows that belong to no window: without a time or a key, or with values that the query refuses."""


@dataclass(frozen=True)
class Asked:
    """A query or an operator, and how its rows are cut into windows."""

    asked: Query | Operator
    time: str
    keys: tuple[str, ...]
    windows: CountWindows | TimeWindows | None
    slack: Slack
    slots: int
    order: tuple[str, ...] = ()

    def engine(self, columns: pa.Schema, folder: str, sinks: Sinks, now: Now) -> Engine:
        """Return the engine of the query, which continues from the checkpoint in a folder."""
        for name in (self.time, *self.keys):
            if name not in columns.names:
                raise InvalidInput(
                    value=f"column {name}", reason="there is no such column", remedy=f"choose one of {', '.join(columns.names)}"
                )
        check_order(self.order, self.time, columns)
        store = Store(os.path.join(folder, "skytide"))
        spec = self._spec(columns).seeded(store.key_seed())
        rules = spec.rules(key_slots=self.slots, seed=store.key_seed(), pane_slots=self.slots, driver_pays_s=float("inf"))
        return Engine(spec, rules, store, sinks, clock=now)

    def _spec(self, columns: pa.Schema) -> QuerySpec:
        query = self.asked if isinstance(self.asked, Query) else None
        if query is not None:
            query.check(columns)
        if query is not None and isinstance(self.windows, TimeWindows) and not self.keys:
            spec = QuerySpec(query, self.time, columns, self.windows.windows, self.slack)
        else:
            step = KeyedStep.of(self.asked, self.keys, self.time, columns, self.windows, order=self.order)
            tagged, identity = Tagged(self.keys, asked=query), self.asked.identity().of_keys(self.keys)
            spec = QuerySpec(tagged, self.time, columns, step.tick, self.slack, step=step, identity=identity)
        return replace(spec, late_wanted=True, invalid_wanted=True)


class Runner:
    """Runs a query or an operator batch by batch, on a checkpoint in a folder of its own.

    Everything but Spark is what runs in production: tasks, state, checkpoint, late rows and sinks. Use it as a context manager, or call
    `close` in the end.

    Examples
    --------
    >>> class Count:
    ...     "Numbers the rows of a key."
    ...     def open(self, key):
    ...         return b""
    ...     def process(self, state, rows):
    ...         state += bytes(rows.num_rows)
    ...         return state, {"so_far": [len(state)] if rows.num_rows else []}
    >>> with Runner(Count(), keys="user") as runner:
    ...     _ = runner.feed([{"ts": second, "user": "ann"} for second in range(5)])
    ...     runner.restart()
    ...     _ = runner.feed([{"ts": 9, "user": "ann"}])
    ...     runner.flush().results.to_pylist()[-1]
    {'user': 'ann', 'so_far': 6}
    """

    def __init__(
        self,
        asked: Query | KeyedOperator,
        *,
        window: Duration | int | None = None,
        slide: Duration | int | None = None,
        keys: str | Sequence[str] = (),
        time: str = "ts",
        order: str | Sequence[str] = (),
        schema: pa.Schema | None = None,
        slack: Slack | None = None,
        slots: int = 2,
        sink: Sink | SinkFunction | None = None,
        clock: Now | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        """Prepare a runner; nothing runs before rows are fed.

        Parameters
        ----------
        asked
            A query, or an operator on keys; an object, not a class.
        window
            The length of windows, as "1 minute", or as a number of rows of a key; an operator needs none.
        slide
            How far apart windows begin (default: `window`).
        keys
            The columns of the key, as in `stream(...).keyed("symbol")`.
        time
            The column with the time of a row: datetimes, or numbers, which are seconds since 1970.
        order
            Columns that order rows of a key with equal times, as in `stream(..., order="seq")`.
        schema
            The columns of rows (default: those of the first batch).
        slack
            How long to wait for late rows (default: `KSlack()`, as in production).
        slots
            The tasks that work side by side, here one after the other.
        sink
            A sink, or a function of (results, sequence), which gets an Arrow table here, as there is no Spark.
        clock
            What dates batches (default: a `ManualClock` at 0).
        checkpoint
            The folder of the checkpoint (default: a temporary one, removed by `close`).
        """
        slack = KSlack() if slack is None else slack
        check_type("slack", slack, Slack, reason="not a slack", remedy='pass one of skytide.slacks, such as FixedSlack("2 s")')
        check_integer("slots", slots, 1, MAX_SLOTS)
        if schema is not None:
            check_type("schema", schema, pa.Schema, reason="not a schema", remedy='pass pyarrow.schema([("ts", ...), ...])')
        if clock is not None and not callable(clock):
            raise refused(
                "clock", clock, "it cannot be called", "pass a ManualClock, or a function that returns seconds since 1970"
            )
        windows = _windows(asked, window, slide)
        self._asked = Asked(_subject(asked), time, key_names(keys), windows, slack, slots, order_names(order))
        self._schema, self._jobs = schema, InProcess()
        self._sink = Collected() if sink is None else made_sink(sink, "sink") or Function(sink)  # type: ignore[arg-type]  # which refuses it
        self._temporary = tempfile.TemporaryDirectory(prefix="skytide-") if checkpoint is None else None
        self.checkpoint = self._temporary.name if checkpoint is None else os.fspath(checkpoint)  # type: ignore[union-attr]
        self.clock = clock or ManualClock()
        self._engine: Engine | None = None
        self._closed = False
        self._sinks: dict[str, Remembering] = {}
        self._batch = 0
        self._tables: dict[str, dict[int, pa.Table]] = {name: {} for name in OUTPUTS}
        self._staged: dict[str, pa.Table] = {}
        self._before: dict[str, dict[int, pa.Table]] = {name: {} for name in OUTPUTS}
        """What came out before the latest call."""

    def __enter__(self) -> "Runner":
        """Return the runner."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the runner."""
        self.close()

    def feed(self, *partitions: Rows) -> Outputs:
        """Run a batch with these rows, and return what came out; each argument is a partition, which one task reads.

        If a sink, a query or an operator raises, so does this, and the next call repeats the batch, as Spark does after a failure.
        """
        if self._schema is None and partitions:
            self._schema = batch_of(partitions[0], self._asked.time, None).schema
        batch = [batch_of(rows, self._asked.time, self._schema) for rows in partitions]
        engine = self._running()
        self._begin()
        engine.run_batch(self._jobs, batch, self._batch)
        self._batch += 1
        return self._outputs(self._tables)

    def flush(self) -> Outputs:
        """End the stream, and return what came out: the last windows."""
        engine = self._running()
        self._begin()
        engine.flush(self._jobs)
        return self._outputs(self._tables)

    def restart(self, asked: Query | KeyedOperator | None = None) -> None:
        """Start again from the checkpoint, as another process would; with another version of the query or operator, if one is given."""
        self._release()
        if asked is not None:
            self._asked = replace(self._asked, asked=_subject(asked))
        self._running()

    def resize(self, slots: int) -> None:
        """Use this many slots from the next batch on: keys move."""
        self._running().resize(slots, slots, slots)

    @property
    def status(self) -> Status:
        """What `status()` of a query on Spark returns."""
        return self._running().status()

    @property
    def outputs(self) -> Outputs:
        """Everything that came out so far."""
        return self._outputs({name: self._before[name] | self._tables[name] for name in OUTPUTS})

    def close(self) -> None:
        """Let the checkpoint go; a temporary one is removed."""
        self._release()
        self._closed = True
        if self._temporary is not None:
            self._temporary.cleanup()

    def _release(self) -> None:
        """Let the checkpoint go, and forget all that is in memory of it."""
        if self._engine is not None:
            self._engine.store.release()
            cache.keep_only(self._engine.store.files.uri)
        self._engine = None

    def _running(self) -> Engine:
        """Return the engine, which is started if it is not there."""
        if self._closed:
            raise SkytideError("this runner is closed; make another one, with the same checkpoint= to continue")
        if self._schema is None:
            remedy = "feed some rows first, or pass schema="
            raise InvalidInput(value="a runner without rows", reason="it is not known what columns they have", remedy=remedy)
        if self._engine is None:
            inner = {name: self._sink if name == "results" else Collected() for name in OUTPUTS}
            self._sinks = {name: Remembering(sink, self._tables[name], self._staged) for name, sink in inner.items()}
            results, windows, late, invalid = self._sinks.values()
            sinks = Sinks(results, late=late, windows=windows, invalid=invalid)
            self._engine = self._asked.engine(self._schema, self.checkpoint, sinks, self.clock)
            self._engine.finish_flush(self._jobs)
            latest = self._engine.store.latest()  # as Spark counts: a batch that was cut off before its sinks had it is repeated
            self._batch = latest.batch + (latest.sequence <= self._engine.store.emitted())
        return self._engine

    def _begin(self) -> None:
        for name, tables in self._tables.items():
            self._before[name].update(tables)
            tables.clear()

    def _outputs(self, came: Mapping[str, Mapping[int, pa.Table]]) -> Outputs:
        if not self._closed or not self._sinks:
            self._running()  # whose sinks know what columns there are
        return Outputs(
            **{
                name: pa.concat_tables([self._sinks[name].schema.empty_table(), *(tables[number] for number in sorted(tables))])
                for name, tables in came.items()
            }
        )


def run(
    asked: Query | KeyedOperator,
    *batches: Rows,
    window: Duration | int | None = None,
    slide: Duration | int | None = None,
    keys: str | Sequence[str] = (),
    time: str = "ts",
    order: str | Sequence[str] = (),
    schema: pa.Schema | None = None,
    slack: Slack | None = None,
    slots: int = 2,
    sink: Sink | SinkFunction | None = None,
    flush: bool = True,
) -> Outputs:
    """Run a query or an operator over batches of rows, one after the other, and return what came out.

    Parameters
    ----------
    asked
        A query, or an operator on keys; an object, not a class.
    batches
        Rows: Arrow tables, dicts of columns, or lists of dicts.
    window
        The length of windows, as "1 minute", or as a number of rows of a key; an operator needs none.
    slide
        How far apart windows begin (default: `window`).
    keys
        The columns of the key, as in `stream(...).keyed("symbol")`.
    time
        The column with the time of a row: datetimes, or numbers, which are seconds since 1970.
    order
        Columns that order rows of a key with equal times, as in `stream(..., order="seq")`.
    schema
        The columns of rows (default: those of the first batch).
    slack
        How long to wait for late rows (default: `KSlack()`, as in production).
    slots
        The tasks that work side by side, here one after the other.
    sink
        A sink, or a function of (results, sequence), which gets an Arrow table here, as there is no Spark.
    flush
        Whether the stream is over at the end, so that all windows come out.

    Examples
    --------
    >>> from skytide.queries import Skyline, high, low
    >>> hotels = [{"ts": 0, "price": 50, "stars": 3}, {"ts": 1, "price": 60, "stars": 5}, {"ts": 2, "price": 70, "stars": 4}]
    >>> run(Skyline(low("price") * high("stars")), hotels, window="1 minute").results["price"].to_pylist()
    [50, 60]
    """
    with Runner(
        asked, window=window, slide=slide, keys=keys, time=time, order=order, schema=schema, slack=slack, slots=slots, sink=sink
    ) as runner:
        for rows in batches:
            runner.feed(rows)
        if flush:
            runner.flush()
        return runner.outputs


def _subject(asked: object) -> Query | Operator:
    if isinstance(asked, Query):
        return asked
    return Operator(asked)  # type: ignore[arg-type]  # which refuses what is not an operator


def _windows(asked: object, window: object, slide: object) -> CountWindows | TimeWindows | None:
    """Return windows as people write them: by time, or by the number of rows of a key."""
    if window is None:
        if isinstance(asked, Query):
            raise InvalidInput(
                value="no window",
                reason="a query on a stream answers windows",
                remedy='pass window="1 minute", or window=100 for so many rows',
            )
        if slide is not None:
            raise refused("slide", slide, "without windows there is nothing to slide", "pass window=, or leave slide out")
        return None
    if isinstance(window, str | timedelta):
        return TimeWindows(sliding(window, slide))
    return CountWindows(window, window if slide is None else slide)  # type: ignore[arg-type]  # which refuses what is no number
