"""A scaler that fails says why: its thread, over a query that is made up."""

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from support.fake_cluster import FakeCluster, FakeLive

from skytide.control import Controller, ControllerLogic, Guard, Static
from skytide.records import Allocation, Decision, Evaluation, Observation, ScalingEvent
from skytide.spark.scaling.executors import ExecutorPlant
from skytide.spark.scaling.pool import Pool
from skytide.spark.scaling.scaler import Scaler

DEADLINE_S = 120


class Query(FakeLive):
    """A query that can be told to fail."""

    active: Callable[[], bool] = staticmethod(lambda: True)

    def __init__(self) -> None:
        super().__init__()
        self.query = self

    @property
    def is_active(self) -> bool:  # type: ignore[override]
        return self.active()


class Plant(ExecutorPlant):
    """Executors of which any part can be told to fail."""

    under_way: Callable[[], bool] = staticmethod(lambda: False)
    seen: Callable[[float], Observation]

    def __init__(self, observe: Callable[[float], Observation]) -> None:
        self.live, self.cluster, self.seen = Query(), FakeCluster(2), observe
        super().__init__(self.live, Pool(self.cluster), [].append)  # type: ignore[arg-type]

    def observe(self, now_s: float) -> Observation:
        return self.seen(now_s)

    @property
    def is_changing(self) -> bool:
        return self.under_way()


class Says(Controller, ControllerLogic):
    """A controller that decides what it is told."""

    def __init__(self, decision: Any) -> None:
        self.decision = decision

    def build(self, resume: Any = None) -> ControllerLogic:
        return self

    def decide(self, seen: Evaluation, *, now_s: float) -> Decision:
        return self.decision  # type: ignore[no-any-return]

    def snapshot(self) -> dict[str, Any]:
        return {}


class Heard(list[str]):
    """Hears events, until one with a text comes."""

    def __init__(self, part: str) -> None:
        self.part, self.came = part, threading.Event()

    def __call__(self, event: ScalingEvent) -> None:
        self.append(event.text)
        if self.part in event.text:
            self.came.set()


def seen(now_s: float) -> Observation:
    return Observation(now_s, 10, Allocation(2), 100, 100, 1.0, service_s=0.01)


def run(part: str, *, plant: Plant, controller: Controller) -> tuple[Scaler, Heard]:
    """Run a scaler until it said something."""
    heard = Heard(part)
    scaler = Scaler(heard)
    scaler.attach(plant.live, plant, controller, Guard(), 0.01, None)  # type: ignore[arg-type]
    assert heard.came.wait(DEADLINE_S), heard
    return scaler, heard


def fails(*_: object) -> Any:
    raise ConnectionError("no answer\nand much more that nobody wants to read")


def test_metrics_that_fail_are_told_once_and_the_scaler_goes_on() -> None:
    plant = Plant(fails)
    scaler, heard = run("cycle failed", plant=plant, controller=Static(2))
    assert scaler.status().running
    assert scaler.status().failure == "cycle failed, will be tried again: ConnectionError: no answer"
    plant.seen = seen
    while scaler.status().failure:
        assert scaler.status().running
    scaler.stop()
    assert sum("no answer" in text for text in heard) == 1
    assert heard[-1] == "auto-scaler stopped"


@pytest.mark.parametrize("decision", [None, 3, Decision(Allocation(2.5), "half"), Decision(Allocation("3"), "words")])  # type: ignore[arg-type]
def test_a_controller_that_decides_nonsense_is_told_and_nothing_is_done(decision: Any) -> None:
    plant = Plant(seen)
    scaler, _ = run("cycle failed", plant=plant, controller=Says(decision))
    scaler.stop()
    assert "returned no decision for a whole number of workers" in scaler.status().failure
    assert (plant.cluster.requested, plant.cluster.told_to_go, plant.cluster.killed) == ([], [], [])


@pytest.mark.parametrize(
    ("part", "end"),
    [
        ("active", "auto-scaler terminated: Spark does not respond: ConnectionError: no answer"),
        ("under_way", "auto-scaler terminated before its query: ConnectionError: no answer"),
    ],
)
def test_a_scaler_that_ends_says_why(part: str, end: str) -> None:
    plant = Plant(seen)
    setattr(plant.live if part == "active" else plant, part, fails)
    scaler, heard = run("auto-scaler terminated", plant=plant, controller=Static(2))
    assert scaler.await_termination(DEADLINE_S)
    assert (heard[-1], scaler.status().failure, scaler.status().running, plant.live.closed) == (end, end, False, True)


def test_events_go_through_logging_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "skytide")
    plant = Plant(fails)
    scaler, _ = run("cycle failed", plant=plant, controller=Static(2))
    plant.seen = seen
    while scaler.status().failure:
        assert scaler.status().running
    scaler.stop()
    logged = [(record.levelname, record.getMessage().partition(": ")[2]) for record in caplog.records]
    levels = {text: level for level, text in logged}
    assert [text for _, text in logged] == [event.text for event in scaler.events()]
    assert levels[next(text for text in levels if "failed" in text)] == "WARNING"
    assert levels["auto-scaler stopped"] == "INFO"


def test_what_is_told_before_it_watches_anything_is_an_event() -> None:
    scaler = Scaler()
    scaler.report("the CPU frequency cannot be set here")
    assert [event.text for event in scaler.events()] == ["the CPU frequency cannot be set here"]
