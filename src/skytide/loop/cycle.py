"""One control cycle: observe, evaluate, decide, limit, act."""

from collections import deque
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeVar

from skytide.control.controller import Controller, ControllerLogic
from skytide.control.guard import Guard
from skytide.errors.checks import is_integer, refused
from skytide.loop.evaluate import RECENT, evaluate, is_idle, is_odd
from skytide.loop.lead_time import patience_s
from skytide.loop.ports import OnEvent, Plant, StateStore
from skytide.records import Allocation, Decision, Evaluation, Observation, Outcome, ScalingEvent

Built = TypeVar("Built")


@dataclass(frozen=True)
class Cycle:
    """What happened in a cycle."""

    at_s: float
    evaluation: Evaluation | None
    decided: Decision
    """What the controller wanted."""
    limited: Decision
    """What the guard left of it."""
    outcome: Outcome
    """What became of that."""

    @property
    def is_limited(self) -> bool:
        """Whether the guard changed what the controller wanted."""
        return self.evaluation is not None and self.decided.allocation.workers != self.limited.allocation.workers


class Loop:
    """A controller within its limits, and the plant it steers."""

    def __init__(
        self,
        plant: Plant,
        controller: Controller,
        guard: Guard | None = None,
        store: StateStore | None = None,
        on_event: OnEvent | None = None,
        *,
        acts: bool = True,
    ) -> None:
        """Continue from what the store holds; unless it `acts`, it only recommends."""
        saved = store.load() if store else {}
        self._plant, self._store, self._on_event, self.acts = plant, store, on_event, acts
        self._identity, self._others, self._follows = controller.identity(), saved.get("controllers", {}), controller.follows_load
        self._build, self._build_guard = controller.build, (guard or Guard()).build
        self._logic = self._resumed(self._build, self._others.get(self._identity))
        self._guard = self._resumed(self._build_guard, saved.get("guard"))
        self._odd: tuple[Any, Any, int] | None = None  # if the latest interval was odd: what was known before it, and the size then
        self._undone: int | None = None  # the size to go back to after an odd interval
        self._stale_s, self._last_size = self._guard.config.stale_after_s, saved.get("size")
        self._history: deque[Observation] = deque(maxlen=RECENT)
        self._awaited: tuple[Allocation, float] | None = None  # what was requested and is not there yet, and since when
        self._held: Allocation | None = None  # what was asked for last
        self._recommended: Allocation | None = None
        self._refused = ""  # what was refused in the latest cycle: it is asked for again, and reported once
        self._now_s = self._seen_s = float("-inf")
        self.paused = False

    @property
    def logic(self) -> ControllerLogic:
        """The controller at work."""
        return self._logic

    def cycle(self, now_s: float) -> Cycle:
        """Run one cycle, and return what happened; if the clock goes back, time stands still."""
        now_s, paused = max(now_s, self._now_s), self.paused  # which another thread may change meanwhile
        self._now_s = now_s
        present = self._plant.size()
        if self._awaited is None and self._held and present.workers < self._held.workers:
            self._awaited = (self._held, now_s)  # some were lost: they are on their way again, and not to be called off
        seen = self._plant.observe(now_s)
        if seen is None or now_s - seen.at_s > self._stale_s:
            stay = self._blind(present, now_s)
            return self._end(Cycle(now_s, None, stay, stay, Outcome("kept")))
        self._seen_s = seen.at_s
        self._remember(seen)
        evaluation = evaluate(list(self._history), lead_s=self._plant.lead_s, settled=self._settled(seen, now_s))
        decided = self._logic.decide(evaluation, now_s=now_s)
        if not (isinstance(decided, Decision) and is_integer(decided.allocation.workers)):
            raise refused(
                "decide()", decided, f"{self._identity} returned no decision for a whole number of workers", "return a Decision"
            )
        decided = self._as_before(decided, seen)
        if self._follows and decided.allocation.workers > 1 and is_idle(self._history):
            decided = Decision(decided.allocation.with_workers(1), f"{decided.reason}; nothing comes: as few as possible")
        requested = self._awaited[0] if self._awaited else present
        if paused:
            self._guard.forget()
            return self._end(Cycle(now_s, evaluation, decided, Decision(requested, f"{decided.reason}; paused"), Outcome("paused")))
        limited = self._guard.limit(decided, evaluation, requested=requested, now_s=now_s)
        return self._end(Cycle(now_s, evaluation, decided, limited, self._act(limited, now_s)))

    def resume_size(self, now_s: float) -> None:
        """Ask for the size that was saved last, within the limits: after a restart, the load is probably what it was."""
        limits, present = self._guard.config, self._plant.size()
        if not (self.acts and is_integer(self._last_size, 1)):
            return
        wanted = min(max(int(self._last_size), limits.minimum), limits.maximum)  # type: ignore[arg-type]
        if wanted > present.workers:
            last = Decision(present.with_workers(wanted), f"{_workers(wanted)} before the restart")
            self._act(last, now_s)

    def snapshot(self) -> dict[str, Any]:
        """Return what has to survive a restart."""
        learned = {"controllers": {**self._others, self._identity: self._logic.snapshot()}, "guard": self._guard.snapshot()}
        return {**learned, "size": self._size()} if self.acts else learned

    def _size(self) -> int:
        """Return how many workers there are, or will be."""
        return (self._awaited[0] if self._awaited else self._plant.size()).workers

    def _resumed(self, build: Callable[[Any], Built], saved: Any) -> Built:
        """Return what is built from a snapshot, or from nothing if the snapshot cannot be used."""
        try:
            return build(saved)
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            self._report(0.0, f"cannot restore the saved state, starting from scratch: {error}")
            return build(None)

    def _remember(self, seen: Observation) -> None:
        """Note what was observed; one odd interval before it was no trend, and is forgotten: by the controller, too."""
        if self._odd is not None:
            if not is_odd(seen, list(self._history)[:-1]):
                self._history.pop()
                self._logic, self._guard = self._build(self._odd[0]), self._build_guard(self._odd[1])
                self._undone = self._odd[2]
            self._odd = None
        elif is_odd(seen, self._history):
            size = (self._awaited[0] if self._awaited else self._plant.size()).workers
            self._odd = deepcopy(self._logic.snapshot()), deepcopy(self._guard.snapshot()), size
        self._history.append(seen)

    def _as_before(self, decided: Decision, seen: Observation) -> Decision:
        """Return the decision to go back to the size before an odd interval, unless more is wanted than there is, or something waits."""
        present = seen.allocation.workers
        if self._undone is None or seen.backlog or decided.allocation.workers > present or present <= self._undone:
            self._undone = None
            return decided
        if decided.allocation.workers <= self._undone:
            return decided
        why = f"{decided.reason}; one odd interval is no trend: back to {self._undone}"
        return Decision(decided.allocation.with_workers(self._undone), why, decided.expected)

    def _blind(self, present: Allocation, now_s: float) -> Decision:
        since = "yet" if self._seen_s == float("-inf") else f"for {now_s - self._seen_s:.0f} s"
        stay = Decision(self._awaited[0] if self._awaited else present, f"no metrics {since}: keeping {_workers(present.workers)}")
        if now_s - self._seen_s > self._stale_s:  # one cycle without a new batch is not unusual
            self._guard.forget()
        return stay

    def _settled(self, seen: Observation, now_s: float) -> bool:
        """Return whether what was asked for is there; the wait for it ends some time."""
        if self._awaited and seen.allocation.workers != self._awaited[0].workers:
            if now_s - self._awaited[1] <= patience_s(self._plant.lead_s) + seen.interval_s:
                return False
            got, asked = seen.allocation.workers, self._awaited[0].workers
            if got < asked:
                self._report(now_s, f"requested {_workers(asked)}, got {got}: continuing with {got}")
            self._held = None
        self._awaited = None
        return True

    def _end(self, cycle: Cycle) -> Cycle:
        """Save what has to last, and return what happened."""
        if self._store:
            self._store.save(self.snapshot())
        return cycle

    def _act(self, limited: Decision, now_s: float) -> Outcome:
        """Request what a decision wants, or recommend it, and return what became of it."""
        wanted, before = limited.allocation, self._awaited[0] if self._awaited else self._plant.size()
        refused, self._refused = self._refused, ""
        if wanted == before:
            self._plant.keep(wanted)
            outcome = Outcome("kept")
        elif self.acts:
            outcome = self._plant.request(wanted, now_s)
            if outcome.kind == "refused":
                self._refused = outcome.text
            else:
                there = self._plant.size()  # more than is wanted, if another query needs more
                aim = wanted if there.workers <= wanted.workers else there
                self._awaited, self._held = (aim, now_s) if outcome.changed or there.workers < aim.workers else None, wanted
            if outcome.kind != "kept" and outcome.text != refused:  # a wish that changes nothing is no event
                self._report(now_s, f"{limited.reason}. {outcome.text}")
        else:
            outcome = Outcome(
                "recommended", f"recommendation: {_workers(wanted.workers)} instead of {before.workers} (not applied)"
            )
        if not self.acts:
            if wanted != (self._recommended or before):
                self._report(now_s, f"{limited.reason}. {outcome.text or f'recommendation: {_workers(before.workers)}, no change'}")
            self._recommended = wanted
        return outcome

    def _report(self, now_s: float, text: str) -> None:
        if self._on_event:
            self._on_event(ScalingEvent(now_s, text))


def _workers(count: int) -> str:
    return f"{count} worker" if count == 1 else f"{count} workers"
