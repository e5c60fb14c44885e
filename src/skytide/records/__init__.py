"""Frozen values that layers exchange, with units in their names."""

from skytide.records.scaling import Allocation, Decision, Evaluation, Event, Expected, Observation, Outcome, ScalerStatus
from skytide.records.step import STEPS, TASKS, Step
from skytide.records.stream import Status, WindowRow

__all__ = [
    "STEPS",
    "TASKS",
    "Allocation",
    "Decision",
    "Evaluation",
    "Event",
    "Expected",
    "Observation",
    "Outcome",
    "ScalerStatus",
    "Status",
    "Step",
    "WindowRow",
]
