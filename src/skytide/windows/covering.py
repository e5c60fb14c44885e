"""Which windows hold some panes, and how many tuples: in time proportional to panes and answers, however many panes a window has."""

import numpy as np
from numpy.typing import NDArray

from skytide.windows.sliding import Windows

Numbers = NDArray[np.int64]


def windows_with_panes(windows: Windows, panes: Numbers, among: range) -> Numbers:
    """Return the windows of `among` that hold at least one of some panes, which have to be in order.

    >>> windows_with_panes(Windows(length_us=3, slide_us=1), np.array([4, 9]), range(100))
    array([2, 3, 4, 7, 8, 9])
    """
    first = np.maximum(windows.first_of_pane(panes), among.start)
    end = np.minimum(windows.last_of_pane(panes) + 1, among.stop)
    first[1:] = np.maximum(first[1:], end[:-1])  # a window appears once, for the first pane it holds
    return stretches(first, np.maximum(end - first, 0))


def tuples_per_window(windows: Windows, panes: Numbers, counts: Numbers, wanted: Numbers) -> Numbers:
    """Return how many tuples some windows hold, from the counts of panes, which have to be in order.

    >>> tuples_per_window(Windows(length_us=3, slide_us=1), np.array([4, 5, 9]), np.array([10, 1, 5]), np.array([2, 3, 6, 8]))
    array([10, 11,  0,  5])
    """
    before = np.concatenate([[0], np.cumsum(counts)])
    start, stop = pane_bounds(windows, wanted)
    return np.asarray(before[np.searchsorted(panes, stop)] - before[np.searchsorted(panes, start)])


def pane_bounds(windows: Windows, wanted: Numbers) -> tuple[Numbers, Numbers]:
    """Return the first pane of each window, and the first pane after it."""
    first = wanted * windows.panes_per_slide
    return first, first + windows.panes_per_window


def stretches(first: Numbers, lengths: Numbers) -> Numbers:
    """Return ranges of consecutive numbers, one after the other.

    >>> stretches(np.array([7, 1]), np.array([3, 2]))
    array([7, 8, 9, 1, 2])
    """
    before = np.cumsum(lengths) - lengths
    return np.asarray(np.repeat(first - before, lengths) + np.arange(lengths.sum()))
