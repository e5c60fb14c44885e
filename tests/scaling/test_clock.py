"""Clocks: what follows the machine's and what does not; here the tests hold them."""

import itertools
import threading
import time
from pathlib import Path

import pytest
from support.engine import QUERIES, InProcess, Outputs, plan_of, tuples
from support.fake_cluster import FakeCluster, FakeLive, executors

from skytide.control import Guard, Static
from skytide.lateness import FixedSlack
from skytide.records import Allocation, ScalingEvent
from skytide.spark.clock import now_us, steady, time_of_day
from skytide.spark.engine.engine import Engine
from skytide.spark.scaling.progress import Batch, Dating, Means, measure
from skytide.spark.scaling.scaler import Scaler
from skytide.windows import Windows

DEADLINE_S = 120


def test_the_steady_clock_passes_evenly_when_the_machines_clock_is_set_and_the_other_follows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before_s = steady()
    assert abs(time_of_day() - before_s) < DEADLINE_S
    monkeypatch.setattr(time, "time", lambda: 1_000.0)
    assert 0 <= steady() - before_s < DEADLINE_S
    assert (time_of_day(), now_us()) == (1_000.0, 1_000_000_000)


def test_the_latency_of_a_window_is_by_the_clock_of_the_engine(tmp_path: Path) -> None:
    engine = Engine(*plan_of(QUERIES[3], str(tmp_path), Windows(1_000, 1_000), FixedSlack(0)), Outputs().sinks, clock=lambda: 7.0)
    for number, batch in enumerate(tuples([[[0, 500, 999]], [[1_000, 2_000]]])):
        engine.run_batch(InProcess(), batch, number)
    assert [(row.window_end_us, row.latency_s) for row in engine.recent_windows()] == [(1_000, 6.999), (2_000, 6.998)]


def test_cycles_events_and_waits_are_by_the_clock_of_the_auto_scaler() -> None:
    came, ticks, lock = threading.Event(), itertools.count(), threading.Lock()

    def clock() -> float:  # a second passes whenever somebody looks
        with lock:
            return 1e6 + next(ticks)

    def on_event(event: ScalingEvent) -> None:
        if "in total" in event.text:
            came.set()

    live = FakeLive()
    live.query = type("Query", (), {"isActive": True})
    scaler = Scaler(on_event, clock)
    scaler.attach(live, executors(FakeCluster(2), live=live), Static(4), Guard(), 30.0, None)  # type: ignore[arg-type]
    for _ in range(1_000 * DEADLINE_S):
        scaler._wake.set()  # as if something had happened
        if came.wait(0.001):
            break
    scaler.stop()
    first = scaler.cycles()[0]
    assert 1e6 + 30 <= first.at_s < 1e6 + 60
    assert (first.outcome.kind, scaler.status().changes) == ("asked", 1)
    assert all(1e6 <= event.at_s < 1e6 + next(ticks) for event in scaler.events())


RATE_HZ = 100.0


def rates_while_the_clock_is_set(by_s: float, at_s: float, *, dated: bool) -> list[float]:
    """Return the rates measured over a minute of a query with a batch a second, if the machine's clock is set meanwhile."""
    dating, found, known = Dating(), list[float](), list[Batch]()

    def wall(now_s: float) -> float:
        return 1e9 + now_s + (by_s if now_s >= at_s else 0.0)

    for number in range(60):
        begins_s, ends_s = float(number), number + 0.5
        took_s = max(0.0, wall(ends_s) - wall(begins_s))  # as Spark measures it
        batch = Batch("run", number, wall(begins_s), took_s, took_s * 0.8, RATE_HZ, 0.0)
        known.append(dating.dated(batch, heard_s=ends_s + 0.02, ahead_s=ends_s - wall(ends_s)) if dated else batch)
        seen = measure(known[-3:], known[-4] if number > 3 else None, Means(Allocation(1), 1.0), trigger_s=1.0, now_s=ends_s)
        if seen is not None:
            found.append(seen.arrival_rate_hz)
    return found


@pytest.mark.parametrize("at_s", [20.0, 20.25, 20.75], ids=["at a trigger", "in a batch", "between batches"])
@pytest.mark.parametrize("by_s", [-9.9, 9.9, -3_600.0])
def test_a_clock_that_is_set_measures_no_other_rate(by_s: float, at_s: float) -> None:
    found = rates_while_the_clock_is_set(by_s, at_s, dated=True)
    assert len(found) >= 57 and all(0.7 * RATE_HZ < rate_hz < 1.5 * RATE_HZ for rate_hz in found), found


def test_times_of_the_machines_clock_are_caught() -> None:
    """The guilty specimen: Spark's times as they are, with the clock set back so that a minute of batches seems to take no time."""
    found = rates_while_the_clock_is_set(-2.9, 20.25, dated=False)
    assert max(found) > 5 * RATE_HZ
