"""What happens without need: events that say nothing, polls, Python that nobody asked for, tasks that are cut off, sizes that are forgotten."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.fake_cluster import FakeCluster, FakeLive, executors

from skytide import InvalidInput
from skytide.control import Guard, Static
from skytide.loop.cycle import Loop
from skytide.loop.lead_time import patience_s
from skytide.records import Allocation, Observation, ScalingEvent
from skytide.spark.checkpoint.files import Files
from skytide.spark.compat import runs_python
from skytide.spark.scaling.executors import ExecutorPlant
from skytide.spark.scaling.json_store import JsonStore, ObjectStore, store_of
from skytide.spark.scaling.pool import DRAIN_S, FIRST_LEAD_S, Pool
from skytide.spark.scaling.scaler import LOOK_S, SLOW_LOOK_S, Scaler

HOUR = range(0, 3_600, 10)
FREE = Guard(scale_down_after=0, notice_no_help=False)


def two_queries(more: int, fewer: int) -> tuple[list[list[ScalingEvent]], FakeCluster]:
    """Play two queries on one pool for an hour, and return their events."""
    cluster, events = FakeCluster(1), [list[ScalingEvent](), list[ScalingEvent]()]
    pool = Pool(cluster)
    plants = [ExecutorPlant(FakeLive(), pool, [].append) for _ in events]  # type: ignore[arg-type]
    wishes = zip(plants, (Static(more), Static(fewer)), events, strict=True)
    loops = [Loop(plant, controller, FREE, on_event=heard.append) for plant, controller, heard in wishes]
    for now_s in HOUR:
        for loop, plant in zip(loops, plants, strict=True):
            plant.track(now_s)
            loop.cycle(now_s)
            cluster.settle()
    return events, cluster


class TestEvents:
    def test_a_query_that_needs_less_than_another_says_nothing(self) -> None:
        events, cluster = two_queries(more=6, fewer=2)
        assert [len(of_one) for of_one in events] == [3, 0], "twice as many at a time, until there are 6"
        assert len(cluster.active()) == 6

    def test_a_change_is_an_event(self) -> None:
        cluster, heard = FakeCluster(2), list[ScalingEvent]()
        loop = Loop(executors(cluster), Static(3), FREE, on_event=heard.append)
        loop.cycle(10)
        assert "requesting 1 more executor" in heard[0].text


class TestPolls:
    def scaler(self, plant: Any) -> Scaler:
        scaler = Scaler(clock=lambda: 0.0)
        scaler._plant, scaler._live, scaler._interval_s = plant, FakeLive(), 60.0  # type: ignore[assignment]
        return scaler

    def test_it_looks_often_only_while_an_executor_may_come_at_any_moment(self) -> None:
        cluster = FakeCluster(1, room=2)
        plant = executors(cluster)
        scaler = self.scaler(plant)
        assert scaler._pause_s(next_s=60) == 60
        plant.request(Allocation(4), 0)
        plant.track(1)
        assert scaler._pause_s(60) == LOOK_S
        cluster.settle()
        cluster.change("1", finished_tasks=1)
        for now_s in (2, patience_s(FIRST_LEAD_S) + 10, 3_600):
            plant.track(now_s)
        assert plant.is_changing, "two are still missing"
        assert scaler._pause_s(60) == SLOW_LOOK_S >= 1

    def test_one_that_is_let_go_is_looked_after_once_a_second(self) -> None:
        plant = executors(FakeCluster(2))
        plant.request(Allocation(1), 100)
        assert self.scaler(plant)._pause_s(60) == SLOW_LOOK_S


class TestDrain:
    @pytest.mark.parametrize("drain_s", [10.0, 600.0])
    def test_long_tasks_have_as_long_as_was_said_and_a_word_comes_before(self, drain_s: float) -> None:
        cluster, reported = FakeCluster(2), list[str]()
        plant = ExecutorPlant(FakeLive(), Pool(cluster), reported.append, drain_s=drain_s)  # type: ignore[arg-type]
        cluster.change("0", active_tasks=2), cluster.change("1", active_tasks=2)
        plant.request(Allocation(1), 0)
        plant.track(0.4 * drain_s)
        assert reported == []
        plant.track(0.6 * drain_s), plant.track(0.7 * drain_s)
        assert len(reported) == 1 and "still has 2 tasks" in reported[0] and "drain=" in reported[0]
        plant.track(drain_s)
        assert cluster.killed == []
        plant.track(1.1 * drain_s)
        assert cluster.killed == ["0"] and "with 2 tasks, to be run again elsewhere" in reported[1]

    def test_of_several_queries_the_longest_time_holds(self) -> None:
        cluster = FakeCluster(2)
        pool = Pool(cluster)
        short, _ = (ExecutorPlant(FakeLive(), pool, [].append, drain_s=drain_s) for drain_s in (1.0, 500.0))  # type: ignore[arg-type]
        pool.request(1, 0)
        short.track(400)
        assert cluster.killed == []
        short.track(501)
        assert cluster.killed == ["0"]
        assert DRAIN_S == 60


class TestStore:
    def sizes_after_restart(self, store: Any, first: int, guard: Guard) -> FakeCluster:
        """Let a loop come to a size, and another one begin with the same store and one executor."""
        before = FakeCluster(1)
        plant, loop = executors(before), None
        loop = Loop(plant, Static(first), FREE, store)
        for now_s in range(0, 60, 10):
            plant.track(now_s)
            loop.cycle(now_s)
            before.settle()
        assert len(before.active()) == first
        after = FakeCluster(1)
        Loop(executors(after), Static(first), guard, store).resume_size(1_000.0)
        return after

    def test_a_restarted_driver_asks_for_the_last_size_at_once(self, tmp_path: Path) -> None:
        assert self.sizes_after_restart(JsonStore(tmp_path / "s.json"), 5, FREE).requested == [5]
        assert JsonStore(tmp_path / "s.json").load()["size"] == 5

    def test_but_not_for_more_than_is_allowed_now(self, tmp_path: Path) -> None:
        assert self.sizes_after_restart(JsonStore(tmp_path / "s.json"), 5, Guard(1, 3)).requested == [3]

    def test_a_recommendation_has_no_size(self, tmp_path: Path) -> None:
        store, cluster = JsonStore(tmp_path / "s.json"), FakeCluster(1)
        loop = Loop(executors(cluster), Static(5), FREE, store, acts=False)
        loop.cycle(10)
        loop.resume_size(20)
        assert "size" not in store.load() and cluster.requested == []

    def test_an_object_of_another_file_system_is_read_as_it_was_written(self, tmp_path: Path) -> None:
        store = ObjectStore(Files(f"file://{tmp_path}"), "deep/s.json")
        assert store.load() == {}
        store.save({"size": 3})
        assert ObjectStore(Files(f"file://{tmp_path}"), "deep/s.json").load() == {"size": 3}
        (tmp_path / "deep" / "s.json").write_text("[1]")
        with pytest.raises(InvalidInput, match="holds something else"):
            ObjectStore(Files(f"file://{tmp_path}"), "deep/s.json")


def test_a_store_is_wherever_a_checkpoint_may_be(spark: SparkSession, tmp_path: Path) -> None:
    store = store_of(spark, f"file://{tmp_path}/a b/s.json")
    store.save({"size": 2})
    assert (tmp_path / "a b" / "s.json").exists()
    assert store_of(spark, tmp_path / "a b" / "s.json").load() == {"size": 2}
    for wrong, reason in (
        ("nowhere://x/s.json", "Spark cannot use it"),
        (f"{tmp_path}/", "not the name of a file"),
        (3, "not the name"),
    ):
        with pytest.raises(InvalidInput, match=reason):
            store_of(spark, wrong)


def test_queries_with_tasks_in_python_are_told_from_others(spark: SparkSession) -> None:
    rows = spark.readStream.format("rate").load()
    found = {}
    kinds = {
        "plain": rows.selectExpr("value % 3 AS pythonic").writeStream.format("noop"),
        "map": rows.mapInArrow(lambda batches: batches, rows.schema).writeStream.format("noop"),
        "function": rows.writeStream.foreachBatch(lambda df, number: None),
    }
    for name, writer in kinds.items():
        query = writer.trigger(processingTime="10 seconds").start()
        found[name] = runs_python(query)
        query.stop()
    assert found == {"plain": False, "map": True, "function": True}


def test_the_guard_is_not_asked_twice_for_what_another_query_needs() -> None:
    """A query whose wish is met by more than it asked for waits for nothing."""
    cluster = FakeCluster(4)
    pool = Pool(cluster)
    needs, less = (ExecutorPlant(FakeLive(), pool, [].append) for _ in range(2))  # type: ignore[arg-type]
    needs.keep(Allocation(4))
    loop = Loop(less, Static(2), FREE)
    outcomes = [loop.cycle(now_s).outcome.kind for now_s in HOUR]
    assert set(outcomes) == {"kept"} and loop._awaited is None
    assert isinstance(less.observe(5_000.0), Observation)
