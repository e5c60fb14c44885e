"""The ways tuples reach the slots of the pane level."""

from dataclasses import dataclass
from typing import ClassVar

from skytide.batch.reports import PaneReport
from skytide.routing import TB_RR, PanePlan, Router, Splitting


@dataclass(frozen=True)
class Delivery:
    """How tuples reach slots: by a strategy that plans it, or at least describes it."""

    splitting: Splitting
    reason: ClassVar[str] = ""
    """Where tuples are worked on, if nothing has to be planned."""

    def slots_of(self, report: PaneReport, slots: int) -> int:
        """Return how many slots worked on a batch for which `slots` were planned."""
        return slots

    def plan_panes(self, router: Router) -> PanePlan:
        """Return where the tuples of the next batch are worked on; the router is used up by that."""
        return PanePlan(None, self.reason)


@dataclass(frozen=True)
class InPlace(Delivery):
    """Tuples are worked on where they are: each partition of the DataFrame is a slot."""

    splitting: Splitting = TB_RR
    reason = "in place, as asked"

    def slots_of(self, report: PaneReport, slots: int) -> int:
        """Return how many partitions the batch had."""
        return _used(report)


@dataclass(frozen=True)
class Sent(Delivery):
    """Tuples are sent to slots as the splitting plans it for the batch, or left where they are if that is its plan."""

    def plan_panes(self, router: Router) -> PanePlan:
        """Return what the splitting plans."""
        return self.splitting.plan_panes(router)

    def slots_of(self, report: PaneReport, slots: int) -> int:
        """Return how many slots the batch had, or partitions if its tuples were not sent."""
        return max(slots, _used(report))


@dataclass(frozen=True)
class InSource(Delivery):
    """A source of skytide's own makes the tuples in the slots, and runs the pane level itself."""

    reason = "in the source, which makes its tuples in the slots"


@dataclass(frozen=True)
class InSplits(InSource):
    """A fleet reads each of its streams in a split, which is a slot; there are as many as it opens."""

    splitting: Splitting = TB_RR
    reason = "in the splits of the fleet"

    def slots_of(self, report: PaneReport, slots: int) -> int:
        """Return how many splits the batch had."""
        return _used(report)


def _used(report: PaneReport) -> int:
    return max((task.slot for task in report.tasks), default=0) + 1
