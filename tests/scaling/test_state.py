"""Queries of Spark with state: how wide they are, what they have in memory, and what it costs to move it."""

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.fake_cluster import FakeCluster, FakeLive, executors

from skytide.control import Mpc
from skytide.loop.evaluate import evaluate
from skytide.loop.recording import from_table, to_table
from skytide.records import Allocation, MicroBatch, Observation, ScalerStatus
from skytide.spark.compat import scheduler_setting, set_scheduler_setting
from skytide.spark.scaling.executors import ExecutorPlant
from skytide.spark.scaling.locality import KEY, SHORT, Locality
from skytide.spark.scaling.metrics import QueryMetrics
from skytide.spark.scaling.progress import Batch, State
from skytide.spark.scaling.reloading import Reloading

OPERATOR = {"operatorName": "dedupe", "numRowsTotal": 1_000, "memoryUsedBytes": 64_000, "numShufflePartitions": 8}
TRIGGER_S, ROW_S, FIXED_S, ROWS = 2.0, 0.01, 0.2, 100.0


class FakeQuery:
    """A query whose batches begin every other second."""

    runId = "a"
    recentProgress: tuple[Any, ...] = ()

    def __init__(self) -> None:
        self.status = {"isTriggerActive": False, "isDataAvailable": True}


def progress(number: int, took_s: float, operators: list[dict[str, Any]], rows: float = ROWS) -> dict[str, Any]:
    at_s = TRIGGER_S * number
    return {
        "runId": "a", "batchId": number, "timestamp": f"1970-01-01T00:{int(at_s) // 60:02}:{at_s % 60:06.3f}Z", "numInputRows": rows,
        "durationMs": {"triggerExecution": 1e3 * took_s, "addBatch": 1e3 * took_s}, "sources": [], "stateOperators": operators,
    }  # fmt: skip


def took_s(workers: int) -> float:
    return FIXED_S + ROW_S * ROWS / workers


class TestReading:
    def test_operators_add_up_and_what_is_not_as_expected_is_no_state(self) -> None:
        read = Batch.read(progress(3, 1.0, [OPERATOR, {**OPERATOR, "numRowsTotal": 5}]))
        assert read is not None and read.state == State(8, 1_005, 128_000)
        for operators in ([], [{}], [{**OPERATOR, "numRowsTotal": None}], None, 7):
            without = Batch.read({**progress(3, 1.0, []), "stateOperators": operators})
            assert without is not None and without.state is None

    @pytest.mark.parametrize(
        ("partitions", "others", "wide"),
        [(8, 4, 8), (4, 12, 12), (8, 0, 8)],  # a source with few or many tasks; a batch without rows
    )
    def test_the_tasks_of_the_source_and_those_with_state_do_not_add_up(self, partitions: int, others: int, wide: int) -> None:
        assert State(partitions, 0, 0).width(partitions + others) == wide


class TestObservation:
    def observed(self, operators: list[dict[str, Any]]) -> Observation:
        clock, cluster = [0.0], FakeCluster(2)
        metrics = QueryMetrics(FakeQuery(), cluster.executors, clock=lambda: clock[0])  # type: ignore[arg-type]
        metrics.trigger_s = TRIGGER_S
        for number in range(5):
            metrics.feed(progress(number, took_s(2), operators))
        clock[0] = 10.0
        for name in "01":
            cluster.change(name, finished_tasks=5 * 12 // 2, busy_s=2.5)
        seen = metrics.observe(10.0, Allocation(2))
        assert seen is not None and seen.batch is not None
        return seen

    def test_partitions_of_the_state_are_the_ceiling_not_all_tasks_of_a_batch(self) -> None:
        with_state, without = self.observed([OPERATOR]), self.observed([])
        assert with_state.batch is not None and with_state.batch.most_workers == 8
        assert without.batch is not None and without.batch.most_workers == 12

    def test_state_is_observed_recorded_and_printed(self) -> None:
        seen = replace(self.observed([OPERATOR]), reload_s=1.5)
        assert (seen.state_rows, seen.state_bytes) == (1_000, 64_000)
        assert from_table(to_table([seen])) == [seen]
        assert from_table(to_table([seen]).drop_columns(["state_rows", "state_bytes", "reload_s"]))[0].state_rows is None
        status = ScalerStatus(True, False, True, 2, 2, "why", 6.0, seen)
        assert "keeps     a state of 1,000 rows, 0.064 MB; after a change of size, loading it takes 1.5 s" in str(status)
        assert "keeps" not in str(replace(status, seen=self.observed([])))


class World:
    """Executors that come and go, and batches that take as long as the model says, and longer after a change."""

    def __init__(self, workers: int) -> None:
        self.cluster, self.number, self.looked_s = FakeCluster(workers), 0, 0.0
        self.before = self.listed()
        self.usual = MicroBatch(ROWS, FIXED_S, ROW_S * ROWS)
        self.reloading = Reloading()

    def listed(self) -> dict[str, Any]:
        return {one.id: one for one in self.cluster.executors()}

    def look(self, *longer_s: float) -> float | None:
        batches, workers = [], len(self.cluster.active())
        for more_s in longer_s:
            lasts_s = took_s(workers) + more_s
            batches.append(Batch("a", self.number, TRIGGER_S * self.number, lasts_s, lasts_s, ROWS, 0.0))
            self.number += 1
        now = self.listed()
        self.reloading.see(batches, self.usual, self.before, now, self.looked_s)
        self.before, self.looked_s = now, TRIGGER_S * self.number
        return self.reloading.reload_s

    def come(self, count: int) -> None:
        self.cluster.give(count, added_s=TRIGGER_S * self.number)


class TestReloading:
    def test_batches_after_an_executor_came_are_compared_with_the_model_of_the_new_size(self) -> None:
        world = World(1)
        assert world.look(0, 0, 0) is None
        world.come(1)
        world.look(2.0, 1.0, 0.5)
        assert world.look(0, 0, 0) == pytest.approx(3.5)

    def test_and_those_after_one_left(self) -> None:
        world = World(2)
        world.look(0, 0, 0)
        world.cluster.change("0", active=False)
        world.look(1.0, 0, 0)
        assert world.look(0, 0, 0) == pytest.approx(1.0)

    def test_a_model_that_is_wrong_about_the_new_size_is_no_reload(self) -> None:
        world = World(1)
        world.come(2)
        world.look(0.4, 0.4, 0.4)
        assert world.look(0.4, 0.4, 0.4) == pytest.approx(0.0)

    def test_later_changes_count_half_and_slow_batches_at_other_times_do_not(self) -> None:
        world = World(1)
        world.come(1)
        world.look(3.0, 0, 0)
        assert world.look(0, 0, 0) == pytest.approx(3.0)
        assert world.look(9.0, 9.0, 9.0) == pytest.approx(3.0)
        world.come(1)
        world.look(1.0, 0, 0)
        assert world.look(0, 0, 0) == pytest.approx(2.0)

    def test_a_change_that_is_overtaken_by_the_next_counts_as_far_as_it_was_seen(self) -> None:
        world = World(1)
        world.come(1)
        world.look(1.0)
        world.come(1)  # too little was seen of the first one
        world.look(2.0, 0, 0)
        world.come(1)
        assert world.look(0, 0, 0) == pytest.approx(2.0)

    def test_a_look_without_a_batch_does_not_hide_a_change(self) -> None:
        world = World(1)
        world.come(1)
        world.look()
        world.look(1.5, 0, 0)
        assert world.look(0, 0, 0) == pytest.approx(1.5)

    def test_an_executor_that_comes_between_two_batches_counts_for_those_after_it(self) -> None:
        """Otherwise the slow batches before it would look like a reload: the guilty specimen is one that counts them all."""
        world = World(1)
        world.look(0, 0, 0)
        slow_s, fast_s = took_s(1), took_s(2)
        began_s = TRIGGER_S * 3
        batches = [Batch("a", 3 + n, began_s + TRIGGER_S * n, s, s, ROWS, 0.0) for n, s in enumerate([slow_s] * 3 + [fast_s] * 6)]
        world.cluster.give(1, added_s=began_s + 3 * TRIGGER_S - 1)
        world.reloading.see(batches, world.usual, world.before, world.listed(), began_s)
        assert world.reloading.reload_s == pytest.approx(0.0)
        assert sum(slow_s - fast_s for _ in range(3)) > 1


class TestControl:
    def chosen(self, reload_s: float, rate_hz: float, workers: int) -> int:
        batch = MicroBatch(rate_hz * TRIGGER_S, 0.1, 0.0014 * rate_hz * TRIGGER_S, TRIGGER_S)
        seen = Observation(
            60, 10, Allocation(workers), rate_hz, rate_hz, 0.0014 * rate_hz / workers / 0.95, service_s=0.0014 / 0.95, batch=batch,
            reload_s=reload_s,
        )  # fmt: skip
        logic = Mpc.throughput().build()
        for at_s in range(0, 100, 10):
            decision = logic.decide(evaluate([seen], lead_s=6), now_s=at_s)
        return decision.allocation.workers

    def test_state_that_is_expensive_to_move_is_moved_for_more_only(self) -> None:
        """With 8 workers where 7 are enough: a change that takes much of the planned time is not worth it, a free one is."""
        assert (self.chosen(0.0, 4_000, 8), self.chosen(20.0, 4_000, 8)) == (7, 8)

    def test_but_never_keeps_what_is_far_too_much_nor_refuses_what_is_needed(self) -> None:
        for reload_s in (0.0, 5.0, 1e6):
            assert self.chosen(reload_s, 100, 4) < 4
            assert self.chosen(reload_s, 100, 2) == 1
            assert self.chosen(reload_s, 3_000, 2) > 3


class TestLocality:
    def test_tasks_with_state_spread_as_long_as_a_query_that_has_some_is_scaled(self) -> None:
        cluster, told = FakeCluster(1), list[str]()
        live, other = FakeLive(), FakeLive()
        plant = executors(cluster, told, live)
        pool = plant._pool
        beside = ExecutorPlant(other, pool, told.append)  # type: ignore[arg-type]
        wanted = list[bool]()
        pool.spread = lambda needed: wanted.append(needed) or ("shorter" if needed else "")
        plant.track(1.0)
        live.has_state = True
        plant.track(2.0)
        assert wanted[-1] and "shorter" in told
        beside.track(3.0)
        beside.close()
        assert wanted[-1]
        plant.close()
        assert not wanted[-1]

    def test_the_setting_is_that_of_the_scheduler_and_is_restored(self, spark: SparkSession) -> None:
        locality = Locality(spark)
        assert scheduler_setting(spark, KEY) is None and locality.hold(False) == ""
        assert SHORT in locality.hold(True)
        assert scheduler_setting(spark, KEY) == SHORT
        assert spark.sparkContext._jsc.sc().conf().getTimeAsMs(KEY, "3s") == 100
        assert locality.hold(True) == "" == locality.hold(False)
        assert scheduler_setting(spark, KEY) is None

    def test_what_somebody_has_set_stays_and_is_advised_against_once(self, spark: SparkSession) -> None:
        locality = Locality(spark)
        set_scheduler_setting(spark, f"{KEY}.process", "10s")
        try:
            assert "spark.locality.wait.process=10s" in locality.hold(True)
            assert locality.hold(True) == "" == locality.hold(False)
            assert scheduler_setting(spark, KEY) is None
            assert scheduler_setting(spark, f"{KEY}.process") == "10s"
        finally:
            set_scheduler_setting(spark, f"{KEY}.process", None)
