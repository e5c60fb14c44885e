"""How the window level is run: on the driver, in one task, or in several side by side."""

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from skytide.batch import OnDriver, Parts, Piece, Slices, StepReport, WindowReport
from skytide.spark.engine.jobs import Jobs
from skytide.spark.engine.windows import MergeTask, WindowTask

DRIVER_THREADS = 4  # or as many as there are slots, if that is more: no task of this query runs meanwhile, but other queries may

MERGE_TASKS = 64  # at most

Work = Callable[[], StepReport]


def run_windows(jobs: Jobs, task: WindowTask) -> WindowReport:
    """Answer the windows that ended, spread as was decided, and return the report."""
    spreading = task.instruction.spreading
    if isinstance(spreading, OnDriver):
        threads = min(max(spreading.slots, DRIVER_THREADS), _cores())
        return task.run(threads)
    if isinstance(spreading, Parts):
        return WindowReport.together([WindowReport.from_text(text) for text in jobs.window_tasks(spreading.cuts, task.run_parts)])
    if not isinstance(spreading, Slices):
        return WindowReport.from_text(jobs.window_task(task.run))
    with ThreadPoolExecutor(spreading.slots) as slots:  # each slot is a thread that pulls the next task when it is idle

        def pull(work: list[Work]) -> list[StepReport]:
            return [StepReport.from_text(text) for text in slots.map(jobs.window_task, work)]

        parted = [pane for pane, pieces in task.instruction.panes.items() if len(pieces) > 1]
        merged = pull([lambda pane=pane: task.merge(pane) for pane in parted])  # type: ignore[misc]
        whole = {pane: (Piece(report.file, 0, 1, report.rows),) for pane, report in zip(parted, merged, strict=True)}
        task = replace(task, instruction=replace(task.instruction, panes={**task.instruction.panes, **whole}))
        # The new panes among themselves are the last task, marked by an empty slice.
        compared = pull([lambda cut=cut: task.compare(*cut) for cut in (*spreading.cuts, (0, 0))])  # type: ignore[misc]
    report = WindowReport.from_text(jobs.window_task(lambda: task.assemble(tuple(step.file for step in compared))))
    return replace(report, busy_s=report.busy_s + sum(step.busy_s for step in (*merged, *compared)))


def merge_pieces(jobs: Jobs, task: MergeTask) -> tuple[Piece, ...]:
    """Merge pieces of open panes: on the driver if they are few, or in tasks."""
    count = len(task.instruction.merges)
    if task.instruction.on_driver:
        return task.run((0, count))
    size = -(-count // MERGE_TASKS)
    cuts = [(first, min(first + size, count)) for first in range(0, count, size)]
    return tuple(Piece(*piece) for text in jobs.window_tasks(cuts, task.reported) for piece in json.loads(text))


def _cores() -> int:
    """Return how many cores this process may use, which in a container may be fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
