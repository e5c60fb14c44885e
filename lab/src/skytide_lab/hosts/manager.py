"""FUGU's central manager: which operators move to which host, by the verdicts of a judge on each host (P4 §II, SPEC E6)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from skytide.control.controller import Controller, ControllerLogic, State
from skytide.control.judging import Verdict, WorkersByLoad
from skytide.records import Allocation, Decision, Evaluation, Observation
from skytide_lab.hosts.placement import Bin, Item, first_fit, leaving


@dataclass(frozen=True)
class Placed(Allocation):
    """An allocation that also knows on which hosts operators are."""

    where: tuple[tuple[str, str], ...] = ()
    """Each operator with its host."""


@dataclass(frozen=True)
class HostsSeen(Observation):
    """What was measured of hosts and of the operators on them."""

    items: tuple[Item, ...] = ()
    """Operators, with the resources that each took in the interval."""
    spare: tuple[str, ...] = ()
    """Names of hosts that are not in use."""
    network: float = float("inf")
    memory: float = float("inf")
    """The capacity of a host."""


@dataclass(frozen=True)
class Manager(Controller):
    """Moves operators away from overloaded hosts, the largest overload first, and then empties hosts that have little to do."""

    technique: WorkersByLoad
    fill: float | None = None
    """The load up to which a host is filled; None: up to the target."""

    def build(self, resume: State | None = None) -> "ManagerLogic":
        """Return the logic, from a snapshot if there is one."""
        return ManagerLogic(self, resume)


class ManagerLogic(ControllerLogic):
    """Turns loads into places for operators."""

    def __init__(self, config: Manager, resume: State | None = None) -> None:
        """Start with a new judge, or continue from a snapshot."""
        self._judge, self._target = config.technique.judge(resume), config.technique.target
        self._fill = config.fill or config.technique.target

    def snapshot(self) -> State:
        """Return what the judge has learned."""
        return self._judge.snapshot()

    def decide(self, seen: Evaluation, *, now_s: float) -> Decision:
        """Return places for operators that carry out the verdicts of the judge as far as there is room."""
        now, present = seen.seen, seen.seen.allocation
        assert isinstance(now, HostsSeen) and isinstance(present, Placed)
        loads = dict(now.loads)
        verdicts = self._judge.judge(loads, now_s=now_s)
        over = sorted((v for v in verdicts if v.action == "out"), key=lambda v: -v.load)
        under = sorted((v for v in verdicts if v.action == "in"), key=lambda v: v.load)
        view = _View(now, dict(present.where), {host: self._fill - load for host, load in loads.items()}, list(now.spare))
        got: set[str] = set()
        reasons = []
        for verdict in over + under:
            if verdict.action == "in" and (verdict.host in got or len(view.room) == 1):
                self._judge.undone(verdict.host)
                continue
            moves = self._moves(verdict, view, {v.host for v in over})
            if not moves:
                self._judge.refused(verdict.host)
                reasons.append(f"{verdict.why}, but there is no room")
                continue
            touched = view.move(moves, self._fill)
            got |= touched
            reasons.append(f"{verdict.why}: {len(moves)} operators move")
            # P4 lets the affected host rest. Those that got operators are affected as well: their load is not what it was.
            self._judge.acted([verdict.host], touched={verdict.host} | touched, now_s=now_s)
        placed = replace(present, workers=len(view.room), where=tuple(sorted(view.where.items())))
        return Decision(
            placed, "; ".join(reasons) or f"loads {min(loads.values()):.2f} to {max(loads.values()):.2f} call for no change"
        )

    def _moves(self, verdict: Verdict, view: "_View", over: set[str]) -> dict[str, str]:
        """Return where operators of a host can go: of an overloaded host those above the target, if there is room; of a released one all."""
        items = view.on(verdict.host)
        bins = [view.bin(host) for host in view.room if host != verdict.host and host not in over]
        if verdict.action == "in":
            packing = first_fit(items, bins)
            return {} if packing.left else packing.places
        # An operator that is too large for any other host stays, and all others leave.
        going = set(leaving(items, max(self._target, *(item.cpu for item in items))))
        spare = [Bin(name, self._fill, view.seen.network, view.seen.memory, spare=True) for name in view.spare]
        return first_fit([item for item in items if item.name in going], [*bins, *spare]).places


@dataclass
class _View:
    """Where operators are, and how much room hosts have, while a decision is made."""

    seen: HostsSeen
    where: dict[str, str]
    room: dict[str, float]
    """The room of each host in use."""
    spare: list[str]

    def on(self, host: str) -> list[Item]:
        return [item for item in self.seen.items if self.where[item.name] == host]

    def bin(self, host: str) -> Bin:
        held: Sequence[Item] = self.on(host)
        network, memory = sum(item.network for item in held), sum(item.memory for item in held)
        return Bin(host, self.room[host], self.seen.network - network, self.seen.memory - memory, tuple(item.name for item in held))

    def move(self, moves: dict[str, str], fill: float) -> set[str]:
        """Move operators, take and release hosts, and return the hosts that received operators."""
        cpu = {item.name: item.cpu for item in self.seen.items}
        self.where |= moves
        for name, host in moves.items():
            if host in self.spare:
                self.spare.remove(host)
                self.room[host] = fill
            self.room[host] -= cpu[name]
        used = set(self.where.values())
        self.room = {host: room for host, room in self.room.items() if host in used}
        return set(moves.values())
