"""What is known of a fleet of streams."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from skytide.records.printing import Printed, number, seconds


@dataclass(frozen=True)
class FleetStatus(Printed):
    """How a fleet is doing, after its latest look at all streams."""

    streams: int = 0
    """Streams that are there."""
    missing: int = 0
    """Streams that were there; they keep their place in case they come back."""
    suspended: int = 0
    silent: int = 0
    """Streams of which nothing has come lately."""
    splits: int = 0
    """Tasks that read a batch."""
    batches: int = 0
    tuples: int = 0
    """About how many tuples were let in."""
    buffered: int = 0
    """About how many tuples have come but were not let in yet; those of suspended streams do not count."""
    rate_hz: float = 0.0
    expected_hz: float = 0.0
    """Tuples per second expected of all streams together, by forecasts and declarations."""
    capacity_hz: float = 0.0
    """Tuples per second that one split can take, as its tasks measure it."""
    redirections: int = 0
    """How often a stream was moved to another split."""
    invalid: int = 0
    """Records that could not be read."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """How often something of a stream was lost, by reason: "replaced", "truncated", "trimmed", "vanished" or "unreadable"."""
    planning_s: float = 0.0
    """The time for the latest look, plan and note."""

    def lines(self) -> list[tuple[str, str]]:
        """Return what is worth knowing, in a few lines."""
        kinds = ((self.silent, "silent"), (self.suspended, "suspended"), (self.missing, "missing"))
        of_them = "".join(f", {count:,} {what}" for count, what in kinds if count)
        rates = f"{number(self.rate_hz)} tuples/s come, {number(self.expected_hz)} are expected, a split takes {number(self.capacity_hz)}"
        lost = [f"{count:,} {reason}" for reason, count in (("not readable", self.invalid), *sorted(self.skipped.items())) if count]
        return [
            ("streams", f"{self.streams:,}{of_them}"),
            ("splits", f"{self.splits:,}, {self.redirections:,} redirections, planned in {seconds(self.planning_s)}"),
            ("load", rates),
            ("tuples", f"{self.tuples:,} let in, {self.buffered:,} wait, in {self.batches:,} batches"),
            ("lost", ", ".join(lost)),
        ]


@dataclass(frozen=True)
class SplitStatus:
    """How a split is doing."""

    split: int
    streams: tuple[str, ...]
    rate_hz: float
    expected_hz: float
    buffered: int
    latency_s: float
    """How long it takes to work off what is buffered."""
