"""Tests of one's own queries, operators, controllers and sinks: the real engine in one process, laws to apply, and a clock."""

from skytide.testing.clock import ManualClock
from skytide.testing.controllers import check_controller, check_steering
from skytide.testing.jobs import InProcess
from skytide.testing.laws import BrokenLaw
from skytide.testing.operators import check_operator
from skytide.testing.queries import check_query
from skytide.testing.runner import Outputs, Runner, run
from skytide.testing.sinks import check_sink

__all__ = [
    "BrokenLaw",
    "InProcess",
    "ManualClock",
    "Outputs",
    "Runner",
    "check_controller",
    "check_operator",
    "check_query",
    "check_sink",
    "check_steering",
    "run",
]
