"""Frozen values that layers exchange, with units in their names."""

from skytide.records.scaling import (
    Allocation,
    Decision,
    Evaluation,
    Expected,
    MicroBatch,
    Mode,
    Observation,
    Outcome,
    ScalerStatus,
    ScalingEvent,
)
from skytide.records.step import STEPS, TASKS, Step
from skytide.records.stream import QueryState, Slots, Status, WindowRow

__all__ = [
    "STEPS",
    "TASKS",
    "Allocation",
    "Decision",
    "Evaluation",
    "Expected",
    "MicroBatch",
    "Mode",
    "Observation",
    "Outcome",
    "QueryState",
    "ScalerStatus",
    "ScalingEvent",
    "Slots",
    "Status",
    "Step",
    "WindowRow",
]
