"""Integers of time: lengths, windows, panes."""

from skytide.windows.duration import duration_us, shown
from skytide.windows.sliding import Windows, sliding

__all__ = ["Windows", "duration_us", "shown", "sliding"]
