"""Law: what a batch costs, and the size of its manifest, do not grow with the number of batches before it. Cost is what a disk has to do, not seconds.

Time is virtual: a batch comes every 130 seconds, so that older states, which may be kept for an hour, are as many at the end as at the beginning.
What happens now and then (the sweep of a store, a restart, a flush) happens equally often in each stretch of batches, and stretches are compared.
"""

import os
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.engine import COLUMNS, QUERIES, InProcess, Plan, plan_of
from support.keyed import plan_of as keyed_plan_of
from support.keyed import step

from skytide.batch import Sent, State
from skytide.keyed import Operator
from skytide.lateness import FixedSlack, KSlack
from skytide.routing import AS_PID
from skytide.spark.checkpoint import Files, Store
from skytide.spark.checkpoint.disk import Disk
from skytide.spark.checkpoint.entry import Entry
from skytide.spark.engine.engine import Engine
from skytide.spark.sinks.base import Staged
from skytide.spark.sinks.parquet import Parquet
from skytide.spark.sinks.roles import Sinks
from skytide.windows import Windows

pytestmark = pytest.mark.slow
STRETCH = 32  # batches: a multiple of those between two sweeps, restarts and flushes
WARM_UP = 5  # stretches, each of more than an hour: until sizes and delays are known, too
BATCH_S = 130
GROWTH = 1.03  # numbers get longer


class Counting(Disk):
    """A disk that counts what it does, and forces nothing."""

    def __init__(self) -> None:
        self.costs: Counter[str] = Counter()

    def write(self, path: str, data: Any, *, durable: bool) -> None:
        self._written(path, data)
        super().write(path, data, durable=False)

    def create(self, path: str, data: Any) -> bool:
        self._written(path, data)
        return super().create(path, data)

    def open(self, path: str) -> Any:
        self._read(path)
        return super().open(path)

    def map(self, path: str) -> Any:
        self._read(path)
        return super().map(path)

    def entries(self, folder: str) -> list[Entry]:
        found = super().entries(folder)
        self.costs.update({"listings": 1, "names listed": len(found)})
        return found

    def exists(self, path: str) -> bool:
        self.costs["files looked for"] += 1
        return super().exists(path)

    def move(self, source: str, target: str) -> None:
        self.costs["files moved"] += 1
        super().move(source, target)

    def delete_file(self, path: str) -> None:
        self.costs["files deleted"] += 1
        super().delete_file(path)

    def delete_folder(self, path: str) -> None:
        self.costs["folders deleted"] += 1
        super().delete_folder(path)

    def _written(self, path: str, data: Any) -> None:
        size = memoryview(data).nbytes
        self.costs.update({"files written": 1, "bytes written": size})
        if "/manifests/" in path:
            self.costs["bytes of manifests"] += size

    def _read(self, path: str) -> None:
        self.costs.update({"files read": 1, "bytes read": os.path.getsize(path) if os.path.exists(path) else 0})


@dataclass
class Time:
    """The time of day, which only a test moves."""

    now_s: float = 1.7e9

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    """The time by which manifests are dated, too."""
    mine = Time()
    monkeypatch.setattr("skytide.spark.clock.time_of_day", mine)
    return mine


def rows_of(number: int) -> pa.Table:
    """Return the rows of a batch, 1 ms long: every fourth batch has some that are late."""
    rng = np.random.default_rng(number % STRETCH)
    times = np.sort(rng.integers(0, 1_000, 20)) + 1_000 * number
    times[:3] -= 4_500 * (number % 4 == 3)
    values = rng.integers(0, 8, 20)
    return pa.table([times, values, values * 0.5, values], COLUMNS.names).cast(COLUMNS)


@dataclass(frozen=True)
class Case:
    """A query, how often it is restarted and flushed, in batches, and what it writes with and to."""

    plan_in: Callable[[Store], Plan]
    restart: int = 1_000_000
    flush: int = 0
    disk: Callable[[], Counting] = Counting
    store: Callable[[Files], Store] = Store
    sink: Callable[[str], Parquet] = Parquet


def costs(case: Case, stretches: int, time: Time) -> list[Counter[str]]:
    """Return what each stretch of batches costs."""
    with tempfile.TemporaryDirectory() as folder:
        disk, jobs, found = case.disk(), InProcess(), []
        results, late = case.sink(f"{folder}/results"), Parquet(f"{folder}/late")
        files = Files(f"{folder}/state")
        for each in (files, results.owned.files, late.owned.files):
            each._system = disk
        for number in range(stretches * STRETCH):
            time.now_s += BATCH_S
            if number % case.restart == 0:
                engine = Engine(*case.plan_in(case.store(files)), Sinks(results, late), clock=time)
                engine.finish_flush(jobs)
            engine.run_batch(jobs, [rows_of(number)], number)
            if case.flush and number % case.flush == case.flush - 1:
                engine.flush(jobs)
            if number % STRETCH == STRETCH - 1:
                found.append(disk.costs)
                disk.costs = Counter()
        assert all(len(os.listdir(f"{folder}/{name}")) > 2 for name in ("results", "late"))
    return found


def check_age(case: Case, time: Time, warm_up: int = WARM_UP) -> None:
    """Assert that the second stretch after the warm-up costs what the first does."""
    first, last = costs(case, warm_up + 2, time)[warm_up:]
    grown = {what: (first[what], last[what]) for what in last if last[what] > first[what] * GROWTH}
    assert not grown, f"grown: {grown}"


def skyline(store: Store) -> Plan:
    return plan_of(QUERIES[0], "", Windows(1_000, 200), FixedSlack("300 us"), store=store, delivery=Sent(AS_PID))


def aggregate(store: Store) -> Plan:
    return plan_of(QUERIES[4], "", Windows(1_000, 1_000), KSlack(), store=store)


class Counts:
    """Numbers the rows of a key."""

    def open(self, key: Any) -> Any:
        return np.array([0])

    def process(self, state: Any, rows: pa.Table) -> Any:
        numbers = state[-1] + 1 + np.arange(rows.num_rows)
        return self.after(state, numbers), {"number": numbers}

    def after(self, state: Any, numbers: Any) -> Any:
        return numbers[-1:]


def on_keys(store: Store, operator: type[Counts] = Counts) -> Plan:
    return replace(keyed_plan_of(step(operator=Operator(operator())), "", FixedSlack("300 us")), store=store)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case(aggregate, restart=16, flush=8), id="aggregate, restarted and flushed"),
        pytest.param(Case(skyline), id="skyline, sent to slots"),
        pytest.param(Case(on_keys, restart=16), id="operator on keys, restarted"),
    ],
)
def test_a_batch_costs_the_same_at_any_age(case: Case, time: Time) -> None:
    check_age(case, time)


class Hoarder(Counting):
    """Removes no file."""

    def delete_file(self, path: str) -> None:
        pass


class Chronicle(Store):
    """Notes in each manifest the numbers of all before."""

    def record(self, state: State) -> None:
        super().record(replace(state, identity={**state.identity, "before": str([*range(state.sequence)])}))


class Inspector(Parquet):
    """Looks through all results after each batch."""

    def publish(self, sequence: int, staged: Staged) -> None:
        self.owned.files.entries()
        super().publish(sequence, staged)


class Remembers(Counts):
    """Keeps the number of each row in the state of its key."""

    def after(self, state: Any, numbers: Any) -> Any:
        return np.concatenate([state, numbers])


@pytest.mark.parametrize(
    ("case", "what"),
    [
        (Case(skyline, disk=Hoarder), "names listed"),
        (Case(skyline, store=Chronicle), "bytes of manifests"),
        (Case(skyline, sink=Inspector), "names listed"),
        (Case(lambda store: on_keys(store, Remembers)), "bytes written"),
    ],
    ids=["files stay", "manifests grow", "results are looked through", "states grow"],
)
def test_what_grows_is_found_out(case: Case, what: str, time: Time) -> None:
    with pytest.raises(AssertionError, match=f"grown: .*{what}"):
        check_age(case, time, warm_up=2)


def test_what_does_not_grow_is_not_found_guilty_as_early(time: Time) -> None:
    check_age(Case(skyline), time, warm_up=2)
