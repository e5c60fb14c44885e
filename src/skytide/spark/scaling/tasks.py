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
        self._latest = -1  # all jobs up to this number have ended, and are read
        self._taken: set[tuple[int, int]] = set()  # attempts of stages
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
            groups = {
                stage: (str(job.get("jobGroup") or ""), batch_of(job.get("description")))
                for job in sorted(jobs, key=_number, reverse=True)  # the first job of a stage is the one that ran it
                for stage in job.get("stageIds", [])
            }
            for stage in sorted(stages, key=lambda one: int(one["stageId"])):
                name = (int(stage["stageId"]), int(stage.get("attemptId", 0)))
                if name not in self._taken and name[0] in groups and (ended := _ended(stage, *groups[name[0]])):
                    self._stages.append(ended)
                    self._taken.add(name)
            self._read_s = self._clock()
            running = [_number(job) for job in jobs if job.get("status") == "RUNNING"]
            self._latest = max(self._latest, min(running) - 1 if running else max(map(_number, jobs), default=-1))
            if len(self._taken) > 2 * KEPT:
                self._taken = set(sorted(self._taken)[-KEPT:])
            return list(self._stages)

    def _newest(self) -> tuple[Rows, Rows]:
        """Return the newest jobs and stages, down to those that are known."""
        count = NEWEST
        while True:
            jobs, stages = self._read(count)
            enough = len(jobs) < count or min(map(_number, jobs)) <= self._latest + 1
            oldest = min(
                (int(stage) for job in jobs if _number(job) > self._latest for stage in job.get("stageIds", [])), default=0
            )
            if (enough and (len(stages) < count or min(int(one["stageId"]) for one in stages) <= oldest)) or count > KEPT:
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
    if stage.get("status") not in _ENDED or not submitted or not ended:
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
