"""Decides when a pane is complete: how late tuples are, how long to wait for them, and how far the stream has come."""

from skytide.lateness.clock import StreamClock
from skytide.lateness.crowds import FEW, Crowd
from skytide.lateness.delays import Arrivals, Order, observe
from skytide.lateness.slack import SLACKS, DropRatio, FixedSlack, KSlack, Slack, SlackLogic

__all__ = [
    "FEW",
    "SLACKS",
    "Arrivals",
    "Crowd",
    "DropRatio",
    "FixedSlack",
    "KSlack",
    "Order",
    "Slack",
    "SlackLogic",
    "StreamClock",
    "observe",
]
