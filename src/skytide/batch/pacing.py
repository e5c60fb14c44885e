"""When batches begin if nobody names an interval (`trigger="auto"`): right after windows have ended, wherever that is known."""

from dataclasses import dataclass

from skytide.windows import Windows

MIN_INTERVAL_US, MAX_INTERVAL_US = 100_000, 500_000
POLL_US = 20_000
"""How often a source that knows is asked whether a batch is due."""


@dataclass(frozen=True)
class Pace:
    """The times at which batches are due: all ends of windows, those of a few together if they are close, and some in between if they are far apart.

    >>> often, rare = Pace(Windows(1_000_000, 200_000)), Pace(Windows(2_000_000, 1_000_000))
    >>> often.interval_us, often.next_us(1_400_000), often.next_us(1_399_999)
    (200000, 1600000, 1400000)
    >>> rare.interval_us, rare.next_us(3_100_000), Pace(Windows(50_000, 30_000)).interval_us
    (500000, 3500000, 120000)
    """

    windows: Windows

    @property
    def interval_us(self) -> int:
        """How far apart batches are."""
        slide_us = self.windows.slide_us
        if slide_us < MIN_INTERVAL_US:
            return -(-MIN_INTERVAL_US // slide_us) * slide_us
        return -(-slide_us // -(-slide_us // MAX_INTERVAL_US))

    def next_us(self, time_us: int) -> int:
        """Return the first of these times after another."""
        period_us = max(self.windows.slide_us, self.interval_us)
        since_us = (time_us - self.windows.length_us) % period_us
        return time_us - since_us + min(period_us, (since_us // self.interval_us + 1) * self.interval_us)

    @property
    def unaligned_us(self) -> int:
        """An interval for those who start batches by the clock: if it divided the slide, each would come just before a window ends."""
        return self.interval_us * 3 // 4
