"""Executors belong to the application, not to a query: if several queries are scaled, the one that needs the most decides."""

import threading

from skytide.records import Allocation
from skytide.spark.scaling.executors import ClusterExecutors, Tell
from skytide.spark.scaling.slots import RunSlots


class Shared:
    """The executors of an application, and how many each of its queries wants."""

    def __init__(self) -> None:
        """Start without queries; `executors` has to be set right after."""
        self.executors: ClusterExecutors
        self.lock = threading.RLock()
        self.wishes: dict[str, int] = {}
        self.tells: dict[str, Tell] = {}

    def tell(self, text: str) -> None:
        """Report an event to the auto-scalers of all queries."""
        for tell in list(self.tells.values()):
            tell(text)


class Share:
    """The actuator of one query among others.

    Both levels of a skytide query use all executors, one after the other: its pane slots follow them.
    """

    acts = True

    def __init__(self, shared: Shared, name: str, tell: Tell, slots: RunSlots | None = None) -> None:
        """Join the other queries."""
        self._shared, self._name, self._slots = shared, name, slots
        shared.tells[name] = tell
        shared.wishes[name] = shared.executors.current().workers

    @property
    def lead_s(self) -> float:
        """The lead time of an executor, as measured."""
        return self._shared.executors.lead_s

    @property
    def waits(self) -> bool:
        """Whether something is under way that `tend` should see soon."""
        return self._shared.executors.waits

    def current(self) -> Allocation:
        """Return the executors of the application."""
        with self._shared.lock:
            return self._shared.executors.current()

    def apply(self, wanted: Allocation, now_s: float) -> str:
        """Ask for executors, unless another query needs more, and return what was done."""
        with self._shared.lock:
            self._shared.wishes[self._name] = wanted.workers
            most = max(self._shared.wishes.values())
            action = self._shared.executors.apply(Allocation(most), now_s)
            if self._slots is not None:
                self._slots.resize(most * self._shared.executors.cores, None)
        return action if most == wanted.workers else f"another query needs {most}: {action}"

    def wish(self, workers: int) -> None:
        """Note how many are wanted now, even if nothing has to change: others must not take them away."""
        with self._shared.lock:
            self._shared.wishes[self._name] = workers

    def tend(self, now_s: float) -> None:
        """Look after executors that come and go."""
        with self._shared.lock:
            self._shared.executors.tend(now_s)

    def leave(self) -> None:
        """Leave the other queries; executors stay until another query wants another number."""
        with self._shared.lock:
            self._shared.wishes.pop(self._name, None)
            self._shared.tells.pop(self._name, None)
