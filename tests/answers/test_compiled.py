"""Loops are compiled once, whoever calls them first."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import pytest

from skytide.kernels.compiled import _CREATING, compiled

THREADS = 16


def test_a_loop_that_many_threads_call_first_is_created_once(monkeypatch: pytest.MonkeyPatch) -> None:
    created: list[Callable[..., Any]] = []
    together = threading.Barrier(THREADS)

    def njit(**_: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def create(loop: Callable[..., Any]) -> Callable[..., Any]:
            created.append(loop)
            assert not another_thread_may_create(), "another thread may create it meanwhile"
            return loop

        return create

    monkeypatch.setattr(numba, "njit", njit)

    def double(number: int) -> int:
        return 2 * number

    kernel = compiled(double)

    def call(number: int) -> int:
        together.wait(timeout=30)
        return kernel(number)

    with ThreadPoolExecutor(THREADS) as threads:
        assert list(threads.map(call, range(THREADS))) == [2 * number for number in range(THREADS)]
    assert created == [double]
    assert another_thread_may_create()


def another_thread_may_create() -> bool:
    """Return whether a thread would get the lock at once."""

    def ask() -> bool:
        got = _CREATING.acquire(blocking=False)
        if got:
            _CREATING.release()
        return got

    with ThreadPoolExecutor(1) as other:
        return other.submit(ask).result()
