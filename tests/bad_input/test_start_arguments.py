"""Arguments of a start: the same one by one and as objects, and what contradicts itself is refused with a remedy."""

import copy
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from support.engine import COLUMNS
from support.keyed import TICK, step

from skytide import ContinuousQuery, InvalidInput, Parallelism, Sides
from skytide.keyed import CountWindows, QueryAnswer, Tagged
from skytide.queries import Skyline, low
from skytide.routing import STRATEGIES
from skytide.sinks import Files, Format, Function, Memory, Sink, Staged, Table
from skytide.slacks import FixedSlack
from skytide.spark.api.options import Timing, checked_parallelism, one_form, sinks_of
from skytide.spark.engine.spec import QuerySpec
from skytide.spark.sinks.base import OnSpark
from skytide.windows import Windows

SKYLINE = QuerySpec(Skyline(low("a")), "ts", COLUMNS, Windows(1_000, 200), FixedSlack(0))
SHARED = Memory()
KEYED = QuerySpec(
    Tagged(("a",)), "ts", COLUMNS, TICK, FixedSlack(0), step=step(CountWindows(3, 1, 100), QueryAnswer(Skyline(low("b"))))
)


def test_an_object_stands_for_arguments_one_by_one() -> None:
    given = Sides(late="/data/late")
    assert one_form("sides", given, Sides()) is given
    assert one_form("sides", None, given) is given


def test_both_forms_at_once_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"sides=Sides\(...\): late is given beside it; put late into it, or leave it out"):
        one_form("sides", Sides(invalid="/data/invalid"), Sides(late="/data/late"))
    with pytest.raises(InvalidInput, match=r"pass skytide.Parallelism\(...\)"):
        one_form("parallelism", 4, Parallelism())  # type: ignore[type-var]


def test_slots_are_those_of_the_level_that_a_query_has() -> None:
    assert checked_parallelism(Parallelism(slots=3), SKYLINE).pane_slots == 3
    assert checked_parallelism(Parallelism("RATE", pane_slots=3), SKYLINE).splitting is STRATEGIES["RATE"]
    assert checked_parallelism(Parallelism(slots=3), KEYED) == Parallelism(slots=3)
    for given in (Parallelism("RATE"), Parallelism(pane_slots=2), Parallelism(window_slots=2)):
        with pytest.raises(InvalidInput, match=r"pass slots=\.\.\. for the tasks that work on keys"):
            checked_parallelism(given, KEYED)
    with pytest.raises(InvalidInput, match="slots=0"):
        checked_parallelism(Parallelism(slots=0), KEYED)
    with pytest.raises(InvalidInput, match="slots=3: pane_slots=2 is given beside it; leave one of the two out"):
        checked_parallelism(Parallelism(slots=3, pane_slots=2), SKYLINE)
    with pytest.raises(InvalidInput, match="the query has no keys"):
        checked_parallelism(Parallelism("KEYS"), SKYLINE)


@pytest.mark.parametrize("sides", [Sides(late=SHARED), Sides(windows=SHARED), Sides("/data/late", SHARED, SHARED)])
def test_one_object_is_not_the_sink_of_two_things(sides: Sides) -> None:
    with pytest.raises(InvalidInput, match=r"=Memory\(...\): the same object is the sink of something else.*; make another one"):
        sinks_of(SHARED if sides.late != "/data/late" else Memory(), None, None, sides, OnSpark(None, None))  # type: ignore[arg-type]


class Locked(Sink):
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def stage(self, rows: pa.Table, sequence: int, part: int) -> str:
        return str(sequence)

    def publish(self, sequence: int, staged: Staged) -> None:
        pass


def test_a_sink_that_stages_in_tasks_can_be_copied_there() -> None:
    with pytest.raises(InvalidInput, match=r"start\(Locked\(...\)\): it cannot be copied to workers: TypeError.*; create locks"):
        sinks_of(Locked(), None, None, Sides(), OnSpark(None, None))  # type: ignore[arg-type]


@pytest.mark.parametrize("sides", [Sides(), Sides(late=Memory)])  # type: ignore[arg-type]
def test_a_class_is_no_sink(sides: Sides) -> None:
    with pytest.raises(InvalidInput, match=r"(sink|late)=Memory: a class, not a sink; make one: (sink|late)=Memory\(...\)"):
        sinks_of(Memory() if sides.late else Memory, None, None, sides, OnSpark(None, None))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Function(3),  # type: ignore[arg-type]
        lambda: Format(3),  # type: ignore[arg-type]
        lambda: Format("delta", 3),  # type: ignore[arg-type]
        lambda: Format("jdbc", options="password=hunter2"),  # type: ignore[arg-type]
        lambda: Files(None, "/data"),  # type: ignore[arg-type]
        lambda: Table("best", format=3),  # type: ignore[arg-type]
    ],
)
def test_sinks_of_the_wrong_types_are_refused_where_they_are_made(wrong: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput) as refused:
        wrong()
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("name", ["helpers", "identity", "query", "slack", "step", "time", "windows"])
def test_former_fields_of_a_query_are_in_its_spec(name: str) -> None:
    query: Any = copy.copy(ContinuousQuery(None, SKYLINE))  # type: ignore[arg-type]
    with pytest.warns(DeprecationWarning, match=rf"ContinuousQuery.{name} is deprecated; use ContinuousQuery.spec.{name}"):
        assert getattr(query, name) is getattr(SKYLINE, name)
    with pytest.raises(AttributeError, match="'ContinuousQuery' object has no attribute 'slots'"):
        _ = query.slots


def test_triggers() -> None:
    assert Timing.of("500 ms", False, SKYLINE.windows).unaligned_us == 500_000
    assert Timing.of("availableNow", True, SKYLINE.windows) == Timing(None, None)
    assert Timing.of("auto", False, Windows(1_000_000, 200_000)).pace is not None
    with pytest.raises(InvalidInput, match="an endless stream has no last window"):
        Timing.of("500 ms", True, SKYLINE.windows)
    with pytest.raises(InvalidInput, match="not a trigger"):
        Timing.of(5, False, SKYLINE.windows)
