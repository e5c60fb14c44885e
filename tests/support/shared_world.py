"""Queries of micro-batches that share executors, in virtual time, with the product's own metrics, pool and loops.

The world knows tasks, executors and Spark's two ways to schedule, and nothing of the model that decides. It says what happened as Spark does:
in progress reports and in stages with a job group.
"""

import heapq
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from typing import Any

from skytide.control import Controller, Guard
from skytide.loop.application import ForAll
from skytide.loop.cycle import Cycle, Loop
from skytide.records import ScalingEvent
from skytide.spark.scaling.application import ApplicationPlant
from skytide.spark.scaling.executors import ExecutorPlant
from skytide.spark.scaling.gateway import Executor
from skytide.spark.scaling.metrics import QueryMetrics
from skytide.spark.scaling.pool import Pool
from skytide.spark.scaling.tasks import StageRun

EPOCH_S = 1_800_000_000.0  # a multiple of all triggers here, as Spark counts them from 1970
LEAD_S = 6.0
FREE = Guard(1, 12, scale_down_after="60 s")


@dataclass
class Load:
    """What a query has to do."""

    name: str
    trigger_s: float
    work_s: float
    """Of all tasks of a batch at a rate of 1."""
    tasks: int = 24
    fixed_s: float = 0.5
    rate: Callable[[float], float] = lambda now_s: 1.0
    """A factor by time."""
    weight: float = 1.0
    ends_s: float = float("inf")


@dataclass
class Done:
    """A batch that has ended."""

    name: str
    start_s: float
    took_s: float
    trigger_s: float

    @property
    def late(self) -> bool:
        return self.took_s > self.trigger_s


@dataclass
class _Batch:
    query: "Query"
    number: int
    start_s: float
    rows: float
    task_s: float
    waiting: int
    order: int = 0
    running: int = 0
    began_s: float | None = None


class World:
    """Executors and queries; it is Spark's cluster, too, for the pool."""

    drains = True

    def __init__(self, loads: Sequence[Load], executors: int = 1, *, fair: bool = False) -> None:
        self.now_s, self._fair = EPOCH_S, fair
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self.all: dict[str, Executor] = {}
        self._free: set[str] = set()
        self._coming = 0
        self._jobs: list[_Batch] = []
        self.stages: list[StageRun] = []
        self.done: list[Done] = []
        self.queries = {load.name: Query(self, load) for load in loads}
        for _ in range(executors):
            self._come()

    def at(self, when_s: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when_s, next(self._order), what))

    def until(self, now_s: float) -> None:
        """Play up to a moment."""
        while self._events and self._events[0][0] <= now_s:
            self.now_s, _, what = heapq.heappop(self._events)
            what()
        self.now_s = now_s

    def submit(self, batch: _Batch) -> None:
        batch.order = next(self._order)
        self._jobs.append(batch)
        self._schedule()

    def _schedule(self) -> None:
        while self._free and (waiting := [batch for batch in self._jobs if batch.waiting]):
            fifo = min(waiting, key=lambda batch: batch.order)
            batch = min(waiting, key=lambda one: (one.running / one.query.load.weight, one.order)) if self._fair else fifo
            name = min(self._free)
            self._free.remove(name)
            batch.waiting, batch.running = batch.waiting - 1, batch.running + 1
            batch.began_s = self.now_s if batch.began_s is None else batch.began_s
            self.all[name] = replace(self.all[name], active_tasks=1)
            self.at(self.now_s + batch.task_s, lambda batch=batch, name=name: self._finish(batch, name))  # type: ignore[misc]

    def _finish(self, batch: _Batch, name: str) -> None:
        one = self.all[name]
        self.all[name] = replace(one, active_tasks=0, finished_tasks=one.finished_tasks + 1, busy_s=one.busy_s + batch.task_s)
        batch.running -= 1
        if name in self._leaving:
            self.all[name] = replace(self.all[name], active=False)
        else:
            self._free.add(name)
        if not batch.waiting and not batch.running:
            self._jobs.remove(batch)
            batch.query.ended(batch)
        self._schedule()

    # The cluster

    _leaving: frozenset[str] = frozenset()

    def executors(self) -> list[Executor]:
        return list(self.all.values())

    def request(self, total: int) -> bool:
        there = sum(one.active and name not in self._leaving for name, one in self.all.items())
        self._target = total
        for _ in range(total - there - self._coming):
            self._coming += 1
            self.at(self.now_s + LEAD_S, self._arrive)
        return True

    def _arrive(self) -> None:
        self._coming -= 1
        there = sum(one.active and name not in self._leaving for name, one in self.all.items())
        if there < self._target:
            self._come()

    def _come(self) -> None:
        name = f"{len(self.all):04}"
        self.all[name] = Executor(name, "h", 1, self.now_s, 0, 0, 0, 0.0)
        self._free.add(name)
        self._schedule()

    def decommission(self, executor: str) -> bool:
        self._leaving |= {executor}
        if executor in self._free:
            self._free.remove(executor)
            self.all[executor] = replace(self.all[executor], active=False)
        return True

    def kill(self, executor: str) -> None:
        raise AssertionError("no task here is so long")


class Query:
    """A query as Spark shows it."""

    def __init__(self, world: World, load: Load) -> None:
        self.world, self.load = world, load
        self.name = self.id = load.name
        self.runId, self.isActive = f"run of {load.name}", True
        self.recentProgress: list[Any] = []
        self.status = {"isTriggerActive": False, "isDataAvailable": True}
        self._next, self._taken_s = 0, world.now_s
        world.at(world.now_s + load.trigger_s, self._begin)

    def _begin(self) -> None:
        now_s, load = self.world.now_s, self.load
        if now_s >= EPOCH_S + load.ends_s:
            self.isActive = False
            return
        rows = 100.0 * load.rate(now_s - EPOCH_S) * (now_s - self._taken_s) / load.trigger_s
        self._taken_s = now_s
        batch = _Batch(self, self._next, now_s, rows, rows / 100.0 * load.work_s / load.tasks, load.tasks)
        self._next += 1
        self.status["isTriggerActive"] = True
        self.world.at(now_s + load.fixed_s, lambda: self.world.submit(batch))

    def ended(self, batch: _Batch) -> None:
        now_s, load = self.world.now_s, self.load
        took_s = now_s - batch.start_s
        self.world.stages.append(
            StageRun(
                self.runId,
                batch.number,
                batch.start_s + load.fixed_s,
                batch.began_s or now_s,
                now_s,
                batch.task_s * load.tasks,
                load.tasks,
            )
        )
        self.world.done.append(Done(self.name, batch.start_s - EPOCH_S, took_s, load.trigger_s))
        progress = {
            "runId": self.runId, "batchId": batch.number, "numInputRows": batch.rows, "sources": [],
            "timestamp": datetime.fromtimestamp(batch.start_s, UTC).isoformat(),
            "durationMs": {"triggerExecution": took_s * 1e3, "addBatch": (took_s - load.fixed_s) * 1e3},
        }  # fmt: skip
        self.recentProgress = [*self.recentProgress[-9:], type("Progress", (), {"json": json.dumps(progress)})()]
        self.status["isTriggerActive"] = False
        due_s = EPOCH_S + ((batch.start_s - EPOCH_S) // load.trigger_s + 1) * load.trigger_s
        self.world.at(max(now_s, due_s), self._begin)


class Live:
    """A query of the world, as an auto-scaler has it."""

    run, runs_python = None, False

    def __init__(self, query: Query) -> None:
        self.query, self.name, self.id, self.trigger_s = query, query.name, query.name, query.load.trigger_s
        world = query.world
        self.metrics = QueryMetrics(
            query, world.executors, clock=lambda: world.now_s, wall=lambda: world.now_s, stages=lambda: world.stages[-200:]
        )  # type: ignore[arg-type]
        self.metrics.trigger_s = query.load.trigger_s

    def close(self) -> None:
        pass


class Several:
    """The queries of the world that run, as one auto-scaler has them."""

    runs_python = False

    def __init__(self, world: World) -> None:
        self._world, self.members = world, dict[str, Live]()
        self.refresh()

    def refresh(self) -> tuple[list[str], list[str]]:
        running = {name for name, query in self._world.queries.items() if query.isActive}
        came, gone = running - self.members.keys(), self.members.keys() - running
        self.members |= {name: Live(self._world.queries[name]) for name in sorted(came)}
        for name in gone:
            del self.members[name]
        return sorted(came), sorted(gone)

    def look(self) -> dict[str, Live]:
        return dict(self.members)

    def close(self) -> None:
        pass


class Weights:
    """Priorities that the world has already."""

    def __init__(self, world: World) -> None:
        self._world = world

    def weights(self, names: Any) -> dict[str, float]:
        return {name: self._world.queries[name].load.weight for name in names}

    def apply(self, name: str, query: Any) -> str:
        return f"{name} has its weight"


@dataclass
class Played:
    """What happened."""

    world: World
    sizes: list[tuple[float, int]]
    cycles: list[Cycle]
    events: list[ScalingEvent] = field(default_factory=list)

    def late(self, since_s: float, names: Sequence[str] = (), until_s: float = float("inf")) -> float:
        """Return the share of batches that took longer than their interval."""
        done = [one for one in self.world.done if since_s <= one.start_s < until_s and (not names or one.name in names)]
        return sum(one.late for one in done) / len(done)

    def sizes_since(self, since_s: float, until_s: float = float("inf")) -> set[int]:
        return {size for now_s, size in self.sizes if since_s <= now_s < until_s}


def play(
    loads: Sequence[Load],
    controller: Controller,
    seconds: int,
    *,
    one_for_all: bool,
    first: int = 2,
    fair: bool = False,
    guard: Guard = FREE,
    bounds_s: Mapping[str, float] | None = None,
    interval_s: float = 10.0,
) -> Played:
    """Play queries under one auto-scaler, or under one each, for some seconds."""
    world = World(loads, first, fair=fair)
    played, pool = Played(world, [], []), Pool(world)
    loops: list[tuple[Any, Loop, float]] = []
    if one_for_all:
        many = ForAll(controller, bounds_s or {})
        weights: Any = Weights(world) if fair else None
        plant: Any = ApplicationPlant(Several(world), pool, [].append, bound_s=many.bound_s, priorities=weights)  # type: ignore[arg-type]
        loops.append((plant, Loop(plant, many, guard, on_event=played.events.append), 0.0))
    else:
        for number, query in enumerate(world.queries.values()):
            plant = ExecutorPlant(Live(query), pool, [].append)  # type: ignore[arg-type]
            loops.append((plant, Loop(plant, controller, guard, on_event=played.events.append), float(number)))
    for second in range(1, seconds):
        world.until(EPOCH_S + second)
        for number, (plant, loop, offset_s) in enumerate(list(loops)):
            plant.track(world.now_s)
            if not one_for_all and not list(world.queries.values())[number].isActive:
                plant.close()
            elif (second - offset_s) % interval_s == 0:
                played.cycles.append(loop.cycle(world.now_s))
        played.sizes.append((float(second), pool.size()))
    return played
