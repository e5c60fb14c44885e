"""Executors of a cluster, shared by queries: with executors that are made up."""

import contextlib
import threading
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_cluster import FakeCluster, FakeLive, executors

from skytide.control import Guard, UtilisationThresholds
from skytide.loop.cycle import Loop
from skytide.loop.lead_time import patience_s
from skytide.records import Allocation, Outcome
from skytide.spark.scaling.executors import ExecutorPlant
from skytide.spark.scaling.pool import DRAIN_S, FIRST_LEAD_S, Pool


class OwnSlots:
    """The slots of a query: those of the pane level that were asked for, and the present ones of the window level."""

    of_keys = False

    def __init__(self, windows: int) -> None:
        self.sizes: tuple[int, ...] = ()
        self.windows = windows

    def window_slots(self) -> int:
        return self.windows

    def resize(self, pane_slots: int | None, window_slots: int | None) -> None:
        self.sizes += () if pane_slots is None else (pane_slots,)
        self.windows = window_slots or self.windows


class TestExecutors:
    def test_more_are_asked_for_and_warmed_and_the_lead_is_measured(self) -> None:
        cluster, warmed = FakeCluster(1), []
        plant = executors(cluster, warm=lambda each: warmed.append(each.id))
        assert plant.request(Allocation(3), now_s=100) == Outcome("asked", "requesting 2 more executors (3 in total)")
        assert (plant.size(), plant.lead_s, cluster.requested) == (Allocation(1), FIRST_LEAD_S, [3])
        cluster.settle()
        plant.track(105)
        assert (plant.size(), plant.lead_s, warmed) == (Allocation(3), FIRST_LEAD_S, ["1", "2"])
        assert plant.is_changing
        cluster.change("1", finished_tasks=1), cluster.change("2", finished_tasks=1)
        plant.track(116)
        assert plant.lead_s + 3 > 11 and FIRST_LEAD_S < plant.lead_s < 16
        assert not plant.is_changing

    @given(st.lists(st.tuples(st.integers(0, 2), st.floats(0, 9)), min_size=1, max_size=8), st.integers(1, 8))
    def test_no_busy_one_goes_while_an_idle_one_stays(self, states: list[tuple[int, float]], wanted: int) -> None:
        cluster = FakeCluster(0)
        for tasks, busy_s in states:
            cluster.give(1, active_tasks=tasks, busy_s=busy_s)
        plant = executors(cluster)
        plant.request(Allocation(wanted), now_s=0)
        assert spares_the_busy(cluster)
        assert len(cluster.told_to_go) == max(0, len(states) - wanted)
        assert cluster.requested[-1] == wanted

    def test_a_plant_that_lets_the_first_ones_go_is_caught(self) -> None:
        cluster = FakeCluster(0)
        cluster.give(1, active_tasks=1), cluster.give(1)
        cluster.decommission(cluster.active()[0])
        assert not spares_the_busy(cluster)

    def test_of_idle_ones_those_go_that_did_least_and_the_youngest_last(self) -> None:
        cluster = FakeCluster(4)
        plant = executors(cluster)
        cluster.change("0", busy_s=5.0)
        plant.request(Allocation(2), now_s=0)
        assert cluster.told_to_go == ["1", "2"]

    def test_one_that_does_not_go_is_killed_at_last(self) -> None:
        reported: list[str] = []
        cluster = FakeCluster(2)
        plant = executors(cluster, reported)
        plant.request(Allocation(1), now_s=0)
        plant.track(DRAIN_S)
        assert (cluster.killed, plant.size()) == ([], Allocation(1))
        plant.track(DRAIN_S + 1)
        assert cluster.killed == ["0"] and "killing executor 0" in reported[0]
        plant.track(DRAIN_S + 2)
        assert (len(reported), plant.is_changing) == (1, False)

    @pytest.mark.parametrize("deaf", ["it says so", "it fails"])
    def test_one_that_was_never_told_to_go_is_never_killed(self, deaf: str) -> None:
        cluster = FakeCluster(3)
        plant = executors(cluster)
        right = cluster.decommission

        def decommission(executor: str) -> bool:
            if executor == "0" and deaf == "it fails":
                raise OSError("told to fail")
            return executor != "0" and right(executor)

        cluster.decommission = decommission  # type: ignore[method-assign]
        with contextlib.suppress(OSError):
            plant.request(Allocation(1), now_s=0)
        for now_s in (1, DRAIN_S + 1, 3 * DRAIN_S):
            plant.track(now_s)
        assert set(cluster.killed) <= set(cluster.told_to_go)
        assert "0" in cluster.active() and plant.size().workers >= 1
        cluster.decommission = right  # type: ignore[method-assign]
        plant.request(Allocation(1), now_s=4 * DRAIN_S)
        assert len(cluster.active()) - len(set(cluster.told_to_go) - set(cluster.killed)) == 1

    @given(st.lists(st.tuples(st.integers(1, 5), st.floats(0, 2 * DRAIN_S), st.integers(0, 3)), max_size=30))
    def test_whatever_happens_only_those_told_to_go_are_killed(self, steps: list[tuple[int, float, int]]) -> None:
        cluster, now_s = FakeCluster(3), 0.0
        plant, right = executors(cluster), cluster.decommission
        for wanted, later_s, mood in steps:
            now_s += later_s
            if mood == 0:
                cluster.decommission = _fails  # type: ignore[method-assign,assignment]
            elif mood == 1:
                cluster.decommission = lambda executor: False  # type: ignore[method-assign]
            else:
                cluster.decommission = right  # type: ignore[method-assign]
            with contextlib.suppress(OSError):
                plant.request(Allocation(wanted), now_s)
            plant.track(now_s)
            if mood == 3:
                cluster.settle()
            assert set(cluster.killed) <= set(cluster.told_to_go)

    def test_where_spark_does_not_drain_it_is_told_again_when_idle(self) -> None:
        cluster = FakeCluster(2)
        cluster.drains = False
        cluster.change("0", active_tasks=1), cluster.change("1", active_tasks=1)
        plant = executors(cluster)
        plant.request(Allocation(1), now_s=0)
        plant.track(1)
        assert cluster.told_to_go == ["0"]
        cluster.change("0", active_tasks=0)
        plant.track(2)
        assert cluster.told_to_go == ["0", "0"]

    def test_a_cluster_that_gives_too_few_is_noticed_and_asked_for_no_more(self) -> None:
        reported: list[str] = []
        cluster = FakeCluster(1, room=3)
        plant = executors(cluster, reported)
        plant.request(Allocation(4), now_s=0)
        cluster.settle()
        plant.track(patience_s(FIRST_LEAD_S))
        assert reported == []
        plant.track(patience_s(FIRST_LEAD_S) + 1)
        assert reported == ["the cluster has granted 3 of 4 requested executors; the request stays open"]
        limited = plant.request(Allocation(8), now_s=30)
        assert limited.kind == "limited" and "instead of 8" in limited.text
        assert (cluster.requested[-1], len(reported)) == (4, 1)
        cluster.room = 100
        cluster.settle()
        plant.track(40)
        assert reported[1:] == ["the cluster has now granted all 4 requested executors"]
        plant.request(Allocation(8), now_s=41)
        assert cluster.requested[-1] == 8

    def test_one_that_dies_while_another_is_let_go_is_noticed_and_replaced(self) -> None:
        reported: list[str] = []
        cluster = FakeCluster(3)
        plant = executors(cluster, reported)
        plant.request(Allocation(2), now_s=0)
        cluster.change("2", active=False, why_gone="killed by somebody")
        plant.track(1)
        assert reported == ["lost executor 2: killed by somebody"]
        assert (cluster.requested[-1], plant.size()) == (2, Allocation(1))
        cluster.settle()
        plant.track(2)
        assert (len(reported), plant.size()) == (1, Allocation(2))

    def test_a_cluster_that_fails_once_leaves_nothing_wrong(self) -> None:
        cluster = FakeCluster(2)
        plant = executors(cluster, reported := [])
        plant.request(Allocation(2), now_s=0)
        cluster.change("1", active=False)
        right, cluster.request = cluster.request, _fails  # type: ignore[method-assign]
        with pytest.raises(OSError):
            plant.track(1)
        cluster.request = right  # type: ignore[method-assign]
        plant.track(2)
        assert len(reported) == 1

    def test_of_several_queries_the_one_that_needs_most_decides(self) -> None:
        cluster = FakeCluster(1)
        pool, heard = Pool(cluster), (list[str](), list[str]())
        one, two = (ExecutorPlant(FakeLive(), pool, each.append) for each in heard)  # type: ignore[arg-type]
        one.request(Allocation(4), 0)
        cluster.settle()
        assert two.request(Allocation(2), 1) == Outcome("kept", "another query needs 4: keeping 4 executors")
        assert cluster.requested[-1] == 4
        one.close()
        two.request(Allocation(2), 2)
        assert (cluster.requested[-1], len(cluster.told_to_go)) == (2, 2)
        cluster.change("3", active=False)
        two.track(3)
        assert (len(heard[0]), len(heard[1])) == (0, 1)

    def test_a_query_that_is_content_keeps_what_it_has(self) -> None:
        cluster = FakeCluster(4)
        pool = Pool(cluster)
        content, idle = (ExecutorPlant(FakeLive(), pool, [].append) for _ in range(2))  # type: ignore[arg-type]
        assert idle.request(Allocation(1), 0) == Outcome("kept", "another query needs 4: keeping 4 executors")
        content.keep(Allocation(3))
        assert idle.request(Allocation(1), 1) == Outcome("done", "another query needs 3: decommissioning executor 0 (of 4)")
        assert len(cluster.told_to_go) == 1

    def test_what_became_of_a_request_is_known_by_its_kind(self) -> None:
        cluster = FakeCluster(2, room=3)
        plant = executors(cluster)

        def kind(workers: int, now_s: float) -> str:
            return plant.request(Allocation(workers), now_s).kind

        assert kind(2, 0) == "kept"
        assert (kind(5, 1), kind(5, 2), kind(4, 3)) == ("asked", "kept", "asked")
        cluster.settle()
        cluster.change("2", finished_tasks=1)
        plant.track(4)
        late_s = 4 + patience_s(FIRST_LEAD_S)
        assert (kind(4, late_s), kind(9, late_s)) == ("limited", "limited")
        assert (kind(3, late_s), kind(3, late_s)) == ("done", "kept")  # what never came is no longer asked for
        cluster.accepts = False
        assert (kind(7, late_s), kind(1, late_s)) == ("refused", "refused")
        assert (plant.size(), cluster.told_to_go, plant.is_changing) == (Allocation(3), [], False)
        cluster.accepts = True
        assert (kind(7, late_s), kind(3, late_s), kind(1, late_s)) == ("asked", "done", "done")
        cluster.decommission = lambda executor: False  # type: ignore[method-assign]
        cluster.give(2)
        assert kind(1, late_s) == "refused"

    def test_what_never_came_and_nobody_wants_is_called_off(self) -> None:
        cluster = FakeCluster(1, room=3)
        pool = Pool(cluster)
        one, two = (ExecutorPlant(FakeLive(), pool, [].append) for _ in range(2))  # type: ignore[arg-type]
        one.request(Allocation(6), 0)
        cluster.settle()
        one.track(1)
        two.keep(Allocation(1))
        assert cluster.requested == [6], "another query still wants them"
        one.keep(Allocation(3))
        assert cluster.requested == [6, 3] and cluster.told_to_go == []
        for name in ("1", "2"):
            cluster.change(name, finished_tasks=1)
        one.track(2)
        assert (one.size(), one.is_changing) == (Allocation(3), False)
        one.keep(Allocation(2))
        assert cluster.requested == [6, 3], "what is there stays until less of it is requested"

    def test_each_executor_has_a_lead_time_of_its_own(self) -> None:
        cluster = FakeCluster(1)
        plant = executors(cluster)
        for now_s, workers in ((0, 2), (10, 3), (20, 4)):
            plant.request(Allocation(workers), now_s)
        cluster.give(1, finished_tasks=1)
        plant.track(15)  # the one that was asked for at 0
        assert plant.lead_s == pytest.approx(0.7 * FIRST_LEAD_S + 0.3 * 15)
        before_s = plant.lead_s
        cluster.give(1, finished_tasks=1)
        plant.track(16)  # the one that was asked for at 10
        assert plant.lead_s == pytest.approx(0.7 * before_s + 0.3 * 6)

    def test_whoever_is_told_may_stop_another_query(self) -> None:
        cluster, free = FakeCluster(2), list[bool]()
        pool = Pool(cluster)

        def look() -> None:
            free.append(pool.lock.acquire(timeout=1))
            if free[-1]:
                pool.lock.release()

        def report(text: str) -> None:
            other = threading.Thread(target=look)
            other.start()
            other.join()

        plant = ExecutorPlant(FakeLive(), pool, report)  # type: ignore[arg-type]
        cluster.change("1", active=False)
        plant.track(1)
        assert free == [True], "the executors were locked meanwhile"

    def test_pane_slots_follow_the_executors_that_are_there(self) -> None:
        cluster, slots = FakeCluster(0, room=3), OwnSlots(windows=4)
        cluster.give(2, cores=2)
        plant = ExecutorPlant(FakeLive(), Pool(cluster), [].append, slots)  # type: ignore[arg-type]
        plant.request(Allocation(5), 0)
        plant.track(1)
        assert slots.sizes == (), "nothing has come yet"
        cluster.settle()
        plant.track(2)
        assert slots.sizes == (6,)
        cluster.accepts = False
        plant.request(Allocation(1), 3)
        assert slots.sizes == (6,), "nothing has changed"
        cluster.accepts = True
        plant.request(Allocation(1), 4)
        assert slots.sizes == (6, 2)

    def test_window_slots_are_a_second_output_and_executors_may_stay_as_they_are(self) -> None:
        cluster, slots = FakeCluster(0, room=3), OwnSlots(windows=4)
        cluster.give(2, cores=2)
        plant = ExecutorPlant(FakeLive(), Pool(cluster), [].append, slots)  # type: ignore[arg-type]
        present = plant.size()
        assert present == Allocation(2, 4, 4, shares_workers=True)
        outcome = plant.request(replace(present, window_slots=3), 0)
        assert (outcome.kind, plant.size(), slots.sizes) == ("done", replace(present, window_slots=3), ())
        assert "window slots from 4 to 3" in outcome.text
        plant.request(plant.size().with_workers(1), 1)
        assert plant.size() == Allocation(1, 2, 2, shares_workers=True) and slots.sizes == (2,)

    def test_who_comes_after_a_while_without_queries_looks_anew(self) -> None:
        cluster = FakeCluster(3)
        pool, reported = Pool(cluster), list[str]()
        first = ExecutorPlant(FakeLive(), pool, [].append)  # type: ignore[arg-type]
        first.request(Allocation(4), 0)
        first.close()
        cluster.change("0", active=False), cluster.change("1", active=False)
        later = ExecutorPlant(FakeLive(), pool, reported.append)  # type: ignore[arg-type]
        later.track(10_000)
        assert (later.size(), reported, cluster.requested, later.is_changing) == (Allocation(1), [], [4], False)

    def test_an_executor_that_was_refused_for_hours_says_nothing_of_the_lead_time(self) -> None:
        cluster = FakeCluster(1, room=1)
        plant = executors(cluster)
        plant.request(Allocation(2), 0)
        cluster.room = 2
        cluster.settle()
        plant.track(7_200)
        cluster.change("1", finished_tasks=1)
        plant.track(7_201)
        assert plant.lead_s < 20


def spares_the_busy(cluster: FakeCluster) -> bool:
    going, staying = (
        [each.active_tasks for each in cluster.all.values() if (each.id in cluster.told_to_go) == gone] for gone in (True, False)
    )
    return not (any(going) and 0 in staying)


def _fails(_: object) -> bool:
    raise OSError("told to fail")


class TestBadDays:
    """The loop on a cluster that is made up."""

    def loop(self, room: int = 100) -> tuple[Loop, FakeLive, FakeCluster, ExecutorPlant]:
        cluster, live = FakeCluster(2, room), FakeLive()
        plant = executors(cluster, live=live)
        guard = Guard(1, 4, scale_down_after="20 s", stale_after="60 s", notice_no_help=False)
        return Loop(plant, UtilisationThresholds(0.9, 0.5), guard), live, cluster, plant

    def test_without_metrics_all_stays_and_goes_on_when_they_are_back(self) -> None:
        loop, seen, cluster, plant = self.loop()
        seen.utilisation = None
        for now_s in range(0, 600, 10):
            plant.track(now_s)
            loop.cycle(now_s)
        assert cluster.requested == []
        seen.utilisation = 1.2
        loop.cycle(600)
        assert cluster.requested == [3]

    @given(st.lists(st.tuples(st.floats(-4e3, 4e3), st.floats(0, 3) | st.none(), st.booleans()), max_size=40))
    def test_whatever_the_clock_and_the_metrics_do_the_limits_hold(self, steps: list[tuple[float, float | None, bool]]) -> None:
        loop, seen, cluster, plant = self.loop(room=3)
        now_s = 1e6
        for jump_s, utilisation, gives in steps:
            now_s += 10 + jump_s
            seen.utilisation = utilisation
            plant.track(now_s)
            loop.cycle(now_s)
            if gives:
                cluster.settle()
            assert len(cluster.active()) >= 1
        assert all(1 <= total <= 4 for total in cluster.requested)

    def test_after_a_jump_of_the_clock_it_goes_on(self) -> None:
        loop, seen, cluster, plant = self.loop()
        seen.utilisation = 0.7
        for now_s in (1e6, 1e6 + 10, 1e6 - 3600, 1e6 + 7200, 1e6 + 7210):
            plant.track(now_s)
            loop.cycle(now_s)
        assert cluster.requested == []
        seen.utilisation = 1.2
        loop.cycle(1e6 + 7220)
        assert cluster.requested == [3]
