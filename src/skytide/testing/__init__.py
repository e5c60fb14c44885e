"""Tests of one's own queries, operators, controllers and sinks: the real engine in one process, laws to apply, and a clock."""

from skytide.testing.clock import ManualClock
from skytide.testing.jobs import InProcess
from skytide.testing.runner import Outputs, Runner, run

__all__ = [
    "InProcess",
    "ManualClock",
    "Outputs",
    "Runner",
    "run",
]
