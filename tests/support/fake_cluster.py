"""Fake executors, and a fake query that runs on them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from skytide.records import Allocation, Observation
from skytide.spark.scaling.executors import ExecutorPlant
from skytide.spark.scaling.gateway import Executor
from skytide.spark.scaling.pool import Pool


class FakeCluster:
    """Fake executors; the cluster has `room` for no more."""

    def __init__(self, count: int = 1, room: int = 100) -> None:
        self.room, self.drains, self.accepts = room, True, True
        self.all: dict[str, Executor] = {}
        self.requested: list[int] = []
        self.killed: list[str] = []
        self.told_to_go: list[str] = []
        self.give(count)

    def give(self, count: int, **state: Any) -> None:
        for _ in range(count):
            name = str(len(self.all))
            self.all[name] = replace(Executor(name, "h", 1, float(name), 0, 0, 0, 0.0), **state)

    def change(self, name: str, **state: Any) -> None:
        self.all[name] = replace(self.all[name], **state)

    def active(self) -> list[str]:
        return [name for name, each in self.all.items() if each.active]

    def settle(self) -> None:
        """Add what was requested, as far as there is room, and remove what was released."""
        for name in self.told_to_go:
            self.change(name, active=False)
        self.give(min(self.requested[-1] if self.requested else 0, self.room) - len(self.active()))

    def executors(self) -> list[Executor]:
        return list(self.all.values())

    def request(self, total: int) -> bool:
        self.requested.append(total)
        return self.accepts

    def decommission(self, executor: str) -> bool:
        self.told_to_go.append(executor)
        return True

    def kill(self, executor: str) -> None:
        self.killed.append(executor)
        self.change(executor, active=False)


class FakeLive:
    """A query, and metrics that say what they are told to say."""

    run, query, name, trigger_s, utilisation = None, None, "made-up", 0.5, 1.0  # type: tuple[None, Any, str, float, float | None]
    has_state = False
    closed, kind, label, id, run_id, comes_back, runs_python, is_active = (
        False,
        "query",
        "query made-up",
        "1",
        "2",
        False,
        False,
        True,
    )

    def __init__(self) -> None:
        self.metrics = self

    def observe(self, now_s: float, present: Allocation) -> Observation | None:
        if self.utilisation is None:
            return None
        return Observation(now_s, 10, present, 100, 100, self.utilisation, service_s=0.01)

    def lines(self, loop: Any) -> list[tuple[str, str]]:
        return []

    def listen(self, changed: Callable[[], None]) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def executors(
    cluster: FakeCluster, reported: list[str] | None = None, live: FakeLive | None = None, **options: Any
) -> ExecutorPlant:
    """Return the plant of a query that has all executors to itself."""
    return ExecutorPlant(live or FakeLive(), Pool(cluster, **options), (reported if reported is not None else []).append)  # type: ignore[arg-type]
