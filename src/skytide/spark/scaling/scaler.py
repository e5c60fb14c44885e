"""An auto-scaler at work: the common loop over a running query, in a thread of its own."""

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from skytide.control import Controller, Guard
from skytide.loop import recording
from skytide.loop.cycle import Cycle, Loop
from skytide.loop.ports import Store
from skytide.records import Observation
from skytide.records.printing import Printed, number, seconds
from skytide.spark.scaling.metrics import ProgressListener, QueryMetrics
from skytide.spark.scaling.plant import Plant
from skytide.spark.scaling.power import WithPower

LEAST_INTERVAL_S = 10.0
TRIGGERS = 2  # an interval has at least so many triggers, otherwise there is nothing to see in it
STALE_INTERVALS = 3
LOOK_S = 0.5  # between two looks at executors, while some come or go
KEPT = 100_000
_AHEAD_S = time.time() - time.monotonic()  # once for all: scalers that share executors must agree on the time


@dataclass(frozen=True)
class Event:
    """Something that happened."""

    at_s: float
    text: str

    def __str__(self) -> str:
        """Write it with the time of day (UTC)."""
        return f"{time.strftime('%H:%M:%S', time.gmtime(self.at_s))} {self.text}"


class History(list[Observation]):
    """What was seen, oldest first."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a Parquet file, for `skytide replay`."""
        recording.save(self, path)


@dataclass(frozen=True)
class ScalerStatus(Printed):
    """How an auto-scaler is doing."""

    running: bool
    paused: bool
    acts: bool
    workers: int
    wanted: int
    """As of the latest cycle."""
    reason: str
    lead_s: float
    """From asking for a worker to its first work, as measured."""
    seen: Observation | None
    """The latest."""
    failure: str = ""
    """Why the latest cycle failed, or what ended the auto-scaler before its query; empty if all is well."""

    def lines(self) -> list[tuple[str, str]]:
        """Return what is worth knowing, in a few lines."""
        state = "ended" if not self.running else "paused" if self.paused else "acts" if self.acts else "recommends"
        seen, measured = self.seen, ""
        if seen is not None:
            latency = "" if seen.latency_s is None else f", latency {seconds(seen.latency_s)}"
            waits = f", {number(seen.backlog)} tuples wait" if seen.backlog else ""
            measured = f"{number(seen.arrival_rate_hz)} tuples/s, used {seen.utilisation:.0%}{latency}{waits}"
        return [
            ("state", state),
            ("workers", f"{self.workers:,}" + (f", {self.wanted:,} wanted" if self.wanted != self.workers else "")),
            ("why", self.reason),
            ("measured", f"{measured}; a new worker takes {seconds(self.lead_s)}" if measured else ""),
            ("failure", self.failure),
        ]


class Scaler(Printed):
    """Watches a query and resizes what it runs on, until it is stopped or the query ends. Made by `autoscale`."""

    def __init__(self, tell: Callable[[Event], None] | None = None, clock: Callable[[], float] | None = None) -> None:
        """Get ready; `clock` dates what is seen and said. The one it has otherwise takes no notice if somebody sets the machine's."""
        self._told, self._clock = tell, clock or (lambda: time.monotonic() + _AHEAD_S)
        self._events: deque[Event] = deque(maxlen=KEPT)
        self._history: deque[Observation] = deque(maxlen=KEPT)
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopped = False
        self._away_s: float | None = None  # since when the query has been gone
        self._latest: Cycle | None = None
        self._failures: dict[str, str] = {}  # of each step that failed the last time
        self._blind = 0  # cycles without metrics
        self._thread = threading.Thread(target=self._work, name="skytide-autoscale", daemon=True)

    def attach(self, plant: Plant, controller: Controller, guard: Guard, interval_s: float | None, store: Store | None) -> None:
        """Begin."""
        self._plant = plant
        self._metrics = QueryMetrics(
            plant.query, plant.cluster.executors, plant.actuator.current, run=plant.run, local=plant.cluster.local
        )
        shortest_s = TRIGGERS * (self._metrics.trigger_s or 0.0)
        self.interval_s = max(LEAST_INTERVAL_S, shortest_s) if interval_s is None else interval_s
        guard = replace(guard, stale_after_s=max(guard.stale_after_s, STALE_INTERVALS * self.interval_s))
        metrics = self._metrics if plant.power is None else WithPower(self._metrics, plant.power)
        self._loop = Loop(metrics, plant.actuator, controller, guard, store, self)
        self._listener = ProgressListener(str(plant.query.id), self._metrics.feed, self._wake.set)
        does = "scales" if plant.actuator.acts else "watches"
        if plant.power:
            self.say(plant.power.said())
        size = f"{guard.minimum} to {guard.maximum} {plant.what}, now {plant.actuator.current().workers}"
        self.say(f"{controller} {does} query {plant.query.name or plant.query.id} every {self.interval_s:g} s: {size}")
        plant.manager.addListener(self._listener)
        self._thread.start()

    def lines(self) -> list[tuple[str, str]]:
        """Return whom it scales, and how it is doing."""
        query = self._plant.query
        return [("query", f"{query.name or query.id}, every {seconds(self.interval_s)}"), *self.status().lines()]

    def __repr__(self) -> str:
        """Write it in a few lines."""
        return str(self)

    def follows(self, query: Any) -> bool:
        """Whether a query that was started is the one that this one watches, started again with its checkpoint."""
        return self._plant.run is None and str(getattr(query, "id", "")) == str(self._plant.query.id)

    def status(self) -> ScalerStatus:
        """How it is doing."""
        with self._lock:
            latest, seen = self._latest, self._history[-1] if self._history else None
        actuator = self._plant.actuator
        workers = actuator.current().workers
        wanted, reason = (latest.limited.allocation.workers, latest.limited.reason) if latest else (workers, "no decision yet")
        running, failure = self._thread.is_alive(), "; ".join(self._failures.values())
        return ScalerStatus(running, self._loop.paused, actuator.acts, workers, wanted, reason, actuator.lead_s, seen, failure)

    def events(self) -> list[Event]:
        """What happened, oldest first."""
        with self._lock:
            return list(self._events)

    def history(self) -> History:
        """What was seen, oldest first."""
        with self._lock:
            return History(self._history)

    def pause(self) -> None:
        """Go on watching, but change nothing."""
        self._loop.paused = True
        self.say("paused: nothing is changed until it is resumed")

    def resume(self) -> None:
        """Act again."""
        self._loop.paused = False
        self.say("resumed")

    def stop(self) -> None:
        """End; the query goes on with what it has."""
        self._stopped = True
        self._wake.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def await_end(self, timeout: float | None = None) -> bool:
        """Wait until it has ended, as it does with its query."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def tell(self, at_s: float, text: str) -> None:
        """Note an event."""
        event = Event(at_s, text)
        with self._lock:
            self._events.append(event)
        if self._told is not None:
            with contextlib.suppress(Exception):  # whoever listens must not disturb
                self._told(event)

    def say(self, text: str) -> None:
        """Note an event that happens now."""
        self.tell(self._clock(), text)

    def _work(self) -> None:
        next_s = time.monotonic() + self.interval_s
        try:
            while not self._stopped and not self._over():
                now_s = time.monotonic()
                self._safely("look at the executors", self._tend)
                if self._away_s is None and now_s >= next_s:
                    self._safely("cycle", self._cycle)
                    next_s = max(next_s + self.interval_s, now_s + self.interval_s / 2)  # what was missed is not made up for
                soon_s = LOOK_S if self._away_s is not None or self._plant.waits else self.interval_s
                self._wake.wait(soon_s if self._away_s is not None else min(max(next_s - time.monotonic(), 0.01), soon_s))
                self._wake.clear()
        except Exception as error:
            self._failures["end"] = f"the auto-scaler ends before its query: {_why(error)}"
        finally:
            with contextlib.suppress(Exception):  # Spark may be gone
                self._plant.manager.removeListener(self._listener)
            self._plant.leave()
            end = "the auto-scaler was stopped" if self._stopped else "the auto-scaler ends, as its query did"
            self.say(self._failures.get("end", end))

    def _tend(self) -> None:
        self._plant.tend(self._clock())

    def _cycle(self) -> None:
        cycle = self._loop.cycle(self._clock())
        with self._lock:
            self._latest = cycle
            if cycle.evaluation is not None:
                self._history.append(cycle.evaluation.seen)
        if cycle.evaluation is not None and self._plant.share is not None:
            self._plant.share.wish(cycle.limited.allocation.workers)
        if cycle.evaluation is None:
            self._blind += 1
            if self._blind == STALE_INTERVALS:
                self.say(cycle.limited.reason)
        else:
            if self._blind >= STALE_INTERVALS:
                self.say("metrics are back")
            self._blind = 0

    def _safely(self, name: str, step: Callable[[], None]) -> None:
        """Let nothing that fails here harm the query; what fails again in the same way is told once."""
        try:
            step()
            self._failures.pop(name, None)
        except Exception as error:
            failure = f"this {name} failed, the next one comes: {_why(error)}"
            if failure != self._failures.get(name):
                self._failures[name] = failure
                self.say(failure)

    def _over(self) -> bool:
        """Whether the query has ended; one that is started again with the same checkpoint within an interval goes on."""
        plant = self._plant
        try:
            if plant.query.isActive:
                self._away_s = None
                return False
            again = plant.restarted()
        except Exception as error:  # Spark itself is gone
            self._failures["end"] = f"the auto-scaler ends, as Spark does not answer: {_why(error)}"
            return True
        if again is not None:
            plant.query = again
            self._metrics.follow(again)
            self._away_s = None
            self.say(f"the query was started again: going on with its run {again.runId}")
            return False
        if self._away_s is None:
            self._away_s = time.monotonic()
        return plant.run is not None or time.monotonic() - self._away_s > self.interval_s


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
