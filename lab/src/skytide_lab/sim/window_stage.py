"""The window level in virtual time: the real scheduler, slots that do one task at a time, and windows that come out in order."""

import heapq
from dataclasses import dataclass
from itertools import count, islice

from skytide.windows import Windows
from skytide_lab.scheduling.windows import Begin, Merge, Policy, Task, WindowScheduler
from skytide_lab.sim.costs import Costs
from skytide_lab.sim.pane_stage import Result


@dataclass
class Content:
    """How many tuples a result is computed from, and how many rows it has."""

    tuples: int = 0
    kept: float = 0.0


@dataclass(frozen=True)
class Done:
    """A finished task."""

    begin_s: float
    end_s: float
    slot: int
    task: Task


class WindowStage:
    """Emitter, slots and collector of the window level."""

    def __init__(self, costs: Costs, windows: Windows, slots: int, policy: Policy) -> None:
        """Start with idle slots."""
        self.scheduler = WindowScheduler(windows, slots, policy)
        self.done: list[Done] = []
        self.out_s: dict[int, float] = {}
        """When each window was done."""
        self.slowdown = 1.0
        """How many times as long tasks take that begin from now on, because other programs use the machine too (P0 §5.4)."""
        self._costs = costs
        self._contents: dict[int, Content] = {}
        self._uses: dict[int, int] = {}
        self._windows: dict[int, Content] = {}
        self._layout = windows
        self._cloud: dict[int, str] = {}
        self._running: list[tuple[float, int, float, int, Task]] = []
        self._order = 0

    def until(self, now_s: float) -> None:
        """Finish the tasks that end by now, and begin those that follow."""
        while self._running and self._running[0][0] <= now_s:
            end_s, _, begin_s, slot, task = heapq.heappop(self._running)
            self.done.append(Done(begin_s, end_s, slot, task))
            if not isinstance(task, Merge) and task.last:
                self.out_s[task.window] = end_s
                del self._windows[task.window]
            self._begin(self.scheduler.on_finished(slot, task), end_s)

    def on(self, result: Result) -> None:
        """Take in a result; results have to come in order of time."""
        self.until(result.at_s)
        number, begun = self.scheduler.on_result(result.pane, result.partitions)
        self._contents[number] = Content(result.tuples, result.kept)
        self._cloud[number] = result.cloud
        self._uses[number] = self._layout.last_of_pane(result.pane) - self._layout.first_of_pane(result.pane) + 1
        self._begin(begun, result.at_s)

    def running_s(self, now_s: float, period_s: float) -> dict[int, float]:
        """Return how long running tasks have taken within a period that ends now, by slot."""
        return {slot: now_s - max(begin_s, now_s - period_s) for _, _, begin_s, slot, _ in self._running}

    def resize(self, slots: int, now_s: float) -> None:
        """Change the number of slots; removed slots finish their tasks, and cannot come back before they have."""
        present = self.scheduler.slots
        leaving = {slot for _, _, _, slot, _ in self._running} - present
        wanted = set(islice((slot for slot in count() if slot not in leaving), slots))
        going = present - wanted
        self._begin(self.scheduler.add(sorted(wanted - present)), now_s)
        if going:
            self.scheduler.remove(going)

    def _begin(self, begun: list[Begin], now_s: float) -> None:
        for begin in begun:
            self._order += 1
            end_s = now_s + self._cost_s(begin.task) * self.slowdown
            heapq.heappush(self._running, (end_s, self._order, now_s, begin.slot, begin.task))

    def _cost_s(self, task: Task) -> float:
        """Return the cost of a task, and store its result: each new row is compared with each row that is there."""
        if isinstance(task, Merge):
            (one, cloud), (two, _) = (self._take(number) for number in task.results)
            pairs = one.kept * two.kept
            tuples = one.tuples + two.tuples
            self._contents[task.into] = Content(tuples, self._kept(tuples, one.kept + two.kept, cloud))
            self._cloud[task.into], self._uses[task.into] = cloud, 1
            return pairs * self._costs.pair_s
        result, cloud = self._take(task.result)
        window = self._windows.setdefault(task.window, Content())
        pairs = result.kept * window.kept
        window.tuples += result.tuples
        window.kept = self._kept(window.tuples, window.kept + result.kept, cloud)
        return pairs * self._costs.pair_s

    def _take(self, number: int) -> tuple[Content, str]:
        taken = self._contents[number], self._cloud[number]
        self._uses[number] -= 1
        if not self._uses[number]:
            del self._uses[number], self._contents[number], self._cloud[number]
        return taken

    def _kept(self, tuples: int, at_most: float, cloud: str) -> float:
        by_size = self._costs.curves[cloud].kept_by_size
        return min(at_most, by_size[min(tuples, len(by_size) - 1)])


@dataclass(frozen=True)
class WindowOutcome:
    """The performance of the window level over a whole stream."""

    windows: int
    throughput: float
    """Windows per second until the last one is out, relative to those of the stream."""
    imbalance: float
    idle_share: float
    merge_share: float
    """The share of merges in all tasks."""
    latency_s: float
    """Mean time from the end of a window, by the stream's time, to its result."""


def run_windows(
    results: list[Result], costs: Costs, windows: Windows, slots: int, policy: Policy, length_s: float
) -> tuple[WindowOutcome, WindowStage]:
    """Play all results of the pane level, and return the outcome and the stage."""
    stage = WindowStage(costs, windows, slots, policy)
    for result in with_empty_panes(results, windows):
        stage.on(result)
    stage.until(float("inf"))
    end_s = max((done.end_s for done in stage.done), default=length_s)
    loads = [0.0] * slots
    for done in stage.done:
        loads[done.slot] += done.end_s - done.begin_s
    outcome = WindowOutcome(
        windows=len(stage.out_s),
        throughput=length_s / max(end_s, length_s),
        imbalance=max(loads) / max(min(loads), 1e-9),
        idle_share=1 - sum(loads) / (slots * max(end_s, length_s)),
        merge_share=sum(isinstance(done.task, Merge) for done in stage.done) / max(len(stage.done), 1),
        latency_s=sum(at - windows.end_us(window) / 1e6 for window, at in stage.out_s.items()) / max(len(stage.out_s), 1),
    )
    return outcome, stage


def with_empty_panes(results: list[Result], windows: Windows) -> list[Result]:
    """Return the results in order of time, with an empty result for each pane of their windows without tuples."""
    if not results:
        return []
    closed_s: dict[int, float] = {}
    for result in results:
        closed_s[result.pane] = max(closed_s.get(result.pane, 0.0), result.at_s)
    first, last = min(closed_s), max(closed_s)
    panes = range(windows.panes_of(windows.first_of_pane(first)).start, windows.panes_of(windows.last_of_pane(last)).stop)
    empty, at_s = [], closed_s[last]
    for pane in reversed(panes):  # an empty pane is known to be complete when the next one is
        at_s = closed_s.get(pane, at_s)
        if pane not in closed_s:
            empty.append(Result(at_s, pane, 0, 0.0, 1, results[0].cloud, at_s))
    return sorted([*results, *empty], key=lambda result: result.at_s)
