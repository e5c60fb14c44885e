"""A continuous query that runs."""

import atexit
import contextlib
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from skytide.errors import InvalidInput, SkytideError
from skytide.errors.checks import check_number
from skytide.keyed import RoutingTable
from skytide.records import QueryState, Slots, Status, WindowRow
from skytide.records.printing import Printed
from skytide.spark.api.options import check_slots
from skytide.spark.api.watching import query_subject
from skytide.spark.compat import JAVA_GONE, found_nothing_new, java_ends, spark_ended
from skytide.spark.engine.emitting import window_table
from skytide.spark.engine.engine import Engine
from skytide.spark.engine.jobs import SparkJobs
from skytide.spark.fleet import Fleet
from skytide.spark.fleet.watching import fleet_subject
from skytide.spark.session.failure import by_end_of_spark, reason
from skytide.spark.session.interrupt import Interrupt
from skytide.spark.sinks.memory import Memory
from skytide.spark.sources.panes import OwnSource
from skytide.watch.serving import export, serve
from skytide.watch.snapshots import OVER, Subject

if TYPE_CHECKING:
    from skytide.watch.exporter import Exporter
    from skytide.watch.server import Page

QUERY_WIDTH = 100
LOOK_S = 0.25  # between two checks whether somebody pressed Ctrl-C
MIN_LOOK_S = 0.001
BATCH_LOOK_S = 0.05  # between two checks whether a batch has ended
ENDING = "skytide: Ctrl-C: the query ends after the current batch, and continues from its checkpoint when it is started again"
JAVA_ENDED = "Java has ended, and Spark with it; its log says why, out of memory for instance"


class Run(Printed):
    """A continuous query that runs: what Spark's `StreamingQuery` has, and more."""

    def __init__(
        self, query: StreamingQuery, engine: Engine, jobs: SparkJobs, flush: bool, source: OwnSource | None = None
    ) -> None:
        """Watch over a started query."""
        self._source = source
        self.query = query
        """Spark's own handle."""
        self._engine, self._jobs = engine, jobs
        self._done = threading.Lock()
        self._flushed = not flush
        self._stopping = False
        self._flush_error: Exception | None = None
        self._stop_query, query.stop = query.stop, self._cut_off  # type: ignore[method-assign]

        for run in [run for run in _active if run._has_failed()]:  # and nobody has waited for it
            run._let_go()
        _active.add(self)
        atexit.unregister(_end_all)  # so that it is called before what Spark has registered meanwhile
        atexit.register(_end_all)

    @property
    def id(self) -> str:
        """The id of the query, which is the same when it is started again with its checkpoint."""
        return str(self.query.id)

    @property
    def run_id(self) -> str:
        """The id of this start of the query."""
        return str(self.query.runId)

    @property
    def name(self) -> str | None:
        """The name of the query, if it was given one."""
        return self.query.name

    @property
    def is_active(self) -> bool:
        """Whether the query runs."""
        return self.query.isActive and not spark_ended(self.query)

    @property
    def last_progress(self) -> Any:
        """Spark's progress report of its latest batch."""
        return self.query.lastProgress

    @property
    def recent_progress(self) -> Any:
        """Spark's progress reports of its latest batches."""
        return self.query.recentProgress

    runId, isActive, lastProgress, recentProgress = run_id, is_active, last_progress, recent_progress  # as Spark spells them

    def exception(self) -> StreamingQueryException | None:
        """Return why the query failed, if it did."""
        return self.query.exception()

    def lines(self) -> list[tuple[str, str]]:
        """Return what runs, and how it is doing."""
        spec = self._engine.spec
        query = textwrap.shorten(spec.known_as.short, QUERY_WIDTH, placeholder=" ...")
        name = f"{self.name}: " if self.name else ""
        return [("query", f"{name}{query}, windows of {spec.texts()['windows']}"), *self.status().lines()]

    def __repr__(self) -> str:
        """Return the query and its status in a few lines."""
        return str(self)

    def status(self) -> Status:
        """Return how the query is doing."""
        state, failure = self._state()
        return replace(self._engine.status(), state=state, failure=failure)

    def _state(self) -> tuple[QueryState, str]:
        """Return the state of the query, and why it failed if it did."""
        if self._flush_error:
            return "failed", reason(f"{type(self._flush_error).__name__}: {self._flush_error}")
        try:
            failure, ended = self.query.exception(), spark_ended(self.query)
            if failure and not (ended and by_end_of_spark(str(failure))):
                return "failed", reason(str(failure))
            if ended and not self._stopping and java_ends():
                return "failed", JAVA_ENDED
            if ended or not self.query.isActive:
                return "stopped", ""
            doing = self.query.status
        except JAVA_GONE:
            return ("stopped", "") if self._stopping else ("failed", JAVA_ENDED)
        except Exception:  # Spark itself has ended, and its queries with it
            return "stopped", ""
        if self._stopping:
            return "stopping", ""
        first = self._engine.status().batch < 0 and doing["isDataAvailable"]
        if first or str(doing["message"]).startswith("Initializing"):
            return "starting", ""
        return ("running" if doing["isDataAvailable"] else "idle"), ""

    def windows(self) -> list[WindowRow]:
        """Return the latest windows that came out, oldest first."""
        return self._engine.recent_windows()

    def windows_df(self) -> DataFrame:
        """Return the latest windows that came out as a DataFrame, with timestamps."""
        return self._jobs.rows(window_table(self.windows(), self._engine.spec.time_type))

    def results_df(self) -> DataFrame:
        """Return all results so far as a DataFrame, if the sink is "memory"."""
        return self._memory("results_df()").frame()

    def resize(self, pane_slots: int | None = None, window_slots: int | None = None, *, slots: int | None = None) -> None:
        """Change the number of slots of either level, or of an operator on keys, from the next batch on; results do not depend on it.

        Until `window_slots` are given, here or at the start, there are as many as cores, also when executors come or go. Where tuples are
        worked on in place there are as many tasks of the pane level as partitions, whatever `pane_slots` are: `status().pane_plan` says so.
        """
        check_slots("pane_slots", pane_slots)
        check_slots("window_slots", window_slots)
        check_slots("slots", slots)
        is_keyed = self._engine.slots.keys is not None
        self._engine.resize(pane_slots if is_keyed else pane_slots or slots, window_slots, slots if is_keyed else None)

    def next_slots(self) -> Slots:
        """Return the slots of each level from the next batch on; the status has those of the latest batch."""
        return self._engine.slots

    def rebalance(self) -> None:
        """Spread the keys of an operator over its slots anew with the next batch; that happens by itself when loads differ too much."""
        self._check_keyed("rebalance()")
        self._engine.rebalance()

    def routing(self) -> RoutingTable:
        """Return which slot has which group of keys, after the latest batch."""
        self._check_keyed("routing()")
        keyed = self._engine.store.latest().keyed
        return keyed.table if keyed else RoutingTable.even(self._engine.slots.keys or 1)

    def seconds(self) -> dict[str, float]:
        """Return where the time went so far, in seconds: by step of a batch, and within the tasks of the levels."""
        return {str(step): spent_s for step, spent_s in self._engine.seconds.items()}

    def expected_hz(self) -> float | None:
        """Return how many tuples per second the source expects soon; None if it cannot say."""
        return None if self._source is None else self._source.expected_hz()

    def results(self) -> pa.Table:
        """Return all results so far as an Arrow table, if the sink is "memory"."""
        return self._memory("results()").table()

    def _memory(self, asked: str) -> Memory:
        sink = self._engine.sinks.results
        if not isinstance(sink, Memory):
            raise InvalidInput(
                value=asked, reason="the results went to the sink", remedy='start with sink="memory" to keep them here'
            )
        return sink

    def serve(self, address: str = "127.0.0.1", port: int | None = None, *, token: str | None = None) -> "Page":
        """Show the query on a live page, and return the page with its `url`; everything this program serves at one address is on one page.

        By default only this machine can open the page. At another address it needs the token that is in the `url`; pass one to choose it.
        """
        return serve(self._subjects(), address, port, token)

    def metrics(self, port: int, address: str = "127.0.0.1") -> "Exporter":
        """Let Prometheus read how the query is doing, and return the exporter. Metrics hold no rows; whoever reaches the port can read them."""
        return export(self._subjects(), port, address)

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the query has ended, and its last windows are out if it flushes; return False after `timeout` seconds; raise if it failed."""
        if timeout is not None:
            check_number("timeout", timeout, above=0, meaning="seconds to wait, more than 0, or None to wait for the end")
        if not self._wait(timeout):
            return False
        with self._done:
            try:
                self._flush()
            finally:
                self._let_go()
        return True

    awaitTermination = await_termination

    def _flush(self) -> None:
        """Let the last windows out, once; if that failed, a later start does it, as another run may have the checkpoint now."""
        if self._flush_error:
            raise self._flush_error
        if self._flushed or not self._read_to_its_end():
            return
        try:
            self._engine.flush(self._jobs)
        except Exception as error:
            self._flush_error = error
            raise
        self._flushed = True

    def _wait(self, timeout: float | None) -> bool:
        """Wait until the query has ended, and return whether it has; end it on Ctrl-C, which would otherwise kill the jobs of a batch."""
        until = None if timeout is None else time.monotonic() + timeout
        with Interrupt() as interrupt:
            interrupt.spark_runs()
            while not self._has_ended(self._look_s(until)):
                if spark_ended(self.query):
                    self._cut_off()
                    self._check_java()
                    return True
                if interrupt.requested:
                    print(ENDING, file=sys.stderr, flush=True)
                    self.stop()
                    return True
                if until is not None and time.monotonic() >= until:
                    return False
        return True

    def _has_ended(self, timeout_s: float) -> bool:
        """Wait a while for the end of Spark's query, and return whether it has come; raise if it failed by itself."""
        try:
            return bool(self.query.awaitTermination(timeout_s))  # type: ignore[arg-type]
        except StreamingQueryException as failure:
            if spark_ended(self.query) and by_end_of_spark(str(failure)):
                self._check_java()
                return True
            self._let_go()
            raise

    def _check_java(self) -> None:
        """Raise if Spark ended with its Java process, as when that has no memory left: nobody stopped it."""
        if not self._stopping and java_ends():
            self._let_go()
            raise SkytideError(JAVA_ENDED)

    def _read_to_its_end(self) -> bool:
        """Return whether the query ended by itself, as all there was has been read: a stop, by whomever, leaves the last windows open.

        Spark says neither how a query ended nor how much was available. But it notes when it looked for a further batch and there was none.
        """
        return found_nothing_new(self.query)

    @staticmethod
    def _look_s(until: float | None) -> float:
        return LOOK_S if until is None else min(LOOK_S, max(until - time.monotonic(), MIN_LOOK_S))

    def stop(self) -> None:
        """End the query after its current batch; a later start with the same checkpoint continues from there.

        A sink may call it, too. There it returns at once, as the batch ends only after the sink has returned.
        """
        self._stopping = True
        before = self._engine.status().batch

        def end() -> None:
            stop_after_batch(self.query, lambda: self._engine.status().batch, before)

        if not self._engine.works_here():
            end()
        elif self.query.isActive:  # otherwise this is a flush, and nothing comes after it
            threading.Thread(target=end, name="skytide stop", daemon=True).start()

    def _subjects(self) -> list[Subject]:
        """Return what there is to watch: the query, and the fleet that it reads."""
        return [
            query_subject(self, self._engine),
            *([fleet_subject(self._source, lambda: self.status().state in OVER)] if isinstance(self._source, Fleet) else []),
        ]

    def _check_keyed(self, value: str) -> None:
        if self._engine.slots.keys is None:
            raise InvalidInput(
                value=value,
                reason="this query is not partitioned by key",
                remedy="use keyed(...), for something else than aggregates of windows of time",
            )

    def _cut_off(self) -> None:
        """Stop Spark's query for whoever asked, and let others use the checkpoint."""
        try:
            self._stop_query()
        except Exception:  # it has noted the stop before it asks Spark to cancel jobs
            if not spark_ended(self.query):
                raise
        if not self._engine.works_here():  # a sink asks: whoever called it lets go
            with self._done:  # not while the last windows come out
                self._let_go()

    def _let_go(self) -> None:
        """Let others use the checkpoint, as the query has ended."""
        self._engine.store.release()
        _active.discard(self)

    def _has_failed(self) -> bool:
        with contextlib.suppress(Exception):  # Spark may be gone
            return self.query.exception() is not None
        return False


def stop_after_batch(query: StreamingQuery, latest: Callable[[], int] | None = None, before: int | None = None) -> None:
    """Stop a query once its current batch has ended, the one after `before`; `latest` returns the latest batch that has, otherwise Spark's progress tells."""

    def done() -> int:
        return latest() if latest else int((query.lastProgress or {"batchId": -1})["batchId"])

    def in_a_batch() -> bool:
        status = query.status
        return bool(status["isTriggerActive"] and status["isDataAvailable"])

    before = done() if before is None else before
    while query.isActive and done() == before and in_a_batch():
        query.awaitTermination(BATCH_LOOK_S)  # type: ignore[arg-type]
    query.stop()


_active: set[Run] = set()
"""Queries that have not ended, as far as anybody has noticed."""


def run_of(run_id: str) -> Run | None:
    """Return the continuous query with this id of its start, if it is one of ours and has not ended."""
    return next((run for run in list(_active) if run.run_id == run_id), None)


def _end_all() -> None:
    """End all queries when Python exits: a batch that is cut off then would crash the interpreter."""
    for run in list(_active):
        with contextlib.suppress(Exception):  # Spark may be gone
            if run.is_active:
                run.stop()
