"""Spark's way in virtual time: batches at a trigger, tasks on cores, and the costs of Spark itself around them."""

import heapq
from dataclasses import dataclass

from skytide.routing import Router, SlotUse, Splitting, utilisation
from skytide.windows import Windows
from skytide.workloads.workload import Workload

SECOND_US = 1_000_000


@dataclass(frozen=True)
class BatchCosts:
    """What a batch costs on some machine, measured on the real engine at some loads."""

    origin: str
    batch_s: float
    """Of a batch with no work: Spark's own."""
    tuple_s: float
    """To make and reduce a tuple, in a task of the pane level."""
    task_s: float
    """Of a task of the pane level with no tuples."""
    window_s: float
    """Of a slide of the windows, in the task of the window level, at no load."""
    window_tuple_s: float
    """And for each tuple of the slide."""


@dataclass(frozen=True)
class BatchOutcome:
    """How a micro-batch query did over a whole stream."""

    batches: int
    utilisation: float
    """Time of batches over the time of the stream."""
    pane_utilisation: float
    overruns: float
    """The share of batches that took longer than the trigger's interval."""
    latency_mean_s: float
    latency_p99_s: float
    """From the end of a window to its result."""


def run_batches(
    workload: Workload,
    windows: Windows,
    costs: BatchCosts,
    strategy: Splitting,
    *,
    slots: int,
    cores: int,
    trigger_s: float,
    length_s: float,
) -> BatchOutcome:
    """Play a stream without late tuples: a batch takes all that came since the one before, and starts at a trigger or when that is done."""
    tick_s = workload.tick_us / SECOND_US
    counts = workload.counts(0, int(length_s / tick_s)).tolist()
    router = strategy.build(slots)
    now = busy_s = 0.0
    taken = 0
    latencies: list[float] = []
    used: list[float] = []
    batches = overruns = 0
    next_window = windows.first_of_pane(0)
    while taken < len(counts):
        come = min(len(counts), int(now / tick_s))
        if come == taken:
            now = (int(now / trigger_s + 1e-9) + 1) * trigger_s
            continue
        runs = [(windows.pane_of(tick * workload.tick_us), counts[tick]) for tick in range(taken, come)]
        loads = _loads(router, runs, slots)
        tasks_s = [costs.task_s + load * costs.tuple_s for load in loads if load]
        panes_s = _makespan(tasks_s, cores)
        ended = windows.last_ended_by(int(come * tick_s * SECOND_US)) + 1 - next_window
        window_s = ended * costs.window_s + sum(loads) * costs.window_tuple_s if ended > 0 else 0.0
        took = costs.batch_s + panes_s + window_s
        for window in range(next_window, next_window + max(ended, 0)):
            latencies.append(now + took - windows.end_us(window) / SECOND_US)
        next_window += max(ended, 0)
        uses = [SlotUse(load, load, costs.task_s + load * costs.tuple_s if load else 0.0) for load in loads]
        measured = utilisation(uses, max(took, trigger_s))
        router.sample(measured)
        router.close(windows.panes_of(next_window).stop - windows.panes_per_slide)
        used.append(measured or 0.0)
        busy_s += took
        batches += 1
        overruns += took > trigger_s
        taken = come
        now = max(now + took, (int(now / trigger_s + 1e-9) + 1) * trigger_s)
    latencies.sort()
    return BatchOutcome(
        batches=batches,
        utilisation=busy_s / length_s,
        pane_utilisation=sum(used) / max(len(used), 1),
        overruns=overruns / max(batches, 1),
        latency_mean_s=sum(latencies) / max(len(latencies), 1),
        latency_p99_s=latencies[int(0.99 * (len(latencies) - 1))] if latencies else 0.0,
    )


def _loads(router: Router, runs: list[tuple[int, int]], slots: int) -> list[int]:
    loads = [0] * slots
    for slot, run in zip(router.strategy.plan(router, runs), runs, strict=True):
        loads[slot] += run[1]
    return loads


def _makespan(tasks_s: list[float], cores: int) -> float:
    """Give when the last task ends, if free cores take the tasks in order, as Spark does."""
    free = [0.0] * cores
    for task_s in tasks_s:
        heapq.heapreplace(free, free[0] + task_s)
    return max(free)
