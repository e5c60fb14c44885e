"""A running query that has an auto-scaler, and the plant that it is if nothing of it can be resized."""

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from skytide.errors import InvalidInput
from skytide.errors.checks import refused
from skytide.loop.cycle import Loop
from skytide.loop.ports import Plant
from skytide.records import Allocation, Observation, Outcome
from skytide.spark.api.run import Run
from skytide.spark.clock import Now, time_of_day
from skytide.spark.compat import queries_of_session, runs_python, session_of
from skytide.spark.scaling.gateway import SparkCluster
from skytide.spark.scaling.metrics import ProgressListener, QueryMetrics
from skytide.spark.scaling.tasks import TaskTimes

if TYPE_CHECKING:
    from skytide.spark.scaling.application import Application


class Watched(Protocol):
    """What an auto-scaler watches: a query, or an application with all its queries."""

    kind: str
    """What it is called."""
    spark: SparkSession
    cluster: SparkCluster

    @property
    def comes_back(self) -> bool:
        """Whether it may be started again."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def label(self) -> str:
        """The same, with what it is."""

    @property
    def id(self) -> str:
        """What names it, whatever people call it."""

    @property
    def run_id(self) -> str:
        """The id of this start of it."""

    @property
    def query(self) -> Any:
        """The query, if it is one."""

    @property
    def trigger_s(self) -> float | None:
        """The interval of its trigger; the shortest of several."""

    @property
    def is_active(self) -> bool:
        """Whether it runs."""

    def continues(self) -> bool:
        """Return whether it was started again; from then on, it is that run."""

    def listen(self, changed: Callable[[], None]) -> None:
        """Take in progress as it comes, and call `changed` when something begins or ends."""

    def follows(self, query: Any) -> bool:
        """Return whether a query is this one, or belongs to it."""

    def lines(self, loop: Loop) -> list[tuple[str, str]]:
        """Return what is worth knowing of each query, if there are several."""


_all: list[Watched] = []
_all_lock = threading.Lock()


class LiveQuery:
    """A query and its metrics. If it is started again from its checkpoint it continues; a skytide query is another object then."""

    kind = "query"

    def __init__(self, asked: StreamingQuery | Run, clock: Now, of: "Application | None" = None) -> None:
        """Take a query, unless it has an auto-scaler already; of an application with one auto-scaler for all, it is one of many."""
        self.run = asked if isinstance(asked, Run) else None
        self.query: StreamingQuery = asked.query if isinstance(asked, Run) else asked
        with _all_lock:
            _check(self.query, of)
            self.spark = session_of(self.query)
            self.cluster = SparkCluster(self.spark) if of is None else of.cluster
            executors = self.cluster.executors if of is None else of.executors
            local, self._times = self.cluster.local, TaskTimes.of(self.spark)
            stages = None if local else self._times.refresh
            self.metrics = QueryMetrics(
                self.query, executors, run=self.run, local=local, clock=clock, stages=stages, wall=time_of_day
            )
            self._manager = queries_of_session(self.query)
            self._listener: ProgressListener | None = None
            _all.append(self)

    @property
    def name(self) -> str:
        """What people call it."""
        return str(self.query.name or self.query.id)

    @property
    def label(self) -> str:
        """The same, with what it is."""
        return f"query {self.name}"

    @property
    def id(self) -> str:
        """The id that it keeps when it is started again."""
        return str(self.query.id)

    @property
    def run_id(self) -> str:
        """The id of this start of it."""
        return str(self.query.runId)

    @property
    def trigger_s(self) -> float | None:
        """The interval of its trigger."""
        return self.metrics.trigger_s

    @property
    def is_active(self) -> bool:
        """Whether it runs."""
        return bool(self.query.isActive)

    @property
    def comes_back(self) -> bool:
        """Whether it may be started again: a skytide query is another object then."""
        return self.run is None

    @property
    def runs_python(self) -> bool:
        """Whether its tasks need Python."""
        return self.run is not None or runs_python(self.query)

    def lines(self, loop: Loop) -> list[tuple[str, str]]:
        """Return nothing: all is said of the only query."""
        return []

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
        release(self)


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


def claim(application: Watched, queries: Sequence[StreamingQuery]) -> None:
    """Take all queries of an application, unless one of them has an auto-scaler already."""
    with _all_lock:
        for query in queries:
            _check_free(query)
        _all.append(application)


def release(watched: Watched) -> None:
    """Let another auto-scaler have it."""
    with _all_lock:
        _all[:] = [other for other in _all if other is not watched]


def _check(query: Any, of: Any = None) -> None:
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
    if of is None:
        _check_free(query)


def _check_free(query: StreamingQuery) -> None:
    if any(watched.follows(query) for watched in _all):
        raise InvalidInput(
            value=f"query {query.name or query.id}",
            reason="it already has an auto-scaler, and each would undo what the other does",
            remedy="stop() the other one first",
        )
