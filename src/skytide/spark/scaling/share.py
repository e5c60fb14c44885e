"""Executors belong to the application, not to a query: where several queries are scaled, the one that needs most decides."""

import threading

from skytide.records import Allocation
from skytide.spark.scaling.executors import ClusterExecutors, Tell
from skytide.spark.scaling.slots import RunSlots


class Shared:
    """The executors of an application, and how many each of its queries wants."""

    def __init__(self) -> None:
        """Start without queries; `executors` have to be set at once."""
        self.executors: ClusterExecutors
        self.lock = threading.RLock()
        self.wishes: dict[str, int] = {}
        self.tells: dict[str, Tell] = {}

    def tell(self, text: str) -> None:
        """Tell all queries."""
        for tell in list(self.tells.values()):
            tell(text)


class Share:
    """The actuator of one query among others.

    Both levels of a skytide query use all executors, one after the other: its pane slots follow them.
    """

    acts = True

    def __init__(self, shared: Shared, name: str, tell: Tell, slots: RunSlots | None = None) -> None:
        """Join."""
        self._shared, self._name, self._slots = shared, name, slots
        shared.tells[name] = tell
        shared.wishes[name] = shared.executors.current().workers

    @property
    def lead_s(self) -> float:
        """As measured."""
        return self._shared.executors.lead_s

    @property
    def waits(self) -> bool:
        """Whether something is under way."""
        return self._shared.executors.waits

    def current(self) -> Allocation:
        """Return the executors of all."""
        with self._shared.lock:
            return self._shared.executors.current()

    def apply(self, wanted: Allocation, now_s: float) -> str:
        """Ask for executors, unless another query needs more."""
        with self._shared.lock:
            self._shared.wishes[self._name] = wanted.workers
            most = max(self._shared.wishes.values())
            said = self._shared.executors.apply(Allocation(most), now_s)
            if self._slots is not None:
                self._slots.resize(most * self._shared.executors.cores, None)
        return said if most == wanted.workers else f"another query needs {most}: {said}"

    def wish(self, workers: int) -> None:
        """Note how many are wanted now, also if nothing has to change: others must not take them away."""
        with self._shared.lock:
            self._shared.wishes[self._name] = workers

    def tend(self, now_s: float) -> None:
        """Look after the executors."""
        with self._shared.lock:
            self._shared.executors.tend(now_s)

    def leave(self) -> None:
        """Want nothing any more; what is there stays until another query says otherwise."""
        with self._shared.lock:
            self._shared.wishes.pop(self._name, None)
            self._shared.tells.pop(self._name, None)
