"""How long the tasks of each query took: Spark's own record of jobs and stages, attributed by job group, which is the id of a query's run.

Executors know only how long they were busy, whoever asked for it. With several queries that is the work of all.
"""

import re
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession

from skytide.spark.clock import Now, steady
from skytide.spark.compat import jobs_and_stages

NEWEST = 64  # jobs or stages that are read at first; more if there is nothing among them that is known
FRESH_S = 0.5  # between two reads: several queries look one after the other
PENDING = 200  # stages before the newest one after which one that has not ended counts no more
KEPT = 5_000  # stages: Spark itself keeps 1,000
Rows = list[dict[str, Any]]
Read = Callable[[int], tuple[Rows, Rows]]
"""Returns so many of the newest jobs and stages, as Spark describes them in its REST interface."""
_BATCH = re.compile(r"^batch = (\d+)", re.MULTILINE)
_ENDED = ("COMPLETE", "FAILED")


@dataclass(frozen=True)
class StageRun:
    """A stage that has ended."""

    run: str
    """The job group it belongs to."""
    batch: int | None
    submitted_s: float
    """Since when its tasks could have run."""
    began_s: float
    """When the first one did."""
    ended_s: float
    busy_s: float
    """The time of its tasks, added up."""
    tasks: int


@dataclass(frozen=True)
class Work:
    """What the tasks of a batch did."""

    busy_s: float
    others_s: float
    """The time of tasks of others while it had stages at work."""
    tasks: int
    """Those of the stage with the most."""


def work_of(stages: Sequence[StageRun], run: str, batch: int) -> Work | None:
    """Return what a batch of a run did; None if Spark knows nothing of it.

    >>> own, other = StageRun("a", 7, 0.0, 2.0, 10.0, 20.0, 4), StageRun("b", 3, 0.0, 5.0, 15.0, 30.0, 6)
    >>> work_of([own, other], "a", 7)
    Work(busy_s=20.0, others_s=15.0, tasks=4)
    >>> work_of([own, other], "a", 8)
    """
    own = [stage for stage in stages if stage.run == run and stage.batch == batch]
    if not own:
        return None
    spans = _united([(stage.submitted_s, stage.ended_s) for stage in own])
    others_s = sum(stage.busy_s * _overlap(stage, spans) for stage in stages if stage.run != run)
    return Work(sum(stage.busy_s for stage in own), others_s, max(stage.tasks for stage in own))


class TaskTimes:
    """What Spark's status store knows of the stages of an application, read a little at a time; for all of its auto-scalers."""

    def __init__(self, read: Read, clock: Now = steady) -> None:
        """Begin with what there is."""
        self._read, self._clock, self._read_s = read, clock, float("-inf")
        self._stages: deque[StageRun] = deque(maxlen=KEPT)
        self._latest = -1  # the latest job that was read
        self._pending: dict[int, tuple[str, int | None]] = {}  # stages that have not ended, and whose they are
        self._failed: set[tuple[int, int]] = set()  # attempts of these
        self._ended: deque[int] = deque(maxlen=KEPT)  # the others
        self._lock = threading.Lock()

    @staticmethod
    def of(spark: SparkSession) -> "TaskTimes":
        """Return those of an application."""
        with _shared_lock:
            name = str(spark.sparkContext.applicationId)
            found = _shared.get(name)
            if found is None:
                found = _shared[name] = TaskTimes(jobs_and_stages(spark))
            return found

    def refresh(self) -> list[StageRun]:
        """Read what has ended meanwhile, unless that was done just now, and return all that is known."""
        with self._lock:
            if 0 <= self._clock() - self._read_s < FRESH_S:
                return list(self._stages)
            jobs, stages = self._newest()
            self._read_s = self._clock()
            for job in sorted(jobs, key=_number):  # the first job of a stage is the one that ran it
                if _number(job) > self._latest:
                    self._latest = _number(job)
                    for stage in set(map(int, job.get("stageIds", []))).difference(self._ended):
                        self._pending.setdefault(stage, (str(job.get("jobGroup") or ""), batch_of(job.get("description"))))
            for row in reversed(stages):
                self._take(row)
            newest = max((int(row["stageId"]) for row in stages), default=0)
            for old in [stage for stage in self._pending if stage < newest - PENDING]:  # skipped, or as good as endless
                del self._pending[old]
            self._failed = {attempt for attempt in self._failed if attempt[0] in self._pending}
            return list(self._stages)

    def _take(self, stage: dict[str, Any]) -> None:
        """Note a stage, if it has ended since the last look."""
        attempt = int(stage["stageId"]), int(stage.get("attemptId", 0))
        if attempt[0] not in self._pending or attempt in self._failed or stage.get("status") not in _ENDED:
            return
        ended = _ended(stage, *self._pending[attempt[0]])
        if ended is not None:
            self._stages.append(ended)
        if stage["status"] == "FAILED":  # it is tried again
            self._failed.add(attempt)
        else:
            del self._pending[attempt[0]]
            self._ended.append(attempt[0])

    def _newest(self) -> tuple[Rows, Rows]:
        """Return the newest jobs and stages, down to those that are known."""
        count = NEWEST
        while True:
            jobs, stages = self._read(count)
            new = [int(stage) for job in jobs if _number(job) > self._latest for stage in job.get("stageIds", [])]
            oldest = min([*new, *self._pending], default=None)
            all_jobs = len(jobs) < count or min(map(_number, jobs)) <= self._latest + 1
            all_stages = oldest is None or len(stages) < count or min(int(one["stageId"]) for one in stages) <= oldest
            if (all_jobs and all_stages) or count > KEPT:
                return jobs, stages
            count *= 2


_shared: "weakref.WeakValueDictionary[str, TaskTimes]" = weakref.WeakValueDictionary()
_shared_lock = threading.Lock()


def batch_of(description: str | None) -> int | None:
    """Return the number of the batch that a job belongs to, from Spark's description of it.

    >>> batch_of("orders<br/>id = 1a<br/>runId = 2b<br/>batch = 12, 3 windows out"), batch_of("batch = init"), batch_of(None)
    (12, None, None)
    """
    match = _BATCH.search((description or "").replace("<br/>", "\n"))
    return int(match[1]) if match else None


def _number(job: dict[str, Any]) -> int:
    return int(job["jobId"])


def _ended(stage: dict[str, Any], run: str, batch: int | None) -> StageRun | None:
    """Return a stage that has ended and did something."""
    submitted, ended = stage.get("submissionTime"), stage.get("completionTime")
    if not submitted or not ended:
        return None
    began_s = _seconds(stage.get("firstTaskLaunchedTime") or submitted)
    busy_ms = sum(float(stage.get(part, 0)) for part in ("executorRunTime", "executorDeserializeTime", "resultSerializationTime"))
    return StageRun(run, batch, _seconds(submitted), began_s, _seconds(ended), busy_ms / 1e3, int(stage.get("numTasks", 1)))


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment.replace("GMT", "+00:00")).timestamp()


def _united(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return spans without what they have in common."""
    united = list[tuple[float, float]]()
    for begin, end in sorted(spans):
        if united and begin <= united[-1][1]:
            united[-1] = (united[-1][0], max(end, united[-1][1]))
        else:
            united.append((begin, end))
    return united


def _overlap(stage: StageRun, spans: list[tuple[float, float]]) -> float:
    """Return which share of a stage lies in spans."""
    common_s = sum(max(0.0, min(stage.ended_s, end) - max(stage.began_s, begin)) for begin, end in spans)
    lasted_s = stage.ended_s - stage.began_s
    return common_s / lasted_s if lasted_s > 0 else float(any(begin <= stage.began_s <= end for begin, end in spans))
