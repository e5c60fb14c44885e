"""A query of micro-batches in virtual time: executors that come and go, and the tasks of each batch, which wait for a free one."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from skytide.records import Allocation, Observation, Outcome
from skytide.sim.drive import VirtualPlant
from skytide.spark.scaling.progress import Batch, Means, measure


@dataclass(frozen=True)
class Costs:
    """Costs of a query and of its executors, in seconds."""

    row_s: float
    """Of a task, per row."""
    task_s: float
    """Of a task without rows."""
    batch_s: float
    """Of a batch, besides its tasks."""
    lead_s: float
    """From the request for an executor until it gets tasks."""
    cold_s: float
    """That the first task of an executor takes longer than others."""


@dataclass
class _Executor:
    ready_s: float
    free_s: float
    cold: bool = True
    gone_s: float = float("inf")
    busy_s: float = 0.0

    def starts_s(self, now_s: float) -> float:
        return max(now_s, self.ready_s, self.free_s)

    def lasted_s(self, until_s: float) -> float:
        return max(0.0, min(max(self.gone_s, self.free_s), until_s) - self.ready_s)


@dataclass
class MicroBatches(VirtualPlant):
    """A query on executors that come and go: `observe(now)` plays the batches that start until then.

    >>> costs = Costs(row_s=0.01, task_s=0.0, batch_s=0.2, lead_s=3.0, cold_s=2.0)
    >>> query = MicroBatches([100.0] * 60, costs, executors=2, partitions=2, trigger_s=1.0)
    >>> round(query.observe(10.0).utilisation, 3)
    0.625
    """

    rates_hz: Sequence[float]
    """Rows per second, for each second."""
    costs: Costs
    executors: int
    partitions: int
    trigger_s: float
    _there: list[_Executor] = field(default_factory=list)
    _gone: list[_Executor] = field(default_factory=list)
    _batches: list[Batch] = field(default_factory=list)
    _recent: list[Batch] = field(default_factory=list)
    _next_s: float = 0.0
    _taken_s: float = 0.0
    _looked_s: float = 0.0
    _busy_s: float = 0.0

    def __post_init__(self) -> None:
        """Begin with warm executors."""
        self._there = [_Executor(0.0, 0.0, cold=False) for _ in range(self.executors)]
        self._next_s = self.trigger_s

    @property
    def finished(self) -> bool:
        """Whether all rows have been played."""
        return self._next_s >= len(self.rates_hz)

    @property
    def lead_s(self) -> float:
        """How long it takes until an added executor works."""
        return self.costs.lead_s + self.costs.cold_s

    @property
    def worker_s(self) -> float:
        """The time of all executors up to the latest look."""
        return self.executor_s(self._looked_s)

    def executor_s(self, until_s: float) -> float:
        """Return the time of all executors."""
        return sum(each.lasted_s(until_s) for each in (*self._there, *self._gone))

    def size(self) -> Allocation:
        """Return the executors that are there and stay."""
        return Allocation(max(1, sum(each.ready_s <= self._looked_s for each in self._there)))

    def request(self, wanted: Allocation, now_s: float) -> Outcome:
        """Add executors after their lead time, or let the youngest go; return what was done."""
        outcome = Outcome("asked" if wanted.workers > len(self._there) else "done", f"{wanted.workers} executors")
        while len(self._there) < wanted.workers:
            ready_s = now_s + self.costs.lead_s
            self._there.append(_Executor(ready_s, ready_s))
        while len(self._there) > wanted.workers:
            leaves = self._there.pop()
            leaves.gone_s = now_s
            self._gone.append(leaves)
        return outcome

    def observe(self, now_s: float) -> Observation | None:
        """Play up to now, and return what happened since the last call."""
        while self._next_s <= now_s and not self.finished:
            self._play()
        since_s, self._looked_s = self._looked_s, now_s
        new = [batch for batch in self._batches if batch.end_s <= now_s]
        self._batches = self._batches[len(new) :]
        if not new:
            return None
        known = [*self._recent, *new]
        looked = known[-max(len(new), 3) :]
        before = known[-len(looked) - 1] if len(known) > len(looked) else None
        self._recent = known[-4:]
        present = self.size()
        busy_s, self._busy_s = self._busy_s, 0.0
        work_s = sum(batch.work_s for batch in new)
        share = min(1.0, busy_s / present.workers / work_s) if work_s else 1.0
        means = Means(present, present.workers, share, tasks=self.partitions)
        return measure(looked, before, means, trigger_s=self.trigger_s, now_s=now_s, interval_s=now_s - since_s)

    def _play(self) -> None:
        start_s = self._next_s
        rows = sum(self._rows(second, self._taken_s, start_s) for second in range(int(self._taken_s), int(start_s) + 1))
        self._taken_s = start_s
        begins_s = start_s + self.costs.batch_s
        ends_s = begins_s
        queue = [(each.starts_s(begins_s), number) for number, each in enumerate(self._there)]
        heapq.heapify(queue)
        for _ in range(self.partitions):
            at_s, number = heapq.heappop(queue)
            one = self._there[number]
            took_s = self.costs.task_s + rows / self.partitions * self.costs.row_s + (self.costs.cold_s if one.cold else 0.0)
            one.cold, one.free_s = False, at_s + took_s
            self._busy_s += took_s
            ends_s = max(ends_s, one.free_s)
            heapq.heappush(queue, (one.free_s, number))
        last = self._batches[-1].number if self._batches else self._recent[-1].number if self._recent else -1
        self._batches.append(Batch("simulated", last + 1, start_s, ends_s - start_s, ends_s - begins_s, rows, 0.0))
        self._next_s = max(ends_s, start_s + self.trigger_s)

    def _rows(self, second: int, since_s: float, until_s: float) -> float:
        if second >= len(self.rates_hz):
            return 0.0
        return self.rates_hz[second] * max(0.0, min(until_s, second + 1) - max(since_s, second))
