"""Elastic-PPQ in virtual time (P0): both levels of a continuous query on a stream, resized while they run by the common loop.

The plant plays the stream when it is observed: `observe(now)` plays up to now. So a run consists of control cycles alone.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from skytide.control.controller import Controller
from skytide.control.guard import Guard
from skytide.loop.cycle import Cycle
from skytide.records import Allocation, Observation, Outcome
from skytide.routing import AS_PID, SlotUse, Splitting
from skytide.sim.drive import ROUNDING_S, VirtualPlant, drive
from skytide.windows import Windows
from skytide_lab.scheduling.windows import Policy
from skytide_lab.sim.costs import Costs
from skytide_lab.sim.pane_stage import PaneStage, Result, use_between
from skytide_lab.sim.traffic import Step, Traffic
from skytide_lab.sim.window_stage import WindowStage

INTERVAL_S, PERIOD_S = 2.5, 0.25  # P0 §5: between two decisions, and between two samples of the PID
THREADS = 60  # on P0's machine with 64 cores, one thread per core
PATIENCE = 4.0  # stream lengths after which a run that does not end is given up


class WindowLevel:
    """The window level as a controller sees it: how busy it is, and which windows have come out, in order."""

    def __init__(self, stage: WindowStage, first: int, last: int) -> None:
        """Expect windows from the first to the last."""
        self.stage, self.last = stage, last
        self.released_s: list[float] = []
        """When each window came out, in order: when it and all before it were done."""
        self._first, self._seen, self._task_s = first, 0, 0.0

    @property
    def finished(self) -> bool:
        """Return whether all windows are out."""
        return self._first + len(self.released_s) > self.last

    def measure(self, now_s: float, interval_s: float) -> tuple[dict[int, float], float]:
        """Return the busy time of each slot since the last call, and the utilisation, which includes the time that waiting tasks will take."""
        finished = self.stage.done[self._seen :]
        self._seen = len(self.stage.done)
        if finished:
            self._task_s = sum(done.end_s - done.begin_s for done in finished) / len(finished)
        busy_s = self.stage.running_s(now_s, interval_s)
        for done in finished:
            busy_s[done.slot] = busy_s.get(done.slot, 0.0) + done.end_s - max(done.begin_s, now_s - interval_s)
        work_s = sum(busy_s.values()) + self.stage.scheduler.waiting() * self._task_s
        return busy_s, work_s / (len(self.stage.scheduler.slots) * interval_s)

    def release(self) -> list[tuple[int, float]]:
        """Return the windows that came out since the last call, and when."""
        out = []
        while (at_s := self.stage.out_s.get(self._first + len(self.released_s))) is not None:
            before_s = self.released_s[-1] if self.released_s else 0.0
            out.append((self._first + len(self.released_s), max(at_s, before_s)))
            self.released_s.append(out[-1][1])
        return out


class ElasticPlant(VirtualPlant):
    """A stream, a pane level and a window level (or none, to study the pane level alone)."""

    lead_s = 0.0  # threads sleep until they are needed (P0 §4.1)

    def __init__(
        self,
        stream: Traffic,
        costs: Costs,
        windows: Windows | None,
        *,
        strategy: Splitting = AS_PID,
        policy: Policy = "WIN_FB_MERGE",
        slots: tuple[int, int] = (1, 1),
        period_s: float = PERIOD_S,
        slowdown: Callable[[float], float] = lambda _: 1.0,
    ) -> None:
        """Start idle; `slowdown` returns how many times as long work takes at a time, because other programs use the machine too."""
        self.panes = PaneStage(costs, strategy, slots[0], stream, period_s)
        self.now_s = 0.0
        self._stream, self._slowdown, self.period_s = stream, slowdown, period_s
        self._at = 0
        self._coming: list[tuple[float, int, Result]] = []
        self._order = 0
        self.splitting_factor = 1.0
        """The mean number of partitions of the panes that closed in the latest interval in which any did."""
        self._seen = _Seen()
        self._empty: list[int] = []
        self.windows: WindowLevel | None = None
        if windows is not None:
            arrivals = stream.first_arrival_s
            first, last = windows.first_of_pane(min(arrivals)), windows.last_of_pane(max(arrivals))
            self.windows = WindowLevel(WindowStage(costs, windows, slots[1], policy), first, last)
            panes = range(windows.panes_of(first).start, windows.panes_of(last).stop)
            self._empty = [pane for pane in reversed(panes) if pane not in arrivals]
        self._layout = windows

    @property
    def finished(self) -> bool:
        """Return whether the stream is over and all of its results are out."""
        over = self._at == len(self._stream.steps)
        return over and (self.windows.finished if self.windows else all(s.free_s <= self.now_s for s in self.panes.slots.values()))

    @property
    def completed_s(self) -> float:
        """Return when the latest result came out."""
        return self.windows.released_s[-1] if self.windows else max(slot.free_s for slot in self.panes.slots.values())

    def windows_per_second(self) -> NDArray[np.int64]:
        """Return how many windows came out in each second, up to the last whole second of the stream."""
        released = [] if self.windows is None else self.windows.released_s
        return np.bincount(np.array(released, int), minlength=int(self._stream.length_s))[: int(self._stream.length_s)]

    def size(self) -> Allocation:
        """Return the slots of both levels."""
        panes = len(self.panes.router.slots)
        if self.windows is None:
            return Allocation(panes)
        windows = len(self.windows.stage.scheduler.slots)
        return Allocation(panes + windows, pane_slots=panes, window_slots=windows)

    def request(self, wanted: Allocation, now_s: float) -> Outcome:
        """Resize both levels at once, and return what was done."""
        before = self.size()
        if wanted.pane_slots is None or wanted.window_slots is None:
            wanted = before.with_workers(wanted.workers)
        panes = wanted.pane_slots if self.windows and wanted.pane_slots else wanted.workers
        for result in self.panes.resize(panes, now_s):
            self._send(result)
        if self.windows and wanted.window_slots:
            self.windows.stage.resize(wanted.window_slots, now_s)
        now = self.size()
        return Outcome("kept" if now == before else "done", f"{before.workers} to {now.workers} threads")

    def observe(self, now_s: float) -> Observation:
        """Play the stream up to now, and return what was measured since the last call."""
        began_s, allocation = self.now_s, self.size()
        self._play(now_s)
        interval_s = max(now_s - began_s, ROUNDING_S)
        seen, before = self._look(now_s), self._seen
        self._seen = seen
        uses = {n: use_between(before.slots.get(n, (0.0, 0.0, 0)), seen.slots[n]) for n in self.panes.router.slots}
        pane_utilisation = self._pane_utilisation(before, seen, list(uses.values()), interval_s)
        busy_s = {f"pane slot {n}": use.busy_s for n, use in uses.items()}
        window_utilisation = latency_s = None
        if self.windows and self._layout:
            window_busy_s, window_utilisation = self.windows.measure(now_s, interval_s)
            slots = sorted(self.windows.stage.scheduler.slots)
            busy_s |= {f"window slot {n}": window_busy_s.get(n, 0.0) for n in slots}
            late_s = [at_s - self._layout.end_us(window) / 1e6 for window, at_s in self.windows.release()]
            latency_s = sum(late_s) / len(late_s) if late_s else None
        splitting_factor = self._splitting(before.results)
        processed = seen.processed - before.processed
        return Observation(
            at_s=now_s,
            interval_s=interval_s,
            allocation=allocation,
            arrival_rate_hz=(seen.tuples - before.tuples) / interval_s,
            processed_rate_hz=processed / interval_s,
            utilisation=max(pane_utilisation, window_utilisation or 0.0),
            service_s=sum(busy_s.values()) / processed if processed else None,
            backlog=float(seen.scheduled - seen.processed),
            latency_s=latency_s,
            loads=tuple((slot, taken_s / interval_s) for slot, taken_s in busy_s.items()),
            pane_utilisation=pane_utilisation,
            splitting_factor=splitting_factor
            if self.windows
            else None,  # for the pane level alone, P0's controller assumes that panes are not split
            window_utilisation=window_utilisation,
        )

    def _play(self, now_s: float) -> None:
        steps = self._stream.steps
        while self._at < len(steps) and steps[self._at].end_s <= now_s + ROUNDING_S:
            self._step(steps[self._at])
            self._at += 1
        if self._at == len(steps):  # the stream is over: only the clock continues
            self._send_empty(None)
            last = steps[-1]
            while self.now_s + self.period_s <= now_s + ROUNDING_S:
                self._step(Step(self.now_s + self.period_s, (), last.open_from, 0))
        self._serve(now_s)
        self.now_s = now_s

    def _step(self, step: Step) -> None:
        self.now_s = step.end_s
        self.panes.slowdown = self._slowdown(step.end_s)
        if self.windows:
            self.windows.stage.slowdown = self.panes.slowdown
        for result in self.panes.step(step):
            self._send(result)
        self._send_empty(step.open_from)
        self._serve(step.end_s)

    def _send(self, result: Result) -> None:
        """Send a result to the window level when its slot is done with it."""
        self._order += 1
        heapq.heappush(self._coming, (result.at_s, self._order, result))

    def _send_empty(self, before: int | None) -> None:
        """Send empty results to the window level for closed panes without tuples."""
        while self._empty and (before is None or self._empty[-1] < before):
            pane = self._empty.pop()
            self._send(Result(self.now_s, pane, 0, 0.0, 1, self._stream.cloud(pane), self.now_s))

    def _serve(self, now_s: float) -> None:
        while self._coming and self._coming[0][0] <= now_s:
            result = heapq.heappop(self._coming)[2]
            if self.windows:
                self.windows.stage.on(result)
        if self.windows:
            self.windows.stage.until(now_s)

    def _look(self, now_s: float) -> "_Seen":
        slots = {number: slot.totals(now_s) for number, slot in self.panes.slots.items()}
        _, processed, scheduled = map(sum, zip(*slots.values(), strict=True))
        return _Seen(self.panes.tuples, processed, scheduled, len(self.panes.samples), len(self.panes.results), slots)

    def sampled_utilisation(self, first: int = 0, last: int | None = None) -> float | None:
        """Return the plain mean of some of the PID's samples, as P0's controller reads it; None if there are none."""
        samples = [s.utilisation for s in self.panes.samples[first:last] if s.utilisation is not None]
        return sum(samples) / len(samples) if samples else None

    def _pane_utilisation(self, before: "_Seen", now: "_Seen", uses: list[SlotUse], interval_s: float) -> float:
        """Return the mean of the samples; if there are none, how busy the slots were."""
        measured = self.sampled_utilisation(before.samples, now.samples)
        return min(1.0, sum(use.busy_s for use in uses) / (len(uses) * interval_s)) if measured is None else measured

    def _splitting(self, first: int) -> float:
        """Return the mean number of partitions of the panes that closed in the interval; if none did, the previous value."""
        partitions = {result.pane: result.partitions for result in self.panes.results[first:]}
        if partitions:
            self.splitting_factor = sum(partitions.values()) / len(partitions)
        return self.splitting_factor


@dataclass(frozen=True)
class _Seen:
    """Totals at the end of an interval."""

    tuples: int = 0
    processed: float = 0.0
    scheduled: float = 0.0
    samples: int = 0
    results: int = 0
    slots: dict[int, tuple[float, float, int]] = field(default_factory=dict)


def run_elastic(
    plant: ElasticPlant, controller: Controller, length_s: float, *, interval_s: float = INTERVAL_S, threads: int = THREADS
) -> list[Cycle]:
    """Let a controller drive a plant until all results are out, and return the cycles."""
    guard = Guard.bounds(2 if plant.windows else 1, threads)
    return drive(plant, controller, guard, interval_s=interval_s, at_most_s=PATIENCE * length_s)
