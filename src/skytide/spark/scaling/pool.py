"""Executors of a real cluster: requested, decommissioned, and never lost sight of. They belong to the application, not to a query."""

import threading
from collections import deque
from collections.abc import Callable

from skytide.loop.lead_time import patience_s
from skytide.records import Observation, Outcome
from skytide.records.printing import seconds
from skytide.spark.scaling.gateway import Cluster, Executor, busy_since_s

FIRST_LEAD_S = 6.0  # from the request for an executor to its first finished task, until that has been measured
SMOOTHING = 0.3  # the weight of the latest lead time
LOAD_HALVES_S = 10.0  # after which half of what an executor did counts no more
DRAIN_S = 60.0  # that a decommissioned executor has to go, before it is killed
WARNED_AFTER = 0.5  # of that time it is said that it still has tasks
Report = Callable[[str], None]


class Pool:
    """Keeps as many executors as were requested last. Only `track` looks at what is there; in between, nothing changes."""

    def __init__(self, cluster: Cluster, warm: Callable[[Executor], None] | None = None) -> None:
        """Begin with what is there. `warm` is called with each executor that comes later."""
        self._cluster, self.warm = cluster, warm
        self.lock = threading.RLock()
        self.wanted: dict[object, int] = {}
        """How many executors each query wants."""
        self.reports: dict[object, Report] = {}
        """Where each query reports what happens unexpectedly."""
        self.drains_s: dict[object, float] = {}
        """How long each query lets an executor finish its tasks: the longest time holds."""
        self.seen: dict[object, Observation] = {}
        self.bounds_s: dict[object, float | None] = {}
        """What each query did lately, as if it were alone, and its latency bound."""
        self.with_python: dict[object, bool] = {}
        """Whether each query has tasks in Python."""
        self.with_state: dict[object, bool] = {}
        """Whether each query has stateful operators of Spark."""
        self.spread: Callable[[bool], str] | None = None
        """Called with whether tasks with state have to spread to new executors; returns what is to be reported."""
        self.lead_s = FIRST_LEAD_S
        """How long it has taken lately from the request for an executor until it has done its first task."""
        self._leaving: dict[str, float] = {}  # since when
        self._warned: set[str] = set()  # of those, the ones of which it was said that they still have tasks
        self._load: dict[str, float] = {}  # what each did lately
        self._unreported: list[tuple[Report, str]] = []
        self.begin()

    def begin(self) -> None:
        """Look at what is there, and forget what was requested: while no query was scaled, nobody looked."""
        self._target: int | None = None
        self._present = {executor.id: executor for executor in self._cluster.executors() if executor.active}
        self._leaving = {name: since_s for name, since_s in self._leaving.items() if name in self._present}
        self._requested_s = 0.0  # when the latest request was made
        self._missing: deque[float] = deque()  # when each executor was requested that has not come yet
        self._came: dict[str, float] = {}  # the ones without a finished task yet, and when they were requested
        self._ceiling: int | None = None  # as many as the cluster granted, though more were requested
        self._tracked_s: float | None = None

    def leave(self, query: object) -> None:
        """Forget a query: what it wanted counts no more."""
        for table in (self.wanted, self.reports, self.drains_s, self.seen, self.bounds_s, self.with_python, self.with_state):
            table.pop(query, None)
        self._spread()

    @property
    def is_changing(self) -> bool:
        """Whether something is under way that `track` should see soon."""
        return bool(self._leaving or self._came) or (self._target or 0) > self.size()

    @property
    def is_expecting(self) -> bool:
        """Whether an executor may come at any moment, or do its first task: not if it should have come long ago."""
        now_s, asked = self._tracked_s or 0.0, [*self._came.values()]
        if (self._target or 0) > self.size():
            asked.append(self._requested_s)
        return any(now_s - asked_s <= patience_s(self.lead_s) for asked_s in asked)

    def size(self) -> int:
        """Return how many executors are there and will stay."""
        return len(self._staying())

    @property
    def cores(self) -> int:
        """The cores of an executor."""
        return next((executor.cores for executor in self._present.values()), 1)

    def request(self, total: int, now_s: float) -> Outcome:
        """Request executors, or decommission some: idle ones first, and never more than necessary."""
        self.track(now_s)
        staying, before = self._staying(), self.size() if self._target is None else self._target
        workers, instead = total, ""
        if self._ceiling is not None and workers > self._ceiling:
            workers = min(workers, max(self._ceiling, self._target or 0))
            instead = f", instead of {total}: the cluster has granted only {self._ceiling}" if workers < total else ""
        if not self._cluster.request(workers):  # also before some go: otherwise the cluster manager would replace them
            return Outcome("refused", f"the cluster manager rejected the request for {workers} {_executors(workers)}{instead}")
        if workers > (self._target or 0):
            self._requested_s = now_s
        self._aim(workers, now_s)
        if workers == len(staying):
            return Outcome("kept" if workers == before else "done", f"keeping {workers} {_executors(workers)}{instead}")
        if workers > len(staying):
            more = workers - len(staying)
            text = f"requesting {more} more {_executors(more)} ({workers} in total){instead}"
            return Outcome("asked" if workers != before else "kept" if self._ceiling is None else "limited", text)
        return self._shrink(sorted(staying, key=self._preference)[: len(staying) - workers], len(staying), now_s)

    def _shrink(self, going: list[Executor], present: int, now_s: float) -> Outcome:
        leaving = [executor.id for executor in going if self._decommission(executor, now_s)]
        names = ", ".join(leaving or [executor.id for executor in going])
        some = f"{_executors(len(leaving or going))} {names} (of {present})"
        if not leaving:
            return Outcome("refused", f"the cluster manager rejected the decommissioning of {some}")
        return Outcome("done", f"decommissioning {some}")

    def call_off(self, total: int) -> None:
        """Request no more than this many, or than are there: what did not come, and nobody wants any more, need not come."""
        total = max(total, self.size())
        if self._target is not None and self._target > total and self._cluster.request(total):
            self._aim(total, self._requested_s)

    def _aim(self, target: int, now_s: float) -> None:
        self._target, missing = target, target - self.size()
        while len(self._missing) > max(0, missing):
            self._missing.pop()
        while len(self._missing) < missing:
            self._missing.append(now_s)

    def take_reports(self) -> list[tuple[Report, str]]:
        """Return what has not been reported yet, and where to report it, once; not to be done while the lock is held."""
        unreported, self._unreported = self._unreported, []
        return unreported

    def track(self, now_s: float) -> None:
        """Find out which executors came, left, died, or are overdue."""
        kept = 0.5 ** (max(0.0, now_s - (now_s if self._tracked_s is None else self._tracked_s)) / LOAD_HALVES_S)
        self._tracked_s = now_s
        listed = {executor.id: executor for executor in self._cluster.executors()}
        before, self._present = self._present, {name: executor for name, executor in listed.items() if executor.active}
        for name, busy_s in busy_since_s(before, self._present).items():
            self._load[name] = self._load.get(name, 0.0) * kept + busy_s
        gone = [listed.get(name, before[name]) for name in before.keys() - self._present.keys()]
        self._after_leaving(gone, now_s)
        for name, executor in self._present.items():
            if name not in before:
                self._after_joining(executor)
            if name in self._came and executor.finished_tasks:
                self._learn_lead(now_s - self._came.pop(name))
        for name in list(self._leaving):
            self._remove(name, now_s)
        self._judge(now_s)
        self._spread()

    def _spread(self) -> None:
        if self.spread is not None and (text := self.spread(any(self.with_state.values()))):
            self._report(text)

    def _learn_lead(self, took_s: float) -> None:
        """Learn from an executor how long one takes; one that came very late was not granted at first, and did not take that long."""
        self.lead_s += SMOOTHING * (min(max(0.0, took_s), patience_s(self.lead_s)) - self.lead_s)

    def _after_joining(self, executor: Executor) -> None:
        if self._target is not None:
            self._came[executor.id] = self._missing.popleft() if self._missing else self._requested_s
        if self.warm:
            self.warm(executor)

    def _after_leaving(self, gone: list[Executor], now_s: float) -> None:
        died = [executor for executor in gone if self._leaving.pop(executor.id, None) is None]
        for executor in gone:
            self._came.pop(executor.id, None)
            self._load.pop(executor.id, None)
            self._warned.discard(executor.id)
        for executor in died:
            self._report(f"lost executor {executor.id}: {executor.why_gone or 'no reason was given'}")
        if died and self._target is not None:
            self._missing.extend([now_s] * len(died))
            self._requested_s = now_s
            self._cluster.request(self._target)  # most cluster managers replace it anyway

    def _decommission(self, executor: Executor, now_s: float) -> bool:
        """Decommission an executor, and return whether that was accepted: only such an executor is ever killed."""
        if not self._cluster.decommission(executor.id):
            return False
        self._leaving[executor.id] = now_s
        self._came.pop(executor.id, None)
        return True

    def _remove(self, name: str, now_s: float) -> None:
        """Look after an executor that was decommissioned."""
        if not self._cluster.drains and not self._present[name].active_tasks:
            self._cluster.decommission(name)
        waited_s, drain_s = now_s - self._leaving[name], max(self.drains_s.values(), default=DRAIN_S)
        tasks = self._present[name].active_tasks
        has = f"with {tasks} task{'s' * (tasks != 1)}, to be run again elsewhere" if tasks else "without tasks"
        if waited_s > drain_s:
            self._report(f"killing executor {name} {has}: still running {waited_s:.0f} s after it was decommissioned")
            self._leaving[name] = now_s  # if that does not work either, it is tried again
            self._cluster.kill(name)
        elif tasks and waited_s > WARNED_AFTER * drain_s and name not in self._warned:
            self._warned.add(name)
            left = f'it is killed in {seconds(drain_s - waited_s)}, unless drain="..." of autoscale is longer'
            self._report(
                f"executor {name} still has {tasks} task{'s' * (tasks != 1)}, {waited_s:.0f} s after it was decommissioned: {left}"
            )

    def _judge(self, now_s: float) -> None:
        """Notice that the cluster grants fewer executors than requested, or that it grants them after all."""
        staying = self.size()
        missing = (self._target or 0) - staying
        if missing <= 0:
            if self._ceiling is not None and staying > self._ceiling:
                self._report(f"the cluster has now granted all {staying} requested executors")
            self._ceiling = None
        elif now_s - self._requested_s > patience_s(self.lead_s) and self._ceiling != staying:
            self._ceiling = staying
            self._report(f"the cluster has granted {staying} of {self._target} requested executors; the request stays open")

    def _report(self, text: str) -> None:
        self._unreported += [(report, text) for report in self.reports.values()]

    def _staying(self) -> list[Executor]:
        return [executor for name, executor in self._present.items() if name not in self._leaving]

    def _preference(self, executor: Executor) -> tuple[bool, float, float]:
        """Return the order in which executors may go: idle ones first, then those that did least lately; the youngest last."""
        return executor.active_tasks > 0, self._load.get(executor.id, 0.0), executor.added_s


def _executors(count: int) -> str:
    return "executor" if count == 1 else "executors"
