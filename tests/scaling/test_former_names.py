"""Names of before still work, and say which name has taken their place."""

import importlib
from typing import Any

import pytest

import skytide
from skytide.control import Congestion, Proportional, UtilisationThresholds, controller_of
from skytide.errors import InvalidInput
from skytide.loop.cycle import Loop
from skytide.loop.ports import Plant
from skytide.records import Allocation, Evaluation, Observation, Outcome, Status
from skytide.spark.scaling import Scaler

SEEN = Evaluation(Observation(60, 10, Allocation(2), 900, 800, utilisation=1.1), 1_000, 0.002, demand_ratio=1.2, lead_s=6)


@pytest.mark.parametrize(
    ("record", "old", "new"),
    [(Status(trigger_share=0.4), r"status\(\)\.utilisation", "trigger_share"), (SEEN, "Evaluation.utilisation", "demand_ratio")],
)
def test_a_field_is_the_new_one(record: Any, old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"{old} is deprecated; use .*{new}"):
        assert record.utilisation == getattr(record, new)


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("skytide.control", "Rules", "UtilisationThresholds"),
        ("skytide.control", "Spl", "Congestion"),
        ("skytide.control", "Sizes", "Proportional"),
        ("skytide.spark.scaling", "Event", "ScalingEvent"),
    ],
)
def test_a_class_is_the_new_one(module: str, old: str, new: str) -> None:
    home = importlib.import_module(module)
    with pytest.warns(DeprecationWarning, match=rf"{old} is deprecated; use {module}\.{new}"):
        assert getattr(home, old) is getattr(home, new)
    assert not hasattr(home, f"{old}OfNobody")


@pytest.mark.parametrize(("old", "new"), [("rules", UtilisationThresholds), ("spl", Congestion), ("sizes", Proportional)])
def test_a_command_line_may_name_a_controller_as_before(old: str, new: type) -> None:
    with pytest.warns(DeprecationWarning, match=f"controller '{old}' is deprecated"):
        assert controller_of(old) == new()


def test_events_may_be_told_as_before() -> None:
    with pytest.warns(DeprecationWarning, match=r"on_event="), pytest.raises(InvalidInput, match="on_event=3"):
        skytide.autoscale(None, tell=3)  # type: ignore[arg-type]
    with pytest.warns(DeprecationWarning), pytest.raises(InvalidInput, match="on_event is given as well; leave tell out"):
        skytide.autoscale(None, tell=print, on_event=print)  # type: ignore[arg-type]


def test_the_end_may_be_awaited_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scaler, "await_termination", lambda self, timeout: timeout == 5)
    with pytest.warns(DeprecationWarning, match=r"Scaler\.await_termination"):
        assert Scaler().await_end(5)


class Stored(Plant):
    """A plant of two workers, and a store that holds what a controller learned when its class had another name."""

    lead_s = 1.0

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state

    def load(self) -> dict[str, Any]:
        return self.state

    def save(self, state: dict[str, Any]) -> None:
        self.state = state

    def size(self) -> Allocation:
        return Allocation(2)

    def observe(self, now_s: float) -> Observation | None:
        return Observation(now_s, 10, Allocation(2), 900, 800, utilisation=1.6)

    def request(self, wanted: Allocation, now_s: float) -> Outcome:
        return Outcome("refused", "")


def test_what_was_learned_under_the_former_name_is_used_and_kept() -> None:
    name = "Spl(congestion=0.1, sensitivity=0.9)"
    stored = Stored({"controllers": {name: {"known": [[3, 1, 800.0], [2, 1, 800.0]]}}, "guard": {}})
    cycle = Loop(stored, Congestion(), store=stored).cycle(10)
    assert "but 3 did not help" in cycle.decided.reason
    assert list(stored.state["controllers"]) == [name]


def test_a_class_that_derives_from_a_renamed_one_keeps_its_own_name() -> None:
    class Mine(UtilisationThresholds):
        pass

    assert Mine().identity() == repr(Mine()) and "Mine(" in Mine().identity()
    assert UtilisationThresholds().identity() == "Rules(theta_max=0.9, theta_min=0.8)"
