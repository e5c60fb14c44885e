"""The ways tuples reach the slots of the pane level."""

from dataclasses import dataclass

from skytide.batch.reports import PaneReport
from skytide.routing import TB_RR, Splitting


@dataclass(frozen=True)
class Delivery:
    """How tuples reach slots: by a strategy that plans it, or at least describes it."""

    splitting: Splitting

    def slots_of(self, report: PaneReport, slots: int) -> int:
        """Return how many slots worked on a batch for which `slots` were planned."""
        return slots


@dataclass(frozen=True)
class InPlace(Delivery):
    """Tuples are worked on where they are: each partition of the DataFrame is a slot."""

    splitting: Splitting = TB_RR

    def slots_of(self, report: PaneReport, slots: int) -> int:
        """Return how many partitions the batch had."""
        return max((task.slot for task in report.tasks), default=0) + 1


@dataclass(frozen=True)
class Sent(Delivery):
    """Split tasks choose a slot for each tuple, and send it there."""


@dataclass(frozen=True)
class InSource(Delivery):
    """A source of skytide's own makes the tuples in the slots, and runs the pane level itself."""


@dataclass(frozen=True)
class InSplits(InSource):
    """A fleet reads each of its streams in a split, which is a slot; there are as many as it opens."""

    splitting: Splitting = TB_RR

    def slots_of(self, report: PaneReport, slots: int) -> int:
        """Return how many splits the batch had."""
        return max((task.slot for task in report.tasks), default=0) + 1
