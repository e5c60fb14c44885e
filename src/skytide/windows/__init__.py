"""Durations, windows and panes, in whole microseconds."""

from skytide.windows.covering import pane_bounds, stretches, tuples_per_window, windows_with_panes
from skytide.windows.duration import Duration, duration_s, duration_us, shown
from skytide.windows.sliding import Windows, sliding

__all__ = [
    "Duration",
    "Windows",
    "duration_s",
    "duration_us",
    "pane_bounds",
    "shown",
    "sliding",
    "stretches",
    "tuples_per_window",
    "windows_with_panes",
]
