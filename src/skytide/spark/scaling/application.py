"""All queries of an application under one auto-scaler: those that run, those that start later, and those that are started again."""

import contextlib
import json
import threading
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import QueryStartedEvent, QueryTerminatedEvent
from pyspark.sql.streaming.query import StreamingQuery

from skytide.errors import InvalidInput
from skytide.loop.application import ForAllLogic, together
from skytide.loop.cycle import Loop
from skytide.loop.ports import Plant
from skytide.records import Observation
from skytide.records.application import ApplicationObservation
from skytide.spark.api.run import run_of
from skytide.spark.clock import Now
from skytide.spark.compat import JsonListener, active_queries, queries_of_session, session_key, spark_stopped
from skytide.spark.scaling.executors import PoolMember
from skytide.spark.scaling.gateway import Executor, SparkCluster
from skytide.spark.scaling.live import LiveQuery, claim, release
from skytide.spark.scaling.pool import DRAIN_S, Pool, Report
from skytide.spark.scaling.priorities import Priorities
from skytide.spark.scaling.slots import RunSlots

ID_SHOWN = 8  # characters


class Application:
    """The queries of an application that run, and their metrics."""

    kind, comes_back, query, run_id = "application", False, None, ""

    def __init__(self, spark: SparkSession, clock: Now) -> None:
        """Take all queries of an application, unless one of them has an auto-scaler of its own."""
        self.spark, self._clock = spark, clock
        self.cluster = SparkCluster(spark)
        self.members: dict[str, LiveQuery] = {}
        """Those that run, by what people call them."""
        self._executors: list[Executor] | None = None
        self._listeners: dict[int, tuple[Any, _Listener]] = {}  # of each session
        self._changed: Callable[[], None] | None = None
        self._lock = threading.RLock()
        claim(self, active_queries(spark))
        self.refresh()

    @property
    def name(self) -> str:
        """What people call it."""
        return str(self.spark.sparkContext.appName)

    @property
    def label(self) -> str:
        """The same, with what it is."""
        return f"application {self.name}"

    @property
    def id(self) -> str:
        """Spark's own name of it."""
        return str(self.spark.sparkContext.applicationId)

    @property
    def trigger_s(self) -> float | None:
        """The shortest interval of its queries; None if one has none."""
        with self._lock:
            triggers_s = [live.trigger_s for live in self.members.values()]
        return min((trigger_s for trigger_s in triggers_s if trigger_s), default=None)

    @property
    def is_active(self) -> bool:
        """Whether Spark goes on; that no query runs at the moment means nothing."""
        return not spark_stopped(self.spark)

    @property
    def runs_python(self) -> bool:
        """Whether a query has tasks in Python."""
        with self._lock:
            return any(live.runs_python for live in self.members.values())

    def continues(self) -> bool:
        """Return False: it ends with Spark."""
        return False

    def follows(self, query: Any) -> bool:
        """Return whether a query belongs to it: all do that run in this process."""
        return isinstance(query, StreamingQuery)

    def lines(self, loop: Loop) -> list[tuple[str, str]]:
        """Return what each query needs."""
        decisions = loop.logic.decisions if isinstance(loop.logic, ForAllLogic) else {}
        return [(name, f"{decided.allocation.workers:,} needed") for name, decided in sorted(decisions.items())]

    def executors(self) -> list[Executor]:
        """Return the executors, looked up once per interval."""
        if self._executors is None:
            self._executors = self.cluster.executors()
        return self._executors

    def refresh(self) -> tuple[list[str], list[str]]:
        """Find out which queries run, and return the names of those that have come and gone."""
        active = {str(query.runId): query for query in active_queries(self.spark)}
        with self._lock:
            before = {live.run_id: name for name, live in self.members.items()}
            for run_id, name in before.items():
                if run_id not in active or (self.members[name].run is None and run_of(run_id) is not None):
                    self.members.pop(name).close()
            known = {live.run_id for live in self.members.values()}
            for run_id, query in active.items():
                if run_id not in known:
                    with contextlib.suppress(InvalidInput):  # it has ended meanwhile
                        self._join(query)
            came = [name for name, live in self.members.items() if live.run_id not in known]
            return came, [name for name in before.values() if name not in self.members]

    def look(self) -> dict[str, LiveQuery]:
        """Return the queries that run, for a look at each: what all have in common is read once."""
        with self._lock:
            self._executors = None
            return dict(self.members)

    def listen(self, changed: Callable[[], None]) -> None:
        """Take in progress as it comes, and call `changed` when a query begins or ends."""
        self._changed = changed
        self._listen_to(session_key(self.spark), self.spark.streams)
        with self._lock:
            for live in self.members.values():
                self._listen_to(session_key(live.spark), queries_of_session(live.query))

    def close(self) -> None:
        """Let other auto-scalers have the queries."""
        for manager, listener in self._listeners.values():
            with contextlib.suppress(Exception):  # Spark may be gone
                manager.removeListener(listener)
        self._listeners.clear()
        with self._lock:
            for live in self.members.values():
                live.close()
            self.members.clear()
        release(self)

    def feed(self, progress: dict[str, Any]) -> None:
        """Take in the progress of a query."""
        with self._lock:
            live = next((one for one in self.members.values() if one.id == progress["id"]), None)
        if live is not None:
            live.metrics.feed(progress)

    def changed(self) -> None:
        """Note that a query has begun or ended."""
        if self._changed is not None:
            self._changed()

    def _join(self, query: StreamingQuery) -> None:
        live = LiveQuery(run_of(str(query.runId)) or query, self._clock, of=self)
        name = live.name if live.name not in self.members else f"{live.name} ({live.id[:ID_SHOWN]})"
        self.members[name] = live
        if self._changed is not None:
            self._listen_to(session_key(live.spark), queries_of_session(query))

    def _listen_to(self, key: int, manager: Any) -> None:
        if key not in self._listeners:
            self._listeners[key] = manager, _Listener(self)
            manager.addListener(self._listeners[key][1])


class _Listener(JsonListener):
    """Passes on what happens to the queries of a session."""

    def __init__(self, application: Application) -> None:
        self._application = application

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        self._application.changed()

    def progressed(self, text: str) -> None:
        self._application.feed(json.loads(text))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._application.changed()


class ApplicationPlant(PoolMember, Plant):
    """All queries of an application on its executors."""

    def __init__(
        self,
        application: Application,
        pool: Pool,
        report: Report,
        *,
        bound_s: Callable[[str], float | None],
        priorities: Priorities | None = None,
        drain_s: float = DRAIN_S,
    ) -> None:
        """Take a pool."""
        super().__init__(pool, report, drain_s)
        self._application, self._report, self._bound_s, self._priorities = application, report, bound_s, priorities
        self._latest: dict[str, Observation] = {}
        self._looked_s: float | None = None
        self._joined(list(application.members))

    def observe(self, now_s: float) -> ApplicationObservation | None:
        """Return what all queries did since the last look; None if nothing new is known of any."""
        present, new = self.size(), set[str]()
        running = self._application.look()
        for name, live in running.items():
            seen = live.metrics.observe(now_s, present)
            if seen is not None:
                self._latest[name] = seen
                new.add(name)
        self._latest = {name: seen for name, seen in self._latest.items() if name in running}
        since_s, self._looked_s = self._looked_s if self._looked_s is not None else now_s, now_s
        if running and not new:
            return None
        priorities = self._priorities
        return together(
            {name: self._latest.get(name) for name in running},
            new,
            present,
            now_s=now_s,
            interval_s=max(now_s - since_s, max((self._latest[name].interval_s for name in new), default=1.0)),
            weights=None if priorities is None else priorities.weights(running),
            bounds_s={name: self._bound_s(name) for name in running},
            loads=next((self._latest[name].loads for name in new), ()),
            fair=priorities is not None,
        )

    def track(self, now_s: float) -> None:
        """Look after queries and executors that come and go."""
        came, gone = self._application.refresh()
        for name in gone:
            self._report(f"query {name} has ended: what it needed is free")
        self._joined(came)
        super().track(now_s)

    def close(self) -> None:
        """Leave the queries as they are."""
        self._leave()
        self._application.close()

    @property
    def _has_state(self) -> bool:
        return any(live.metrics.has_state for live in self._application.look().values())

    def _joined(self, names: list[str]) -> None:
        """Let queries that have come use all executors, in their own pool of Spark's scheduler."""
        with self._pool.lock:
            self._pool.with_python[self] = self._application.runs_python
            slots = self._pool.size() * self._pool.cores
        for name in names:
            live = self._application.members.get(name)
            if live is None:
                continue
            if live.run is not None and slots:
                RunSlots(live.run).resize(slots, None)
            if self._priorities is not None:
                self._report(self._priorities.apply(name, live.query))

    def _resize(self, slots: int) -> None:
        for live in self._application.look().values():
            if live.run is not None:
                RunSlots(live.run).resize(slots, None)
