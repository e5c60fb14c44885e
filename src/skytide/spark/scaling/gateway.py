"""The executors of a Spark application as Spark's Java side shows them, and the three things that can be done to them."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql import SparkSession

from skytide.errors import InvalidInput
from skytide.spark.compat import jvm, scala_context, scala_list

DRIVER = "driver"
GONE_KEPT = 1_000  # executors that are remembered after they are gone


@dataclass(frozen=True)
class Executor:
    """An executor, or in local mode the driver in its place."""

    id: str
    host: str
    cores: int
    added_s: float
    active_tasks: int
    finished_tasks: int
    failed_tasks: int
    busy_s: float
    """The time of all its tasks so far."""
    active: bool = True
    why_gone: str = ""


def busy_since_s(before: Mapping[str, Executor], executors: Mapping[str, Executor]) -> dict[str, float]:
    """Return how long the tasks of each executor took since `before`; of one that came meanwhile, since it came.

    >>> from dataclasses import replace
    >>> old = Executor("1", "host", 1, 0.0, 0, 4, 0, busy_s=2.0)
    >>> busy_since_s({"1": old}, {"1": replace(old, busy_s=5.0), "2": replace(old, id="2")})
    {'1': 3.0, '2': 2.0}
    """
    return {
        name: max(0.0, executor.busy_s - (before[name].busy_s if name in before else 0.0)) for name, executor in executors.items()
    }


class Cluster(Protocol):
    """What is needed from a cluster."""

    drains: bool
    """Whether a decommissioned executor goes by itself; otherwise it gets no more tasks, and stays until it is asked again when idle."""

    def executors(self) -> list[Executor]:
        """Return all executors, including those that are gone."""

    def request(self, total: int) -> bool:
        """Ask for `total` executors, and return whether that was accepted; running ones stay even if there are more."""

    def decommission(self, executor: str) -> bool:
        """Send an executor no new tasks, and let it go once it is done with those it has; return whether that was accepted."""

    def kill(self, executor: str) -> None:
        """End an executor, whatever it is doing."""


class SparkCluster:
    """The cluster that a session uses."""

    def __init__(self, spark: SparkSession) -> None:
        """Begin with the cluster of a session."""
        self._context = spark.sparkContext
        self._spark, self._scala, self._java = spark, scala_context(spark), jvm(spark)
        self._gone: dict[str, Executor] = {}
        self._lock = threading.Lock()  # several auto-scalers may look at once
        self.drains = self._context.getConf().get("spark.decommission.enabled", "false") == "true"

    @property
    def local(self) -> bool:
        """Whether there is no cluster, but only this process."""
        return bool(self._scala.isLocal())

    def check(self) -> None:
        """Refuse what cannot be resized."""
        if self.local:
            raise InvalidInput(
                value=f"master {self._context.master}",
                reason="in local mode Spark has no executors to add or remove",
                remedy='use a cluster, scale a skytide query (its slots can change anywhere), or only watch: mode="recommend"',
            )
        if self._context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true" and not self._manager_stopped():
            raise InvalidInput(
                value="spark.dynamicAllocation.enabled=true",
                reason="Spark's own allocation would undo what the auto-scaler does",
                remedy="switch it off, or stop it first: spark.sparkContext._jsc.sc().executorAllocationManager().get().stop()",
            )

    def executors(self) -> list[Executor]:
        """Return what Spark's status store knows; executors that are gone are looked up once."""
        with self._lock:
            return self._listed()

    def _listed(self) -> list[Executor]:
        listed = self._scala.statusStore().executorList(False)
        listed_now = []
        for place in range(listed.size()):
            one = listed.apply(place)
            name = one.id()
            if name in self._gone or (name == DRIVER) != self.local:
                continue
            executor = _read(one)
            listed_now.append(executor)
            if not executor.active:
                self._gone[name] = executor
        while len(self._gone) > GONE_KEPT:
            self._gone.pop(next(iter(self._gone)))
        return listed_now + [gone for gone in self._gone.values() if all(gone is not other for other in listed_now)]

    def request(self, total: int) -> bool:
        """Set the size that the cluster manager aims for, and return whether it was accepted."""
        return bool(self._scala.requestTotalExecutors(total, 0, self._java.PythonUtils.toScalaMap({})))

    def decommission(self, executor: str) -> bool:
        """Decommission an executor, and return whether that was accepted; if decommissioning is switched off, Spark still gives it no more tasks, and kills it when it is idle."""
        why = self._java.org.apache.spark.scheduler.ExecutorDecommissionInfo("fewer are needed", self._java.scala.Option.empty())
        accepted = bool(self._scala.schedulerBackend().decommissionExecutor(executor, why, False, False))
        if not self.drains:  # spark.decommission.enabled
            self._end(executor, force=False)
        return accepted

    def kill(self, executor: str) -> None:
        """End an executor at once, with its tasks."""
        self._end(executor, force=True)

    def _end(self, executor: str, force: bool) -> None:
        self._scala.schedulerBackend().killExecutors(scala_list(self._spark, [executor]), False, False, force)

    def _manager_stopped(self) -> bool:
        """Return whether Spark's own allocation was on at the start, to get a first size, and then stopped: only its thread shows that."""
        manager = self._scala.executorAllocationManager()
        if manager.isEmpty():
            return True
        try:
            thread = manager.get().getClass().getDeclaredField("executor")
            thread.setAccessible(True)
            return bool(thread.get(manager.get()).isShutdown())
        except Exception:  # another version of Spark may keep the thread elsewhere: then it counts as running
            return False


def _read(one: Any) -> Executor:
    why = one.removeReason()
    return Executor(
        id=one.id(),
        host=one.hostPort().rpartition(":")[0],
        cores=max(1, one.totalCores()),
        added_s=one.addTime().getTime() / 1e3,
        active_tasks=one.activeTasks(),
        finished_tasks=one.completedTasks(),
        failed_tasks=one.failedTasks(),
        busy_s=one.totalDuration() / 1e3,
        active=one.isActive(),
        why_gone=why.get() if why.isDefined() else "",
    )
