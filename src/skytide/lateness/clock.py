"""How far a stream has come: its newest tuple, its punctuation, and the windows that may come out."""

from dataclasses import dataclass, replace
from typing import Any

from skytide.lateness.crowds import FAR_US, FEW, Crowd, joined, newest_of, went_on
from skytide.lateness.delays import Arrivals
from skytide.lateness.slack import SlackLogic
from skytide.windows import Windows

MIN_LEAP_US, MAX_LEAP_US = 60_000_000, 1_800_000_000
LEAP_SPACINGS = 8
"""A leap is at least this many times the usual distance of two tuples, so that a stream with one tuple per hour does not always leap."""
USUAL_TUPLES = 8
"""The number of tuples over which the usual distance is averaged."""
STAY_US = -(2**63)
"""Holds the punctuation where it is: nothing is known of the tuples that are kept waiting."""


@dataclass(frozen=True)
class Clock:
    """How far a stream has come. Times never decrease."""

    newest_us: int | None = None
    punctuation_us: int | None = None
    next_window: int | None = None
    tuples: int = 0
    late: int = 0
    held: tuple[Crowd, ...] = ()
    """Tuples ahead of the newest credible time."""
    odd: tuple[Crowd, ...] = ()
    """Held tuples whose times turned out to be wrong with the latest batch."""
    spacing_us: float = 0.0
    """The usual distance of two tuples."""

    def leap_us(self, windows: Windows) -> int:
        """Return how far ahead a single tuple may be."""
        by_windows = min(max(windows.slide_us, MIN_LEAP_US), MAX_LEAP_US)
        return max(by_windows, min(int(LEAP_SPACINGS * self.spacing_us), FAR_US))

    def advance(
        self, arrivals: Arrivals, windows: Windows, slack: SlackLogic, hold_us: int | None = None, min_slack_us: int = 0
    ) -> "Clock":
        """Return the clock after a batch; the punctuation does not pass `hold_us`, the time of tuples that the engine keeps waiting."""
        leap_us = self.leap_us(windows)
        slack.observe(arrivals)
        waiting = went_on(self.held, arrivals.passing, arrivals.crowds, leap_us)
        crowds = joined([*waiting, *arrivals.crowds], leap_us)
        newest = newest_of(self.newest_us, crowds, leap_us)
        punctuation = self.punctuation_us
        if newest is not None and hold_us != STAY_US:
            passed_us = newest if hold_us is None or newest - hold_us > FAR_US else min(newest, hold_us)
            reached_us = passed_us - max(slack.slack_us, min_slack_us)
            punctuation = reached_us if punctuation is None else max(punctuation, reached_us)
        ahead = [crowd for crowd in crowds if newest is None or crowd.first_us > newest]
        odd = [crowd for crowd in ahead if crowd.is_odd]
        if newest is not None and self.newest_us is None:
            odd += [crowd for crowd in crowds if crowd.tuples <= FEW and newest - crowd.last_us > FAR_US]
        return replace(
            self,
            newest_us=newest,
            punctuation_us=punctuation,
            tuples=self.tuples + arrivals.tuples,
            late=self.late + arrivals.late,
            held=tuple(crowd for crowd in ahead if not crowd.is_odd),
            odd=tuple(odd),
            spacing_us=self._spacing_us(newest, arrivals.tuples),
        )

    def _spacing_us(self, newest_us: int | None, tuples: int) -> float:
        if newest_us is None or self.newest_us is None:
            return self.spacing_us
        return (self.spacing_us * USUAL_TUPLES + newest_us - self.newest_us) / (USUAL_TUPLES + tuples)

    def begun(self, first_pane: int | None, windows: Windows) -> "Clock":
        """Return the clock of a stream whose first open pane is known: no window before it has tuples."""
        if first_pane is None or self.newest_us is None:
            return self
        first = windows.first_of_pane(first_pane)
        return replace(self, next_window=first if self.next_window is None else min(first, self.next_window))

    def flushed(self, windows: Windows) -> "Clock":
        """Return the clock of a stream that has ended: every window with tuples may come out, and nothing waits any more."""
        far = tuple(crowd for crowd in self.held if self.newest_us is not None and crowd.first_us - self.newest_us > FAR_US)
        known = [self.newest_us, *(crowd.last_us for crowd in self.held if crowd not in far)]
        newest = max((time for time in known if time is not None), default=None)
        if newest is None:
            return replace(self, held=(), odd=far)
        end = windows.end_us(windows.last_of_pane(windows.pane_of(newest)))
        punctuation = end if self.punctuation_us is None else max(self.punctuation_us, end)
        return replace(self, newest_us=newest, punctuation_us=punctuation, held=(), odd=far)

    def ended(self, windows: Windows) -> range:
        """Return the windows that have ended and have not come out yet."""
        if self.next_window is None or self.punctuation_us is None:
            return range(0)
        return range(self.next_window, max(self.next_window, windows.last_ended_by(self.punctuation_us) + 1))

    def emitted(self, out: range) -> "Clock":
        """Return the clock after some windows have come out."""
        return replace(self, next_window=out.stop) if out else self

    def odd_panes(self, panes: "list[int]", windows: Windows) -> set[int]:
        """Return the panes that hold only odd tuples."""
        if not self.odd:
            return set()
        credible = [*self.held, *([Crowd(self.newest_us - FAR_US, self.newest_us, 0)] if self.newest_us is not None else [])]
        return {pane for pane in panes if _overlaps(pane, self.odd, windows) and not _overlaps(pane, credible, windows)}

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        crowds = {name: [list(vars(crowd).values()) for crowd in getattr(self, name)] for name in ("held", "odd")}
        return {**vars(self), **crowds}

    @staticmethod
    def from_json(values: dict[str, Any]) -> "Clock":
        """Return the clock for a result of `to_json`."""
        crowds = {name: tuple(Crowd(*crowd) for crowd in values[name]) for name in ("held", "odd")}
        return Clock(**{**values, **crowds})


def _overlaps(pane: int, crowds: "tuple[Crowd, ...] | list[Crowd]", windows: Windows) -> bool:
    start_us, end_us = windows.pane_start_us(pane), windows.pane_start_us(pane + 1)
    return any(crowd.first_us < end_us and crowd.last_us >= start_us for crowd in crowds)
