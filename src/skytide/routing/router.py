"""The partitions of open panes, and the threshold at which they are split (P3 §4.1.2, P0 §3.1 and §4.1, SPEC S6 to S11).

A router gets the number of tuples of a pane that come next, and of those that wait at each slot, and decides which slots get them. It
knows the partitions of every open pane, so each result can tell how many partitions its pane has, whatever was added, removed or split.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, ClassVar

from skytide.errors import InvalidInput
from skytide.routing.choosing import Chooser
from skytide.routing.frequency import FrequencyAware
from skytide.routing.owners import MOST_PANES, Owners, PanePlan, Shares, grains_for
from skytide.routing.pid import PidLogic
from skytide.routing.recent import RecentPanes
from skytide.routing.sizes import RecentSizes

Queued = dict[int, int]
"""How many tuples wait at each slot; a router adds what it sends."""
Given = dict[int, int]
"""How many tuples each slot gets."""
Choice = Callable[[int | None], int]
"""Returns the next owner of a pane, given the one so far."""
State = dict[str, Any]
FEWEST_PANES = 8
"""So many panes have slots of their own at least, as more may come than are expected."""


@dataclass
class OpenPane:
    """A pane that has not closed: its owner, and the tuples sent to each slot that holds a partition."""

    owner: int
    sent: dict[int, int] = field(default_factory=dict)
    given_up: list[int] = field(default_factory=list)
    """The sizes of partitions whose slot was removed: their results are out already, marked with 0 partitions."""


@dataclass(frozen=True)
class Partition:
    """A partition whose result goes to the window level."""

    pane: int
    slot: int
    tuples: int
    partitions: int
    """How many partitions the pane has; 0 if that is not known yet, as the slot was removed (P0 Alg. 4)."""


@dataclass(frozen=True)
class Splitting(ABC):
    """A way to assign tuples to slots."""

    name: ClassVar[str]

    def build(self, slots: int, resume: State | None = None) -> "Router":
        """Return the router for a number of slots, from a snapshot if there is one."""
        router = Router(self, range(slots))
        if resume:
            router.restore(resume)
        return router

    def regulator(self) -> PidLogic | None:
        """Return the regulator of the threshold, or None if it is fixed."""
        return None

    def key_routing(self) -> FrequencyAware | None:
        """Return how tuples are routed by their keys, or None if they are not."""
        return None

    @abstractmethod
    def send(self, router: "Router", pane: int, tuples: int, queued: Queued) -> Given:
        """Send tuples of a pane, and return how many each slot gets."""

    def shares(self, router: "Router") -> Mapping[int, Shares]:
        """Return how much of each of some consecutive panes each slot gets in the next batch: as if they came one after the other.

        The panes are those that are expected, and some after them, which have the usual size.
        """
        expected = dict(router.recent_panes.expected())
        usual, first = max(1, round(router.whole.mean() or 0)), min(expected, default=0)
        count = min(MOST_PANES, max(FEWEST_PANES, max(expected, default=0) + 1 - first))
        queued: Queued = {}
        return {pane: self.send(router, pane, expected.get(pane, usual), queued) for pane in range(first, first + count)}

    def plan_panes(self, router: "Router") -> PanePlan:
        """Return where the tuples of the next batch are worked on. The router is used up by that: it takes them for sent."""
        shares = self.shares(router)
        owners = Owners.of(shares, grains_for(len(router.slots), len(shares)))
        return PanePlan(owners, f"sent to {owners.slots} slots by {self.name}")

    def chooser(self) -> Chooser | None:
        """Return what chooses whether tuples are sent at all, or None if they always are."""
        return None

    def recorded(self, router: "Router", tuples: int) -> None:
        """Note that others have sent tuples."""

    def plan(self, router: "Router", runs: Sequence[tuple[int, int]]) -> list[int]:
        """Return the slot of each run of tuples; runs have a pane and a number of tuples, in the order in which they come."""
        queued: Queued = {}
        return [router.route_whole(pane, tuples, queued) for pane, tuples in runs]

    def slot_for(self, router: "Router", pane: int, tuples: int, queued: Queued) -> int:
        """Return the slot for tuples that must stay together: the owner of the pane, unless a strategy splits panes."""
        opened = router.open.get(pane)
        return opened.owner if opened and opened.owner in router.slots else router.slots[pane % len(router.slots)]


class Router:
    """Routes tuples; knows the open panes, their partitions, and the threshold at which they are split."""

    recent = 100
    """How many partitions the threshold takes into account."""

    def __init__(self, strategy: Splitting, slots: Iterable[int]) -> None:
        """Start with slots by number, and no panes."""
        self.strategy = strategy
        self.slots: list[int] = list(slots)
        if not self.slots:
            raise InvalidInput(value="no slots", reason="tuples must go somewhere", remedy="give at least 1")
        self.open: dict[int, OpenPane] = {}
        self.turn = self.filled = 0
        self.sizes, self.whole = RecentSizes(self.recent), RecentSizes(self.recent)
        self.recent_panes, self.chooser = RecentPanes(), strategy.chooser()
        self.pid = strategy.regulator()
        by_key = strategy.key_routing()
        self.keys = by_key.build(self.slots) if by_key else None
        self.base_threshold = inf
        self.threshold = inf
        self._closed_panes = self._closed_partitions = 0
        self.latest_factor = 1.0
        """The mean number of partitions of the panes that closed last."""
        self._chosen: dict[int, int] = {}

    @property
    def splitting_factor(self) -> float:
        """Return the mean number of partitions of the panes that closed (SPEC S10)."""
        return self._closed_partitions / self._closed_panes if self._closed_panes else 1.0

    def route(self, pane: int, tuples: int, queued: Queued) -> Given:
        """Send tuples of a pane, and return how many each slot gets."""
        return self.strategy.send(self, pane, tuples, queued)

    def route_whole(self, pane: int, tuples: int, queued: Queued) -> int:
        """Send tuples of a pane that must stay together, and return their slot."""
        slot = self.strategy.slot_for(self, pane, tuples, queued)
        self._note(pane, slot, tuples)
        queued[slot] = queued.get(slot, 0) + tuples
        return slot

    def record(self, pane: int, slot: int, tuples: int) -> None:
        """Note that others have sent tuples of a pane to a slot."""
        self._note(pane, slot, tuples)
        self.strategy.recorded(self, tuples)

    def _note(self, pane: int, slot: int, tuples: int) -> None:
        opened = self.open.setdefault(pane, OpenPane(slot))
        opened.sent[slot] = opened.sent.get(slot, 0) + tuples
        opened.owner = slot

    def close(self, before: int) -> list[Partition]:
        """Close all panes before a pane, and return their last results, each with the number of all partitions."""
        closed = []
        for pane in sorted(pane for pane in self.open if pane < before):
            opened = self.open.pop(pane)
            count = len(opened.sent) + len(opened.given_up)
            closed += [Partition(pane, slot, tuples, count) for slot, tuples in opened.sent.items()]
            sizes = [size for size in (*opened.sent.values(), *opened.given_up) if size]
            self.sizes.add(sizes)
            self.whole.add([sum(sizes)] if sizes else [])
            self._closed_panes += 1
            self._closed_partitions += count
        if closed:
            panes = {partition.pane: partition.partitions for partition in closed}
            self.latest_factor = sum(panes.values()) / len(panes)
            self._set_threshold()
        return closed

    def add(self, slots: Iterable[int]) -> None:
        """Add slots, which take part from now on."""
        self._use([*self.slots, *(slot for slot in slots if slot not in self.slots)])

    def remove(self, slots: Sequence[int], queued: Queued) -> list[Partition]:
        """Remove slots, and return their results, which go out at once, marked with 0 partitions as more may follow."""
        left = [slot for slot in self.slots if slot not in slots]
        if not left:
            raise InvalidInput(value=f"slots {list(slots)}", reason="none would be left", remedy="keep at least 1")
        self._use(left)
        given_up = []
        for pane, opened in sorted(self.open.items()):
            for slot in [slot for slot in opened.sent if slot in slots]:
                tuples = opened.sent.pop(slot)
                opened.given_up.append(tuples)
                given_up.append(Partition(pane, slot, tuples, 0))
            if opened.owner in slots:
                opened.owner = self.least_loaded(queued)
                opened.sent.setdefault(opened.owner, 0)  # an empty partition if necessary, whose result tells the count
        return given_up

    def renumber(self, slots: int) -> None:
        """Use `slots` slots from now on; for engines that keep partial results outside of the slots, so that none has to be given up."""
        self._use(list(range(slots)))
        for opened in self.open.values():
            opened.owner %= slots

    def sample(self, utilisation: float | None) -> None:
        """End a sampling period: the threshold moves with the utilisation, if the strategy has a regulator."""
        if self.pid:
            mean, base = self.whole.mean(), self.base_threshold
            # A threshold below an even share splits no further, and one above the largest pane splits nothing.
            low, high = (0.0, inf) if mean is None else (mean / len(self.slots) / base / 2, max(self.whole.snapshot()) / base)
            self.pid.sample(utilisation, low, high)
            self._set_threshold()

    def least_loaded(self, queued: Queued) -> int:
        """Return the slot with the fewest waiting tuples; of several, the one that was chosen least often."""
        chosen = self._chosen
        best, fewest, times = self.slots[0], inf, 0
        for slot in self.slots:  # a loop, as this is asked for every few tuples
            waiting = queued.get(slot, 0)
            if waiting > fewest:
                continue
            often = chosen.get(slot, 0)
            if waiting < fewest or often < times:
                best, fewest, times = slot, waiting, often
        chosen[best] = times + 1
        return best

    def fill(self, pane: int, tuples: int, queued: Queued, threshold: float, choose: Choice) -> Given:
        """Send tuples to the owner of a pane up to the threshold, then to the next owner, and so on; return how many each gets."""
        opened = self.open.get(pane)
        if opened is None:
            opened = self.open[pane] = OpenPane(choose(None))
        sent, owner, few = opened.sent, opened.owner, 4 * len(self.slots)
        given: Given = {}
        while tuples:
            has = sent.get(owner, 0)
            if threshold - has < 1 and sent:
                owner = choose(owner)
                has = sent.get(owner, 0)
            room = threshold - has
            # If every slot has its share already, tuples are sent a few at a time.
            n = tuples if room >= tuples else int(room) if room >= 1 else max(1, tuples // few)
            sent[owner] = has + n
            queued[owner] = queued.get(owner, 0) + n
            given[owner] = given.get(owner, 0) + n
            tuples -= n
        opened.owner = owner
        return given

    def give(self, pane: int, shares: Given, queued: Queued) -> Given:
        """Send tuples of a pane to slots, the last of which becomes its owner, and return the shares."""
        opened = self.open.get(pane)
        if opened is None:
            opened = self.open[pane] = OpenPane(next(iter(shares)))
        for slot, n in shares.items():
            opened.sent[slot] = opened.sent.get(slot, 0) + n
            queued[slot] = queued.get(slot, 0) + n
            opened.owner = slot
        return shares

    def snapshot(self) -> State:
        """Return the state, as plain values."""
        panes = {pane: vars(opened) for pane, opened in self.open.items()}
        closed = [self._closed_panes, self._closed_partitions]
        regulated = {
            name: logic.snapshot() if logic else None
            for name, logic in (("pid", self.pid), ("keys", self.keys), ("chooser", self.chooser))
        }
        sizes = {"sizes": self.sizes.snapshot(), "whole": self.whole.snapshot()}
        turns = {"turn": self.turn, "filled": self.filled, "chosen": self._chosen}
        return {
            "slots": self.slots,
            "open": panes,
            "closed": closed,
            "recent": self.recent_panes.snapshot(),
            **turns,
            **sizes,
            **regulated,
        }

    def restore(self, state: State) -> None:
        """Continue from a snapshot."""
        self.turn, self.filled = state["turn"], state.get("filled", 0)
        for pane, pane_state in state["open"].items():
            sent = {int(slot): n for slot, n in pane_state["sent"].items()}
            self.open[int(pane)] = OpenPane(pane_state["owner"], sent, list(pane_state["given_up"]))
        self.sizes, self.whole = (RecentSizes(self.recent, state[name]) for name in ("sizes", "whole"))
        self._closed_panes, self._closed_partitions = state["closed"]
        self._chosen = {int(slot): times for slot, times in state["chosen"].items()}
        if self.pid and state["pid"]:
            self.pid.restore(state["pid"])
        if state.get("recent"):
            self.recent_panes.restore(state["recent"])
        if self.chooser and state.get("chooser"):
            self.chooser.restore(state["chooser"])
        if self.keys and state.get("keys"):
            self.keys.restore(state["keys"])
        self._use(list(state["slots"]))
        self._set_threshold()

    def _use(self, slots: list[int]) -> None:
        self.slots = slots
        if self.keys:
            self.keys.resize(slots)

    def _set_threshold(self) -> None:
        self.base_threshold = self.sizes.threshold()
        self.threshold = self.base_threshold * (self.pid.factor if self.pid else 1.0)
