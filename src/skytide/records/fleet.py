"""What is known of a fleet of streams."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from skytide.records.printing import Printed, number, seconds


@dataclass(frozen=True)
class FleetStatus(Printed):
    """How a fleet is doing, as of its query's latest batch. `Fleet.status` returns it; more in [fleet.md](fleet.md).

    Examples
    --------
    >>> print(FleetStatus(streams=20, silent=2, splits=1, batches=3, tuples=1_200, rate_hz=40.0, expected_hz=45.0, capacity_hz=90_000.0))
    streams  20, 2 silent
    ...
    """

    streams: int = 0
    """Streams that are there."""
    missing: int = 0
    """Streams that were there; they keep their positions in case they come back."""
    forgotten: int = 0
    """Streams that have been missing for so long, among so many others, that they lost their positions: if they come back, they are read from their beginning."""
    unreadable: int = 0
    """Streams that are there, but cannot be read now: they wait."""
    unknown: tuple[str, ...] = ()
    """Names that were suspended, resumed or declared, but no stream has them, at least not yet; some of them, if there are many."""
    suspended: int = 0
    """Streams that are suspended."""
    silent: int = 0
    """Streams of which nothing has come lately."""
    splits: int = 0
    """Tasks that read a batch."""
    batches: int = 0
    """Batches so far, over all starts of the query."""
    tuples: int = 0
    """About how many tuples were let in."""
    buffered: int = 0
    """About how many tuples have come but were not let in yet; those of suspended streams do not count."""
    rate_hz: float = 0.0
    """Tuples per second that came of all streams together lately."""
    expected_hz: float = 0.0
    """Tuples per second expected of all streams together, by forecasts and declarations."""
    capacity_hz: float = 0.0
    """Tuples per second that one split can take, as its tasks measure it."""
    redirections: int = 0
    """How often a stream was moved to another split."""
    invalid: int = 0
    """Records that could not be read."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """How often something of a stream was lost, by reason: "replaced", "truncated", "trimmed" or "vanished"."""
    waits_for: str = ""
    """The stream that windows wait for: the one furthest behind of those of which something is kept waiting; empty if there is none."""
    waits_s: float = 0.0
    """How far it is behind the newest tuple, by the times of tuples; 0 if nobody knows."""
    planning_s: float = 0.0
    """How long it took to discover all streams, assign them to splits and log the batch."""
    seen_s: float = 0.0
    """When that was, in seconds since 1970; 0 before the first batch."""

    def lines(self) -> list[tuple[str, str]]:
        """Return what is worth knowing, in a few lines."""
        kinds = (
            (self.silent, "silent"),
            (self.suspended, "suspended"),
            (self.missing, "missing"),
            (self.unreadable, "unreadable"),
            (self.forgotten, "forgotten"),
        )
        of_them = "".join(f", {count:,} {what}" for count, what in kinds if count)
        rates = f"{number(self.rate_hz)} tuples/s arriving, {number(self.expected_hz)} expected, capacity of a split {number(self.capacity_hz)}"
        lost = [f"{count:,} {reason}" for reason, count in (("invalid", self.invalid), *sorted(self.skipped.items())) if count]
        behind = f", which is {seconds(self.waits_s)} behind" if self.waits_s else ""
        return [
            ("streams", f"{self.streams:,}{of_them}"),
            ("unknown", ", ".join(self.unknown)),
            ("splits", f"{self.splits:,}, {self.redirections:,} redirections, latest assignment took {seconds(self.planning_s)}"),
            ("load", rates),
            ("tuples", f"{self.tuples:,} admitted, {self.buffered:,} buffered, in {self.batches:,} batches"),
            ("windows", self.waits_for and f"wait for {self.waits_for}{behind}"),
            ("lost", ", ".join(lost)),
        ]


@dataclass(frozen=True)
class SplitStatus:
    """How a split is doing."""

    split: int
    """Its number."""
    streams: tuple[str, ...]
    """The streams it reads, in order of their names."""
    rate_hz: float
    """Tuples per second that came of these streams lately."""
    expected_hz: float
    """Tuples per second expected of them, by forecasts and declarations."""
    buffered: int
    """About how many of their tuples have come but were not let in yet."""
    latency_s: float
    """How long it takes to work off what is buffered."""
