"""What a page shows of one subject, as plain values: a verdict, tiles, charts, tables. A page draws any panel, whatever its subject is."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Level = Literal["good", "warn", "bad", "quiet", ""]
"""How something looks to whoever reads it; empty: as anything else."""
GOOD: Level = "good"
WARN: Level = "warn"
BAD: Level = "bad"
QUIET: Level = "quiet"
ROOM_BELOW = 0.8  # a load below this leaves room
MINUTE_S, HOUR_S = 60, 3_600
MS_BELOW_S = 0.9995  # from there on, milliseconds would round to 1,000
DIGITS_BELOW = 0.0995  # from there on, a share would round to 10 %


@dataclass(frozen=True)
class Verdict:
    """The answer to what people ask first."""

    level: Level
    text: str
    more: str = ""


@dataclass(frozen=True)
class Tile:
    """A number shown large."""

    label: str
    value: str
    note: str = ""
    level: Level = ""
    share: float | None = None
    """How full a bar below it is."""


@dataclass(frozen=True)
class Series:
    """A line of a chart: a field of the points, and its name."""

    field: str
    label: str


@dataclass(frozen=True)
class Chart:
    """Values over time."""

    title: str
    unit: str
    series: tuple[Series, ...]
    drawn: Literal["line", "step", "stack"] = "line"
    """"stack": areas on top of each other."""
    limit: float | None = None
    """A value to compare with, drawn as a line."""
    top: float | None = None
    """Higher values are cut off."""
    band: tuple[str, str] | None = None
    """Fields between which the area is filled."""
    marked: bool = False
    """Whether it shows the marks of the panel."""
    wide: bool = False
    note: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of texts; numbers are aligned to the right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    empty: str = "Nothing yet."


@dataclass(frozen=True)
class Bar:
    """How full one of several is."""

    label: str
    value: str
    share: float
    level: Level = ""


@dataclass(frozen=True)
class Bars:
    """Several that should be about as full as each other."""

    title: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Scatter:
    """Points of two columns."""

    title: str
    columns: tuple[str, str]
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Mark:
    """Something that happened at a time, drawn into charts."""

    at_s: float
    text: str
    level: Level = ""


@dataclass(frozen=True)
class Panel:
    """All that is shown of a subject, except its points over time."""

    verdict: Verdict
    tiles: tuple[Tile, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    bars: Bars | None = None
    scatter: Scatter | None = None
    marks: tuple[Mark, ...] = ()
    actions: tuple[str, ...] = field(default=())
    over: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the panel as plain values."""
        return asdict(self)


def count(value: float) -> str:
    """Return a count as a short text.

    >>> count(999.4), count(12_345), count(1_234_567), count(25_000_000_000)
    ('999', '12,345', '1.23 M', '25.00 G')
    """
    for unit, size in (("G", 1e9), ("M", 1e6)):
        if abs(value) >= size:
            return f"{value / size:,.2f} {unit}"
    return f"{value:,.0f}"


def span(seconds: float) -> str:
    """Return a length of time as text.

    >>> span(0.0042), span(0.42), span(1.234), span(75), span(7_300)
    ('4 ms', '420 ms', '1.23 s', '75 s', '2.0 h')
    """
    if abs(seconds) < MS_BELOW_S:
        return f"{seconds * 1e3:.0f} ms"
    if abs(seconds) < MINUTE_S:
        return f"{seconds:.2f} s"
    return f"{seconds:.0f} s" if abs(seconds) < HOUR_S else f"{seconds / HOUR_S:,.1f} h"


def share(value: float) -> str:
    """Return a share as text, in percent.

    >>> share(0.4231), share(0.00421), share(0)
    ('42 %', '0.42 %', '0 %')
    """
    return f"{value:.2%}".replace("%", " %") if 0 < abs(value) < DIGITS_BELOW else f"{value:.0%}".replace("%", " %")


def load_level(value: float) -> Level:
    """Return how good a load is: good while there is room.

    >>> load_level(0.5), load_level(0.9), load_level(1.2)
    ('good', 'warn', 'bad')
    """
    return GOOD if value < ROOM_BELOW else WARN if value <= 1 else BAD
