"""Laws of controllers, applied to all of them, and specimens that break them."""

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
from skytide.records import Allocation, Decision, Evaluation, Observation
from skytide.testing import BrokenLaw, check_controller, check_steering

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


@pytest.mark.parametrize("name", CONTROLLERS)
@given(seen=streams)
def test_every_controller_keeps_the_laws(name: str, seen: list[Evaluation]) -> None:
    check_controller(CONTROLLERS[name](), seen)


@pytest.mark.parametrize("name", CONTROLLERS)
def test_every_controller_keeps_them_with_examples(name: str) -> None:
    check_controller(CONTROLLERS[name]())


@pytest.mark.parametrize("rate_hz, workers", [(50, 1), (250, 1), (250, 30), (1_800, 2), (1_800, 40)])
@pytest.mark.parametrize("name", MOVING)
def test_follows_the_load(name: str, rate_hz: float, workers: int) -> None:
    rests = name != "congestion"  # P2 5.4: it is unstable with short steps
    check_steering(CONTROLLERS[name](), rate_hz=rate_hz, workers=workers, rests=rests)


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
    ("answer", "law"),
    [
        (lambda seen, asked: _to(seen, 0), "at least one worker"),
        (lambda seen, asked: Decision(seen.seen.allocation, "because I can"), "has a number in it"),
        (_to, "resumed from its snapshot"),
    ],
    ids=["no worker", "no number", "hidden state"],
)
def test_who_breaks_a_law_is_caught(answer: Callable[[Evaluation, int], Decision], law: str) -> None:
    with pytest.raises(BrokenLaw, match=law):
        check_controller(Guilty(answer), SEEN)


@pytest.mark.parametrize(
    ("guilty", "law"),
    [
        (Guilty(lambda seen, asked: _to(seen, 2)), "it keeps up"),
        (Guilty(lambda seen, asked: _to(seen, 40)), "what is needed"),
        (Guilty(lambda seen, asked: _to(seen, 5 + asked % 2)), "comes to rest"),
        (Static(1), "it keeps up"),
    ],
    ids=["too few", "too many", "restless", "static"],
)
def test_those_that_do_not_follow_the_load_are_caught(guilty: Controller, law: str) -> None:
    with pytest.raises(BrokenLaw, match=law):
        check_steering(guilty, rate_hz=450, workers=1)
