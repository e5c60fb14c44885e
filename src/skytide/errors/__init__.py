"""Errors that say the value, the reason and the remedy."""


class SkytideError(Exception):
    """What every error raised by skytide derives from.

    Examples
    --------
    >>> issubclass(InvalidInput, SkytideError), issubclass(InvalidInput, ValueError)
    (True, True)
    """


class InvalidInput(SkytideError, ValueError):
    """A value that was refused at the border.

    Parameters
    ----------
    value
        What was refused, as it was written.
    reason
        Why.
    remedy
        What to write instead.

    Examples
    --------
    >>> raise InvalidInput(value='slide="3 s"', reason='longer than window="2 s"', remedy="choose slide <= window")
    Traceback (most recent call last):
    ...
    skytide.errors.InvalidInput: slide="3 s": longer than window="2 s"; choose slide <= window
    """

    def __init__(self, *, value: str, reason: str, remedy: str) -> None:
        super().__init__(f"{value}: {reason}; {remedy}")
        self.value = value
        self.reason = reason
        self.remedy = remedy

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross from Spark's Python workers by pickle, which knows nothing of keyword-only arguments.
        return _invalid_input, (type(self), self.value, self.reason, self.remedy)


def _invalid_input(kind: type[InvalidInput], value: str, reason: str, remedy: str) -> InvalidInput:
    return kind(value=value, reason=reason, remedy=remedy)
