"""Integers of time: lengths, windows, panes."""

from skytide.windows.covering import pane_bounds, stretches, tuples_per_window, windows_with_panes
from skytide.windows.duration import duration_us, shown
from skytide.windows.sliding import Windows, sliding

__all__ = ["Windows", "duration_us", "pane_bounds", "shown", "sliding", "stretches", "tuples_per_window", "windows_with_panes"]
