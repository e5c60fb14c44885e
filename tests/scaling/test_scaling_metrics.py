"""From progress, as Spark tells it, to what a controller sees."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_cluster import FakeCluster

from skytide.records import Allocation, Observation, Status
from skytide.spark.scaling.metrics import QueryMetrics
from skytide.spark.scaling.progress import Batch, Means, advance, measure

RECORDED = {
    "id": "11cc4a99-0aaa-48f0-bbd3-c2f6941421b0",
    "runId": "5cbf5490-e680-48a1-8fa5-e4131ebc77bd",
    "name": None,
    "timestamp": "2026-11-16T03:58:59.004Z",
    "batchId": 23,
    "batchDuration": 484,
    "durationMs": {
        "addBatch": 251, "commitOffsets": 94, "getBatch": 1, "latestOffset": 0,
        "queryPlanning": 24, "triggerExecution": 484, "walCommit": 112,
    },
    "stateOperators": [],
    "sources": [
        {
            "description": "RateStreamV2[rowsPerSecond=100, rampUpTimeSeconds=0, numPartitions=default", "startOffset": "25",
            "endOffset": "26", "latestOffset": "26", "numInputRows": 100, "inputRowsPerSecond": 99.6, "metrics": {},
        }
    ],
    "sink": {"description": "NoopTable", "numOutputRows": 100, "metrics": {}},
    "numInputRows": 100,
}  # fmt: skip
"""What Spark told of a batch of a real query."""


def batch(number: int, start_s: float, took_s: float, rows: float, work_s: float | None = None, **other: Any) -> Batch:
    return Batch(other.get("run", "a"), number, start_s, took_s, took_s if work_s is None else work_s, rows, other.get("behind"))


def means(workers: int = 1, busy_share: float = 1.0) -> Means:
    return Means(Allocation(workers), workers, busy_share)


def query_with(fixed_s: float, tuple_s: float, trigger_s: float, rate_hz: float, workers: int, count: int = 40) -> list[Batch]:
    """A query that takes in what came since its last batch, and works on it for a time that shrinks with its workers."""
    batches, start_s, since_s = [], 100.0, 100.0 - trigger_s
    for number in range(count):
        rows = rate_hz * (start_s - since_s)
        work_s = rows * tuple_s / workers
        batches.append(batch(number, start_s, fixed_s + work_s, rows, work_s))
        since_s, start_s = start_s, max(start_s + trigger_s, start_s + fixed_s + work_s)
    return batches


class TestProgress:
    def test_recorded_progress_is_read(self) -> None:
        read = Batch.read(RECORDED)
        assert read is not None
        assert (read.number, read.rows, read.duration_s, read.work_s, read.backlog) == (23, 100, 0.484, 0.251, 0)
        assert read.start_s == 1794801539.004

    @pytest.mark.parametrize("lacks", ["runId", "batchId", "timestamp", "durationMs", "numInputRows"])
    def test_what_is_no_progress_is_none(self, lacks: str) -> None:
        assert Batch.read({name: value for name, value in RECORDED.items() if name != lacks}) is None
        assert Batch.read({**RECORDED, lacks: "?"}) is None or lacks == "runId"

    @given(
        fixed_s=st.floats(0, 0.5), rate_hz=st.floats(1, 1e5), used=st.floats(0.01, 0.99), workers=st.integers(1, 16), others=st.integers(1, 16)
    )  # fmt: skip
    def test_the_time_for_a_tuple_predicts_the_utilisation_of_any_size(
        self, fixed_s: float, rate_hz: float, used: float, workers: int, others: int
    ) -> None:
        trigger_s = 1.0
        tuple_s = used * (trigger_s - fixed_s) * workers / rate_hz
        seen = observed(query_with(fixed_s, tuple_s, trigger_s, rate_hz, workers), workers, trigger_s)
        assert seen.utilisation == pytest.approx(used, rel=1e-6)
        assert seen.service_s is not None
        if (predicted := rate_hz * seen.service_s / others) < 0.99:
            resized = observed(query_with(fixed_s, tuple_s, trigger_s, rate_hz, others), others, trigger_s)
            assert resized.utilisation == pytest.approx(predicted, rel=1e-6)

    def test_a_model_that_counts_all_of_a_batch_as_work_is_caught(self) -> None:
        """The guilty specimen: batch time over trigger interval says that half the workers would be too few."""
        small = query_with(0.4, 0.001, 1.0, 100, workers=4)
        naive = small[-1].duration_s / 1.0
        assert naive * 4 / 1 > 1.6
        assert observed(small, 4, 1.0).utilisation * 4 / 1 == pytest.approx(0.1 / 0.6)
        assert query_with(0.4, 0.001, 1.0, 100, workers=1)[-1].duration_s < 1

    def test_a_query_that_falls_behind_has_a_utilisation_above_1(self) -> None:
        batches = query_with(0.1, 0.002, 1.0, 1_000, workers=1, count=6)
        assert [b.duration_s for b in batches] == sorted(b.duration_s for b in batches)
        seen = observed(batches, 1, 1.0)
        assert seen.utilisation == pytest.approx(2.0 / 0.9, rel=0.01)
        assert seen.arrival_rate_hz == pytest.approx(1_000)

    def test_batches_longer_than_their_interval_that_stay_so_are_too_much_for_the_interval(self) -> None:
        """0.8 s of work a second, where 0.5 s are left: 2.5 s a batch, which by itself looks just full."""
        batches = query_with(0.5, 0.0008, 1.0, 1_000, workers=1, count=100)[-10:]
        assert batches[-1].duration_s == pytest.approx(2.5, rel=0.01)
        assert observed(batches, 1, 1.0).utilisation == pytest.approx(1.6, rel=0.01)

    def test_what_does_not_shrink_is_no_reason_to_grow(self) -> None:
        seen = observed([batch(n, n * 0.5, 0.5, 10, work_s=0.01) for n in range(5)], 1, trigger_s=0.1)
        assert seen.utilisation < 0.2

    def test_without_a_trigger_half_of_a_batch_may_be_work(self) -> None:
        lazy = observed([batch(n, n * 0.4, 0.4, 10, work_s=0.1) for n in range(5)], 1, trigger_s=None)
        at_it = observed([batch(n, n * 0.4, 0.4, 10, work_s=0.2) for n in range(5)], 1, trigger_s=None)
        assert (round(lazy.utilisation, 6), round(at_it.utilisation, 6)) == (0.5, 1.0)

    def test_latency_is_waiting_for_the_trigger_and_the_batch(self) -> None:
        seen = observed([batch(n, n * 2.0, 0.5, 100) for n in range(5)], 1, trigger_s=2.0)
        assert seen.latency_s == 1.0 + 0.5

    def test_a_backlog_counts_as_arrived_and_as_waiting(self) -> None:
        seen = observed([batch(n, n * 1.0, 1.0, 100, behind=n / 2) for n in range(5)], 1, trigger_s=1.0)
        assert (seen.backlog, seen.arrival_rate_hz, seen.processed_rate_hz) == (200, 150, 100)
        assert seen.latency_s == 2.0 + 1.0
        assert seen.utilisation == pytest.approx(1.5)

    def test_a_new_run_starts_anew(self) -> None:
        before = batch(70, 1_000.0, 0.5, 1e6)
        first = [batch(0, 1_100.0, 5.0, 1e6, run="b")]
        assert measure(first, before, means(), trigger_s=1.0, now_s=0) is None
        seen = measure([*first, batch(1, 1_105.0, 0.5, 500, run="b")], before, means(), trigger_s=1.0, now_s=0)
        assert seen is not None and seen.arrival_rate_hz == 100

    def test_numbers_or_clocks_that_go_back_say_nothing(self) -> None:
        later, sooner = batch(5, 1_000.0, 0.5, 10), batch(6, 10.0, 0.5, 10)
        assert measure([sooner], later, means(), trigger_s=1.0, now_s=0) is None
        assert measure([batch(4, 1_001.0, 0.5, 10)], later, means(), trigger_s=1.0, now_s=0) is None
        after = measure([batch(7, 11.0, 0.5, 10)], sooner, means(), trigger_s=1.0, now_s=0)
        assert after is not None and after.arrival_rate_hz == 10

    def test_no_batches_say_nothing_and_empty_ones_that_nothing_came(self) -> None:
        assert measure([], None, means(), trigger_s=1.0, now_s=0) is None
        seen = observed([batch(n, n * 1.0, 0.1, 0) for n in range(3)], 1, trigger_s=1.0)
        assert (seen.utilisation, seen.service_s, seen.latency_s) == (0.0, None, None)

    @pytest.mark.parametrize(
        ("start", "end", "moved"),
        [
            (5, 9, 4.0),
            ('{"t":{"0":5,"1":7}}', '{"t":{"0":9,"1":8}}', 5.0),
            ({"tick": 4, "tick_us": 10_000}, {"tick": 7, "tick_us": 10_000}, 3.0),
            ('{"t":{"0":5}}', '{"t":{"0":9,"1":8}}', None),  # a new partition may hold anything
            ('{"offset":1,"timestamp":5}', '{"offset":2,"timestamp":6}', None),
            (None, "5", None),
            ("abc", "abd", None),
            ('{"file":"a"}', '{"file":"b"}', None),
        ],
    )
    def test_offsets_are_compared_only_where_that_is_sound(self, start: Any, end: Any, moved: float | None) -> None:
        assert advance(start, end) == moved

    def test_the_backlog_is_what_the_sources_tell(self) -> None:
        kafka = {
            "startOffset": {"t": {"0": 0}},
            "endOffset": {"t": {"0": 100}},
            "latestOffset": {"t": {"0": 350}},
            "numInputRows": 100,
        }
        slots = {"startOffset": {"tick": 0}, "endOffset": {"tick": 10}, "latestOffset": {"tick": 15}, "numInputRows": 300}
        silent = {"startOffset": "f", "endOffset": "g", "latestOffset": None, "numInputRows": 50}
        progress = [
            Batch.read({**RECORDED, "sources": sources, "numInputRows": 400}) for sources in ([kafka, slots], [kafka, silent], [])
        ]
        assert [read and read.backlog for read in progress] == [400, None, None]


def observed(batches: list[Batch], workers: int, trigger_s: float | None) -> Observation:
    seen = measure(batches[1:], batches[0], means(workers), trigger_s=trigger_s, now_s=0)
    assert seen is not None
    return seen


class FakeQuery:
    """A query that says what it is told to say."""

    def __init__(self) -> None:
        self.runId, self.id, self.name = "a", "q", None
        self.progress: list[dict[str, Any]] = []
        self.status = {"isTriggerActive": False, "isDataAvailable": False}

    @property
    def recentProgress(self) -> list[Any]:
        return [type("Progress", (), {"json": json.dumps(progress)}) for progress in self.progress]

    def runs(self, number: int, at_s: float, rows: int = 100) -> dict[str, Any]:
        """Run a batch, half of whose second are jobs."""
        stamp = f"2026-01-01T00:{int(at_s) // 60:02}:{at_s % 60:06.3f}Z"
        took = {"triggerExecution": 1_000, "addBatch": 500}
        progress = {
            **RECORDED,
            "runId": self.runId,
            "batchId": number,
            "timestamp": stamp,
            "durationMs": took,
            "numInputRows": rows,
            "sources": [],
        }
        self.progress.append(progress)
        return progress


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


TWO = Allocation(2)


class TestQueryMetrics:
    def metrics(self, query: FakeQuery, cluster: FakeCluster, clock: Clock) -> QueryMetrics:
        made = QueryMetrics(query, cluster.executors, clock=clock)  # type: ignore[arg-type]
        made.trigger_s = 2.0
        return made

    def test_progress_that_came_twice_counts_once(self) -> None:
        query, clock = FakeQuery(), Clock()
        metrics = self.metrics(query, FakeCluster(2), clock)
        clock.now_s = 8
        for number in range(4):
            metrics.feed(query.runs(number, 2.0 * number))  # and observe asks for it again
        seen = metrics.observe(8, TWO)
        assert seen is not None and (seen.arrival_rate_hz, seen.interval_s) == (50, 8)
        assert metrics.observe(9, TWO) is None

    def test_busy_seconds_are_those_since_the_last_look_and_counters_may_go_back(self) -> None:
        query, clock, cluster = FakeQuery(), Clock(), FakeCluster(2)
        metrics = self.metrics(query, cluster, clock)
        for number in range(6):
            query.runs(number, 2.0 * number)
        clock.now_s = 10
        cluster.change("0", busy_s=2.0), cluster.change("1", busy_s=1.0)
        seen = metrics.observe(10, TWO)
        assert seen is not None and seen.loads == (("0", 0.2), ("1", 0.1))
        assert seen.utilisation == pytest.approx(50 * (3.0 / 2 / 6) / 100 / (1 - (6 - 1.5) / 6 / 2))
        query.runs(6, 12.0)
        clock.now_s = 12
        cluster.change("0", busy_s=0.5)
        again = metrics.observe(12, TWO)
        assert again is not None and dict(again.loads)["0"] == 0.0

    def test_a_look_that_fails_loses_nothing(self) -> None:
        query, clock, cluster = FakeQuery(), Clock(), FakeCluster(2)
        metrics = self.metrics(query, cluster, clock)
        clock.now_s = 8
        for number in range(4):
            query.runs(number, 2.0 * number)
        metrics._executors = lambda: 1 / 0  # type: ignore[assignment,return-value]
        with pytest.raises(ZeroDivisionError):
            metrics.observe(8, TWO)
        metrics._executors = cluster.executors
        seen = metrics.observe(8, TWO)
        assert seen is not None and (seen.arrival_rate_hz, seen.interval_s) == (50, 8)

    def test_in_one_process_tasks_tell_how_long_they_worked_and_spark_does_not(self) -> None:
        query, clock, cluster = FakeQuery(), Clock(), FakeCluster(1)
        cluster.change("0", cores=2)
        run = SimpleNamespace(seconds=lambda: dict(worked), status=lambda: Status(slots=2), expected_hz=lambda: None)
        worked = {"pane tasks": 100.0, "key tasks": 100.0, "key level": 500.0}  # before somebody looked
        metrics = QueryMetrics(
            query,
            cluster.executors,
            run=run,
            local=True,
            clock=clock,  # type: ignore[arg-type]
        )
        metrics.trigger_s = 2.0
        assert metrics._levels is not None
        metrics._levels._tuples = {number: 100 * number for number in range(-1, 6)}
        for number in range(6):
            query.runs(number, 2.0 * number)
        worked |= {"pane tasks": 101.0, "key tasks": 102.0}
        clock.now_s = 10
        cluster.change("0", busy_s=10.0)  # as long as the application has run
        seen = metrics.observe(10, TWO)
        assert seen is not None and seen.loads == ()
        assert seen.utilisation == pytest.approx(50 * (3.0 / 2 / 6) / 100 / (1 - (6 - 1.5) / 6 / 2))

    def test_silence_is_idleness_only_if_the_query_says_so(self) -> None:
        query, clock = FakeQuery(), Clock()
        metrics = self.metrics(query, FakeCluster(1), clock)
        for number in range(3):
            metrics.feed(query.runs(number, 2.0 * number))
        assert metrics.observe(6, TWO) is not None
        clock.now_s = 20
        query.status["isTriggerActive"] = True
        assert metrics.observe(20, TWO) is None
        query.status["isTriggerActive"] = False
        seen = metrics.observe(30, TWO)
        assert seen is not None and (seen.arrival_rate_hz, seen.utilisation) == (0, 0)
        metrics.feed(query.runs(3, 50.0))
        assert metrics.observe(52, TWO) is None  # its rows came since nobody knows when
        metrics.feed(query.runs(4, 52.0))
        seen = metrics.observe(54, TWO)
        assert seen is not None and seen.arrival_rate_hz == 50

    def test_a_batch_that_does_not_end_says_that_more_came_than_could_be_served(self) -> None:
        query, clock = FakeQuery(), Clock()
        metrics = self.metrics(query, FakeCluster(2), clock)
        for number in range(4):
            metrics.feed(query.runs(number, 2.0 * number))
        usual = metrics.observe(8, TWO)
        assert usual is not None and usual.utilisation < 1
        query.status["isTriggerActive"] = True
        clock.now_s = 4
        assert metrics.observe(12, TWO) is None  # it may still be one as before
        clock.now_s = 8
        assert metrics.observe(16, TWO) is None
        clock.now_s = 12
        seen = metrics.observe(20, TWO)
        assert seen is not None and seen.utilisation == 2 and seen.arrival_rate_hz > usual.arrival_rate_hz
        assert seen.arrival_rate_hz == pytest.approx(2 * seen.processed_rate_hz)
        assert seen.service_s == usual.service_s
        metrics.feed(query.runs(4, 20.0))
        again = metrics.observe(24, TWO)
        assert again is not None and again.utilisation < 1

    def test_another_run_counts_from_anywhere(self) -> None:
        query, clock = FakeQuery(), Clock()
        metrics = self.metrics(query, FakeCluster(1), clock)
        for number in range(10, 14):
            metrics.feed(query.runs(number, 2.0 * number))
        metrics.observe(30, TWO)
        again = FakeQuery()
        again.runId = "b"
        metrics.feed(again.runs(0, 40.0))  # not yet known
        metrics.follow(again)  # type: ignore[arg-type]
        for number in range(3):
            metrics.feed(again.runs(number, 40.0 + 2 * number))
        seen = metrics.observe(46, TWO)
        assert seen is not None and seen.arrival_rate_hz == 50
