"""Tasks that return to their worker: a slot of an operator on keys runs on the executor that has its chunks in memory.

Spark gives tasks to any free executor. A task with a preferred location waits for it a while (`spark.locality.wait`), then goes elsewhere.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from skytide.spark.compat import located, numbers_of, scala_context


def places(before: Mapping[int, str], executors: Sequence[str], slots: int) -> dict[int, str]:
    """Return an executor for each slot: the one it had, as long as no executor gets more slots than necessary.

    >>> places({}, ["a", "b"], 3)
    {0: 'a', 1: 'a', 2: 'b'}
    >>> places({0: "a", 1: "a", 2: "b"}, ["a", "b", "c"], 3)
    {0: 'a', 1: 'c', 2: 'b'}
    >>> places({0: "a", 1: "b", 2: "c"}, ["b", "c"], 3)
    {0: 'b', 1: 'b', 2: 'c'}
    """
    had = {name: [slot for slot in range(slots) if before.get(slot) == name] for name in executors}
    least, more = divmod(slots, len(executors))
    order = sorted(executors, key=lambda name: -len(had[name]))
    room = {name: least + (rank < more) for rank, name in enumerate(order)}
    stay = {slot: name for name, mine in had.items() for slot in mine[: room[name]]}
    free = [name for name in order for _ in range(room[name] - len(had[name]))]
    rest = [slot for slot in range(slots) if slot not in stay]
    return dict(sorted({**stay, **dict(zip(rest, free, strict=True))}.items()))


class Pins:
    """Remembers where the slots of a query ran."""

    def __init__(self, spark: SparkSession) -> None:
        """Look at the cluster of a session."""
        self._scala = scala_context(spark)
        self.local = bool(self._scala.isLocal())
        """Whether there is no cluster: tasks run on the machine of the driver."""
        self._hosts: dict[str, str] = {}
        self._at: dict[int, str] = {}
        self._numbers: Any = None

    def numbers(self, spark: SparkSession, slots: int) -> DataFrame:
        """Return the numbers of slots, each in a partition that prefers its executor."""
        executors = [] if self.local else self._executors()
        if not executors:
            return spark.range(0, slots, 1, slots)
        at = places(self._at, executors, slots)
        if at != self._at or self._numbers is None:
            self._at, self._numbers = at, located(spark, [f"executor_{self._hosts[name]}_{name}" for name in at.values()])
        return numbers_of(spark, self._numbers)

    def _executors(self) -> list[str]:
        """Return the executors that take tasks."""
        backend, ids = self._scala.schedulerBackend(), self._scala.schedulerBackend().getExecutorIds()
        names = [ids.apply(place) for place in range(ids.size())]
        active = [name for name in sorted(names, key=int) if backend.isExecutorActive(name)]
        if not self._hosts.keys() >= set(active):
            listed = self._scala.statusStore().executorList(True)
            seen = [listed.apply(place) for place in range(listed.size())]
            self._hosts |= {one.id(): one.hostPort().rpartition(":")[0] for one in seen}
        return [name for name in active if name in self._hosts]
