"""The auto-scaler on queries of one process, its store and its recordings; `test_cluster.py` has it on a cluster."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import skytide
from skytide import InvalidInput
from skytide.control import Controller, ControllerLogic, Guard, Static
from skytide.loop import recording
from skytide.records import Allocation, Decision, Evaluation, Observation
from skytide.records.application import ApplicationObservation
from skytide.spark.scaling import Scaler, ScalingEvent
from skytide.spark.scaling.json_store import JsonStore

DEADLINE_S = 120


class TestStore:
    def test_what_was_saved_is_there_again_and_whole(self, tmp_path: Path) -> None:
        store = JsonStore(tmp_path / "deep" / "state.json")
        assert store.load() == {}
        store.save({"controllers": {"x": {"level": 3.5}}})
        assert JsonStore(tmp_path / "deep" / "state.json").load() == {"controllers": {"x": {"level": 3.5}}}
        assert os.listdir(tmp_path / "deep") == ["state.json"]

    @pytest.mark.parametrize("text", ["half a stor", "[1, 2]"])
    def test_something_else_is_refused(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "state.json").write_text(text)
        with pytest.raises(InvalidInput, match="holds something else"):
            JsonStore(tmp_path / "state.json")

    def test_a_place_that_cannot_be_written_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(InvalidInput, match="cannot be written"):
            JsonStore(tmp_path / "file" / "state.json")


class TestRecording:
    SEEN = Observation(
        60, 10, Allocation(3, 2, 1, 1.8), 900, 800, 1.1, 0.0025, 12.5, 0.7, 2.0, 0.5, (("1", 0.5), ("2", 0.25)), 0.9, 2.0, 0.4, 55.0
    )

    def test_a_recording_is_read_as_it_was_written(self, tmp_path: Path) -> None:
        seen = [self.SEEN, Observation(70, 10, Allocation(1), 0, 0, 0.0)]
        recording.save(seen, tmp_path / "metrics.parquet")
        assert recording.load(tmp_path / "metrics.parquet") == seen
        assert recording.to_table(seen).column_names[:4] == ["at_s", "interval_s", "workers", "pane_slots"]

    def test_columns_that_may_be_unknown_may_be_missing_and_no_others(self) -> None:
        table = recording.to_table([self.SEEN])
        needed = ["at_s", "interval_s", "workers", "arrival_rate_hz", "processed_rate_hz", "utilisation"]
        assert recording.from_table(table.select(needed)) == [Observation(60, 10, Allocation(3), 900, 800, 1.1)]
        for name in needed:
            with pytest.raises(InvalidInput, match=f"column {name}"):
                recording.from_table(table.drop_columns([name]))

    def test_what_is_no_recording_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "x.parquet").write_text("not Parquet")
        for name in ("x.parquet", "nowhere.parquet"):
            with pytest.raises(InvalidInput, match="cannot be read as Parquet"):
                recording.load(tmp_path / name)


class Heard:
    """Hears events, and waits for those to come."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._came = threading.Condition()

    def __call__(self, event: ScalingEvent) -> None:
        with self._came:
            self.texts.append(event.text)
            self._came.notify_all()

    def until(self, part: str, times: int = 1) -> str:
        with self._came:
            found = self._came.wait_for(lambda: [text for text in self.texts if part in text][times - 1 :], DEADLINE_S)
        assert found, f"{part!r} never came: {self.texts}"
        return str(found[0])


class Asked(Controller):
    """Does what it is told."""

    def __init__(self, decide: Callable[[Evaluation], int]) -> None:
        self.asked = decide

    def __repr__(self) -> str:
        return "Asked()"

    def build(self, resume: Any = None) -> ControllerLogic:
        return _Asked(self.asked, **(resume or {}))


class _Asked(ControllerLogic):
    def __init__(self, decide: Callable[[Evaluation], int], cycles: int = 0) -> None:
        self.asked, self.cycles = decide, cycles

    def decide(self, seen: Evaluation, *, now_s: float) -> Decision:
        self.cycles += 1
        return Decision(seen.seen.allocation.with_workers(self.asked(seen)), "told so")

    def snapshot(self) -> dict[str, Any]:
        return {"cycles": self.cycles}


def rates(spark: SparkSession, name: str, checkpoint: Path | None = None, sink: str = "noop") -> Any:
    rows = spark.readStream.format("rate").option("rowsPerSecond", 50).option("numPartitions", 1).load()
    writer = rows.writeStream.format(sink).queryName(name).trigger(processingTime="500 milliseconds")
    return (writer.option("checkpointLocation", str(checkpoint)) if checkpoint else writer).start()


def skyline(tmp_path: Path, name: str) -> Any:
    source = skytide.workload(rate=500, dimensions=2)
    asked = skytide.stream(source).window("1 s").skyline(skytide.low("x0"), skytide.low("x1"))
    return asked.start(
        lambda rows, number: None, checkpoint=str(tmp_path / name), trigger="500 ms", pane_slots=1, window_slots=1, name=name
    )


@pytest.fixture
def heard() -> Iterator[Heard]:
    yield Heard()


FREE = Guard(scale_down_after=0, notice_no_help=False)


def test_a_skytide_query_in_one_process_is_scaled_by_its_slots(spark: SparkSession, tmp_path: Path, heard: Heard) -> None:
    run = skyline(tmp_path, "slots")
    scaler = skytide.autoscale(
        run, Asked(lambda seen: 4), (1, 4), interval="1 s", guard=FREE, store=tmp_path / "s.json", on_event=heard
    )
    try:
        heard.until("with the next batch", times=1)
        assert "1 to 4 slots, now 2" in heard.texts[0]
        assert wait(lambda: run.status().pane_slots + run.status().window_slots == 4, run.query)
        assert wait(lambda: abs(scaler.history()[-1].arrival_rate_hz - 500) < 250, run.query)
        seen = scaler.history()[-1]
        assert (seen.splitting_factor or 0) >= 1 and seen.window_utilisation is not None
        assert scaler.status().running and scaler.status().acts
        scaler.history().save(tmp_path / "m.parquet")
        assert recording.load(tmp_path / "m.parquet")[0].allocation.pane_slots == 1
        scaler.stop()
        assert run.query.isActive and not scaler.status().running
        saved = json.loads((tmp_path / "s.json").read_text())
        again = skytide.autoscale(run, Asked(lambda seen: 4), (1, 4), interval="1 s", store=tmp_path / "s.json")
        assert wait(again.history, run.query)
        again.stop()
        after = json.loads((tmp_path / "s.json").read_text())["controllers"]["Asked()"]["cycles"]
        assert after > saved["controllers"]["Asked()"]["cycles"] >= 1
    finally:
        run.stop()


def test_the_slots_of_an_operator_on_keys_go_up_and_down(spark: SparkSession, tmp_path: Path, heard: Heard) -> None:
    rows = spark.readStream.format("rate").option("rowsPerSecond", 500).load().selectExpr("timestamp", "value % 16 AS key")
    asked = skytide.stream(rows, time="timestamp").keyed("key").count_window(10).aggregate("count(*) AS n")
    run = asked.start("memory", checkpoint=tmp_path / "keys", trigger="500 ms", slots=2)
    wanted = [3]
    scaler = skytide.autoscale(run, Asked(lambda seen: wanted[0]), (1, 4), interval="1 s", guard=FREE, on_event=heard)
    try:
        heard.until("slots from 2 to 3 with the next batch")
        assert wait(lambda: run.routing().count == run.status().slots == 3, run.query)
        wanted[0] = 1
        heard.until("to 1 with the next batch")
        assert wait(lambda: run.routing().count == run.status().slots == 1, run.query)
        assert wait(lambda: scaler.history()[-1].allocation == Allocation(1), run.query)
        assert scaler.history()[-1].loads == () and not scaler.status().failure
    finally:
        run.stop()
    found = run.results()
    for key in range(16):
        starts = found.filter(pa.compute.equal(found["key"], key))["row_start"].to_pylist()
        assert starts == list(range(0, 10 * len(starts), 10))


def test_recommend_says_everything_and_does_nothing(spark: SparkSession, heard: Heard) -> None:
    query = rates(spark, "recommended")
    scaler = skytide.autoscale(query, Static(3), (1, 4), interval="1 s", mode="recommend", guard=FREE, on_event=heard)
    try:
        heard.until("recommendation: 2 workers instead of 1 (not applied)")
        status = scaler.status()
        assert (status.acts, status.workers, status.wanted) == (False, 1, 2)
        assert scaler.history()[-1].arrival_rate_hz == pytest.approx(50, rel=0.5)
    finally:
        query.stop()
    heard.until("terminated: its query has ended")
    assert scaler.await_termination(DEADLINE_S)


def test_a_cycle_that_fails_harms_neither_the_query_nor_the_next_cycle(spark: SparkSession, tmp_path: Path, heard: Heard) -> None:
    fails = [True]

    def decide(seen: Evaluation) -> int:
        if fails[0]:
            raise ZeroDivisionError("told to fail")
        return 3

    run = skyline(tmp_path, "fails")
    scaler = skytide.autoscale(run, Asked(decide), (1, 4), interval="1 s", guard=FREE, on_event=heard)
    try:
        assert heard.until("ZeroDivisionError") == "cycle failed, will be tried again: ZeroDivisionError: told to fail"
        assert run.query.isActive and scaler.status().running
        assert scaler.status().failure == "cycle failed, will be tried again: ZeroDivisionError: told to fail"
        fails[0] = False
        heard.until("with the next batch")
        assert wait(lambda: scaler.status().failure == "", run.query)
        scaler.pause()
        cycles = len(scaler.history())
        assert wait(lambda: len(scaler.history()) > cycles, run.query)
        assert "paused" in scaler.status().reason and scaler.status().paused
        scaler.resume()
        assert not scaler.status().paused
    finally:
        scaler.stop()
        run.stop()


def test_metrics_that_stop_coming_are_told_and_so_are_those_that_are_back(spark: SparkSession, heard: Heard) -> None:
    query = rates(spark, "silent")
    scaler = skytide.autoscale(query, Static(2), (1, 4), interval="1 s", mode="recommend", on_event=heard)
    try:
        assert wait(scaler.history, query)
        metrics = scaler._live.metrics
        right, metrics.observe = metrics.observe, lambda now_s, present: None  # type: ignore[method-assign]
        heard.until("no metrics for")
        metrics.observe = right  # type: ignore[method-assign]
        heard.until("metrics are available again")
    finally:
        query.stop()


def test_a_query_that_is_started_again_is_followed(spark: SparkSession, tmp_path: Path, heard: Heard) -> None:
    query = rates(spark, "again", tmp_path / "check")
    scaler = skytide.autoscale(query, Static(2), (1, 4), interval="2 s", mode="recommend", on_event=heard)
    assert wait(scaler.history, query)
    query.stop()
    again = rates(spark, "again", tmp_path / "check")
    try:
        heard.until("query restarted")
        seen = len(scaler.history())
        assert wait(lambda: len(scaler.history()) > seen + 1, again)
        assert all(0 <= each.arrival_rate_hz < 500 for each in scaler.history())
    finally:
        again.stop()
    assert scaler.await_termination(DEADLINE_S)


def wait(what: Callable[[], Any], query: Any) -> Any:
    """Wait for something while a query runs; give whether it came."""
    for _ in range(20 * DEADLINE_S):
        if what() or query.awaitTermination(0.05):
            break
    return what()


def test_what_cannot_be_scaled_is_refused_with_a_remedy(spark: SparkSession, tmp_path: Path) -> None:
    query = rates(spark, "refused")
    connected = type("StreamingQuery", (), {"__module__": "pyspark.sql.connect.streaming.query"})()
    try:
        for asked, options, reason in [
            (query, {}, "in local mode Spark has no executors"),
            (query, {"mode": "watch"}, "mode='watch': not known"),
            (query, {"controller": "clever"}, "controller 'clever'"),
            (query, {"controller": 3}, "not a controller"),
            (query, {"executors": (0, 4)}, "at least one worker"),
            (query, {"executors": 4}, "not two numbers"),
            (query, {"interval": "often"}, "not a length of time"),
            (connected, {}, "a query of Spark Connect"),
            ("query", {}, "not a streaming query"),
        ]:
            with pytest.raises(InvalidInput, match=reason.replace("(", "\\(")) as refused:
                skytide.autoscale(asked, **options)  # type: ignore[arg-type]
            assert refused.value.remedy
    finally:
        query.stop()
    with pytest.raises(InvalidInput, match="it has ended"):
        skytide.autoscale(query)


def test_a_query_has_one_scaler_at_a_time(spark: SparkSession, tmp_path: Path) -> None:
    run = skyline(tmp_path, "twice")
    try:
        first = skytide.autoscale(run, Static(2), interval="1 s")
        for again, mode in ((run, "act"), (run, "recommend"), (run.query, "recommend")):
            with pytest.raises(InvalidInput, match="query twice: it already has an auto-scaler"):
                skytide.autoscale(again, Static(3), mode=mode)
        first.stop()
        with pytest.raises(InvalidInput, match="cannot be written"):  # one that could not begin leaves nothing behind
            skytide.autoscale(run, Static(3), store="/dev/null/nowhere/state.json")
        second = skytide.autoscale(run, Static(3), interval="1 s")
        assert second.status().running
    finally:
        run.stop()
    assert second.await_termination(DEADLINE_S)


def test_a_query_that_is_started_again_has_its_scaler_still(spark: SparkSession, tmp_path: Path, heard: Heard) -> None:
    query = rates(spark, "follow", tmp_path / "check")
    scaler = skytide.autoscale(query, Static(2), interval="5 s", mode="recommend", on_event=heard)
    query.stop()
    again = rates(spark, "follow", tmp_path / "check")
    try:
        with pytest.raises(InvalidInput, match="it already has an auto-scaler"):
            skytide.autoscale(again, Static(2), mode="recommend")
    finally:
        again.stop()
        scaler.stop()


def test_an_interval_has_room_for_two_triggers(spark: SparkSession) -> None:
    rows = spark.readStream.format("rate").load()
    query = rows.writeStream.format("noop").trigger(processingTime="20 seconds").start()
    try:
        scaler: Scaler = skytide.autoscale(query, mode="recommend")
        assert scaler.interval_s == 40
        scaler.stop()
    finally:
        query.stop()


def test_one_auto_scaler_watches_all_queries_of_an_application(spark: SparkSession, tmp_path: Path, heard: Heard) -> None:
    first = rates(spark, "early")
    scaler = skytide.autoscale(
        spark, Static(3), (1, 4), interval="1 s", mode="recommend", guard=FREE, on_event=heard, store=tmp_path / "s.json"
    )
    run = later = None
    try:
        assert "watching application" in heard.texts[0]
        with pytest.raises(InvalidInput, match="already has an auto-scaler"):
            skytide.autoscale(first, Static(2), mode="recommend")
        later = rates(spark.newSession(), "later")
        run = skyline(tmp_path, "ours")
        needed = {"early", "later", "ours"}
        assert wait(lambda: needed <= {name for name, _ in scaler.lines()}, first), scaler.lines()
        seen = scaler.history()[-1]
        assert isinstance(seen, ApplicationObservation) and seen.queries.keys() == needed
        assert "of 3 needs the most" in scaler.status().reason
        later.stop()
        heard.until("query later has ended: what it needed is free")
        assert wait(lambda: scaler.history()[-1].queries.keys() == {"early", "ours"}, first)  # type: ignore[attr-defined]
        scaler.history().save(tmp_path / "m.parquet")
        assert recording.load(tmp_path / "m.parquet")
    finally:
        for one in (first, later, run):
            if one is not None:
                one.stop()
        scaler.stop()
    assert scaler.events()[-1].text == "auto-scaler stopped"
    saved = json.loads((tmp_path / "s.json").read_text())["controllers"]
    assert needed <= next(iter(saved.values()))["queries"].keys()


def test_options_of_an_application_are_refused_with_a_remedy(spark: SparkSession) -> None:
    query = rates(spark, "one")
    try:
        for asked, options, reason in [
            (query, {"bounds": {"one": "2 s"}}, "for all queries of an application"),
            (query, {"priorities": {"one": 2}}, "for all queries of an application"),
            (spark, {"bounds": {"one": "often"}}, "not a length of time"),
            (spark, {"bounds": 3}, "not a table of names"),
            (spark, {"bounds": {"one": "2 s"}, "controller": "fuzzy"}, "knows no latency bound"),
            (spark, {"priorities": {"one": 0}}, "not a name and a whole number"),
            (spark, {"priorities": {"one": 2}}, "spark.scheduler.mode=FIFO"),
            (spark, {}, "in local mode Spark has no executors"),
            (query, {"drain": "long", "mode": "recommend"}, "not a length of time"),
        ]:
            with pytest.raises(InvalidInput, match=reason) as refused:
                skytide.autoscale(asked, **options)  # type: ignore[arg-type]
            assert refused.value.remedy
        scaler = skytide.autoscale(query, mode="recommend")  # nothing was left behind
        with pytest.raises(InvalidInput, match="already has an auto-scaler"):
            skytide.autoscale(spark, mode="recommend")
        scaler.stop()
    finally:
        query.stop()
