"""The laws of controllers, and a small query for them to steer."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from skytide.control import Controller, Guard
from skytide.errors.checks import check_type
from skytide.loop.cycle import Loop
from skytide.loop.ports import Plant
from skytide.records import Allocation, Evaluation, Observation, Outcome
from skytide.testing.laws import BrokenLaw
from skytide.workloads.identity import derive

INTERVAL_S = 10.0
MIN_WORKERS, MAX_WORKERS = 1, 40
SETTLING, RESTING = 150, 20  # cycles until it has to keep up, and cycles in which it has to rest
RESTLESS = 4  # changes in the latter
GENEROUS = 4  # times the workers that are needed


def check_controller(controller: Controller, evaluations: Iterable[Evaluation] | None = None, *, seed: int = 0) -> None:
    """Raise `BrokenLaw` if a controller does not keep the laws that the auto-scaler relies on.

    - A decision has at least one worker, on each level if there are two, and a reason with a number in it.
    - A logic that is saved and resumed after each decision, through JSON, decides like one that is not: `snapshot` is all there is.

    `check_steering` asks in addition whether it follows a load, which not all controllers want to.

    Parameters
    ----------
    controller
        The controller.
    evaluations
        What it gets to see, one after the other; without them, some of all kinds.
    seed
        What those are drawn from.

    Raises
    ------
    BrokenLaw
        If it does not keep one: which, and what was seen.

    Examples
    --------
    >>> from skytide.control import Mpc
    >>> check_controller(Mpc.throughput())
    """
    _check_type(controller)
    seen = list(evaluations) if evaluations is not None else list(example_evaluations(seed))
    _answers(controller, seen)
    _state(controller, seen)


def _check_type(controller: object) -> None:
    check_type("controller", controller, Controller, reason="not a controller", remedy="pass an object with build(), such as Mpc()")


def _answers(controller: Controller, seen: list[Evaluation]) -> None:
    logic = controller.build()
    for number, evaluation in enumerate(seen):
        decision = logic.decide(evaluation, now_s=INTERVAL_S * number)
        sizes = [decision.allocation.workers]
        if evaluation.seen.allocation.pane_slots is not None:
            sizes += [decision.allocation.pane_slots or 0, decision.allocation.window_slots or 0]
        if min(sizes) < 1:
            raise BrokenLaw(controller, "at least one worker is left, on each level", f"{decision} for {evaluation}")
        if not any(letter.isdigit() for letter in decision.reason):
            raise BrokenLaw(controller, "a reason has a number in it", f"it is {decision.reason!r}")


def _state(controller: Controller, seen: list[Evaluation]) -> None:
    steady, saved = controller.build(), None
    for number, evaluation in enumerate(seen):
        resumed, now_s = controller.build(saved), INTERVAL_S * number
        again, decision = resumed.decide(evaluation, now_s=now_s), steady.decide(evaluation, now_s=now_s)
        if again != decision:
            raise BrokenLaw(controller, "resumed from its snapshot, it decides the same", f"{again} instead of {decision}")
        saved = json.loads(json.dumps(resumed.snapshot()))


def check_steering(controller: Controller, *, rate_hz: float = 450.0, workers: int = 1, rests: bool = True) -> None:
    """Raise `BrokenLaw` if a controller does not follow a constant load: a query whose workers serve 100 tuples per second each.

    In the end it keeps up, with at most four times what is needed, never with more workers than it is allowed.

    Parameters
    ----------
    controller
        The controller.
    rate_hz
        Tuples per second that come.
    workers
        How many there are in the beginning.
    rests
        Whether it must not change the size all the time.

    Raises
    ------
    BrokenLaw
        If it does not: which law, and what was seen.

    Examples
    --------
    >>> from skytide.control import Static
    >>> check_steering(Static(1))
    Traceback (most recent call last):
    ...
    skytide.testing.laws.BrokenLaw: Static breaks a law: under a constant load it keeps up; ...
    """
    _check_type(controller)
    plant = Queue(rate_hz, workers)
    loop = Loop(plant, controller, Guard.bounds(MIN_WORKERS, MAX_WORKERS))
    sizes = []
    for cycle in range(SETTLING + RESTING):
        loop.cycle(cycle * INTERVAL_S)
        sizes.append(plant.workers)
        if cycle > 0 and not MIN_WORKERS <= plant.workers <= MAX_WORKERS:
            raise BrokenLaw(controller, f"it stays within {MIN_WORKERS} to {MAX_WORKERS} workers", f"there are {plant.workers}")
    if plant.waiting >= 2 * rate_hz * INTERVAL_S:
        raise BrokenLaw(
            controller, "under a constant load it keeps up", f"{plant.waiting:,.0f} tuples wait with {plant.workers} workers"
        )
    needed = rate_hz / plant.per_worker_hz
    if plant.workers > max(2.0, GENEROUS * needed):
        raise BrokenLaw(controller, f"it uses at most {GENEROUS} times what is needed", f"{plant.workers} workers for {needed:.1f}")
    changes = sum(before != after for before, after in zip(sizes[SETTLING - 1 :], sizes[SETTLING:], strict=False))
    if rests and changes > RESTLESS:
        raise BrokenLaw(controller, "under a constant load it comes to rest", f"{changes} changes in {RESTING} intervals")


@dataclass
class Queue(Plant):
    """A query that serves what it can and keeps the rest, and has another size as soon as it is asked for."""

    rate_hz: float
    workers: int
    waiting: float = 0.0
    lead_s: float = 0.0
    per_worker_hz: float = 100.0

    def observe(self, now_s: float) -> Observation:
        """Serve for an interval, and return what was measured."""
        capacity = self.workers * self.per_worker_hz * INTERVAL_S
        arrived = self.rate_hz * INTERVAL_S
        served = min(capacity, arrived + self.waiting)
        self.waiting += arrived - served
        return Observation(
            at_s=now_s,
            interval_s=INTERVAL_S,
            allocation=Allocation(self.workers),
            arrival_rate_hz=self.rate_hz,
            processed_rate_hz=served / INTERVAL_S,
            utilisation=arrived / capacity,
            service_s=1 / self.per_worker_hz,
            backlog=self.waiting,
            latency_s=0.05 + self.waiting / (self.workers * self.per_worker_hz),
            loads=tuple((str(worker), served / capacity) for worker in range(self.workers)),
        )

    def size(self) -> Allocation:
        """Return the workers there are."""
        return Allocation(self.workers)

    def request(self, wanted: Allocation, now_s: float) -> Outcome:
        """Have another size."""
        self.workers = wanted.workers
        return Outcome("done", "it is so")


def example_evaluations(seed: int = 0, count: int = 40) -> Iterator[Evaluation]:
    """Yield evaluations of all kinds: idle and overloaded, of one level or two, with and without what can be missing."""
    rng = derive(seed, "evaluations")
    for number in range(count):
        pane_slots, window_slots = (int(slots) for slots in rng.integers(1, 40, 2))
        allocation = (
            Allocation(pane_slots),
            Allocation(pane_slots + window_slots, pane_slots, window_slots),
            Allocation(min(pane_slots, 12), frequency_ghz=float(rng.choice((1.2, 1.6, 2.0)))),
        )[number % 3]
        levels = allocation.pane_slots is not None
        rate_hz, backlog = (float(10 ** rng.uniform(0, power)) - 1 for power in (6, 7))
        service_s = float(10 ** rng.uniform(-9, 1)) if rng.random() < 0.8 else None
        utilisation = float(10 ** rng.uniform(-2, 1.7))
        seen = Observation(
            at_s=INTERVAL_S * number,
            interval_s=INTERVAL_S,
            allocation=allocation,
            arrival_rate_hz=rate_hz,
            processed_rate_hz=float(10 ** rng.uniform(0, 6)),
            utilisation=utilisation,
            service_s=service_s,
            backlog=backlog,
            latency_s=float(10 ** rng.uniform(-3, 4)) if rng.random() < 0.8 else None,
            arrival_cv=float(rng.uniform(0, 20)),
            service_cv=float(rng.uniform(0, 20)),
            loads=tuple((str(worker), float(rng.uniform(0, 1.2))) for worker in range(int(rng.integers(0, 6)))),
            pane_utilisation=float(rng.uniform(0, 20)) if levels else None,
            splitting_factor=float(rng.uniform(1, 40)) if levels else None,
            window_utilisation=float(rng.uniform(0, 20)) if levels else None,
        )
        yield Evaluation(
            seen, rate_hz + backlog / 120, service_s, utilisation, float(rng.uniform(0, 60)), settled=bool(rng.random() < 0.8)
        )
