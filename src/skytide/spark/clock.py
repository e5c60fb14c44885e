"""The time for whatever runs on Spark. Durations of tasks and steps are measured by `time.perf_counter`."""

import time
from collections.abc import Callable

Now = Callable[[], float]
"""Returns seconds since 1970; a test has one of its own."""
_TICKS = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # goes on while the machine sleeps
_AHEAD_S = time.time() - time.clock_gettime(_TICKS)  # the same for all: those who share executors must agree on the time


def time_of_day() -> float:
    """Return the seconds since 1970 by the machine's clock, as the times of tuples are: if it is set, so are those."""
    return time.time()


def steady() -> float:
    """Return the seconds since 1970 for what decides by time that has passed: they pass evenly, even if the machine's clock is set meanwhile."""
    return time.clock_gettime(_TICKS) + _AHEAD_S


def now_us() -> int:
    """Return the time of day in whole microseconds, as the times of tuples are."""
    return round(time_of_day() * 1e6)
