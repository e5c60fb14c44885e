"""Checks of what people write, for all layers: the value, the reason and the remedy."""

from collections.abc import Iterable
from math import inf, isfinite, isnan
from numbers import Integral, Real

from skytide.errors import InvalidInput
from skytide.errors.limits import MAX_COUNT

MAX_BRIEF = 120
_PLAIN = (str, bytes, bool, int, float, complex, type(None))


def brief(value: object) -> str:
    """Return a value as text for an error: short whatever it is, and without data such as the rows of a table.

    >>> brief("3 s"), brief(10**5000), brief([1, None]), brief(object()), brief(int)
    ("'3 s'", 'an int', '[1, None]', 'an object', 'the class int')
    """
    if isinstance(value, type):
        return f"the class {value.__name__}"
    try:
        parts = value if isinstance(value, tuple | list | set | frozenset) else (value,)
        text = repr(value) if all(isinstance(part, _PLAIN) for part in parts) else _article_and_type(value)
    except ValueError:  # Python does not write numbers of thousands of digits
        text = _article_and_type(value)
    return text if len(text) <= MAX_BRIEF else f"{text[:MAX_BRIEF]}..."


def _article_and_type(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def refused(name: str, value: object, reason: str, remedy: str) -> InvalidInput:
    """Return the error for the value of an argument.

    >>> raise refused("k", -1, "not a count", "give 1 or more")
    Traceback (most recent call last):
    ...
    skytide.errors.InvalidInput: k=-1: not a count; give 1 or more
    """
    return InvalidInput(value=f"{name}={brief(value)}", reason=reason, remedy=remedy)


def is_integer(value: object, least: int = -MAX_COUNT, most: int | None = None) -> bool:
    """Return whether this is a whole number from `least` to `most`; True and False are not."""
    return (
        isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) <= (MAX_COUNT if most is None else most)
    )


def is_real(value: object) -> bool:
    """Return whether this is a number, which may be infinite; NaN, True and False are not."""
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and not isnan(float(value))
    except OverflowError:
        return False


def is_finite(value: object) -> bool:
    """Return whether this is a finite number."""
    return is_real(value) and isfinite(float(value))  # type: ignore[arg-type]


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Refuse what is not among the choices.

    >>> check_choice("pace", "slow", ["real", "fast"])
    Traceback (most recent call last):
    ...
    skytide.errors.InvalidInput: pace='slow': not known; choose one of real, fast
    """
    names = list(choices)
    if not isinstance(value, str) or value not in names:
        raise refused(name, value, "not known", f"choose one of {', '.join(names)}")


def check_integer(name: str, value: object, least: int, most: int | None = None) -> None:
    """Refuse what is not a whole number from `least` to `most`."""
    if not is_integer(value, least, most):
        bounds = f"from {least} to {most}" if most else f"of at least {least}, and below 2**63"
        raise refused(name, value, "out of range", f"give a whole number {bounds}")


def check_number(name: str, value: object, *, above: float, up_to: float = inf, meaning: str) -> None:
    """Refuse what is not a finite number in the half-open range (above, up_to]."""
    if not is_finite(value) or not above < float(value) <= up_to:  # type: ignore[arg-type]
        raise refused(name, value, "out of range", f"give {meaning}")


def check_bool(name: str, value: object) -> None:
    """Refuse what is neither True nor False: "no" would count as true."""
    if not isinstance(value, bool):
        raise refused(name, value, "neither True nor False", "give one of the two")


def check_text(name: str, value: object, example: str) -> None:
    """Refuse what is not a text, or is an empty one."""
    if not isinstance(value, str) or not value.strip():
        raise refused(name, value, "not a text, or an empty one", f"give one, for instance {example!r}")


def check_type(name: str, value: object, expected: type | tuple[type, ...], *, reason: str, remedy: str) -> None:
    """Refuse what is not an object of a class, or of one of several."""
    if not isinstance(value, expected):
        raise refused(name, value, reason, remedy)


def positive_us(name: str, value: object, most: int) -> None:
    """Refuse what is not a length of time in whole microseconds, up to `most`."""
    if not is_integer(value, 1, most):
        raise InvalidInput(
            value=f"a {name} of {brief(value)} microseconds",
            reason="out of range",
            remedy=f"choose a whole number from 1 to {most:,}",
        )


def given_if(wanted: bool, name: str, value: object, *, because: str) -> None:
    """Refuse a value that is missing where it is wanted, or that would be ignored where it is not."""
    if wanted and value is None:
        raise InvalidInput(value=because, reason=f"{name} is missing", remedy=f"give {name} with it")
    if not wanted and value is not None:
        raise refused(name, value, f"{because} has no {name}", "leave one of the two out")


def read_integer(name: str, text: str) -> int:
    """Return the whole number that a text is."""
    try:
        return int(text)
    except (TypeError, ValueError):
        raise refused(name, text, "not a whole number", "write digits only") from None


def read_number(name: str, text: str) -> float:
    """Return the number that a text is."""
    try:
        return float(text)
    except (TypeError, ValueError):
        raise refused(name, text, "not a number", "write one, for instance 0.5") from None
