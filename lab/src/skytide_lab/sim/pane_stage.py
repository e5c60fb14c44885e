"""The pane level in virtual time: an emitter with a real router, and slots that work through their queues.

A slot serves its queue in order and does nothing else, so the end of a piece of work is known when it is queued: there are no
events but those of the stream. So there is no event queue here, which would only be slower.
"""

from collections import deque
from dataclasses import dataclass, field, replace
from statistics import fmean, pstdev

from skytide.routing import Partition, Router, SlotUse, Splitting, slot_utilisation
from skytide_lab.sim.costs import Costs
from skytide_lab.sim.traffic import Step, Traffic


@dataclass(frozen=True)
class Result:
    """The result of a partition, on its way to the window level."""

    at_s: float
    pane: int
    tuples: int
    kept: float
    partitions: int
    cloud: str
    computed_s: float
    """When the work on its last tuple was done."""


@dataclass(frozen=True)
class Sample:
    """What was measured in a sampling period."""

    end_s: float
    utilisation: float | None
    slots: int
    tuples: int
    processed: int
    threshold: float
    held: float
    """Tuples that the level holds: buffered, waiting at slots, and in the results of open panes."""


@dataclass
class _Slot:
    queue: deque[tuple[float, float, int]] = field(default_factory=deque)  # begin, end, tuples
    free_s: float = 0.0
    busy_s: float = 0.0
    """Time of finished work."""
    processed: int = 0
    scheduled: int = 0
    seen: tuple[float, float, int] = (0.0, 0.0, 0)
    """Busy time, processed and scheduled tuples at the last sample."""

    def until(self, now_s: float) -> int:
        """Finish the work that ends by now, and return its number of tuples."""
        queue, done = self.queue, 0
        while queue and queue[0][1] <= now_s:
            begin, end, n = queue.popleft()
            self.busy_s += end - begin
            done += n
        self.processed += done
        return done

    def totals(self, now_s: float) -> tuple[float, float, int]:
        """Return the busy time, and the processed and scheduled tuples; work in progress counts by its share."""
        busy, processed = self.busy_s, float(self.processed)
        if self.queue and self.queue[0][0] < now_s:
            begin, end, n = self.queue[0]
            busy += now_s - begin
            processed += n * (now_s - begin) / (end - begin)
        return busy, processed, self.scheduled

    def use(self, now_s: float) -> SlotUse:
        """Return what the slot did since the last call."""
        before, self.seen = self.seen, self.totals(now_s)
        return use_between(before, self.seen)


def use_between(before: tuple[float, float, int], now: tuple[float, float, int]) -> SlotUse:
    """Return what a slot did between two of its totals."""
    return SlotUse(now[2] - before[2], round(now[1] - before[1]), now[0] - before[0])


class PaneStage:
    """Emitter and slots of the pane level."""

    def __init__(self, costs: Costs, strategy: Splitting, slots: int, traffic: Traffic, period_s: float = 1.0) -> None:
        """Start with idle slots."""
        self.router: Router = strategy.build(slots)
        self.results: list[Result] = []
        self.samples: list[Sample] = []
        self.slots: dict[int, _Slot] = {slot: _Slot() for slot in range(slots)}
        self.computed_s: dict[int, float] = {}
        """When the work on the last tuple of each closed pane was done."""
        self.closed_s: dict[int, float] = {}
        """When the last result of each closed pane was out."""
        self._queued: dict[int, int] = dict.fromkeys(self.slots, 0)
        self._traffic, self._period_s = traffic, period_s
        self._busy = {cloud: curve.busy_by_size for cloud, curve in costs.curves.items()}
        self._kept = {cloud: curve.kept_by_size for cloud, curve in costs.curves.items()}
        self._done: dict[tuple[int, int], float] = {}  # when the last tuple of each partition is done
        self._next_sample_s = period_s
        self.open_panes: list[int] = []
        """How many panes were open at each sample."""
        self.slowdown = 1.0
        """How many times as long work takes from now on, because other programs use the machine too (P0 §5.4)."""
        self._sampled = self.tuples = 0
        self._closed_before: int | None = None

    def step(self, step: Step) -> list[Result]:
        """Play a step of the stream, and return the results of panes that close."""
        now = step.end_s
        queued = self._queued
        for number, slot in self.slots.items():
            if slot.queue and slot.queue[0][1] <= now:
                queued[number] -= slot.until(now)
        if now >= self._next_sample_s:
            self._sample(now, step.buffered)
        route, cloud = self.router.route, self._traffic.cloud
        for pane, n in step.arrived:
            busy = self._busy[cloud(pane)]
            given = route(pane, n, queued)
            sent = self.router.open[pane].sent
            for number, share in given.items():
                size = sent[number]
                self._work(number, pane, share, busy[size] - busy[size - share], now)
            self.tuples += n
        return self._close(step, now)

    def resize(self, slots: int, now_s: float) -> list[Result]:
        """Change the number of slots, and return the results of partitions that removed slots give up; these finish their queues."""
        wanted, present = set(range(slots)), set(self.router.slots)
        for number in sorted(wanted - present):
            self.slots.setdefault(number, _Slot(free_s=now_s)).use(
                now_s
            )  # what it did before it was removed does not belong to this period
            self._queued.setdefault(number, 0)
        self.router.add(sorted(wanted - present))
        going = sorted(present - wanted)
        return [self._result(partition, now_s) for partition in self.router.remove(going, self._queued)] if going else []

    def _work(self, number: int, pane: int, tuples: int, seconds: float, now_s: float) -> None:
        slot = self.slots[number]
        begin = slot.free_s if slot.free_s > now_s else now_s
        slot.free_s = begin + seconds * self.slowdown
        slot.queue.append((begin, slot.free_s, tuples))
        slot.scheduled += tuples
        self._done[pane, number] = slot.free_s

    def _close(self, step: Step, now_s: float) -> list[Result]:
        if step.open_from == self._closed_before:
            return []
        self._closed_before = step.open_from
        closed = [self._result(partition, now_s) for partition in self.router.close(step.open_from)]
        for result in closed:
            computed = max(self.computed_s.get(result.pane, 0.0), result.computed_s)
            self.computed_s[result.pane] = computed
            self.closed_s[result.pane] = max(self.closed_s.get(result.pane, 0.0), result.at_s)
        self.results += closed
        return closed

    def _result(self, partition: Partition, now_s: float) -> Result:
        """Return the result of a partition, which leaves when its slot has done all that was queued before the punctuation."""
        cloud = self._traffic.cloud(partition.pane)
        slot = self.slots[partition.slot]
        return Result(
            at_s=max(now_s, slot.free_s),
            pane=partition.pane,
            tuples=partition.tuples,
            kept=self._kept[cloud][partition.tuples],
            partitions=partition.partitions,
            cloud=cloud,
            computed_s=self._done.pop((partition.pane, partition.slot), now_s),
        )

    def _sample(self, now_s: float, buffered: int) -> None:
        uses = [self.slots[number].use(now_s) for number in self.router.slots]
        measured = slot_utilisation(uses, self._period_s)
        self.router.sample(measured)
        kept = sum(
            self._kept[self._traffic.cloud(pane)][n]
            for pane, open_pane in self.router.open.items()
            for n in open_pane.sent.values()
        )
        self.open_panes.append(len(self.router.open))
        done = sum(use.processed for use in uses)
        held = buffered + sum(self._queued.values()) + kept
        self.samples.append(Sample(now_s, measured, len(uses), self.tuples - self._sampled, done, self.router.threshold, held))
        self._sampled = self.tuples
        self._next_sample_s += self._period_s


@dataclass(frozen=True)
class PaneOutcome:
    """The performance of the pane level over a whole stream."""

    utilisation: float
    """The plain mean of all samples after the warm-up, as in P3's scheduler and P0's controller."""
    splitting_factor: float
    throughput: float
    """Panes per second until the last one is done, relative to those of the stream: below 1 if the level falls behind."""
    kept_per_pane: float
    imbalance: float
    """Load of the most loaded slot, relative to that of the least loaded one."""
    latency_s: float
    """Mean time from the arrival of a pane's first tuple to the end of the work on its last (P3 Definition 1)."""
    closing_lag_s: float
    """Mean time from the end of the work on a pane's last tuple to its closing (P3 Definition 2)."""
    pane_cv: float
    """The standard deviation of the sizes of panes, relative to their mean."""


def run_panes(
    traffic: Traffic,
    costs: Costs,
    strategy: Splitting,
    slots: int,
    *,
    period_s: float = 1.0,
    warm_up_s: float = 0.0,
    move_s: float = 0.0,
) -> tuple[PaneOutcome, PaneStage]:
    """Play a whole stream, and return its outcome and the stage; `move_s` is the emitter's time per pointer that its sorted buffer moves."""
    stage = PaneStage(costs, strategy, slots, traffic, period_s)
    for step in delayed(traffic, move_s) if move_s else traffic.steps:
        stage.step(step)
    counted = [s.utilisation for s in stage.samples if s.end_s > warm_up_s and s.utilisation is not None]
    kept: dict[int, float] = {}
    sizes: dict[int, int] = {}
    for result in stage.results:
        kept[result.pane] = kept.get(result.pane, 0.0) + result.kept
        sizes[result.pane] = sizes.get(result.pane, 0) + result.tuples
    loads = [slot.busy_s + sum(end - begin for begin, end, _ in slot.queue) for slot in stage.slots.values()]
    lags = [stage.closed_s[pane] - computed for pane, computed in stage.computed_s.items()]
    latencies = [computed - traffic.first_arrival_s[pane] for pane, computed in stage.computed_s.items()]
    size = list(sizes.values())
    outcome = PaneOutcome(
        utilisation=fmean(counted) if counted else 0.0,
        splitting_factor=stage.router.splitting_factor,
        throughput=traffic.length_s / max(traffic.length_s, *stage.computed_s.values()),
        kept_per_pane=sum(kept.values()) / max(len(kept), 1),
        imbalance=max(loads) / max(min(loads), 1e-9),
        latency_s=fmean(latencies),
        closing_lag_s=fmean(lags),
        pane_cv=pstdev(size) / fmean(size),
    )
    return outcome, stage


def delayed(traffic: Traffic, move_s: float) -> list[Step]:
    """Return the steps as they leave an emitter that needs time to sort: tuples wait while it is busy."""
    free_s, steps = 0.0, []
    for step in traffic.steps:
        free_s = max(free_s, step.end_s) + step.moved * move_s
        steps.append(replace(step, end_s=free_s))
    return steps
