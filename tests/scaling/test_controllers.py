"""Laws of controllers, applied to all of them, and specimens that break them."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import skytide.control
from skytide.cli.main import main
from skytide.control import CONTROLLERS, Static, controllers_help
from skytide.control.controller import Controller, ControllerLogic, State
from skytide.control.guard import Guard
from skytide.loop.cycle import Loop
from skytide.loop.ports import Plant
from skytide.records import Allocation, Decision, Evaluation, Observation, Outcome

MOVING = [name for name in CONTROLLERS if name != "static"]


def allocations() -> st.SearchStrategy[Allocation]:
    plain = st.builds(Allocation, st.integers(1, 60))
    levels = st.builds(lambda n, m: Allocation(n + m, n, m), st.integers(1, 40), st.integers(1, 40))
    return plain | levels | st.builds(Allocation, st.integers(1, 12), frequency_ghz=st.sampled_from((1.2, 1.6, 2.0)))


@st.composite
def evaluations(draw: st.DrawFn) -> Evaluation:
    allocation = draw(allocations())
    rate_hz = draw(st.floats(0, 1e6))
    service_s = draw(st.none() | st.floats(1e-9, 10))
    used = draw(st.floats(0, 50))
    levels = allocation.pane_slots is not None
    seen = Observation(
        at_s=0.0,
        interval_s=draw(st.floats(0.1, 60)),
        allocation=allocation,
        arrival_rate_hz=rate_hz,
        processed_rate_hz=draw(st.floats(0, 1e6)),
        utilisation=used,
        service_s=service_s,
        backlog=draw(st.floats(0, 1e7)),
        latency_s=draw(st.none() | st.floats(0, 1e4)),
        arrival_cv=draw(st.floats(0, 20)),
        service_cv=draw(st.floats(0, 20)),
        loads=tuple((str(n), draw(st.floats(0, 1.2))) for n in range(draw(st.integers(0, 5)))),
        pane_utilisation=draw(st.floats(0, 20)) if levels else None,
        splitting_factor=draw(st.floats(1, 40)) if levels else None,
        window_utilisation=draw(st.floats(0, 20)) if levels else None,
    )
    return Evaluation(seen, rate_hz + seen.backlog / 120, service_s, used, draw(st.floats(0, 60)), draw(st.booleans()))


streams = st.lists(evaluations(), min_size=1, max_size=5)


def law_answers_are_sane(controller: Controller, seen: list[Evaluation]) -> None:
    """Each level has at least one worker, slots add up to the workers, and the reason has a number in it."""
    logic = controller.build()
    for number, each in enumerate(seen):
        decision = logic.decide(each, now_s=10.0 * number)
        allocation = decision.allocation
        assert allocation.workers >= 1
        assert any(letter.isdigit() for letter in decision.reason)
        if each.seen.allocation.pane_slots is not None:
            assert allocation.pane_slots is not None and allocation.window_slots is not None
            assert min(allocation.pane_slots, allocation.window_slots) >= 1


def law_state_is_all_there_is(controller: Controller, seen: list[Evaluation]) -> None:
    """A logic that is saved and restored after every decision, through JSON, decides like one that is not."""
    steady, state = controller.build(), None
    for number, each in enumerate(seen):
        resumed = controller.build(state)
        assert resumed.decide(each, now_s=10.0 * number) == steady.decide(each, now_s=10.0 * number)
        state = json.loads(json.dumps(resumed.snapshot()))


@dataclass
class Queue(Plant):
    """A query that serves what it can and keeps the rest."""

    rate_hz: float
    workers: int
    waiting: float = 0.0
    lead_s: float = 0.0
    changes: int = 0
    PER_WORKER_HZ, INTERVAL_S = 100.0, 10.0

    def observe(self, now_s: float) -> Observation:
        can = self.workers * self.PER_WORKER_HZ * self.INTERVAL_S
        come = self.rate_hz * self.INTERVAL_S
        done = min(can, come + self.waiting)
        self.waiting += come - done
        busy = done / can
        return Observation(
            at_s=now_s,
            interval_s=self.INTERVAL_S,
            allocation=Allocation(self.workers),
            arrival_rate_hz=self.rate_hz,
            processed_rate_hz=done / self.INTERVAL_S,
            utilisation=come / can,
            service_s=1 / self.PER_WORKER_HZ,
            backlog=self.waiting,
            latency_s=0.05 + self.waiting / (self.workers * self.PER_WORKER_HZ),
            loads=tuple((str(n), busy) for n in range(self.workers)),
        )

    def size(self) -> Allocation:
        return Allocation(self.workers)

    def request(self, wanted: Allocation, now_s: float) -> Outcome:
        self.workers, self.changes = wanted.workers, self.changes + 1
        return Outcome("done", "it is so")


def law_follows_the_load(controller: Controller, rate_hz: float, workers: int, rests: bool = True) -> None:
    """Under a constant load it eventually keeps up, with at most four times what is needed, and comes to rest."""
    plant = Queue(rate_hz, workers)
    loop = Loop(plant, controller, Guard.bounds(1, 40))
    for cycle in range(150):
        loop.cycle(cycle * plant.INTERVAL_S)
    plant.changes = 0
    for cycle in range(150, 170):
        loop.cycle(cycle * plant.INTERVAL_S)
    needed = rate_hz / plant.PER_WORKER_HZ
    assert plant.waiting < 2 * rate_hz * plant.INTERVAL_S, f"{plant.waiting:.0f} wait"
    assert plant.workers <= max(2.0, 4 * needed), f"{plant.workers} for {needed:.1f}"
    assert plant.changes <= 4 or not rests, f"{plant.changes} changes in 20 intervals"


@pytest.mark.parametrize("name", CONTROLLERS)
@given(seen=streams)
def test_answers_are_sane(name: str, seen: list[Evaluation]) -> None:
    law_answers_are_sane(CONTROLLERS[name](), seen)


@pytest.mark.parametrize("name", CONTROLLERS)
@given(seen=streams)
def test_state_is_all_there_is(name: str, seen: list[Evaluation]) -> None:
    law_state_is_all_there_is(CONTROLLERS[name](), seen)


@pytest.mark.parametrize("rate_hz, workers", [(50, 1), (250, 1), (250, 30), (1_800, 2), (1_800, 40)])
@pytest.mark.parametrize("name", MOVING)
def test_follows_the_load(name: str, rate_hz: float, workers: int) -> None:
    law_follows_the_load(
        CONTROLLERS[name](), rate_hz, workers, rests=name != "congestion"
    )  # P2 5.4: it is unstable with short steps


def test_every_controller_is_found() -> None:
    exported = {kind for kind in vars(skytide.control).values() if isinstance(kind, type) and issubclass(kind, Controller)}
    assert exported - {Controller} == {type(make()) for make in CONTROLLERS.values()}


@pytest.mark.parametrize("command", ["replay", "submit"])
def test_the_help_of_commands_names_every_controller_and_what_it_does(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    shown = capsys.readouterr().out
    assert controllers_help() in shown
    assert all(entry.name in shown and entry.description.endswith(".") for entry in CONTROLLERS.values())


def test_the_page_about_scaling_describes_every_controller() -> None:
    page = (Path(__file__).parents[2] / "docs/scaling.md").read_text()
    rows = [
        line for line in page.partition("## Controllers")[2].partition("## The guard")[0].splitlines() if line.startswith("| `")
    ]
    assert all(any(f"`{entry.type.__name__}" in row for row in rows) for entry in CONTROLLERS.values())


@dataclass(frozen=True)
class Guilty(Controller):
    """Answers by a function of what it saw and of how often it was called, which is not in its snapshot."""

    answer: Callable[[Evaluation, int], Decision]

    def build(self, resume: State | None = None) -> ControllerLogic:
        return GuiltyLogic(self.answer)


class GuiltyLogic(ControllerLogic):
    def __init__(self, answer: Callable[[Evaluation, int], Decision]) -> None:
        self.answer, self.asked = answer, 0

    def decide(self, seen: Evaluation, *, now_s: float) -> Decision:
        self.asked += 1
        return self.answer(seen, self.asked)

    def snapshot(self) -> State:
        return {}


SEEN = [Evaluation(Observation(0, 10, Allocation(n), 100, 100, 0.5), 100, 0.01, 0.5, 0) for n in (1, 2, 3)]


def _to(seen: Evaluation, workers: int) -> Decision:
    return Decision(replace(seen.seen.allocation, workers=workers), f"to {workers}")


@pytest.mark.parametrize(
    "answer",
    [lambda seen, asked: _to(seen, 0), lambda seen, asked: Decision(seen.seen.allocation, "because I can")],
    ids=["no worker", "no number"],
)
def test_answers_that_are_not_sane_are_caught(answer: Callable[[Evaluation, int], Decision]) -> None:
    with pytest.raises(AssertionError):
        law_answers_are_sane(Guilty(answer), SEEN)


def test_hidden_state_is_caught() -> None:
    with pytest.raises(AssertionError):
        law_state_is_all_there_is(Guilty(_to), SEEN)


@pytest.mark.parametrize(
    "guilty",
    [
        Guilty(lambda seen, asked: _to(seen, 2)),
        Guilty(lambda seen, asked: _to(seen, 40)),
        Guilty(lambda seen, asked: _to(seen, 5 + asked % 2)),
        Static(1),
    ],
    ids=["too few", "too many", "restless", "static"],
)
def test_those_that_do_not_follow_the_load_are_caught(guilty: Controller) -> None:
    with pytest.raises(AssertionError):
        law_follows_the_load(guilty, 450, 1)
