"""When a pane is complete: how late tuples are, how long to wait for them, and how far the stream has come."""

from skytide.lateness.delays import Arrivals, observe
from skytide.lateness.progress import Progress
from skytide.lateness.slack import DropRatio, FixedSlack, KSlack, Slack, SlackLogic

__all__ = ["Arrivals", "DropRatio", "FixedSlack", "KSlack", "Progress", "Slack", "SlackLogic", "observe"]
