"""Frozen values that layers exchange, with units in their names."""

from skytide.records.scaling import Allocation, Decision, Evaluation, Event, Expected, Observation, Outcome, ScalerStatus
from skytide.records.stream import Status, WindowRow

__all__ = [
    "Allocation",
    "Decision",
    "Evaluation",
    "Event",
    "Expected",
    "Observation",
    "Outcome",
    "ScalerStatus",
    "Status",
    "WindowRow",
]
