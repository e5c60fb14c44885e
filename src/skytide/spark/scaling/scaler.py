"""An auto-scaler at work: the common loop over a running query, in a thread of its own."""

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from skytide.control import Controller, Guard
from skytide.errors.deprecation import warn_renamed
from skytide.loop.cycle import Cycle, Loop
from skytide.loop.ports import OnEvent, Plant, StateStore
from skytide.records import Observation, ScalerStatus, ScalingEvent
from skytide.records.printing import Printed, seconds
from skytide.spark.clock import Now, steady
from skytide.spark.scaling.history import History
from skytide.spark.scaling.live import Watched
from skytide.spark.scaling.watching import scaler_subject
from skytide.watch.serving import export, serve
from skytide.watch.snapshots import ScalerAbout

if TYPE_CHECKING:
    from skytide.watch.exporter import Exporter
    from skytide.watch.server import Page

MIN_INTERVAL_S = 10.0
TRIGGERS = 2  # an interval has at least this many triggers, otherwise there is nothing to see in it
STALE_INTERVALS = 3
LOOK_S = 0.1  # between two looks at executors that may come at any moment: the first task of a new one should be ours
SLOW_LOOK_S = 1.0  # while some go, or those that were requested do not come
MIN_WAIT_S = 0.01
KEPT = 100_000  # events and observations
CYCLES_KEPT = 1_000
_log = logging.getLogger(__name__)


class Scaler(Printed):
    """An auto-scaler: it watches a query and resizes what it runs on, until it is stopped or the query ends.

    It is made by [`autoscale`][skytide.spark.scaling.autoscale.autoscale], and works in a thread of its own. What a `StreamingQuery` of
    Spark has, too, is also there in Spark's spelling (`isActive`, `awaitTermination`). See [Auto-scaling](scaling.md).

    Examples
    --------
    ```
    scaler = skytide.autoscale(query, executors=(1, 8))
    print(scaler)                # its query, what it wants and why
    scaler.pause()               # watch, but change nothing
    scaler.resume()
    scaler.history().save("metrics.parquet")
    scaler.stop()                # the query goes on with what it has
    ```
    """

    def __init__(self, on_event: OnEvent | None = None, clock: Now = steady) -> None:
        """Prepare a scaler; `clock` dates observations and events."""
        self._on_event, self.clock = on_event, clock
        self._events: deque[ScalingEvent] = deque(maxlen=KEPT)
        self._history: deque[Observation] = deque(maxlen=KEPT)
        self._cycles: deque[Cycle] = deque(maxlen=CYCLES_KEPT)
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopped = False
        self._label = "auto-scaler"  # until it is known what it watches
        self._away_s: float | None = None  # since when the query has been gone
        self._latest: Cycle | None = None
        self._failures: dict[str, str] = {}  # of each step that failed the last time
        self._blind = 0  # cycles without metrics
        self._done = self._changes = self._limited = 0  # cycles
        self._thread = threading.Thread(target=self._work, name="skytide-autoscale", daemon=True)

    def attach(
        self,
        live: Watched,
        plant: Plant,
        controller: Controller,
        guard: Guard,
        interval_s: float | None,
        store: StateStore | None,
        *,
        acts: bool = True,
    ) -> None:
        """Begin to watch a query, or all of an application, and to scale what it runs on."""
        self._live, self._plant, self._interval_s, self._label = live, plant, interval_s, live.label
        guard = guard.patient(STALE_INTERVALS * self.interval_s)
        self._loop = Loop(plant, controller, guard, store, self._record, acts=acts)
        limits = f"{guard.minimum} to {guard.maximum} {plant.what}"
        self._about = ScalerAbout(str(controller), limits, guard.maximum, self.interval_s)
        does, size = "scaling" if acts else "watching", f"{limits}, now {plant.size().workers}"
        self.report(f"{does} {live.label} with {controller} every {self.interval_s:g} s: {size}")
        live.listen(self._wake.set)
        self._loop.resume_size(self.clock())
        self._thread.start()

    def lines(self) -> list[tuple[str, str]]:
        """Return which query it scales, and how it is doing."""
        what, of_queries = self._live.kind, self._live.lines(self._loop)
        return [(what, f"{self._live.name}, every {seconds(self.interval_s)}"), *self.status().lines(), *of_queries]

    def __repr__(self) -> str:
        """Return its query and its status in a few lines."""
        return str(self)

    @property
    def name(self) -> str:
        """The name of its query, or its id if it has none."""
        return self._live.name

    @property
    def interval_s(self) -> float:
        """The time from one decision to the next."""
        usual_s = max(MIN_INTERVAL_S, TRIGGERS * (self._live.trigger_s or 0.0))
        return usual_s if self._interval_s is None else self._interval_s

    @property
    def is_active(self) -> bool:
        """Whether it watches its query; paused, it still does."""
        return self._thread.is_alive()

    isActive = is_active

    def follows(self, query: object) -> bool:
        """Return whether a query that was started is the one that it watches, started again with its checkpoint."""
        return self._live.follows(query)

    def status(self) -> ScalerStatus:
        """Return how it is doing: its size, what it wants and why, and what it measured last."""
        with self._lock:
            latest, seen = self._latest, self._history[-1] if self._history else None
        workers = self._plant.size().workers
        wanted, reason = (latest.limited.allocation.workers, latest.limited.reason) if latest else (workers, "no decision yet")
        loop, running, failure = self._loop, self.is_active, "; ".join(self._failures.values())
        counts = {"cycles": self._done, "changes": self._changes, "limited": self._limited}
        lead_s = self._plant.lead_s
        return ScalerStatus(running, loop.paused, loop.acts, workers, wanted, reason, lead_s, seen, failure, **counts)

    def events(self) -> list[ScalingEvent]:
        """Return what happened, oldest first; `on_event=` of `autoscale` gets the same as it happens."""
        with self._lock:
            return list(self._events)

    def history(self) -> History:
        """Return what was observed, oldest first: one observation per cycle in which there was something to see."""
        with self._lock:
            return History(self._history)

    def cycles(self) -> list[Cycle]:
        """Return what the latest cycles saw, wanted and did, oldest first; `cycles()[-1].outcome` is what became of the latest decision."""
        with self._lock:
            return list(self._cycles)

    def serve(self, address: str = "127.0.0.1", port: int | None = None, *, token: str | None = None) -> "Page":
        """Show the auto-scaler on a live page, and return the page; whoever has the token in its `url` can pause it.

        See [Operating](operating.md).

        Parameters
        ----------
        address
            Where to listen; by default, only this machine can open the page.
        port
            The port; by default, the first free one from 4090 on.
        token
            At least 8 plain characters; by default, one is made.

        Raises
        ------
        InvalidInput
            If the address, the port or the token cannot be used.
        SkytideError
            If what the page needs is not installed: `pip install 'skytide[serve]'`.
        """
        return serve([scaler_subject(self, self._live, self._about)], address, port, token)

    def metrics(self, port: int, address: str = "127.0.0.1") -> "Exporter":
        """Let Prometheus read how it is doing, and return the exporter.

        See [Operating](operating.md).

        Parameters
        ----------
        port
            Where Prometheus asks; 0 for a free one, which `url` of the exporter names.
        address
            Where to listen; by default, only this machine can read the metrics.

        Raises
        ------
        InvalidInput
            If the address or the port cannot be used.
        SkytideError
            If what metrics need is not installed: `pip install 'skytide[metrics]'`.
        """
        return export([scaler_subject(self, self._live, self._about)], port, address)

    def pause(self) -> None:
        """Keep watching, but change nothing."""
        self._loop.paused = True
        self.report("paused: no changes until resumed")

    def resume(self) -> None:
        """Act again after a pause."""
        self._loop.paused = False
        self.report("resumed")

    def stop(self) -> None:
        """End the auto-scaler; the query goes on with what it has."""
        self._stopped = True
        self._wake.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until it has ended, as it does with its query, and return whether it has.

        Parameters
        ----------
        timeout
            Seconds to wait at most; None: until it ends.
        """
        self._thread.join(timeout)
        return not self.is_active

    awaitTermination = await_termination

    def await_end(self, timeout: float | None = None) -> bool:
        """Do what `await_termination` does, whose former name this is."""
        warn_renamed("Scaler.await_end", "Scaler.await_termination")
        return self.await_termination(timeout)

    def report(self, text: str, level: int = logging.INFO) -> None:
        """Note what happens now."""
        self._record(ScalingEvent(self.clock(), text), level)

    def _record(self, event: ScalingEvent, level: int = logging.INFO) -> None:
        """Note an event, log it, and pass it on."""
        _log.log(level, "%s: %s", self._label, event.text)
        with self._lock:
            self._events.append(event)
        if self._on_event is not None:
            with contextlib.suppress(Exception):  # a listener must do no harm
                self._on_event(event)

    def _work(self) -> None:
        next_s = self.clock() + self.interval_s
        try:
            while not self._stopped and not self._over():
                at_s = self.clock()
                self._safely("tracking of executors", self._track)
                if self._away_s is None and at_s >= next_s:
                    self._safely("cycle", self._cycle)
                    next_s = max(next_s + self.interval_s, at_s + self.interval_s / 2)  # missed cycles are not made up for
                self._wake.wait(self._pause_s(next_s))
                self._wake.clear()
        except Exception as error:
            self._failures["end"] = f"auto-scaler terminated before its query: {_why(error)}"
        finally:
            self._plant.close()
            end = "auto-scaler stopped" if self._stopped else f"auto-scaler terminated: its {self._live.kind} has ended"
            self.report(self._failures.get("end", end), logging.WARNING if "end" in self._failures else logging.INFO)

    def _pause_s(self, next_s: float) -> float:
        """Return how long to wait for the next look."""
        if self._away_s is not None:
            return LOOK_S
        look_s = LOOK_S if self._plant.is_expecting else SLOW_LOOK_S if self._plant.is_changing else self.interval_s
        return min(max(next_s - self.clock(), MIN_WAIT_S), look_s)

    def _track(self) -> None:
        self._plant.track(self.clock())

    def _cycle(self) -> None:
        cycle = self._loop.cycle(self.clock())
        with self._lock:
            self._latest = cycle
            self._cycles.append(cycle)
            self._done, self._changes, self._limited = (
                self._done + 1,
                self._changes + cycle.outcome.changed,
                self._limited + cycle.is_limited,
            )
            if cycle.evaluation is not None:
                self._history.append(cycle.evaluation.seen)
        if cycle.evaluation is None:
            self._blind += 1
            if self._blind == STALE_INTERVALS:
                self.report(cycle.limited.reason)
        else:
            if self._blind >= STALE_INTERVALS:
                self.report("metrics are available again")
            self._blind = 0

    def _safely(self, name: str, step: Callable[[], None]) -> None:
        """Run a step; if it fails, the query is not harmed, and the same failure is reported once."""
        try:
            step()
            self._failures.pop(name, None)
        except Exception as error:
            failure = f"{name} failed, will be tried again: {_why(error)}"
            if failure != self._failures.get(name):
                self._failures[name] = failure
                self.report(failure, logging.WARNING)

    def _over(self) -> bool:
        """Return whether the query has ended; one that is started again from its checkpoint within an interval has not."""
        live = self._live
        try:
            if live.is_active:
                self._away_s = None
                return False
            continues = live.continues()
        except Exception as error:  # Spark itself is gone
            self._failures["end"] = f"auto-scaler terminated: Spark does not respond: {_why(error)}"
            return True
        if continues:
            self._away_s = None
            self.report(f"query restarted: continuing with run {live.run_id}")
            return False
        if self._away_s is None:
            self._away_s = self.clock()
        return not live.comes_back or self.clock() - self._away_s > self.interval_s


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
