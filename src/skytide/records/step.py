"""The steps of a batch, by which its time is counted."""

from enum import StrEnum


class Step(StrEnum):
    """A step of a batch, or the work of its tasks, which run side by side."""

    PANE_LEVEL = "pane level"
    PANE_TASKS = "pane tasks"
    WINDOW_LEVEL = "window level"
    WINDOW_TASK = "window task"
    KEY_LEVEL = "key level"
    KEY_TASKS = "key tasks"
    SINK = "sink"
    COMMIT = "commit"


STEPS = (Step.PANE_LEVEL, Step.WINDOW_LEVEL, Step.KEY_LEVEL, Step.SINK, Step.COMMIT)
"""Those that make up the time of a batch, one after the other."""
TASKS = (Step.PANE_TASKS, Step.WINDOW_TASK, Step.KEY_TASKS)
