"""Cases of bad input: what is called, and a part of the message."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from skytide import InvalidInput


@dataclass(frozen=True)
class Case:
    """One call that must be refused."""

    id: str
    call: Callable[..., Any]
    part: str

    def refused(self, *arguments: Any) -> InvalidInput:
        """Make the call, and return the error, which has the value, the reason and the remedy."""
        with pytest.raises(InvalidInput) as caught:
            self.call(*arguments)
        error = caught.value
        assert all(text.strip() for text in (error.value, error.reason, error.remedy))
        assert self.part in str(error)
        assert len(str(error)) < 2_000
        return error


def each(name: str, call: Callable[..., Any], values: Iterable[Any], part: str) -> list[Case]:
    """Return a case for each value of one argument."""

    def case(number: int, value: Any) -> Case:
        return Case(f"{name}-{number}-{type(value).__name__}", lambda *arguments: call(*arguments, value), part)

    return [case(number, value) for number, value in enumerate(values)]


class Opaque:
    """An unknown object whose data must not be accessed."""

    def __repr__(self) -> str:
        raise AssertionError("whoever writes errors must not print objects it does not know")


NAN, INF = float("nan"), float("inf")
NO_WHOLE: list[Any] = [0, -1, 2**70, 10**5000, 1.5, NAN, INF, True, "3", "", [], {}, b"1", Opaque(), int]
NO_NUMBER: list[Any] = [NAN, True, "0.5", [], Opaque(), 1j, 10**400]
NO_LENGTH: list[Any] = [
    None, "", "fast", "0 s", "-1 s", "1e400 s", "inf s", "nan s", f"{10**30} days", "9" * 5000 + " s", "0.5 us", "5", "s", "1 parsec",
    5, 0, -1, 1.5, NAN, True, b"1 s", [], ("1 s",), Opaque(),
]  # fmt: skip
NO_SPAN: list[Any] = [value for value in NO_LENGTH if isinstance(value, Opaque) or value not in (0, "0 s")]
NO_BOOL: list[Any] = [None, "no", "True", 0, 1, 2.0, [], Opaque()]
