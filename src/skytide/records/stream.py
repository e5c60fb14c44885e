"""What is known of a running stream."""

from dataclasses import dataclass
from typing import Literal

from skytide.errors.deprecation import warn_renamed
from skytide.records.printing import LIVE_S, Printed, moment, number, seconds, span

QueryState = Literal["starting", "running", "idle", "stopping", "stopped", "failed"]


@dataclass(frozen=True)
class WindowRow:
    """One window that came out, empty ones included."""

    window_start_us: int
    """Where it begins, in microseconds since 1970."""
    window_end_us: int
    """Where it ends, which is not part of it."""
    tuples: int
    """Tuples that fell into it, not counting late ones."""
    kept: int
    """Rows of its result."""
    late: int
    """Tuples dropped as late since the window before came out."""
    latency_s: float
    """From the window's end to its result; meaningful only where event time is the time of day."""
    windows: int = 1
    """How many windows this row stands for: more than one after a long silence, all of them empty."""

    def __str__(self) -> str:
        """Return a line about it, with times in UTC; the latency only where event time is the time of day."""
        several = f"{self.windows:,} empty windows, " if self.windows > 1 else ""
        late = f", {self.late:,} late" if self.late else ""
        latency = f", out after {seconds(self.latency_s)}" if 0 <= self.latency_s < LIVE_S else ""
        kept = f"{self.tuples:,} tuples, {self.kept:,} rows"
        return f"{several}{span(self.window_start_us, self.window_end_us)}: {kept}{late}{latency}"


@dataclass(frozen=True)
class Slots:
    """The tasks of each level of a query."""

    panes: int
    windows: int
    keys: int | None = None
    """Those of an operator on keys; None if the query is none."""


@dataclass(frozen=True)
class Status(Printed):
    """How a continuous query is doing, after its latest batch."""

    state: QueryState = "starting"
    """"idle": nothing has come lately."""
    failure: str = ""
    """Why it failed."""
    batch: int = -1
    """The number of the latest batch."""
    input_rate_hz: float = 0.0
    """Tuples per second that came in with the latest batch, since the batch before."""
    processing_rate_hz: float = 0.0
    """Tuples of the latest batch per second that it took."""
    trigger_share: float = 0.0
    """The time the latest batch took, without what Spark does around it, over the trigger's interval; near 1 it hardly keeps up."""
    backlog_s: float | None = None
    """How far the newest tuple is behind the wall clock; None if that is more than a day, as in a recording."""
    newest_us: int | None = None
    """The time of the newest tuple, as far as it is believed."""
    open_panes: int = 0
    """Panes of which windows are still to come."""
    slack_us: int = 0
    """How far the stream stays behind its newest tuple, waiting for late ones."""
    tuples: int = 0
    """Tuples that have come so far."""
    late: int = 0
    """Tuples that came too late, and were dropped."""
    windows_out: int = 0
    """Windows that have come out."""
    last_window: WindowRow | None = None
    """The latest of them."""
    invalid: int = 0
    """Tuples that belong to no window: without a time, too many too far ahead, or with values that the query refuses."""
    held: int = 0
    """Tuples so far ahead of the others that their time is not believed yet; their windows come out when the stream gets there."""
    pane_slots: int = 0
    """Tasks of the pane level."""
    pane_utilisation: float | None = None
    """The time of the busiest pane slot in the latest batch, over what the window level leaves of the interval; at least half of it."""
    window_utilisation: float | None = None
    """The same of the window level: one of the two is above 1 if a batch does not fit into its interval, and has to become faster."""
    splitting_factor: float = 1.0
    """How many partitions the panes had on average that closed last."""
    threshold: float = float("inf")
    """The number of tuples of a pane that one slot gets before the next one is used."""
    pane_plan: str = ""
    """Whether tuples are worked on where they are or are sent to slots, and why."""
    window_slots: int = 1
    """The most tasks of the window level at once, which are used as far as that pays."""
    window_plan: str = ""
    """How the window level spreads its work, and why; for an operator on keys, why its keys lie where they do."""
    notice: str = ""
    """What somebody should know, such as a slack that has grown far beyond the window."""
    slots: int = 0
    """The slots of an operator on keys."""
    imbalance: float = 1.0
    """In the latest batch, the load of the most loaded of these slots over their mean: tuples, those of keys that take longer counted as more."""
    moved_groups: int = 0
    """Groups of keys that have moved to another slot so far."""
    own_groups: int = 0
    """Keys with so much to do that each is a group of its own."""
    hot_keys: tuple[str, ...] = ()
    """Those of them that fill a slot each: more slots do not make them faster."""
    found_in_memory: float = 0.0
    """In the latest batch, the share of the files about keys that workers already had in their memory."""
    slot_tuples: tuple[int, ...] = ()
    """In the latest batch, the tuples that came to each slot of an operator on keys."""

    @property
    def utilisation(self) -> float:
        """The former name of `trigger_share`."""
        warn_renamed("status().utilisation", "status().trigger_share")
        return self.trigger_share

    def lines(self) -> list[tuple[str, str]]:
        """Return what is worth knowing, in a few lines."""
        rates = (
            f"{number(self.input_rate_hz)} tuples/s come, {number(self.processing_rate_hz)} could; used {self.trigger_share:.0%}"
        )
        late = f"{self.late:,} ({self.late / max(self.tuples, 1):.2%}) dropped, slack {seconds(self.slack_us / 1e6)}"
        aside = [
            f"{count:,} {what}"
            for count, what in ((self.invalid, "invalid"), (self.held, "held, their time is not believed yet"))
            if count
        ]
        newest = "" if self.newest_us is None else moment(self.newest_us)
        behind = "" if self.backlog_s is None else f", {seconds(self.backlog_s)} behind the clock"
        began = self.batch >= 0
        return [
            (
                "state",
                f"{self.state}{f': {self.failure}' if self.failure else ''}{f', after batch {self.batch:,}' if began else ''}",
            ),
            ("load", rates if began and self.input_rate_hz else ""),
            ("tuples", f"{self.tuples:,}, the newest of {newest}{behind}" if newest else ""),
            ("late", late if began else ""),
            ("aside", ", ".join(aside)),
            (
                "windows",
                f"{self.windows_out:,} out" + (f", the last {self.last_window}" if self.last_window else "") if began else "",
            ),
            ("notice", self.notice),
        ]
