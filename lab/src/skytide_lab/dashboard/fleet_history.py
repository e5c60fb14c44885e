"""What was seen of a fleet and its query: one look at a time, and the windows that came out."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from skytide.records import Status, WindowRow
from skytide.records.fleet import FleetStatus, SplitStatus
from skytide_lab.dashboard.history import History


@dataclass(frozen=True)
class SplitLoad:
    """What one split has to do."""

    split: int
    streams: int
    rate_hz: float
    buffered: int


@dataclass(frozen=True)
class FleetLook:
    """A fleet and its query at one moment, in seconds since its streams began."""

    at_s: float
    fleet: FleetStatus
    splits: tuple[SplitLoad, ...]
    query: Status


@dataclass(frozen=True)
class FleetHistory:
    """What views and pictures of a fleet are made of."""

    looks: tuple[FleetLook, ...] = ()
    query: History = field(default_factory=History)

    def after(
        self, at_s: float, fleet: FleetStatus, splits: Sequence[SplitStatus], status: Status, windows: Sequence[WindowRow]
    ) -> "FleetHistory":
        """Return the history after one more look; nothing is new until the fleet or its query has done something."""
        if not fleet.streams + fleet.missing or (self.looks and (fleet, status) == (self.looks[-1].fleet, self.looks[-1].query)):
            return self
        loads = tuple(SplitLoad(split.split, len(split.streams), split.rate_hz, split.buffered) for split in splits)
        look = FleetLook(at_s, fleet, loads, status)
        return replace(self, looks=(*self.looks, look), query=self.query.after(status, windows))

    @property
    def latest(self) -> FleetLook | None:
        """The latest look."""
        return self.looks[-1] if self.looks else None

    @property
    def last_window(self) -> WindowRow | None:
        """The latest window that came out."""
        return self.query.windows[-1] if self.query.windows else None

    def moves(self) -> list[int]:
        """Return how many streams were moved to another split since the look before, for each look."""
        totals = [look.fleet.redirections for look in self.looks]
        return [later - earlier for earlier, later in zip([0, *totals], totals, strict=False)]
