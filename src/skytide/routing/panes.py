"""The ways to assign the tuples of a pane to slots (P3 §4.1.2, P1 §4, SPEC S1 to S5, A7)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isinf

from skytide.errors.checks import check_choice, check_type
from skytide.routing.choosing import Chooser, Costs
from skytide.routing.frequency import FrequencyAware
from skytide.routing.owners import MOST_PANES, Owners, PanePlan, Shares, grains_for, just_enough
from skytide.routing.pid import Pid, PidLogic
from skytide.routing.router import FEWEST_PANES, Given, Queued, Router, Splitting


@dataclass(frozen=True)
class PanesInTurn(Splitting):
    """PB_RR: pane i to slot i mod n."""

    name = "PB_RR"

    def send(self, router: "Router", pane: int, tuples: int, queued: Queued) -> Given:
        """Send all tuples to one slot, and return it with their number."""
        opened = router.open.get(pane)
        return router.give(pane, {opened.owner if opened else router.slots[pane % len(router.slots)]: tuples}, queued)

    def shares(self, router: "Router") -> Mapping[int, Shares]:
        """Return slot after slot for pane after pane."""
        return {pane: {slot: 1.0} for pane, slot in enumerate(router.slots)}


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

    def shares(self, router: "Router") -> Mapping[int, Shares]:
        """Return equal shares of any pane."""
        return {0: dict.fromkeys(router.slots, 1.0)}

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
        return self.in_parts(runs, router.slots)

    @staticmethod
    def in_parts(runs: Sequence[tuple[int, int]], slots: Sequence[int]) -> list[int]:
        """Return the slot of each run, if they are cut into as many equal parts as there are slots."""
        total, n, before = max(1, sum(tuples for _, tuples in runs)), len(slots), 0
        parts = []
        for _, tuples in runs:
            parts.append(slots[min(n - 1, (2 * before + tuples) * n // (2 * total))])
            before += tuples
        return parts

    def shares(self, router: "Router") -> Mapping[int, Shares]:
        """Return the slots between whose ends each pane lies, if those that are expected lie side by side; others are divided evenly."""
        expected, n, before = router.recent_panes.expected(), len(router.slots), 0
        total = sum(tuples for _, tuples in expected)
        lying: dict[int, dict[int, float]] = {}
        for pane, tuples in expected:
            begin, end = before * n, (before + tuples) * n
            first, last = begin // total, min(n - 1, (end - 1) // total)
            lying[pane] = {
                router.slots[place]: min(end, (place + 1) * total) - max(begin, place * total) for place in range(first, last + 1)
            }
            before += tuples
        return consecutive(lying, dict.fromkeys(router.slots, 1.0))


@dataclass(frozen=True)
class WhereTheyAre(EqualParts):
    """IN_PLACE: tuples are worked on where they are: in the partitions of a DataFrame, or in equal parts in a source of our own."""

    name = "IN_PLACE"

    def plan_panes(self, router: "Router") -> PanePlan:
        """Return that they stay."""
        return PanePlan(None, "in place, as asked")


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


@dataclass(frozen=True)
class Auto(EqualParts):
    """auto: tuples are worked on where they are, unless sending them pays; then to just enough slots, and panes are divided as little as balance allows.

    `costs` are those of the first batch that is sent; they are learned from then on.
    """

    name = "auto"
    costs: Costs = field(default_factory=Costs)

    def __post_init__(self) -> None:
        """Refuse what are not costs."""
        check_type("costs", self.costs, Costs, reason="not costs", remedy="pass Costs(), or leave it out")

    def chooser(self) -> Chooser:
        """Return what chooses, as it starts."""
        return Chooser(self.costs)

    def plan_panes(self, router: "Router") -> PanePlan:
        """Return where the tuples of the next batch are worked on: sent to slots only if that pays."""
        assert router.chooser is not None
        choice = router.chooser.choose(len(router.slots))
        if not choice.slots:
            return PanePlan(None, choice.reason)
        slots = router.slots[: choice.slots]
        shares = consecutive(
            just_enough(router.recent_panes.expected(), slots, router.recent_panes.spread)
            if router.recent_panes.expected()
            else {},
            dict.fromkeys(slots, 1.0),
        )
        return PanePlan(Owners.of(shares, grains_for(len(slots), len(shares))), choice.reason)

    def plan(self, router: "Router", runs: Sequence[tuple[int, int]]) -> list[int]:
        """Return the slot of each run: equal parts, in just enough slots."""
        assert router.chooser is not None
        slots = router.chooser.slots_to_make(sum(tuples for _, tuples in runs), len(router.slots))
        return self.in_parts(runs, router.slots[:slots])


def consecutive(shares: Mapping[int, Shares], other: Shares) -> dict[int, Shares]:
    """Return the shares of some panes and of those between and after them.

    >>> consecutive({7: {0: 1.0}, 9: {1: 1.0}}, {0: 1.0, 1: 1.0})[8]
    {0: 1.0, 1: 1.0}
    """
    last = max(shares, default=0)
    first = max(min(shares, default=0), last + 1 - MOST_PANES)
    count = min(MOST_PANES, max(FEWEST_PANES, last + 1 - first))
    return {pane: shares.get(pane, other) for pane in range(first, first + count)}


PB_RR, TB_RR, EVEN, RATE, KEYS, AS, AS_PID, IN_PLACE, AUTO = (
    PanesInTurn(),
    TuplesInTurn(),
    EqualParts(),
    RateAware(),
    ByKey(),
    LeastLoaded(pid=None),
    LeastLoaded(),
    WhereTheyAre(),
    Auto(),
)
STRATEGIES = {strategy.name: strategy for strategy in (AUTO, IN_PLACE, PB_RR, TB_RR, EVEN, RATE, KEYS, AS, AS_PID)}


def strategy_of(name: object) -> Splitting:
    """Return a strategy by its name; a strategy is returned as it is."""
    if isinstance(name, Splitting):
        return name
    check_choice("splitting", name, STRATEGIES)
    return STRATEGIES[str(name)]
