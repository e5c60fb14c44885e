"""Sliding windows cut into panes: all times are whole microseconds, and all intervals half-open."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from skytide.errors import InvalidInput
from skytide.errors.limits import MAX_OVERLAPPING
from skytide.windows.duration import duration_us, shown

Numbers = TypeVar("Numbers", int, NDArray[np.int64])
"""A time or the number of a pane, or an array of them."""


@dataclass(frozen=True)
class Windows:
    """Windows of one length, one per slide, aligned to the epoch. Panes are cut where a window starts or ends, and nowhere else.

    If the length is a multiple of the slide, a pane is a slide; otherwise a slide has two panes: one that ends where an earlier
    window ends, and the rest. Panes are numbered in order of time, without gaps.

    >>> five = Windows(length_us=5_000_000, slide_us=3_000_000)
    >>> five.panes_per_window, five.panes_per_slide, five.first_pane_us
    (3, 2, 2000000)
    >>> five.panes_of(1), five.first_of_pane(2), five.pane_of(4_999_999), five.pane_of(5_000_000)
    (range(2, 5), 0, 2, 3)
    """

    length_us: int
    slide_us: int

    def __post_init__(self) -> None:
        """Refuse windows that leave gaps."""
        if self.slide_us > self.length_us:
            raise InvalidInput(
                value=f'slide="{shown(self.slide_us)}"',
                reason=f'longer than length="{shown(self.length_us)}": tuples between windows would be lost',
                remedy="choose slide <= length",
            )

    @property
    def first_pane_us(self) -> int:
        """Return the length of the first pane of each slide: the whole slide, if it is the only one."""
        return self.length_us % self.slide_us or self.slide_us

    @property
    def panes_per_slide(self) -> int:
        """Return how many panes later the next window starts: one or two."""
        return 2 if self.length_us % self.slide_us else 1

    @property
    def panes_per_window(self) -> int:
        """Return how many panes make up a window."""
        return self.length_us // self.slide_us * self.panes_per_slide + self.panes_per_slide - 1

    def pane_of(self, time_us: Numbers) -> Numbers:
        """Return the pane of a time, or those of an array of times."""
        if self.panes_per_slide == 1:
            return time_us // self.slide_us
        return time_us // self.slide_us * 2 + (time_us % self.slide_us >= self.first_pane_us)

    def pane_start_us(self, pane: int) -> int:
        """Return when a pane starts; it ends when the next one starts."""
        slide, second = divmod(pane, self.panes_per_slide)
        return slide * self.slide_us + second * self.first_pane_us

    def panes_of(self, window: int) -> range:
        """Return the panes of a window."""
        first = window * self.panes_per_slide
        return range(first, first + self.panes_per_window)

    def first_of_pane(self, pane: Numbers) -> Numbers:
        """Return the earliest window that holds a pane, or those of an array of panes."""
        return (pane - self.panes_per_window) // self.panes_per_slide + 1

    def last_of_pane(self, pane: Numbers) -> Numbers:
        """Return the latest window that holds a pane, or those of an array of panes."""
        return pane // self.panes_per_slide

    def start_us(self, window: int) -> int:
        """Return when a window starts."""
        return window * self.slide_us

    def end_us(self, window: int) -> int:
        """Return when a window ends; this instant no longer belongs to it."""
        return window * self.slide_us + self.length_us

    def last_ended_by(self, time_us: int) -> int:
        """Return the latest window that has ended by a time."""
        return (time_us - self.length_us) // self.slide_us


def sliding(length: object, slide: object | None = None) -> Windows:
    """Return windows as people write them; without a slide, one window follows the other.

    >>> sliding("1 second", slide="200 ms")
    Windows(length_us=1000000, slide_us=200000)
    """
    length_us = duration_us(length, "length")
    slide_us = length_us if slide is None else duration_us(slide, "slide")
    if length_us // slide_us > MAX_OVERLAPPING:
        raise InvalidInput(
            value=f'length="{shown(length_us)}", slide="{shown(slide_us)}"',
            reason=f"each tuple would belong to {length_us // slide_us:,} windows",
            remedy=f"choose a slide with which there are at most {MAX_OVERLAPPING:,}",
        )
    return Windows(length_us, slide_us)
