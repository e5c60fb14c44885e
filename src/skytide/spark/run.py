"""A continuous query that runs."""

import threading
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.streaming.query import StreamingQuery

from skytide.errors import InvalidInput
from skytide.errors.checks import real
from skytide.keyed import RoutingTable
from skytide.records import Status, WindowRow
from skytide.spark.checks import check_slots
from skytide.spark.engine import Engine
from skytide.spark.fleet import Fleet
from skytide.spark.jobs import SparkJobs
from skytide.spark.pane_source import OwnSource
from skytide.spark.sinks import MemorySink
from skytide.spark.watching import fleet_subject, query_subject
from skytide.watch.looks import Subject
from skytide.watch.serving import export, serve

if TYPE_CHECKING:
    from skytide.watch.metrics import Exporter
    from skytide.watch.server import Page


class Run:
    """A continuous query that runs."""

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
        self._stop_query, query.stop = query.stop, self._cut_off  # type: ignore[method-assign]

    def status(self) -> Status:
        """How the query is doing."""
        return self._engine.status()

    def windows(self) -> list[WindowRow]:
        """The latest windows that came out, oldest first."""
        return self._engine.recent_windows()

    def resize(self, pane_slots: int | None = None, window_slots: int | None = None, *, slots: int | None = None) -> None:
        """Change the number of slots of either level, or of an operator on keys, from the next batch on; results do not depend on it."""
        check_slots("pane_slots", pane_slots)
        check_slots("window_slots", window_slots)
        check_slots("slots", slots)
        of_keys = self._engine.plan.step is not None
        self._engine.resize(pane_slots if of_keys else pane_slots or slots, window_slots, slots if of_keys else None)

    def rebalance(self) -> None:
        """Spread the keys of an operator over its slots anew, with the next batch; it does so by itself when loads differ too much."""
        self._check_keyed("rebalance()")
        self._engine.rebalance()

    def routing(self) -> RoutingTable:
        """Return which group of keys lies on which slot, after the latest batch."""
        self._check_keyed("routing()")
        keyed = self._engine.plan.store.latest().keyed
        return keyed.table if keyed else RoutingTable.even(self._engine.plan.rules.keying.slots)  # type: ignore[union-attr]

    def seconds(self) -> dict[str, float]:
        """Where the time went so far, by step of a batch, and within the tasks of both levels."""
        return dict(self._engine.seconds)

    def expected_hz(self) -> float | None:
        """What the source expects soon, in tuples a second; None if it cannot tell."""
        return None if self._source is None else self._source.expected_hz()

    def results(self) -> pa.Table:
        """All results so far, of a query with the sink "memory"."""
        if not isinstance(self._engine.sinks.results, MemorySink):
            raise InvalidInput(
                value="results()", reason="they went to the sink", remedy='start with sink="memory" to keep them here'
            )
        return self._engine.sinks.results.table()

    def serve(self, address: str = "127.0.0.1", port: int | None = None, *, token: str | None = None) -> "Page":
        """Show it on a live page, whose `url` is returned with it; all that this program serves at an address is on one page.

        The page is for this machine alone. On another address nobody sees it without the token that is in the `url`; pass one to choose it.
        """
        return serve(self._subjects(), address, port, token)

    def metrics(self, port: int, address: str = "127.0.0.1") -> "Exporter":
        """Let Prometheus read how it is doing, beside all else that this program exports there. Metrics hold no rows; whoever reaches the port reads them."""
        return export(self._subjects(), port, address)

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until the query has ended (or for `timeout` seconds), with the last windows out if it flushes; raise if it failed."""
        if timeout is not None:
            real("timeout", timeout, above=0, meaning="seconds to wait, more than 0, or None to wait for the end")
        ended = self.query.awaitTermination(timeout)  # type: ignore[arg-type]
        if ended or timeout is None:
            with self._done:
                if not self._flushed:
                    self._engine.flush(self._jobs)
                    self._flushed = True
            self._engine.plan.store.release()
        return not self.query.isActive

    def stop(self) -> None:
        """End the query after what it is doing now; a later start with the same checkpoint goes on from there."""
        latest = self.status().batch
        while self.query.isActive and self.status().batch == latest and self._in_a_batch():
            self.query.awaitTermination(0.05)  # type: ignore[arg-type]
        self.query.stop()

    def _subjects(self) -> list[Subject]:
        """Return what there is to look at: the query, and the fleet that it reads."""
        return [query_subject(self, self._engine), *([fleet_subject(self._source)] if isinstance(self._source, Fleet) else [])]

    def _check_keyed(self, value: str) -> None:
        if self._engine.plan.step is None:
            raise InvalidInput(
                value=value,
                reason="no key of this query lies on a slot",
                remedy="ask with keyed(...), and not for aggregates by time",
            )

    def _cut_off(self) -> None:
        """Stop Spark's query, whoever asked for it: the stream has not ended, so its last windows stay open."""
        if self.query.isActive:
            self._flushed = True
        self._stop_query()
        self._engine.plan.store.release()

    def _in_a_batch(self) -> bool:
        status = self.query.status
        return bool(status["isTriggerActive"] and status["isDataAvailable"])
