"""Sliding windows cut into panes: everything a whole number of microseconds, every interval half-open."""

import math
from dataclasses import dataclass

from skytide.errors import InvalidInput
from skytide.windows.duration import duration_us, shown


@dataclass(frozen=True)
class Windows:
    """Windows of one length, one every slide, aligned to the epoch; a pane is the greatest common piece of both.

    >>> five = Windows(length_us=5_000_000, slide_us=2_000_000)
    >>> five.pane_us, five.panes_a_window, five.panes_a_slide
    (1000000, 5, 2)
    >>> five.panes_of(1), five.first_of_pane(2)
    (range(2, 7), -1)
    """

    length_us: int
    slide_us: int

    def __post_init__(self) -> None:
        """Refuse windows that leave gaps."""
        if self.slide_us > self.length_us:
            raise InvalidInput(
                value=f'slide="{shown(self.slide_us)}"',
                reason=f'longer than window="{shown(self.length_us)}": tuples between windows would be lost',
                remedy="choose slide <= window",
            )

    @property
    def pane_us(self) -> int:
        """The length of a pane."""
        return math.gcd(self.length_us, self.slide_us)

    @property
    def panes_a_window(self) -> int:
        """How many panes make up a window."""
        return self.length_us // self.pane_us

    @property
    def panes_a_slide(self) -> int:
        """How many panes later the next window starts."""
        return self.slide_us // self.pane_us

    def panes_of(self, window: int) -> range:
        """The panes of a window."""
        first = window * self.panes_a_slide
        return range(first, first + self.panes_a_window)

    def first_of_pane(self, pane: int) -> int:
        """The earliest window that holds a pane."""
        return (pane - self.panes_a_window) // self.panes_a_slide + 1

    def last_of_pane(self, pane: int) -> int:
        """The latest window that holds a pane."""
        return pane // self.panes_a_slide

    def start_us(self, window: int) -> int:
        """When a window starts."""
        return window * self.slide_us

    def end_us(self, window: int) -> int:
        """When a window ends; this instant no longer belongs to it."""
        return window * self.slide_us + self.length_us

    def last_ended_by(self, time_us: int) -> int:
        """The latest window that has ended at a time."""
        return (time_us - self.length_us) // self.slide_us


def sliding(length: object, slide: object | None = None) -> Windows:
    """Read windows as people write them; without a slide one window follows the other.

    >>> sliding("1 second", slide="200 ms")
    Windows(length_us=1000000, slide_us=200000)
    """
    length_us = duration_us(length, "window")
    return Windows(length_us, length_us if slide is None else duration_us(slide, "slide"))
