"""A running query that has an auto-scaler, and the plant that it is if nothing of it can be resized."""

import contextlib
import threading
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from skytide.errors import InvalidInput
from skytide.errors.checks import refused
from skytide.loop.ports import Plant
from skytide.records import Allocation, Observation, Outcome
from skytide.spark.api.run import Run
from skytide.spark.clock import Now
from skytide.spark.compat import queries_of_session, session_of
from skytide.spark.scaling.gateway import SparkCluster
from skytide.spark.scaling.metrics import ProgressListener, QueryMetrics

_all: list["LiveQuery"] = []
_all_lock = threading.Lock()


class LiveQuery:
    """A query and its metrics. If it is started again from its checkpoint it continues; a skytide query is another object then."""

    def __init__(self, asked: StreamingQuery | Run, clock: Now) -> None:
        """Take a query, unless it has an auto-scaler already."""
        self.run = asked if isinstance(asked, Run) else None
        self.query: StreamingQuery = asked.query if isinstance(asked, Run) else asked
        with _all_lock:
            _check(self.query)
            self.spark = session_of(self.query)
            self.cluster = SparkCluster(self.spark)
            self.metrics = QueryMetrics(self.query, self.cluster.executors, run=self.run, local=self.cluster.local, clock=clock)
            self._manager = queries_of_session(self.query)
            self._listener: ProgressListener | None = None
            _all.append(self)

    @property
    def name(self) -> str:
        """What people call it."""
        return str(self.query.name or self.query.id)

    def listen(self, changed: Callable[[], None]) -> None:
        """Take in its progress as it comes, and call `changed` when a run of it begins or ends."""
        self._listener = ProgressListener(str(self.query.id), self.metrics.feed, changed)
        self._manager.addListener(self._listener)

    def follows(self, query: Any) -> bool:
        """Return whether a query is this one, or this one started again."""
        same = str(getattr(query, "runId", "")) == str(self.query.runId)
        return same or (self.run is None and str(getattr(query, "id", "")) == str(self.query.id))

    def continues(self) -> bool:
        """Return whether it was started again; from then on, it is that run."""
        if self.run is not None:
            return False
        again = next((query for query in self._manager.active if query.id == self.query.id and query.isActive), None)
        if again is not None:
            self.query = again
            self.metrics.follow(again)
        return again is not None

    def close(self) -> None:
        """Let another auto-scaler have it."""
        with contextlib.suppress(Exception):  # Spark may be gone
            if self._listener is not None:
                self._manager.removeListener(self._listener)
        with _all_lock:
            _all[:] = [other for other in _all if other is not self]


class QueryPlant(Plant):
    """The plant of a query; by itself it has one worker, and can only be watched."""

    def __init__(self, live: LiveQuery) -> None:
        """Watch a query."""
        self._live = live

    @property
    def lead_s(self) -> float:
        """Nothing has to be waited for."""
        return 0.0

    def observe(self, now_s: float) -> Observation | None:
        """Return what the query did since the last look."""
        return self._live.metrics.observe(now_s, self.size())

    def size(self) -> Allocation:
        """Return the one worker there is."""
        return Allocation(1)

    def request(self, wanted: Allocation, now_s: float) -> Outcome:
        """Do nothing."""
        return Outcome("refused", "this query cannot be resized")

    def close(self) -> None:
        """Leave the query to another auto-scaler."""
        self._live.close()


def _check(query: Any) -> None:
    """Refuse what cannot be watched, or is already."""
    if type(query).__module__.startswith("pyspark.sql.connect"):
        raise InvalidInput(
            value="a query of Spark Connect",
            reason="its client cannot reach the cluster's scheduler",
            remedy="run the auto-scaler where the driver runs, in a session of SparkSession.builder.master(...)",
        )
    if not isinstance(query, StreamingQuery):
        raise refused("query", query, "not a streaming query", "pass what start() of a stream returned, Spark's or skytide's")
    if not query.isActive:
        raise InvalidInput(value=f"query {query.name or query.id}", reason="it has ended", remedy="start it first")
    if any(live.follows(query) for live in _all):
        raise InvalidInput(
            value=f"query {query.name or query.id}",
            reason="it already has an auto-scaler, and each would undo what the other does",
            remedy="stop() the other one first",
        )
