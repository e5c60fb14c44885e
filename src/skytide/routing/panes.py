"""The ways to assign the tuples of a pane to slots (P3 §4.1.2, P1 §4, SPEC S1 to S5, A7)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isinf

from skytide.errors.checks import check_choice, check_type
from skytide.routing.frequency import FrequencyAware
from skytide.routing.pid import Pid, PidLogic
from skytide.routing.router import Given, Queued, Router, Splitting


@dataclass(frozen=True)
class PanesInTurn(Splitting):
    """PB_RR: pane i to slot i mod n."""

    name = "PB_RR"

    def send(self, router: "Router", pane: int, tuples: int, queued: Queued) -> Given:
        """Send all tuples to one slot, and return it with their number."""
        opened = router.open.get(pane)
        return router.give(pane, {opened.owner if opened else router.slots[pane % len(router.slots)]: tuples}, queued)


@dataclass(frozen=True)
class TuplesInTurn(Splitting):
    """TB_RR: tuple after tuple to slot after slot."""

    name = "TB_RR"

    def send(self, router: "Router", pane: int, tuples: int, queued: Queued) -> Given:
        """Send equally many tuples to each slot, and one more to those whose turn it is; return how many each gets."""
        n = len(router.slots)
        share, more = divmod(tuples, n)
        first = router.turn % n
        router.turn = (first + tuples) % n
        shares = [share + (1 if (place - first) % n < more else 0) for place in range(n)]
        return router.give(pane, {slot: share for slot, share in zip(router.slots, shares, strict=True) if share}, queued)

    def shares(self, router: "Router", pane: int, tuples: int) -> Given:
        """Return equal shares, however few the tuples are."""
        return dict.fromkeys(router.slots, 1)

    def slot_for(self, router: "Router", pane: int, tuples: int, queued: Queued) -> int:
        """Return the next slot in turn."""
        router.turn = (router.turn + 1) % len(router.slots)
        return router.slots[router.turn]


@dataclass(frozen=True)
class EqualParts(TuplesInTurn):
    """EVEN: a batch is cut into as many equal parts as there are slots, in order: balanced, and few panes are cut.

    No paper has it, as it needs the number of tuples before the first one is sent, which only batches know.
    """

    name = "EVEN"

    def plan(self, router: "Router", runs: Sequence[tuple[int, int]]) -> list[int]:
        """Return the slot of each run: the part of the batch that its middle falls into."""
        total, n, before = max(1, sum(tuples for _, tuples in runs)), len(router.slots), 0
        slots = []
        for _, tuples in runs:
            slots.append(router.slots[min(n - 1, (2 * before + tuples) * n // (2 * total))])
            before += tuples
        return slots


@dataclass(frozen=True)
class RateAware(Splitting):
    """P1's way: panes go to slots in turn; what exceeds the usual size goes to the next slot, and a slot with a small pane gets another.

    Until a pane has closed, so that the usual size is known, pane i goes to slot i mod n.
    """

    name = "RATE"

    def send(self, router: "Router", pane: int, tuples: int, queued: Queued) -> Given:
        """Fill slot after slot, and return how many tuples each gets."""
        if isinf(router.base_threshold):
            return router.give(pane, {_in_turn(router, pane): tuples}, queued)
        given = router.fill(pane, tuples, queued, router.base_threshold, lambda owner: self._next(router, owner))
        router.filled += given.get(_in_turn(router, router.turn), 0)
        return given

    def slot_for(self, router: "Router", pane: int, tuples: int, queued: Queued) -> int:
        """Return the owner, or the next slot if the owner has its share."""
        if isinf(router.base_threshold):
            return super().slot_for(router, pane, tuples, queued)
        opened = router.open.get(pane)
        slot = opened.owner if opened and opened.owner in router.slots else None
        if opened is None or slot is None or opened.sent.get(slot, 0) + tuples / 2 > router.base_threshold:
            slot = self._next(router, slot)
        router.filled += tuples if slot == _in_turn(router, router.turn) else 0
        return slot

    def recorded(self, router: "Router", tuples: int) -> None:
        """Take as many turns as the senders of these tuples have taken together."""
        if not isinf(router.base_threshold):
            turns, router.filled = divmod(router.filled + tuples, max(1, int(router.base_threshold)))
            router.turn = (router.turn + turns) % len(router.slots)

    def _next(self, router: "Router", owner: int | None) -> int:
        """Return the slot whose turn it is for a new pane, unless it is half full; for a pane that continues, the next slot."""
        if owner is not None or router.filled > router.base_threshold / 2:
            router.turn, router.filled = router.turn + 1, 0
        return _in_turn(router, router.turn)


def _in_turn(router: "Router", turn: int) -> int:
    return router.slots[turn % len(router.slots)]


@dataclass(frozen=True)
class ByKey(RateAware):
    """KEYS: tuples of a query with keys go to slots by their keys; the most frequent keys are divided (P1 §4).

    Where keys are not known, as in a simulation by counts, tuples are sent by rate: P1's rule for queries without keys.
    """

    name = "KEYS"
    keys: FrequencyAware = field(default_factory=FrequencyAware)

    def __post_init__(self) -> None:
        """Refuse objects that do not divide keys."""
        remedy = "pass FrequencyAware(), for instance with another number of keys to divide"
        check_type("keys", self.keys, FrequencyAware, reason="not a way to divide keys", remedy=remedy)

    def key_routing(self) -> FrequencyAware:
        """Return the frequency-aware hashing."""
        return self.keys


@dataclass(frozen=True)
class LeastLoaded(Splitting):
    """AS: the slot with the shortest queue owns a pane until it has as many tuples as the threshold; then the next one does.

    AS_PID: the threshold moves with the utilisation, so that panes are split as little as the load allows.
    """

    pid: Pid | None = field(default_factory=Pid)

    def __post_init__(self) -> None:
        """Refuse objects that are not a PID."""
        check_type("pid", self.pid, (Pid, type(None)), reason="not a PID regulator", remedy="pass Pid(), or None for none")

    @property
    def name(self) -> str:  # type: ignore[override]
        """Return the name: with a PID it is another strategy."""
        return "AS" if self.pid is None else "AS_PID"

    def regulator(self) -> PidLogic | None:
        """Return the PID, or None if the threshold is fixed."""
        return None if self.pid is None else self.pid.build()

    def send(self, router: "Router", pane: int, tuples: int, queued: Queued) -> Given:
        """Fill the least loaded slot, then the slot that is least loaded then, and return how many tuples each gets."""
        return router.fill(pane, tuples, queued, router.threshold, lambda _: router.least_loaded(queued))

    def slot_for(self, router: "Router", pane: int, tuples: int, queued: Queued) -> int:
        """Return the owner, or the least loaded slot if the owner has its share or there is no owner yet."""
        opened = router.open.get(pane)
        if opened is None or opened.owner not in router.slots:
            return router.least_loaded(queued)
        has_room = opened.sent.get(opened.owner, 0) + tuples / 2 <= router.threshold
        return opened.owner if has_room else router.least_loaded(queued)


PB_RR, TB_RR, EVEN, RATE, KEYS, AS, AS_PID = (
    PanesInTurn(),
    TuplesInTurn(),
    EqualParts(),
    RateAware(),
    ByKey(),
    LeastLoaded(pid=None),
    LeastLoaded(),
)
STRATEGIES = {strategy.name: strategy for strategy in (PB_RR, TB_RR, EVEN, RATE, KEYS, AS, AS_PID)}


def strategy_of(name: object) -> Splitting:
    """Return a strategy by its name; a strategy is returned as it is."""
    if isinstance(name, Splitting):
        return name
    check_choice("splitting", name, STRATEGIES)
    return STRATEGIES[str(name)]
