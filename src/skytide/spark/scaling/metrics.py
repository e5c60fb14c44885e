"""Metrics of a running query: Spark's progress as it comes, what executors did meanwhile, and the levels of a skytide query."""

import json
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean, median
from typing import Any

import numpy as np
from pyspark.sql.streaming.listener import QueryStartedEvent, QueryTerminatedEvent
from pyspark.sql.streaming.query import StreamingQuery

from skytide.records import TASKS, Allocation, Observation
from skytide.spark.api.run import Run
from skytide.spark.clock import Now, steady
from skytide.spark.compat import JsonListener, progress_since, trigger_s
from skytide.spark.scaling.gateway import Executor, busy_since_s
from skytide.spark.scaling.progress import Batch, Dating, Means, State, idle, measure, overdue
from skytide.spark.scaling.reloading import Reloading
from skytide.spark.scaling.tasks import StageRun, work_of

KEPT = 1_000  # batches that wait for the next look
MIN_BATCHES = 3  # of an observation: a single batch says nothing about rates
MIN_ELAPSED_S = 1e-3
QUIET_TRIGGERS = 2  # without a batch for this many, nothing comes
SMOOTHING = 0.5  # the weight of the latest share
LOOKS = 5  # over which the usual number of tasks is taken


class QueryMetrics:
    """What a query did since the last look.

    Progress comes through `feed`, from a listener; whatever did not come that way is looked up.
    """

    def __init__(
        self,
        query: StreamingQuery,
        executors: Callable[[], list[Executor]],
        *,
        run: Run | None = None,
        local: bool = False,
        clock: Now = steady,
        stages: Callable[[], list[StageRun]] | None = None,
        wall: Now | None = None,
    ) -> None:
        """Watch a query.

        `local`: one process does all the work; `clock` measures how long executors are busy, and `stages` says for whom. `wall` is the
        clock of Spark's reports, if that may be set meanwhile.
        """
        self._executors, self._local, self._clock, self._stages, self._wall = executors, local, clock, stages, wall
        self._lock = threading.Lock()
        self._levels = None if run is None else LevelMetrics(run)
        self.follow(query)

    def follow(self, query: StreamingQuery) -> None:
        """Continue with another run of the query: its batches and counters begin anew."""
        with self._lock:
            self._query = query
            self.trigger_s = trigger_s(query)
            self._run_id = str(query.runId)
            self._waiting: deque[Batch] = deque(maxlen=KEPT)
            self._dating = Dating()
            self._latest = -1  # the number of the latest batch that was taken in
            self._recent: list[Batch] = []  # those that were looked at
            self._usual: tuple[Observation, float] | None = None  # the latest observation, and how long it was from batch to batch
            self._share: float | None = None  # of the time with jobs, that executors work
            self._tasks: deque[int] = deque(maxlen=LOOKS)  # of a batch, in the latest looks
            self._state: State | None = None  # after the latest batch
            self._reloading = Reloading()
            self._heard_s = self._looked_s = self._clock()
            self._seen = {executor.id: executor for executor in self._executors()}
            if self._levels is not None:
                self._levels.worked_s()

    @property
    def has_state(self) -> bool:
        """Whether the query has stateful operators of Spark."""
        return self._state is not None

    def feed(self, progress: dict[str, Any]) -> None:
        """Take in Spark's progress report of a batch, unless it is known already, or of another run."""
        batch = Batch.read(progress)
        if self._levels is not None:
            self._levels.sample()
        with self._lock:
            if batch is None or batch.run != self._run_id or batch.number <= self._latest:
                return
            self._latest = batch.number
            self._heard_s = self._clock()
            if self._wall is not None:
                batch = self._dating.dated(batch, heard_s=self._heard_s, ahead_s=self._heard_s - self._wall())
            self._waiting.append(batch)

    def observe(self, now_s: float, present: Allocation) -> Observation | None:
        """Return what was measured since the last call, with what is there now; None if nothing was, or Spark does not answer."""
        for progress in progress_since(self._query, self._latest):
            self.feed(progress)
        executors = self._executors()  # before anything is taken: if Spark does not answer, the next look has it all
        with self._lock:
            new = list(self._waiting)
            self._waiting.clear()
        new = self._with_own_tasks(new)
        were_there, looked_s = self._seen, self._looked_s
        means, interval_s = self._means(executors, new, present)
        self._state = new[-1].state if new else self._state
        if self._state is not None:
            self._reloading.see(new, self._usual[0].batch if self._usual else None, were_there, self._seen, looked_s)
        if not new:
            if not self._nothing_comes():
                return self._overdue(means, interval_s, now_s)
            self._recent = []  # otherwise the time in which nothing came would count twice
            return self._complete(idle(means, interval_s=interval_s, now_s=now_s))
        new = new if self._levels is None else self._levels.counted(new)
        batches = [*self._recent, *new]
        looked = batches[-max(len(new), MIN_BATCHES) :]
        before = batches[-len(looked) - 1] if len(batches) > len(looked) else None
        self._recent = batches[-MIN_BATCHES - 1 :]
        seen = measure(looked, before, means, trigger_s=self.trigger_s, now_s=now_s, interval_s=interval_s)
        if seen is None:
            return None
        first, last = (before or looked[0]), looked[-1]
        self._usual = (seen, max((last.start_s - first.start_s) / max(1, last.number - first.number), self.trigger_s or 0.0))
        return self._complete(seen)

    def _overdue(self, means: Means, interval_s: float, now_s: float) -> Observation | None:
        """Return what is known about a batch that lasts very long."""
        if self._usual is None or not self._query.status["isTriggerActive"]:
            return None
        latest, usual_s = self._usual
        lasted_s = self._clock() - self._heard_s
        seen = overdue(latest, means, lasted_s=lasted_s, usual_s=usual_s, interval_s=interval_s, now_s=now_s)
        return seen and self._complete(seen)

    def _complete(self, seen: Observation) -> Observation:
        if (state := self._state) is not None:
            seen = replace(
                seen, state_rows=state.rows, state_bytes=state.size_bytes, reload_s=self._reloading.reload_s or seen.reload_s
            )
        return seen if self._levels is None else self._levels.complete(seen)

    def _nothing_comes(self) -> bool:
        """Return whether the query has no batch because there is nothing to do; between two triggers that is not known."""
        status = self._query.status
        quiet_s = self._clock() - self._heard_s
        return not (status["isTriggerActive"] or status["isDataAvailable"]) and quiet_s > QUIET_TRIGGERS * (self.trigger_s or 0.0)

    def _with_own_tasks(self, batches: list[Batch]) -> list[Batch]:
        """Return batches with the time of their own tasks, and that of others meanwhile, as far as Spark tells them apart."""
        if self._stages is None or not batches:
            return batches
        stages, found = self._stages(), list[Batch]()
        for batch in batches:
            own = work_of(stages, self._run_id, batch.number)
            found.append(batch if own is None else replace(batch, busy_s=own.busy_s, others_s=own.others_s))
            if own is not None and self._levels is None:
                self._tasks.append(own.tasks)
        return found

    def _means(self, executors: list[Executor], batches: list[Batch], now: Allocation) -> tuple[Means, float]:
        """Return what was at work since the last look, and the time since; an executor that came meanwhile counts as half."""
        work_s = sum(batch.work_s for batch in batches)
        before, self._seen = self._seen, {executor.id: executor for executor in executors}
        since_s, self._looked_s = self._looked_s, self._clock()
        elapsed_s = max(self._looked_s - since_s, MIN_ELAPSED_S)
        busy_s = busy_since_s(before, self._seen)
        active = [executor for executor in self._seen.values() if executor.active]
        loads = () if self._local else tuple((one.id, busy_s[one.id] / elapsed_s / one.cores) for one in active)
        cores = sum(executor.cores for executor in active)
        if self._local:
            workers, parallel = float(now.workers), float(min(cores, now.workers))
            # Of the only executor, Spark knows just how long the application has run; without levels, all time counts as work.
            busy_s = {"": parallel * work_s if self._levels is None else self._levels.worked_s()}
        else:
            stayed = sum(executor.id in before for executor in active)  # those that were there all the time
            workers = (stayed + len(active)) / 2
            parallel = workers * cores / max(1, len(active))
            now = now.with_workers(max(1, min(now.workers, stayed)))
            finished = sum(one.finished_tasks - (before[one.id].finished_tasks if one.id in before else 0) for one in active)
            if batches and finished > 0 and self._levels is None and batches[-1].busy_s is None:
                # those of a skytide query become as many as there is room for
                all_tasks, state = max(1, round(finished / len(batches))), batches[-1].state
                self._tasks.append(all_tasks if state is None else state.width(all_tasks))
        if work_s > 0:
            share = min(1.0, sum(busy_s.values()) / max(1.0, parallel) / work_s)
            self._share = share if self._share is None else self._share + SMOOTHING * (share - self._share)
        share, tasks = 1.0 if self._share is None else self._share, round(median(self._tasks)) if self._tasks else None
        return Means(now, max(1.0, workers), share, loads, max(1.0, parallel) / max(1.0, workers), tasks), elapsed_s


class LevelMetrics:
    """The two levels of a skytide query, which its status shows, and Spark's progress does not."""

    def __init__(self, run: Run) -> None:
        """Begin with nothing counted."""
        self._run = run
        self._tuples: dict[int, int] = {}
        self._busy: dict[
            int, tuple[float, float, float]
        ] = {}  # of each batch since the last look: both levels, and how far panes were split
        self._worked_s = 0.0

    def sample(self) -> None:
        """Note how many tuples came in up to the latest batch."""
        status = self._run.status()
        if status.batch >= 0:
            self._tuples[status.batch] = status.tuples
            if status.pane_utilisation is not None and status.window_utilisation is not None:
                self._busy[status.batch] = status.pane_utilisation, status.window_utilisation, status.splitting_factor
        while len(self._tuples) > KEPT:
            self._tuples.pop(next(iter(self._tuples)))
        while len(self._busy) > KEPT:
            self._busy.pop(next(iter(self._busy)))

    def worked_s(self) -> float:
        """Return how long tasks have worked since the last call."""
        seconds = self._run.seconds()
        before_s, self._worked_s = self._worked_s, sum(seconds.get(step, 0.0) for step in TASKS)
        return self._worked_s - before_s

    def counted(self, batches: list[Batch]) -> list[Batch]:
        """Return batches with the tuples they took in; to Spark, their rows may be reports of a source of skytide's own.

        Of those before the first count, only the latest is returned: as the one that the others followed.
        """
        numbers = sorted(self._tuples)
        counted = [batch for batch in batches if numbers and batch.number > numbers[0]]
        uncounted = [replace(batch, rows=0.0, behind=None) for batch in batches[: len(batches) - len(counted)]]
        counts = [self._tuples[number] for number in numbers]
        taken = [float(np.diff(np.interp([batch.number - 1, batch.number], numbers, counts))[0]) for batch in counted]
        return uncounted[-1:] + [replace(batch, rows=tuples) for batch, tuples in zip(counted, taken, strict=True)]

    def complete(self, seen: Observation) -> Observation:
        """Return an observation with how busy the levels were since the last one, and what is expected; an operator on keys has one level."""
        busy, self._busy = list(self._busy.values()), {}
        seen = replace(seen, expected_rate_hz=self._run.expected_hz())
        if self._run.status().slots or not busy:
            return seen
        panes, windows, split = map(fmean, zip(*busy, strict=True))
        return replace(seen, pane_utilisation=panes, window_utilisation=windows, splitting_factor=split)


class ProgressListener(JsonListener):
    """Passes the progress of one query on, and notices when a run of it begins or ends."""

    def __init__(self, query_id: str, feed: Callable[[dict[str, Any]], None], changed: Callable[[], None]) -> None:
        """Listen for a query."""
        self._query_id, self._feed, self._changed = query_id, feed, changed

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Report that a run has begun."""
        if str(event.id) == self._query_id:
            self._changed()

    def progressed(self, text: str) -> None:
        """Pass the progress on."""
        progress = json.loads(text)
        if progress["id"] == self._query_id:
            self._feed(progress)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Report that a run has ended."""
        if str(event.id) == self._query_id:
            self._changed()
