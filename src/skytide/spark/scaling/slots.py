"""A skytide query in one process: there are no executors, but slots."""

from skytide.records import Allocation, Outcome
from skytide.spark.api.run import Run
from skytide.spark.scaling.live import LiveQuery, Watched


class RunSlots:
    """The slots of a skytide query."""

    def __init__(self, run: Run) -> None:
        """Look at a running query."""
        self._run = run
        self.of_keys = run.is_keyed

    def pane_slots(self) -> int:
        """Return the tasks of the pane level, or those of an operator on keys, from the next batch on."""
        return self._run.slots.keys if self.of_keys else self._run.slots.panes

    def window_slots(self) -> int:
        """Return the tasks of the window level, from the next batch on."""
        return self._run.slots.windows

    def resize(self, pane_slots: int | None, window_slots: int | None) -> None:
        """Change the slots from the next batch on."""
        if self.of_keys:
            self._run.resize(slots=pane_slots)
        else:
            self._run.resize(pane_slots, window_slots)


class LocalSlots(Watched):
    """The plant whose workers are the slots of both levels together; they change with the next batch."""

    what = "slots"

    def __init__(self, live: LiveQuery, slots: RunSlots) -> None:
        """Watch a query, and change its slots."""
        super().__init__(live)
        self._slots = slots

    @property
    def lead_s(self) -> float:
        """The time from batch to batch."""
        return self._live.metrics.trigger_s or 0.0

    def size(self) -> Allocation:
        """Return the slots of the levels, and their sum as the workers."""
        panes, windows = self._slots.pane_slots(), self._slots.window_slots()
        return Allocation(panes) if self._slots.of_keys else Allocation(panes + windows, panes, windows)

    def request(self, wanted: Allocation, now_s: float) -> Outcome:
        """Change the slots; without numbers for the levels, the workers are divided as before."""
        before = self.size()
        if self._slots.of_keys:
            self._slots.resize(wanted.workers, None)
            text = f"slots {before.workers} to {wanted.workers}"
        else:
            if wanted.pane_slots is None or wanted.window_slots is None:
                wanted = before.with_workers(wanted.workers)
            self._slots.resize(wanted.pane_slots, wanted.window_slots)
            text = f"pane slots {before.pane_slots} to {wanted.pane_slots}, window slots {before.window_slots} to {wanted.window_slots}"
        return Outcome("kept" if wanted == before else "done", f"{text}, from the next batch on")
