"""Durations: whole microseconds internally, whatever people write."""

import re
from datetime import timedelta
from fractions import Fraction

from skytide.errors.checks import is_integer, refused
from skytide.errors.limits import MAX_DURATION_US

Duration = str | timedelta
"""A duration as people write it: a number and a unit, such as "200 ms", or a timedelta. Where no time at all makes sense, it is written 0."""
UNITS_US = {
    "us": 1,
    "microsecond": 1,
    "ms": 1_000,
    "millisecond": 1_000,
    "s": 1_000_000,
    "sec": 1_000_000,
    "second": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "minute": 60_000_000,
    "h": 3_600_000_000,
    "hour": 3_600_000_000,
    "d": 86_400_000_000,
    "day": 86_400_000_000,
}


def duration_us(value: object, name: str, *, or_none: bool = False) -> int:
    """Return a duration in microseconds; `name` is the user's name for it, for errors. With `or_none` no time at all may be written 0.

    >>> duration_us("200 ms", "slide"), duration_us("1.5 seconds", "window"), duration_us(timedelta(minutes=1), "window")
    (200000, 1500000, 60000000)
    >>> duration_us("fast", "trigger")
    Traceback (most recent call last):
    ...
    skytide.errors.InvalidInput: trigger='fast': not a length of time; write a number and a unit, for instance "200 ms"
    """
    if or_none and is_integer(value, 0, 0):
        return 0
    if isinstance(value, timedelta):
        exact = Fraction(value // timedelta(microseconds=1))
    elif (
        isinstance(value, str)
        and (written := re.fullmatch(r"\s*(\d{1,40}(?:\.\d{1,40})?)\s*([a-z]+)\s*", value.lower()))
        and (unit := UNITS_US.get(written[2]) or UNITS_US.get(written[2].removesuffix("s")))
    ):
        exact = Fraction(written[1]) * unit
    else:
        raise refused(name, value, "not a length of time", 'write a number and a unit, for instance "200 ms"')
    if exact.denominator != 1 or exact < 0 or (exact == 0 and not or_none):
        raise refused(name, value, "not a positive whole number of microseconds", "choose a longer or rounder one")
    if exact > MAX_DURATION_US:
        raise refused(name, value, "longer than a century", "choose a shorter one")
    return int(exact)


def duration_s(value: object, name: str) -> float:
    """Return a duration in seconds, which may be no time at all.

    >>> duration_s("1.5 min", "cool_down"), duration_s(0, "cool_down"), duration_s("0 s", "cool_down")
    (90.0, 0.0, 0.0)
    """
    return duration_us(value, name, or_none=True) / 1e6


def shown(length_us: int) -> str:
    """Return a duration in a form that people read easily.

    >>> shown(200_000), shown(90_000_000), shown(1)
    ('200 ms', '1.5 min', '1 us')
    """
    for unit in ("d", "h", "min", "s", "ms"):
        if length_us >= UNITS_US[unit]:
            return f"{length_us / UNITS_US[unit]:g} {unit}"
    return f"{length_us} us"
