"""The executors of an application as the plant of its queries: one decision for all of them, or one per query."""

import threading
import weakref

from skytide.loop.application import shares_among
from skytide.records import Allocation, Observation, Outcome
from skytide.spark.scaling.gateway import Executor
from skytide.spark.scaling.live import LiveQuery, QueryPlant, Watched
from skytide.spark.scaling.locality import Locality
from skytide.spark.scaling.pool import DRAIN_S, Pool, Report
from skytide.spark.scaling.slots import RunSlots
from skytide.spark.scaling.warm import warm_behind


class PoolMember:
    """Whoever decides about a pool of executors: one query, or all queries of the application."""

    what = "executors"

    def __init__(self, pool: Pool, report: Report, drain_s: float = DRAIN_S) -> None:
        """Join the others."""
        self._pool = pool
        with pool.lock:
            if not pool.wanted:
                pool.begin()
            self._followed = pool.size()
            pool.reports[self], pool.wanted[self], pool.drains_s[self] = report, self._followed, drain_s

    @property
    def lead_s(self) -> float:
        """The lead time of an executor, as measured."""
        return self._pool.lead_s

    @property
    def is_changing(self) -> bool:
        """Whether executors come or go."""
        return self._pool.is_changing

    @property
    def is_expecting(self) -> bool:
        """Whether an executor may come at any moment."""
        return self._pool.is_expecting

    def size(self) -> Allocation:
        """Return the executors of the application."""
        with self._pool.lock:
            return Allocation(self._pool.size())

    def request(self, wanted: Allocation, now_s: float) -> Outcome:
        """Request executors, or decommission some, unless another query needs more."""
        with self._pool.lock:
            self._pool.wanted[self] = wanted.workers
            most = max(self._pool.wanted.values())
            outcome = self._pool.request(most, now_s)
        self._follow()
        if most == wanted.workers:
            return outcome
        return Outcome(outcome.kind, f"another query needs {most}: {outcome.text}")

    def keep(self, wanted: Allocation) -> None:
        """Note how many are wanted here; what nobody wants any more, and did not come, is called off."""
        with self._pool.lock:
            self._pool.wanted[self] = wanted.workers
            self._pool.call_off(max(self._pool.wanted.values()))

    def track(self, now_s: float) -> None:
        """Look after executors that come and go."""
        with self._pool.lock:
            self._pool.with_state[self] = self._has_state
            self._pool.track(now_s)
        self._follow()

    @property
    def _has_state(self) -> bool:
        """Whether tasks with state of Spark's run on the executors."""
        return False

    def _follow(self) -> None:
        """Let slots follow the executors that are there, and report what happened."""
        with self._pool.lock:
            before, self._followed = self._followed, self._pool.size()
            cores, unreported = self._pool.cores, self._pool.take_reports()
        if self._followed not in (before, 0):
            self._resize(self._followed * cores)
        for report, text in unreported:
            report(text)

    def _resize(self, slots: int) -> None:
        """Let the slots of skytide queries follow; others have none."""

    def _leave(self) -> None:
        """Leave the others; executors stay until somebody wants another number."""
        with self._pool.lock:
            self._pool.leave(self)


class ExecutorPlant(PoolMember, QueryPlant):
    """The plant of one query on a pool of executors.

    Both levels of a skytide query use all executors, one after the other: its pane slots follow them, and so do its window slots, unless
    other numbers of these are requested.
    """

    def __init__(
        self,
        live: LiveQuery,
        pool: Pool,
        report: Report,
        slots: RunSlots | None = None,
        *,
        drain_s: float = DRAIN_S,
        bound_s: float | None = None,
    ) -> None:
        """Join the other queries."""
        QueryPlant.__init__(self, live)
        PoolMember.__init__(self, pool, report, drain_s)
        self._slots, self._bound_s = slots, bound_s
        with pool.lock:
            pool.with_python[self] = live.runs_python

    def observe(self, now_s: float) -> Observation | None:
        """Return what the query did since the last look, among the other queries that are scaled."""
        seen = self._live.metrics.observe(now_s, self.size())
        with self._pool.lock:
            if seen is not None:
                self._pool.seen[self], self._pool.bounds_s[self] = seen, self._bound_s
            return seen and shares_among(self._pool.seen, bounds_s=self._pool.bounds_s)[self]

    @property
    def _has_state(self) -> bool:
        return self._live.metrics.has_state

    def size(self) -> Allocation:
        """Return the executors of the application, and the slots of a query with two levels."""
        with self._pool.lock:
            workers, cores = self._pool.size(), self._pool.cores
        if self._slots is None or self._slots.of_keys or not workers:
            return Allocation(workers)
        return Allocation(workers, workers * cores, min(self._slots.window_slots(), workers * cores), shares_workers=True)

    def request(self, wanted: Allocation, now_s: float) -> Outcome:
        """Request executors, or decommission some, and set the window slots; other queries may need more executors."""
        before, outcome = self.size().window_slots, super().request(wanted, now_s)
        if self._slots is None or before is None or wanted.window_slots in (None, before):
            return outcome
        self._slots.resize(None, wanted.window_slots)
        text = f"{outcome.text}; changing window slots from {before} to {wanted.window_slots} with the next batch"
        return Outcome("done" if outcome.kind == "kept" else outcome.kind, text)

    def _resize(self, slots: int) -> None:
        if self._slots is not None:
            self._slots.resize(slots, None)

    def close(self) -> None:
        """Leave the other queries; executors stay until another query wants another number."""
        self._leave()
        QueryPlant.close(self)


_pools: "weakref.WeakValueDictionary[str, Pool]" = weakref.WeakValueDictionary()  # of each application
_pools_lock = threading.Lock()


def pool_of(live: Watched, *, warm: bool) -> Pool:
    """Return the executors of a query's application; `warm`: new ones get a first task before the query's."""
    with _pools_lock:
        name = str(live.spark.sparkContext.applicationId)
        pool = _pools.get(name)
        if pool is None:
            pool = _pools[name] = Pool(live.cluster)
            pool.spread = Locality(live.spark).hold
            if warm:
                spark, followed = live.spark, weakref.ref(pool)

                def first(executor: Executor) -> None:
                    there = followed()
                    warm_behind(spark, executor, python=there is not None and any(there.with_python.values()))

                pool.warm = first
        return pool
