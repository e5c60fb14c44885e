"""How far a stream has come: its newest tuple, its punctuation, and the windows that may come out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from skytide.lateness.crowds import FAR_US, Crowd, joined, newest_of, telling, went_on
from skytide.lateness.delays import Arrivals
from skytide.lateness.slack import SlackLogic
from skytide.windows import Windows

MIN_LEAP_US, MAX_LEAP_US = 60_000_000, 1_800_000_000
LEAP_DISTANCES = 8
"""A leap is at least as long as this many distances of tuples together, so that a stream with one tuple per hour does not always leap."""
KEPT_DISTANCES = LEAP_DISTANCES + 1
STAY_US = -(2**63)
"""Holds the punctuation where it is: nothing is known of the tuples that are kept waiting."""
MAX_OUT = 1_000
"""How many stretches of windows that came out ahead of the stream are remembered; the last of them reaches over all that follow."""

Stretch = tuple[int, int]
"""Some windows in a row, or a time: the first, and the first after it."""


@dataclass(frozen=True)
class StreamClock:
    """How far a stream has come. Times never decrease."""

    newest_us: int | None = None
    punctuation_us: int | None = None
    next_window: int | None = None
    tuples: int = 0
    late: int = 0
    held: tuple[Crowd, ...] = ()
    """Tuples ahead of the newest credible time that may still confirm a later one."""
    out: tuple[Stretch, ...] = ()
    """Windows ahead of the stream that a flush has let out, in order."""
    distances_us: tuple[int, ...] = ()
    """How far apart the latest tuples are."""

    def leap_us(self, windows: Windows) -> int:
        """Return how far ahead a single tuple may be."""
        by_windows = min(max(windows.slide_us, MIN_LEAP_US), MAX_LEAP_US)
        by_tuples = sum(self.distances_us) - max(self.distances_us, default=0)  # without the longest: one silence is not usual
        return max(by_windows, min(by_tuples, FAR_US))

    def is_plausible(self, distance_us: int) -> bool:
        """Return whether tuples may be so far apart: few distances are known, or it is no longer than those usual here, or than any delay."""
        usual_us = sum(self.distances_us) - max(self.distances_us, default=0)
        return len(self.distances_us) < KEPT_DISTANCES or distance_us <= max(usual_us, FAR_US)

    def advance(
        self, arrivals: Arrivals, windows: Windows, slack: SlackLogic, hold_us: int | None = None, min_slack_us: int = 0
    ) -> "StreamClock":
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
        return replace(
            self,
            newest_us=newest,
            punctuation_us=punctuation,
            tuples=self.tuples + arrivals.tuples,
            late=self.late + arrivals.late,
            held=telling(crowd for crowd in crowds if newest is None or crowd.first_us > newest),
            distances_us=self._distances_us(newest, crowds),
        )

    def _distances_us(self, newest_us: int | None, crowds: Sequence[Crowd]) -> tuple[int, ...]:
        """Return how far apart the latest tuples are, up to the new `newest_us`; within a crowd, on average."""
        distances, at_us = list(self.distances_us), self.newest_us
        for crowd in crowds:
            if newest_us is None or crowd.last_us > newest_us:
                break
            inside = min(crowd.tuples - 1, KEPT_DISTANCES)
            distances += [] if at_us is None else [crowd.first_us - at_us]
            distances += [(crowd.last_us - crowd.first_us) // max(crowd.tuples - 1, 1)] * inside
            at_us = crowd.last_us
        return tuple(distances[-KEPT_DISTANCES:])

    def begun(self, first_pane: int | None, windows: Windows) -> "StreamClock":
        """Return the clock of a stream whose first open pane is known: no window before it has tuples."""
        if first_pane is None or self.newest_us is None:
            return self
        first = windows.first_of_pane(first_pane)
        return replace(self, next_window=first if self.next_window is None else min(first, self.next_window))

    def flushed(self, windows: Windows, reach_us: int | None = None) -> "StreamClock":
        """Return the clock of a stream that has ended: every window up to its newest tuple may come out, or up to `reach_us`."""
        newest = max((time for time in (self.newest_us, reach_us) if time is not None), default=None)
        if newest is None:
            return self
        end = windows.end_us(windows.last_of_pane(windows.pane_of(newest)))
        punctuation = end if self.punctuation_us is None else max(self.punctuation_us, end)
        held = tuple(crowd for crowd in self.held if crowd.first_us > newest)
        return replace(self, newest_us=newest, punctuation_us=punctuation, held=held)

    def ended(self, windows: Windows) -> range:
        """Return the windows that have ended and have not come out yet."""
        if self.next_window is None or self.punctuation_us is None:
            return range(0)
        return range(self.next_window, max(self.next_window, windows.last_ended_by(self.punctuation_us) + 1))

    def emitted(self, out: range, ahead: Sequence[range] = ()) -> "StreamClock":
        """Return the clock after some windows have come out, and others `ahead` of the stream."""
        next_window = out.stop if out else self.next_window
        still_ahead = [(first, stop) for first, stop in self.out if next_window is None or stop > next_window]
        stretches = sorted([*still_ahead, *((w.start, w.stop) for w in ahead)])
        last = stretches[MAX_OUT - 1 :]  # as one: windows that are out must not come again
        joined_up = [(last[0][0], max(stop for _, stop in last))] if last else []
        return replace(self, next_window=next_window, out=(*stretches[: MAX_OUT - 1], *joined_up))

    def not_out(self, ended: range) -> list[range]:
        """Return the windows of `ended` that have not come out yet, in order."""
        left, first = [], ended.start
        for start, stop in self.out:
            left.append(range(first, min(max(start, first), ended.stop)))
            first = max(first, stop)
        return [some for some in (*left, range(first, ended.stop)) if some]

    def out_us(self, windows: Windows) -> tuple[Stretch, ...]:
        """Return the times of the windows ahead of the stream that have come out: tuples of these times are late."""
        return tuple((windows.start_us(first), windows.end_us(stop - 1)) for first, stop in self.out)

    def is_ahead(self, pane: int, windows: Windows) -> bool:
        """Return whether all tuples of a pane are ahead of the newest credible time."""
        return self.newest_us is None or windows.pane_start_us(pane) > self.newest_us

    def is_held(self, pane: int, windows: Windows) -> bool:
        """Return whether a pane has tuples that may still confirm a later time."""
        start_us, end_us = windows.pane_start_us(pane), windows.pane_start_us(pane + 1)
        return any(crowd.first_us < end_us and crowd.last_us >= start_us for crowd in self.held)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {**vars(self), "held": [list(vars(crowd).values()) for crowd in self.held], "out": [list(some) for some in self.out]}

    @staticmethod
    def from_json(values: dict[str, Any]) -> "StreamClock":
        """Return the clock for a result of `to_json`; earlier versions noted only a mean distance, and tuples that they dropped for their time."""
        fields = {name: value for name, value in values.items() if name not in ("odd", "spacing_us")}
        held, out = (Crowd(*crowd) for crowd in fields["held"]), ((first, stop) for first, stop in fields.get("out", ()))
        distances = fields.get("distances_us", [int(values.get("spacing_us", 0))] * KEPT_DISTANCES)
        return StreamClock(**{**fields, "held": tuple(held), "out": tuple(out), "distances_us": tuple(distances)})
