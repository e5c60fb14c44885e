"""How the window level is run: on the driver, in one task, or in several side by side."""

import json
import os
from dataclasses import replace

from skytide.batch import MergePieces, OnDriver, OpenPane, Parts, Piece, PiecesToMerge, StepReport, WindowReport
from skytide.batch.merging import PIECES_AT_ONCE
from skytide.batch.open_panes import with_merged
from skytide.queries import Incremental
from skytide.spark.engine.jobs import Jobs
from skytide.spark.engine.parts import ALL_PARTS
from skytide.spark.engine.pieces import MergeTask
from skytide.spark.engine.windows import WindowTask

DRIVER_THREADS = 4  # or as many as there are slots, if that is more: no task of this query runs meanwhile, but other queries may
MERGE_TASKS = 64  # at most


def run_windows(jobs: Jobs, task: WindowTask) -> WindowReport:
    """Answer the windows that ended, spread as was decided, and return the report."""
    spreading = task.instruction.spreading
    if isinstance(spreading, OnDriver):
        threads = min(max(spreading.slots, DRIVER_THREADS), _cores())
        return task.run(threads)
    if not isinstance(spreading, Parts):
        return WindowReport.from_text(jobs.window_task(task.run))
    if task.spec.parted_by:
        report = _together(jobs.window_tasks(spreading.of_slots, task.run_parts))
        apart = task.spec.query.of_groups() is not None
        return WindowReport.from_text(jobs.window_task(lambda: task.from_groups(report))) if apart else report
    task, spent_s = _merged(jobs, task, len(spreading.of_slots))
    if task.spec.query.skyline_inside() is None:
        report = WindowReport.from_text(jobs.window_task(task.run))
        return _with_steps(report, [spent_s])
    found = [
        StepReport.from_text(text) for text in jobs.window_tasks(spreading.of_slots, lambda some: task.compare(some).to_text())
    ]
    verdicts = {some: step.file for some, step in zip(spreading.of_slots, found, strict=True)}
    of_slots = spreading.of_slots if Incremental(task.spec.query).is_skyline else (ALL_PARTS,)
    report = _together(jobs.window_tasks(of_slots, lambda some: task.assemble(some, verdicts).to_text()))
    return _with_steps(report, [step.busy_s for step in found], spent_s)


def merge_pieces(jobs: Jobs, task: MergeTask) -> tuple[Piece, ...]:
    """Merge pieces of open panes: on the driver if they are few, or in tasks."""
    if task.instruction.on_driver:
        return task.run((0, len(task.instruction.merges)))
    return _in_tasks(jobs, task)[0]


def _merged(jobs: Jobs, task: WindowTask, slots: int) -> tuple[WindowTask, float]:
    """Merge what tasks kept of the new panes in a tree, until each pane is one piece; return how long the tasks took, too."""
    work, spent_s = task.instruction, 0.0
    panes = {pane: OpenPane(pieces=pieces) for pane, pieces in work.panes.items()}
    while any(len(pane.pieces) > 1 for pane in panes.values()):
        size = min(PIECES_AT_ONCE, max(2, -(-sum(len(pane.pieces) for pane in panes.values()) // slots)))
        lots = [(number, pane.pieces[at : at + size]) for number, pane in panes.items() for at in range(0, len(pane.pieces), size)]
        merges = tuple(PiecesToMerge(number, pieces) for number, pieces in lots if len(pieces) > 1)
        merged, busy_s = _in_tasks(jobs, MergeTask(task.spec, task.files, MergePieces(work.sequence, merges, on_driver=False)))
        panes, spent_s = with_merged(panes, merges, merged), spent_s + busy_s
    whole = replace(work, panes={number: pane.pieces for number, pane in panes.items()})
    return replace(task, instruction=whole), spent_s


def _in_tasks(jobs: Jobs, task: MergeTask) -> tuple[tuple[Piece, ...], float]:
    """Merge pieces in tasks, and return the pieces and how long the tasks took together."""
    count = len(task.instruction.merges)
    size = -(-count // MERGE_TASKS)
    lots = [(first, min(first + size, count)) for first in range(0, count, size)]
    reports = [json.loads(text) for text in jobs.window_tasks(lots, task.reported)]
    return tuple(Piece(*piece) for pieces, _ in reports for piece in pieces), sum(busy_s for _, busy_s in reports)


def _with_steps(report: WindowReport, side_by_side_s: list[float], before_s: float = 0.0) -> WindowReport:
    """Return a report with the time of steps before it, of which some ran side by side."""
    all_s = sum(side_by_side_s)
    others_s = report.others_s + all_s - max(side_by_side_s, default=0.0)
    return replace(report, busy_s=report.busy_s + before_s + all_s, others_s=others_s)


def _together(texts: list[str]) -> WindowReport:
    return WindowReport.together([WindowReport.from_text(text) for text in texts])


def _cores() -> int:
    """Return how many cores this process may use, which in a container may be fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
