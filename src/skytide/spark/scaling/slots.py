"""Actuators that need no cluster: for the slots of a skytide query in one process, and one that only reports what it would do."""

from skytide.loop.ports import Actuator
from skytide.records import Allocation
from skytide.spark.query.run import Run


class RunSlots:
    """The slots of a skytide query."""

    def __init__(self, run: Run) -> None:
        """Begin with the slots that a running query has."""
        self._run = run
        rules = run._engine.plan.rules  # the status shows what the latest batch had, and there may be none yet
        self.of_keys = rules.keying is not None
        self._panes = rules.keying.slots if rules.keying else rules.pane_slots

    def pane_slots(self) -> int:
        """Return the tasks of the pane level, or those of an operator on keys, from the next batch on."""
        return self._panes

    def window_slots(self) -> int:
        """Return the tasks of the window level."""
        return self._run._engine.plan.rules.window_slots if self._run.status().batch < 0 else self._run.status().window_slots

    def resize(self, pane_slots: int | None, window_slots: int | None) -> None:
        """Change the slots from the next batch on."""
        if self.of_keys:
            self._run.resize(slots=pane_slots)
        else:
            self._run.resize(pane_slots, window_slots)
        self._panes = pane_slots or self._panes


class LocalSlots:
    """In one process there are no executors: the workers are the slots of both levels together."""

    acts = True

    def __init__(self, slots: RunSlots, lead_s: float) -> None:
        """Change the slots of a query; that takes effect with its next batch, after `lead_s`."""
        self._slots, self.lead_s = slots, lead_s

    def current(self) -> Allocation:
        """Return the slots of the levels, and their sum as the workers."""
        panes, windows = self._slots.pane_slots(), self._slots.window_slots()
        return Allocation(panes) if self._slots.of_keys else Allocation(panes + windows, panes, windows)

    def apply(self, wanted: Allocation, now_s: float) -> str:
        """Change the slots, and return what was done; without numbers for the levels, the workers are divided as before."""
        before = self.current()
        if self._slots.of_keys:
            self._slots.resize(wanted.workers, None)
            return f"slots {before.workers} to {wanted.workers}, from the next batch on"
        if wanted.pane_slots is None or wanted.window_slots is None:
            wanted = before.with_workers(wanted.workers)
        self._slots.resize(wanted.pane_slots, wanted.window_slots)
        return (
            f"pane slots {before.pane_slots} to {wanted.pane_slots}, window slots {before.window_slots} to {wanted.window_slots}, "
            "from the next batch on"
        )


class Fixed:
    """What cannot be resized: a query in one process that is not skytide's."""

    acts, lead_s = False, 0.0

    def current(self) -> Allocation:
        """Return the one worker there is."""
        return Allocation(1)

    def apply(self, wanted: Allocation, now_s: float) -> str:
        """Do nothing, and return that in words."""
        return "nothing can be changed here"


class Recommend:
    """Reports what it would do, and does nothing."""

    acts = False

    def __init__(self, actuator: Actuator) -> None:
        """Look at what another actuator could change."""
        self._actuator = actuator

    @property
    def lead_s(self) -> float:
        """The lead time, as far as the other actuator knows it."""
        return self._actuator.lead_s

    def current(self) -> Allocation:
        """Return what is there."""
        return self._actuator.current()

    def apply(self, wanted: Allocation, now_s: float) -> str:
        """Return what would be done."""
        return f"recommended: {wanted.workers} workers in place of {self.current().workers}; nothing was done"
