"""A skytide query in one process: there are no executors, but slots."""

from skytide.records import Allocation, Outcome
from skytide.spark.api.run import Run
from skytide.spark.scaling.live import LiveQuery, QueryPlant


class RunSlots:
    """The slots of a skytide query."""

    def __init__(self, run: Run) -> None:
        """Look at a running query."""
        self._run = run
        self.of_keys = run.next_slots().keys is not None

    def pane_slots(self) -> int:
        """Return the tasks of the pane level, or those of an operator on keys, from the next batch on."""
        slots = self._run.next_slots()
        return slots.panes if slots.keys is None else slots.keys

    def window_slots(self) -> int:
        """Return the tasks of the window level, from the next batch on."""
        return self._run.next_slots().windows

    def resize(self, pane_slots: int | None, window_slots: int | None) -> None:
        """Change the slots from the next batch on."""
        if self.of_keys:
            self._run.resize(slots=pane_slots)
        else:
            self._run.resize(pane_slots, window_slots)


class SlotPlant(QueryPlant):
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
            changes = [("slots", before.workers, wanted.workers)]
        else:
            if wanted.pane_slots is None or wanted.window_slots is None:
                wanted = before.with_workers(wanted.workers)
            self._slots.resize(wanted.pane_slots, wanted.window_slots)
            changes = [
                ("pane slots", before.pane_slots or 0, wanted.pane_slots or 0),
                ("window slots", before.window_slots or 0, wanted.window_slots or 0),
            ]
        if wanted == before:
            return Outcome("kept", f"keeping {' and '.join(f'{now} {what}' for what, _, now in changes)}")
        moves = " and ".join(f"{what} from {was} to {now}" for what, was, now in changes if now != was)
        return Outcome("done", f"changing {moves} with the next batch")
