"""A clock that only a test moves."""

from skytide.errors.checks import is_real, refused
from skytide.windows import Duration, duration_s


class ManualClock:
    """Stands still until it is moved: for a `Runner`, or whatever else takes a function that returns the time.

    Parameters
    ----------
    at_s
        Where it begins, in seconds since 1970.

    Examples
    --------
    >>> clock = ManualClock(100.0)
    >>> clock.advance("1.5 s"), clock.advance(8), clock()
    (101.5, 109.5, 109.5)
    """

    def __init__(self, at_s: float = 0.0) -> None:
        """Begin so many seconds after 1970."""
        self.at_s = at_s

    def __call__(self) -> float:
        """Return the seconds since 1970."""
        return self.at_s

    def advance(self, by: Duration | float) -> float:
        """Let time pass, given as a duration or in seconds, and return the time after it."""
        by_s = float(by) if isinstance(by, int | float) else duration_s(by, "by")
        if not is_real(by_s) or by_s < 0:
            raise refused("by", by, "time does not go back", 'give a duration such as "10 s", or seconds from 0 on')
        self.at_s += by_s
        return self.at_s
