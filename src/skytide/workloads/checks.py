"""Checks of what people write: the value, the reason and the remedy."""

from collections.abc import Iterable
from numbers import Integral, Real

from skytide.errors import InvalidInput


def one_of(name: str, value: object, known: Iterable[str]) -> None:
    """Refuse what is not among the known names.

    >>> one_of("pace", "slow", ["real", "fast"])
    Traceback (most recent call last):
    ...
    skytide.errors.InvalidInput: pace='slow': not known; choose one of real, fast
    """
    known = list(known)
    if value not in known:
        raise InvalidInput(value=f"{name}={value!r}", reason="not known", remedy=f"choose one of {', '.join(known)}")


def whole(name: str, value: object, least: int, most: int | None = None) -> None:
    """Refuse what is not a whole number from `least` to `most`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < least or (most and int(value) > most):
        bounds = f"from {least} to {most}" if most else f"of at least {least}"
        raise InvalidInput(value=f"{name}={value!r}", reason="out of range", remedy=f"give a whole number {bounds}")


def real(name: str, value: object, *, above: float, up_to: float = float("inf"), meaning: str) -> None:
    """Refuse what is not a finite number in the half-open range (above, up_to]."""
    good = isinstance(value, Real) and not isinstance(value, bool) and above < float(value) <= up_to
    if not good or value == float("inf"):
        raise InvalidInput(value=f"{name}={value!r}", reason="out of range", remedy=f"give {meaning}")


def positive_us(name: str, value: object, most: int) -> None:
    """Refuse what is not a length of time in whole microseconds, up to `most`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or not 1 <= int(value) <= most:
        raise InvalidInput(
            value=f"a {name} of {value!r} microseconds",
            reason="out of range",
            remedy=f"choose a whole number from 1 to {most:,}",
        )


def given_if(wanted: bool, name: str, value: object, *, because: str) -> None:
    """Refuse a value that is missing where it is wanted, or that would be ignored where it is not."""
    if wanted and value is None:
        raise InvalidInput(value=because, reason=f"{name} is missing", remedy=f"give {name} with it")
    if not wanted and value is not None:
        raise InvalidInput(value=f"{name}={value!r}", reason=f"{because} has no {name}", remedy="leave one of the two out")


def read_whole(name: str, text: str) -> int:
    """Read a whole number."""
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(value=f"{name}={text!r}", reason="not a whole number", remedy="write digits only") from None


def read_real(name: str, text: str) -> float:
    """Read a number."""
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(value=f"{name}={text!r}", reason="not a number", remedy="write one, for instance 0.5") from None
