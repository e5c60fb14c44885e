"""Where the work of the window level is done: on the driver while it is little, in one task, or in several."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from skytide.batch.reports import Run
from skytide.batch.state import OpenPane
from skytide.keyed import GROUPS, GROUPS_PER_SLOT, Loads, Rebalancer, RoutingTable
from skytide.queries.blocks import FANOUT

WORTH_S = 0.4  # of work: below that, more jobs cost more than a second core saves
FIRST_PAIR_S, FIRST_ROW_S = 1e-9, 1e-6  # until it has been measured
LEARNED = 1 / 4  # the weight of the latest measurement
PARTS = GROUPS
"""Into so many parts the state of a query is divided, by a hash of the group, or by place where there are no groups: as many slots can work on it."""
SLOT_S = 0.2  # of work: with less for each slot, tasks cost more than they save
DRIVER_ROWS = 100_000  # the most that the driver of a cluster holds: some 10 MB
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
class Parts:
    """Each slot does the work of its parts of the state.

    Parts of groups are independent of each other. Without groups, rows of a skyline are compared with the candidates of every part, and
    then belong to one; of other queries, slots merge what was kept of the new panes, each some of it, and one task answers.
    """

    of_slots: tuple[int, ...]
    """The parts of each slot, a bit each."""
    reason: str


Spreading = OnDriver | OneTask | Parts


def rows_read(closed: Mapping[int, OpenPane], ended: int, memory: Sequence[Run], replaced: int) -> int:
    """Return about how many remembered rows are read to answer windows from panes and blocks, and to write the latest runs once more.

    A window is made of a few panes and blocks, however many there are: about as many as complete two blocks. Of the windows that ended
    those with the same panes are answered once.

    >>> from skytide.batch import Piece
    >>> run = Run(0, 86_399, 0, ("memory",), 8_640_000)
    >>> rows_read({86_400: OpenPane(100, (Piece("panes", 0, 1, 100),))}, 1, [run], 0)
    3200
    >>> rows_read({86_400: OpenPane(100, (Piece("panes", 0, 1, 100),))}, 1, [run], 1)
    8643200
    """
    remembered, copied = sum(run.rows for run in memory), sum(run.rows for run in memory[len(memory) - replaced :])
    panes = len(closed) or sum(run.last - run.first + 1 for run in memory)
    per_pane = (sum(piece.rows for pane in closed.values() for piece in pane.pieces) if closed else remembered) / max(panes, 1)
    different = min(ended, 2 * len(closed) + 1)  # panes come and go
    return copied + different * min(remembered, math.ceil(2 * FANOUT * per_pane))


class Spreader:
    """Decides batch by batch, by what a pair of rows, or a single row, has cost so far.

    P1 (eq. 1b) sizes the nodes that merge for the most results that the others could send, at a cost measured beforehand. In a batch it is known
    what there is to merge, and what merging has cost lately: there are as many slots as keep each at work for a fifth of a second.
    Which slot has which parts is decided as for keys, by the time that parts have taken.
    """

    def __init__(
        self, slots: int, can_spread: bool, worth_s: float = WORTH_S, driver_s: float = DRIVER_S, has_groups: bool = False
    ) -> None:
        """Begin with an estimate of the cost."""
        self.slots = slots
        self._can_spread, self._worth_s, self._driver_s, self._has_groups = can_spread, worth_s, driver_s, has_groups
        self._unit_s = FIRST_PAIR_S if can_spread else FIRST_ROW_S
        self._table, self._rebalancer = RoutingTable.even(1), Rebalancer().build()

    def decide(self, new_rows: int, memory_rows: int) -> Spreading:
        """Return how to add new rows to those of a memory, as far as they are read."""
        expected_s = self._units(new_rows, memory_rows) * self._unit_s
        slots = min(self.slots, PARTS, math.ceil(expected_s / SLOT_S) if self._worth_s else PARTS)
        pays = slots > 1 and expected_s >= self._worth_s
        fits_driver = expected_s <= self._driver_s and self.on_driver(new_rows + memory_rows)
        if pays and (self._has_groups or not fits_driver):  # without groups, the driver has threads
            return Parts(self._parts(slots), f"{slots} slots, each with its parts: {expected_s:.2f} s of work")
        if fits_driver:
            return OnDriver(self.slots, f"on the driver: {expected_s:.2f} s of work")
        if self.slots == 1 and expected_s >= self._worth_s:
            return OneTask("one task: there is one slot")
        return OneTask(f"one task: {expected_s:.2f} s of work, and spreading pays from {self._worth_s:.2f} s on")

    def on_driver(self, rows: int) -> bool:
        """Return whether the driver may hold so many rows: where there is no cluster, any number."""
        return self._driver_s == math.inf or (self._driver_s >= 0 and rows <= DRIVER_ROWS)

    def measured(
        self, busy_s: float, new_rows: int, memory_rows: int, of_parts: Mapping[int, float] = MappingProxyType({})
    ) -> None:
        """Learn from what the work really cost, and parts of it, as far as that is known."""
        if units := self._units(new_rows, memory_rows):
            self._unit_s += (busy_s / units - self._unit_s) * LEARNED
        if of_parts:
            self._rebalancer.observe(self._table, Loads([of_parts.get(part, 0.0) for part in range(PARTS)]))

    def _parts(self, slots: int) -> tuple[int, ...]:
        """Return the parts of each slot: as many for each at first, then so that slots take equally long, and few parts move."""
        is_balanced = self._has_groups and slots * GROUPS_PER_SLOT <= PARTS  # a slot with one part or two has nothing to give away
        if self._table.count == 1 or not is_balanced:
            self._table = RoutingTable(tuple(part * slots // PARTS for part in range(PARTS)))
        if is_balanced:
            self._table = self._rebalancer.plan(self._table, slots, divide=False).table
        return tuple(mask for slot in range(slots) if (mask := self._table.mask(slot)))

    def _units(self, new_rows: int, memory_rows: int) -> int:
        """Return how many pairs of rows have to be compared; rows, if the query compares none."""
        return new_rows * (memory_rows + new_rows) if self._can_spread else new_rows + memory_rows
