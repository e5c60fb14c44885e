"""Decides which slot does which task of the window level next (P3 §5.1, P0 §3.2, SPEC T1 to T3).

Events are results of the pane level, and slots that have finished their tasks; the answers are the tasks that slots then begin. Tasks
that change the result of a window never overlap; slots get work as soon as there is something that can be done.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from skytide.errors import InvalidInput
from skytide.windows import Windows
from skytide_lab.scheduling.completeness import Completeness

Policy = Literal["WIN_RR", "WIN_FB", "WIN_FB_MERGE"]
POLICIES = ("WIN_RR", "WIN_FB", "WIN_FB_MERGE")


@dataclass(frozen=True)
class Update:
    """Merge a result into that of a window; with the last one the window is done."""

    window: int
    result: int
    last: bool = False


@dataclass(frozen=True)
class Merge:
    """Merge two results that wait for the same window, while the window itself is busy."""

    window: int
    results: tuple[int, int]
    into: int
    """The number of the merged result."""


Task = Update | Merge


@dataclass(frozen=True)
class Begin:
    """A slot begins a task."""

    slot: int
    task: Task


@dataclass
class _Window:
    waiting: deque[int] = field(default_factory=deque)
    panes_missing: int = 0
    busy: bool = False
    merging: int = 0

    def done_after_next(self) -> bool:
        return not self.panes_missing and not self.merging and len(self.waiting) == 1


class WindowScheduler:
    """Assigns the tasks of windows to slots.

    WIN_RR: window i belongs to slot i mod m. WIN_FB: a slot that has finished continues with the window it served, or else with any
    other. WIN_FB_MERGE (fb-opt in P0): when all windows with work are busy, idle slots merge waiting results.
    """

    def __init__(self, windows: Windows, slots: int, policy: Policy = "WIN_FB_MERGE") -> None:
        """Start with idle slots and no windows."""
        if policy not in POLICIES:
            raise InvalidInput(value=f"{policy=}", reason="not known", remedy=f"choose one of {', '.join(POLICIES)}")
        if slots < 1:
            raise InvalidInput(value=f"{slots=}", reason="tasks must run somewhere", remedy="give at least 1")
        self.policy = policy
        self.slots = set(range(slots))
        self.idle: dict[int, None] = dict.fromkeys(range(slots))  # in the order in which they became idle
        self._layout = windows
        self._windows: dict[int, _Window] = {}
        self._complete = Completeness()
        self._next_result = 0

    def on_result(self, pane: int, partitions: int) -> tuple[int, list[Begin]]:
        """Take in the result of a partition, and return its number from now on, and the tasks that begin."""
        number, last = self._new_result(), self._complete.on(pane, partitions)
        for window in range(self._layout.first_of_pane(pane), self._layout.last_of_pane(pane) + 1):
            state = self._windows.get(window)
            if state is None:
                state = self._windows[window] = _Window(panes_missing=self._layout.panes_per_window)
            state.waiting.append(number)
            state.panes_missing -= last
        return number, self._begin_all()

    def on_finished(self, slot: int, task: Task) -> list[Begin]:
        """Note that a slot has finished its task, and return the tasks that begin."""
        window = self._windows[task.window]
        if isinstance(task, Merge):
            window.merging -= 1
            window.waiting.append(task.into)
        elif task.last:
            del self._windows[task.window]
        else:
            window.busy = False
        if slot in self.slots:
            self.idle[slot] = None
        served = self._begin(slot, prefer=task.window) if slot in self.idle else []
        return [*served, *self._begin_all()]

    def add(self, slots: Iterable[int]) -> list[Begin]:
        """Add slots, and return the tasks that begin."""
        new = [slot for slot in slots if slot not in self.slots]
        self.slots.update(new)
        self.idle.update(dict.fromkeys(new))
        return self._begin_all()

    def remove(self, slots: Iterable[int]) -> None:
        """Remove slots: they get no more tasks, but finish those they have."""
        self.slots -= set(slots)
        if not self.slots:
            raise InvalidInput(value="no slots", reason="tasks must run somewhere", remedy="keep at least 1")
        for slot in set(self.idle) - self.slots:
            del self.idle[slot]

    def waiting(self) -> int:
        """Return how many results wait, over all windows."""
        return sum(len(window.waiting) for window in self._windows.values())

    def _begin_all(self) -> list[Begin]:
        begun: list[Begin] = []
        for slot in list(self.idle):
            started = self._begin(slot)
            if not started and self.policy != "WIN_RR":
                break  # if one idle slot finds no task, no other does
            begun += started
        return begun

    def _begin(self, slot: int, prefer: int | None = None) -> list[Begin]:
        task = self._update(slot, prefer) or (self._merge() if self.policy == "WIN_FB_MERGE" else None)
        if task is None:
            return []
        del self.idle[slot]
        return [Begin(slot, task)]

    def _update(self, slot: int, prefer: int | None) -> Update | None:
        if prefer in self._windows and (task := self._update_of(prefer, slot)):
            return task
        return next((task for window in self._windows if (task := self._update_of(window, slot))), None)

    def _update_of(self, number: int, slot: int) -> Update | None:
        window = self._windows[number]
        if window.busy or not window.waiting or (self.policy == "WIN_RR" and self._owner(number) != slot):
            return None
        last = window.done_after_next()
        window.busy = True
        return Update(number, window.waiting.popleft(), last)

    def _merge(self) -> Merge | None:
        for number, window in self._windows.items():
            if len(window.waiting) >= 2:
                window.merging += 1
                return Merge(number, (window.waiting.popleft(), window.waiting.popleft()), self._new_result())
        return None

    def _owner(self, window: int) -> int:
        slots = sorted(self.slots)
        return slots[window % len(slots)]

    def _new_result(self) -> int:
        self._next_result += 1
        return self._next_result - 1


class InOrder:
    """Releases windows in increasing order, whatever the order in which they are done (SPEC T3).

    >>> out = InOrder(first=4)
    >>> out.on(5), out.on(4), out.on(6)
    ([], [4, 5], [6])
    """

    def __init__(self, first: int) -> None:
        """Start with the first window."""
        self._next = first
        self._done: set[int] = set()

    def on(self, window: int) -> list[int]:
        """Note that a window is done, and return the windows that come out."""
        self._done.add(window)
        out = []
        while self._next in self._done:
            self._done.remove(self._next)
            out.append(self._next)
            self._next += 1
        return out
