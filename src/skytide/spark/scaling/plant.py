"""What a query runs on, and how it can be resized; a query that cannot be is refused, with the reason."""

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager

from skytide.errors import InvalidInput
from skytide.errors.checks import refused
from skytide.loop.ports import Actuator
from skytide.spark.query.run import Run
from skytide.spark.scaling.executors import ClusterExecutors, Tell
from skytide.spark.scaling.gateway import Executor, SparkCluster
from skytide.spark.scaling.metrics import trigger_s
from skytide.spark.scaling.power import Power
from skytide.spark.scaling.share import Share, Shared
from skytide.spark.scaling.slots import Fixed, LocalSlots, Recommend, RunSlots
from skytide.spark.scaling.warm import warm_behind

_shared: "weakref.WeakValueDictionary[str, Shared]" = weakref.WeakValueDictionary()  # of each application
_shared_lock = threading.Lock()
_scaled: list["Plant"] = []  # those with an auto-scaler
_scaled_lock = threading.Lock()


@dataclass
class Plant:
    """A query, its cluster, and what acts on it."""

    query: StreamingQuery
    run: Run | None
    cluster: SparkCluster
    actuator: Actuator
    what: str
    """What its workers are called: executors, slots or workers."""
    share: Share | None = None
    power: Power | None = None
    manager: StreamingQueryManager = field(init=False)

    def __post_init__(self) -> None:
        """Find the manager of all queries of the session."""
        self.manager = StreamingQueryManager(self.query._jsq.sparkSession().streams())

    def tend(self, now_s: float) -> None:
        """Look after executors that come and go."""
        if self.share is not None:
            self.share.tend(now_s)

    @property
    def waits(self) -> bool:
        """Whether something is under way that `tend` should see soon."""
        return self.share is not None and self.share.waits

    def leave(self) -> None:
        """Give up this query's share, and let another auto-scaler have the query."""
        if self.share is not None:
            self.share.leave()
        with _scaled_lock:
            _scaled[:] = [each for each in _scaled if each is not self]

    def follows(self, query: StreamingQuery) -> bool:
        """Return whether a query is this one, or this one started again; a skytide query is another object then."""
        return bool(query.runId == self.query.runId or (self.run is None and query.id == self.query.id))

    def restarted(self) -> StreamingQuery | None:
        """Return the query that continues from the same checkpoint, if there is one; a skytide query is another object then."""
        if self.run is not None:
            return None
        return next((query for query in self.manager.active if query.id == self.query.id and query.isActive), None)


def plant(asked: Any, *, acts: bool, warm: bool, power: bool, tell: Tell) -> Plant:
    """Return what a query runs on; `acts`: it is resized, not only watched; `power`: so is the CPU frequency."""
    with _scaled_lock:
        run = asked if isinstance(asked, Run) else None
        query = _checked(asked.query if run else asked)
        site = _plant(query, run, acts, warm, tell)
        if power:
            site.power = site.actuator = Power(site.actuator)
        _scaled.append(site)
    return site


def _plant(query: StreamingQuery, run: Run | None, acts: bool, warm: bool, tell: Tell) -> Plant:
    spark = SparkSession(_context(), query._jsq.sparkSession())
    cluster = SparkCluster(spark)
    slots = RunSlots(run) if run else None
    if cluster.local and (slots is not None or not acts):
        actuator: Actuator = LocalSlots(slots, trigger_s(query) or 0.0) if slots else Fixed()
        return Plant(query, run, cluster, actuator if acts else Recommend(actuator), "slots" if slots else "workers")
    if acts:
        cluster.check()
        share = Share(_shared_executors(spark, cluster, warm), str(query.runId), tell, slots)
        return Plant(query, run, cluster, share, "executors", share)
    watched = Shared()  # shared with nobody: what is only watched has no wishes
    watched.executors = ClusterExecutors(cluster, tell=watched.tell)
    share = Share(watched, str(query.runId), tell)
    return Plant(query, run, cluster, Recommend(share), "executors", share)


def _shared_executors(spark: SparkSession, cluster: SparkCluster, warm: bool) -> Shared:
    with _shared_lock:
        name = str(spark.sparkContext.applicationId)
        shared = _shared.get(name)
        if shared is None:
            shared = _shared[name] = Shared()
            first: Callable[[Executor], None] = lambda executor: warm_behind(spark, executor)  # noqa: E731
            shared.executors = ClusterExecutors(cluster, warm=first if warm else None, tell=shared.tell)
        return shared


def _context() -> Any:
    from pyspark import SparkContext

    return SparkContext._active_spark_context


def _checked(query: Any) -> StreamingQuery:
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
    if any(site.follows(query) for site in _scaled):
        raise InvalidInput(
            value=f"query {query.name or query.id}",
            reason="it already has an auto-scaler, and each would undo what the other does",
            remedy="stop() the other one first",
        )
    return query
