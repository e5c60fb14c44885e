"""What it would bring to answer the windows of a batch while the next one runs its pane level (P0 Fig. 2), from what both levels take."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Levels:
    """What a batch takes: its tasks compute, all else waits."""

    around_s: float
    """What Spark and the engine do before the pane level and after the window level."""
    pane_job_s: float
    """Time of the job of the pane level beside its tasks."""
    pane_tasks_s: Sequence[float]
    window_job_s: float
    """The same of the window level."""
    window_tasks_s: Sequence[float]
    driver_task_s: float = 0.0
    """Time of the driver for each task, one after the other."""


def one_by_one_s(levels: Levels, cores: int) -> float:
    """Return the time from one batch to the next, if the pane level waits for the windows of the batch before.

    >>> one_by_one_s(Levels(0.1, 0.1, [1.0, 1.0], 0.2, [1.0]), cores=2)
    2.4
    """
    pane_s = makespan(levels.pane_tasks_s, cores, levels.driver_task_s)
    window_s = makespan(levels.window_tasks_s, cores, levels.driver_task_s)
    return levels.around_s + levels.pane_job_s + pane_s + levels.window_job_s + window_s


def side_by_side_s(levels: Levels, cores: int) -> float:
    """Return the time from one batch to the next, if windows are answered while the next batch begins: on the same cores, by the same driver.

    Nothing is gained where the cores are busy; where they are idle, a level is free of charge:

    >>> side_by_side_s(Levels(0.0, 0.0, [1.0, 1.0], 0.0, [1.0, 1.0]), cores=2)
    2.0
    >>> side_by_side_s(Levels(0.0, 0.0, [1.0, 1.0], 0.0, [1.0, 1.0]), cores=4)
    1.0
    """
    pane_at_s, window_at_s = levels.around_s + levels.pane_job_s, levels.window_job_s
    tasks = [(window_at_s, task_s) for task_s in levels.window_tasks_s] + [(pane_at_s, task_s) for task_s in levels.pane_tasks_s]
    free, launched_s = [0.0] * cores, 0.0
    for ready_s, task_s in sorted(tasks, key=lambda task: task[0]):
        launched_s = max(launched_s, ready_s) + levels.driver_task_s
        heapq.heapreplace(free, max(free[0], launched_s) + task_s)
    return max(*free, pane_at_s, window_at_s)


def makespan(tasks_s: Sequence[float], cores: int, driver_task_s: float) -> float:
    """Return when the last task ends, if free cores take the tasks in order, as Spark does, and none before the driver has got to it."""
    free = [0.0] * cores
    for number, task_s in enumerate(tasks_s, start=1):
        heapq.heapreplace(free, max(free[0], number * driver_task_s) + task_s)
    return max(free)
