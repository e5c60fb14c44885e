"""How records are printed: a few lines with a label each, as text or in a notebook."""

from datetime import UTC, datetime, timedelta
from html import escape

EPOCH = datetime.fromtimestamp(0, UTC)
CALENDAR_YEARS, CALENDAR_S = 400, 146_097 * 86_400
"""After so many years, the calendar repeats itself."""
LIVE_S = 86_400.0
"""A stream whose newest tuple is older than this is a recording: how far it is behind the clock means nothing."""


class Printed:
    """Prints as a few lines, each with a label; empty texts are left out."""

    __slots__ = ()

    def lines(self) -> list[tuple[str, str]]:
        """Return labels and texts."""
        raise NotImplementedError

    def __str__(self) -> str:
        """Return a line for each label that has a text."""
        lines = [(label, text) for label, text in self.lines() if text]
        width = max((len(label) for label, _ in lines), default=0)
        return "\n".join(f"{label:<{width}}  {text}" for label, text in lines)

    def _repr_html_(self) -> str:
        """Return the same as a table for a notebook."""
        rows = "".join(
            f'<tr><th style="text-align:left">{escape(label)}</th><td style="text-align:left">{escape(text)}</td></tr>'
            for label, text in self.lines()
            if text
        )
        return f"<table>{rows}</table>"


def number(value: float) -> str:
    """Return a number as text, with as many digits as mean something.

    >>> [number(value) for value in (24310.4, 1234567, 42.26, 0.05634, 0, 7)]
    ['24,310', '1,234,567', '42.3', '0.056', '0', '7']
    """
    if value == round(value):
        return f"{value:,.0f}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2g}"


def seconds(value: float) -> str:
    """Return a length of time as text.

    >>> [seconds(value) for value in (0.0004, 0.38, 3.614, 75, 9000, 200_000)]
    ['0.4 ms', '380 ms', '3.6 s', '75 s', '2.5 h', '2.3 d']
    """
    if value < 1:
        return f"{number(value * 1e3)} ms"
    for limit, unit_s, unit in ((120, 1, "s"), (7_200, 60, "min"), (172_800, 3_600, "h")):
        if value < limit:
            return f"{number(value / unit_s)} {unit}"
    return f"{number(value / 86_400)} d"


def moment(time_us: int) -> str:
    """Return a time (UTC) as text, with fractions of a second only if it has any.

    >>> moment(1_700_000_000_000_000), moment(1_700_000_000_200_000), moment(2**63 - 1)
    ('2023-11-14 22:13:20', '2023-11-14 22:13:20.2', '294247-01-10 04:00:54.775807')
    """
    whole, rest_us = divmod(time_us, 1_000_000)
    cycles, in_cycle_s = divmod(whole, CALENDAR_S)  # Python's calendar ends with the year 9999
    in_cycle = EPOCH + timedelta(seconds=in_cycle_s)
    text = f"{in_cycle.year + CALENDAR_YEARS * cycles:04}-{in_cycle:%m-%d %H:%M:%S}"
    return f"{text}.{rest_us:06}".rstrip("0").rstrip(".") if rest_us else text


def span(start_us: int, end_us: int) -> str:
    """Return a span of time as text; the day appears once.

    >>> span(1_700_000_000_000_000, 1_700_000_060_000_000)
    '2023-11-14 22:13:20 to 22:14:20'
    """
    start, end = moment(start_us), moment(end_us)
    return f"{start} to {end.split(' ')[1] if start.split(' ')[0] == end.split(' ')[0] else end}"
