"""How far a stream has come: its newest tuple, its punctuation, and the windows that may come out."""

from dataclasses import dataclass, replace

from skytide.errors import InvalidInput
from skytide.lateness.delays import Arrivals
from skytide.lateness.slack import SlackLogic
from skytide.windows import Windows, shown

MOST_WINDOWS_AT_ONCE = 1_000_000


@dataclass(frozen=True)
class Progress:
    """Where a stream stands. Times only ever grow."""

    newest_us: int | None = None
    punctuation_us: int | None = None
    next_window: int | None = None
    late: int = 0
    tuples: int = 0

    def advance(self, arrivals: Arrivals, panes: list[int], windows: Windows, slack: SlackLogic) -> "Progress":
        """Give the progress after a batch whose tuples in time fell into `panes`."""
        slack.observe(arrivals)
        newest = max((t for t in (self.newest_us, arrivals.newest_us) if t is not None), default=None)
        punctuation = self.punctuation_us
        if newest is not None:
            punctuation = max(newest - slack.slack_us, newest - slack.slack_us if punctuation is None else punctuation)
        firsts = [windows.first_of_pane(min(panes))] if panes else []
        if self.next_window is not None:
            firsts.append(self.next_window)
        return Progress(
            newest_us=newest,
            punctuation_us=punctuation,
            next_window=min(firsts, default=None),
            late=self.late + arrivals.late,
            tuples=self.tuples + arrivals.tuples,
        )

    def flushed(self, windows: Windows) -> "Progress":
        """Give the progress of a stream that has ended: every window that holds a tuple may come out."""
        if self.newest_us is None or self.punctuation_us is None:
            return self
        end = windows.end_us(windows.last_of_pane(windows.pane_of(self.newest_us)))
        return replace(self, punctuation_us=max(self.punctuation_us, end))

    def ended(self, windows: Windows) -> range:
        """Give the windows that have ended and have not come out yet."""
        if self.next_window is None or self.punctuation_us is None:
            return range(0)
        ended = range(self.next_window, windows.last_ended_by(self.punctuation_us) + 1)
        if len(ended) > MOST_WINDOWS_AT_ONCE:
            raise InvalidInput(
                value=f"a jump of event time by {shown(windows.slide_us * len(ended))}",
                reason=f"{len(ended):,} windows would come out at once",
                remedy="filter out tuples with a wrong time stamp before skytide.stream",
            )
        return ended

    def emitted(self, out: range) -> "Progress":
        """Give the progress after some windows came out."""
        return replace(self, next_window=out.stop) if out else self
