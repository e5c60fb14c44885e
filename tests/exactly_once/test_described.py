"""Objects as texts: what differs has another text, and what is the same has the same text in another process."""

import decimal
import enum
import functools
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skytide.errors import InvalidInput
from skytide.queries import Query, Skyline, TopK, high, low
from skytide.queries.described import described


class Own(Query):
    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)

    def pane(self, rows: pa.Table) -> pa.Table:
        return rows

    def window(self, kept: pa.Table) -> pa.Table:
        return kept


class Other(Own):
    pass


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a: object) -> None:
        self.a = a


class Lazy:
    @functools.cached_property
    def table(self) -> list[int]:
        return [1]


class WithState:
    """Pickled as whatever it is given."""

    def __init__(self, state: object) -> None:
        self.state = state

    def __getstate__(self) -> object:
        return self.state


class Kind(enum.Enum):
    ONE, TWO = 1, 2


@dataclass
class Fields:
    a: int
    notes: list[str] = field(default_factory=list, compare=False)
    more: int = 7


class OfFields(Fields):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(a)
        self.b = b


class OwnSkyline(Skyline):
    pass


def with_default(value: int) -> Any:
    """Return an object of a class whose source has this default."""

    @dataclass
    class Edited:
        a: int = value

    return Edited()


def scaled(by: float) -> Callable[[Callable[..., float]], Callable[..., float]]:
    def decorate(function: Callable[..., float]) -> Callable[..., float]:
        @functools.wraps(function)
        def scaled_function(*given: Any) -> float:
            return by * function(*given)

        return scaled_function

    return decorate


class Scaled:
    """A decorator that is a class."""

    def __init__(self, by: float, function: Callable[..., float]) -> None:
        functools.update_wrapper(self, function)
        self.by = by

    def __call__(self, *given: Any) -> float:
        return self.by * self.__wrapped__(*given)  # type: ignore[attr-defined, no-any-return]


class Doubled(Own):
    @scaled(2.0)
    def value(self) -> float:
        return 1.0


def guarded(function: Callable[[int], int]) -> Callable[[int], int]:
    lock = threading.Lock()

    @functools.wraps(function)
    def guarded_function(x: int) -> int:
        with lock:
            return function(x)

    return guarded_function


def adder(captured: int) -> Callable[[int], int]:
    return lambda x: x + captured


def times_two(x: int) -> int:
    return 2 * x


DIFFERENT: list[Any] = [
    None,
    0,
    1,
    True,
    1.0,
    1.234567,
    1.234568,
    np.float32(1.0),
    np.datetime64(1, "s"),
    np.datetime64(1, "ms"),
    "1",
    b"1",
    "a" * 1_000,
    "a" * 999 + "b",
    (1, 2),
    [1, 2],
    (2, 1),
    {1, 2},
    {"a": 1},
    {"a": 2},
    decimal.Decimal("1.0"),
    decimal.Decimal("1.00"),
    Kind.ONE,
    Kind.TWO,
    np.array([1, 2]),
    np.array([1, 3]),
    np.array([1, 2], np.int32),
    np.arange(1_000),
    np.arange(1_000)[::-1],
    pa.int64(),
    pa.schema([("a", pa.int64())]),
    Own(),
    Own(k=1),
    Own(k=2),
    Own(k=[1, {"deep": 1}]),
    Own(k=[1, {"deep": 2}]),
    Other(k=1),
    Slotted(1),
    Slotted(2),
    Fields(1),
    Fields(2),
    Fields(1, more=8),
    adder(1),
    adder(2),
    lambda x: x,
    lambda x: x + 1,
    lambda x, y=1: x,
    lambda x, y=2: x,
    times_two,
    functools.partial(times_two, 1),
    functools.partial(times_two, 2),
    functools.lru_cache(adder(3)),
    scaled(1.5)(times_two),
    scaled(2.5)(times_two),
    scaled(1.5)(adder(4)),
    Scaled(1.5, times_two),
    Scaled(2.5, times_two),
    Doubled(k=1).value,
    Doubled(k=2).value,
    re.compile("a"),
    re.compile("a", re.IGNORECASE),
    re.compile("a").match,
    re.compile("b").match,
    "a".startswith,
    "b".startswith,
    np.add,
    np.subtract,
    WithState(None),
    WithState(0),
    WithState(""),
    WithState(()),
    WithState(np.array([1, 2])),
    WithState(np.array([1, 3])),
    OfFields(1, 2),
    OfFields(1, 3),
    OfFields(2, 3),
    with_default(1),
    with_default(2),
    Own().pane,
    Own(k=1).pane,
    len,
    Own,
    functools,
    low("a") * low("b"),
    low("b") * low("a"),
    Skyline(low("a")),
    Skyline(low("a"), distinct=True),
    TopK(low("a"), k=1),
    TopK(low("a"), k=2),
    TopK(high("a"), k=2),
]


def test_what_differs_has_another_text() -> None:
    seen: dict[object, object] = {}
    for value in DIFFERENT:
        assert seen.setdefault(described(value), value) is value


def test_the_same_is_the_same_wherever_it_was_written_and_whatever_it_has_cached() -> None:
    first = described(adder(1))
    source = "\n\n\ndef adder(captured):\n    # moved, and with a comment\n    return lambda x: x + captured\n"
    namespace: dict[str, Any] = {"__name__": __name__}
    exec(source, namespace)
    assert described(namespace["adder"](1)) == first
    lazy = Lazy()
    before = described(lazy)
    assert lazy.table and described(lazy) == before
    assert described({"a": 1, "b": 2}) == described({"b": 2, "a": 1})
    assert described(Fields(1, ["a note"])) == described(Fields(1))
    assert described(functools.lru_cache(times_two)) == described(times_two)
    assert described(guarded(times_two)) == described(times_two)  # a lock says nothing, and nobody could compare it
    assert "0x" not in described([Own(k=Slotted(1)), adder(1), Kind.ONE]).text


def test_fields_of_ours_may_be_added_with_a_default_also_below_a_class_of_yours() -> None:
    assert described(Skyline(low("a"))).text == "Skyline(preference=Attribute(what='a', kind='low'))"
    assert described(OwnSkyline(low("a"))).text == f"{__name__}.OwnSkyline(preference=Attribute(what='a', kind='low'))"
    assert described(Fields(1)).text == f"{__name__}.Fields(a=1, more=7)"


def test_an_object_may_hold_itself() -> None:
    one, other, third = Own(k=1), Own(k=1), Own(k=2)
    for each in (one, other, third):
        each.me = [each]  # type: ignore[attr-defined]
    assert described(one) == described(other) != described(third)


def test_another_process_finds_the_same_texts() -> None:
    script = "from test_described import *; print([described(each) for each in DIFFERENT])"
    env = {"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "17"}
    found = subprocess.run(
        [sys.executable, "-c", script], env=env, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == str([described(each) for each in DIFFERENT]).replace(f"{__name__}.", "test_described.")


def test_what_cannot_be_told_from_another_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"an object of _thread.lock in a query: it cannot be told .* __getstate__"):
        described(Own(lock=threading.Lock()))
