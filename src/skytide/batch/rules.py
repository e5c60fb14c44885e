"""What a continuous query decides by."""

from dataclasses import dataclass, field

from skytide.batch.delivery import Delivery, InPlace, InSource
from skytide.batch.events import RunPanes
from skytide.batch.keying import Keying
from skytide.batch.reports import PaneReport
from skytide.batch.spreading import DRIVER_S, WORTH_S
from skytide.batch.state import State
from skytide.lateness import Slack, SlackLogic
from skytide.routing import Measured, Router
from skytide.windows import Windows


@dataclass(frozen=True)
class BatchRules:
    """What a continuous query decides by: set at its start, the same for every batch."""

    windows: Windows
    slack: Slack
    delivery: Delivery = field(default_factory=InPlace)
    pane_slots: int = 2
    window_slots: int = 1
    slots_follow_cores: bool = False
    """Whether there are as many window slots as cores in every batch, until somebody resizes them."""
    can_spread: bool = False
    """Whether rows of the memory are compared in pairs, as for a skyline: slices of it can be compared in several tasks."""
    has_groups: bool = False
    """Whether rows of different groups are independent of each other: the window level is one task per slot then, over its parts."""
    spreading_pays_s: float = WORTH_S
    driver_pays_s: float = DRIVER_S
    """Up to this much work of the window level is done on the driver."""
    trigger_s: float | None = None
    input_has_state: bool = True
    """Whether Spark keeps state for the input, as for deduplication: it goes on only if every batch is executed."""
    keying: Keying | None = None
    """How keys are spread, if this is an operator on keys."""

    def router(self, before: State) -> Router:
        """Return the router as a batch that starts from a state finds it."""
        strategy, slots = self.delivery.splitting, before.pane_slots or self.pane_slots
        router = strategy.build(slots, before.router.get(strategy.name))
        router.renumber(slots)
        return router

    def slack_logic(self, before: State) -> SlackLogic:
        """Return the slack as a batch finds it."""
        return self.slack.build(before.slack.get(repr(self.slack)))

    def least_slack_us(self, before: State) -> int:
        """Return how long to wait at least: one window if delays are learned, but nothing has come yet to measure the first batch against."""
        unknown = self.slack.is_learned and before.clock.newest_us is None and not isinstance(self.delivery, InSource)
        return self.windows.length_us if unknown else 0

    def run_panes(self, before: State) -> RunPanes:
        """Return what the pane level does in a batch that starts from a state; a source of our own asks this, too."""
        plan = self.delivery.plan_panes(self.router(before))
        return RunPanes(
            sequence=before.sequence + 1,
            newest_us=before.clock.newest_us,
            punctuation_us=before.clock.punctuation_us,
            leap_us=before.clock.leap_us(self.windows),
            out_us=before.clock.out_us(self.windows),
            slots=before.pane_slots or self.pane_slots,
            router=before.router.get(self.delivery.splitting.name),
            owners=plan.owners,
            reason=plan.reason,
        )


def measured_panes(report: PaneReport, rules: BatchRules, panes: RunPanes, took_s: float, cores: int) -> Measured:
    """Return what a batch says about working on tuples where they are, and about sending them; a source of our own makes them in its tasks."""
    sent, made = panes.owners is not None, isinstance(rules.delivery, InSource)
    return Measured(
        partitions=report.partitions(sent=sent),
        work_s=sum(task.busy_s - (0.0 if made else task.input_s) for task in report.tasks),
        input_s=0.0 if made else sum(task.input_s for task in report.tasks),
        took_s=took_s,
        slowest_s=max((task.busy_s for task in report.tasks), default=0.0),
        cores=cores,
        sent=sent,
    )
