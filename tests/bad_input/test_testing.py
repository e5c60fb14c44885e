"""`skytide.testing` refuses what it cannot check or run, and says what to pass instead."""

from collections.abc import Callable
from typing import Any

import pytest

from skytide import InvalidInput, SkytideError
from skytide.controllers import Mpc
from skytide.queries import Skyline, low
from skytide.testing import Runner, check_controller, check_operator, check_query, check_steering, run

ROWS = [{"ts": 1, "key": "a", "x": 5}, {"ts": 2, "key": "b", "x": 3}]
LOWEST = Skyline(low("x"))


class Same:
    def open(self, key: Any) -> None: ...

    def process(self, state: Any, rows: Any) -> Any:
        return state, {"x": rows["x"].to_pylist()}


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda: check_query(Skyline, ROWS), "query=the class Skyline: not a query"),  # type: ignore[arg-type]
        (lambda: check_query(LOWEST, []), "they have no columns"),
        (lambda: check_query(LOWEST, ROWS, tries=0), "tries=0"),
        (
            lambda: check_operator(Same(), ROWS, keys="customer"),
            "keys='customer': there is no such column; choose one of ts, key, x",
        ),
        (lambda: check_operator(Same(), ROWS, keys=3), "not the names of columns"),  # type: ignore[arg-type]
        (lambda: check_operator(Same(), [], keys="key"), "they have no columns"),
        (lambda: check_controller(Mpc), "controller=the class Mpc: not a controller"),  # type: ignore[arg-type]
        (lambda: check_steering(3), "controller=3: not a controller"),  # type: ignore[arg-type]
        (lambda: run(LOWEST, ROWS, window="1 s", slots=0), "slots=0"),
        (lambda: run(LOWEST, ROWS, window="1 s", slack="1 s"), "not a slack"),  # type: ignore[arg-type]
        (lambda: run(LOWEST, ROWS, window="1 s", schema=3), "not a schema"),  # type: ignore[arg-type]
        (lambda: run(LOWEST, [{"ts": float("nan"), "x": 1}], window="1 s"), "a number in it is no time"),
        (lambda: Runner(LOWEST, window="1 s", clock=3), "clock=3: it cannot be called"),  # type: ignore[arg-type]
    ],
)
def test_what_is_wrong_is_named(wrong: Callable[[], object], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        wrong()


def test_a_runner_that_is_closed_runs_no_more_but_has_what_came_out() -> None:
    with Runner(LOWEST, window="1 s") as runner:
        runner.feed(ROWS)
        runner.flush()
    assert runner.outputs.results["x"].to_pylist() == [5, 3]
    with pytest.raises(SkytideError, match="this runner is closed"):
        runner.feed(ROWS)
