"""Where the work of the window level is done: on the driver while it is little, in one task, or in several."""

from dataclasses import dataclass
from itertools import pairwise

WORTH_S = 0.4  # of work: below that, more jobs cost more than a second core saves
SLICES_PER_SLOT = 2  # so that a slot which is done early has something to pull
FIRST_PAIR_S, FIRST_ROW_S = 1e-9, 1e-6  # until it has been measured
LEARNED = 1 / 4  # the weight of the latest measurement
DRIVER_S = 0.25  # of work: up to that, a job costs more than it takes off the driver; without a cluster, it takes nothing off


@dataclass(frozen=True)
class OnDriver:
    """All work on the driver, without a job; `slots` threads are welcome, if there are as many cores."""

    slots: int
    reason: str


@dataclass(frozen=True)
class OneTask:
    """All work in one task."""

    reason: str


@dataclass(frozen=True)
class Slices:
    """Slices of the memory are compared independently of each other, on several slots."""

    slots: int
    cuts: tuple[tuple[int, int], ...]
    """The rows of the memory of each slice."""
    reason: str


Spreading = OnDriver | OneTask | Slices


class Spreader:
    """Decides batch by batch, by what a pair of rows, or a single row, has cost so far."""

    def __init__(self, slots: int, can_spread: bool, worth_s: float = WORTH_S, driver_s: float = DRIVER_S) -> None:
        """Begin with an estimate of the cost."""
        self.slots = slots
        self._can_spread, self._worth_s, self._driver_s = can_spread, worth_s, driver_s
        self._unit_s = FIRST_PAIR_S if can_spread else FIRST_ROW_S

    def decide(self, new_rows: int, memory_rows: int) -> Spreading:
        """Return how to add new rows to a memory."""
        expected_s = self._units(new_rows, memory_rows) * self._unit_s
        if expected_s <= self._driver_s:
            return OnDriver(self.slots, f"on the driver: {expected_s:.2f} s of work")
        if not self._can_spread:
            return OneTask("one task: this query is answered from its panes as a whole")
        if self.slots == 1:
            return OneTask("one task: there is one slot")
        if expected_s < self._worth_s:
            return OneTask(f"one task: {expected_s:.2f} s of work, and spreading pays from {self._worth_s:.2f} s on")
        slices = self.slots * SLICES_PER_SLOT
        cuts = pairwise(memory_rows * at // slices for at in range(slices + 1))
        return Slices(
            slots=self.slots,
            cuts=tuple((first, last) for first, last in cuts if first < last),
            reason=f"spread over {self.slots} slots: {expected_s:.2f} s of work",
        )

    def measured(self, busy_s: float, new_rows: int, memory_rows: int) -> None:
        """Learn from what the work really cost."""
        if units := self._units(new_rows, memory_rows):
            self._unit_s += (busy_s / units - self._unit_s) * LEARNED

    def _units(self, new_rows: int, memory_rows: int) -> int:
        """Return how many pairs of rows have to be compared; rows, if the query compares none."""
        return new_rows * (memory_rows + new_rows) if self._can_spread else new_rows + memory_rows
