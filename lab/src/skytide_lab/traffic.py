"""The parts of P1's traffic query (§1.1): speeds from successive positions, the areas of a city, and the end of a queue of cars."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide import Mergeable
from skytide.errors import InvalidInput
from skytide.errors.checks import check_integer, check_number

SOUTH, WEST = 37.0, -123.0
"""The corner that areas are counted from; all of San Francisco Bay lies within a degree north and east of it."""
M_PER_DEGREE = 111_320.0
M_PER_DEGREE_EAST = 88_020.0  # at 37.75° north
PER_ROW = 1_000  # areas side by side
KMH = 3.6  # kilometres an hour in a metre a second
US_PER_MINUTE = 60_000_000
QUEUE_INPUT = "named_struct('ts', ts, 'before', before, 'speed', speed)"
"""What `QueueEnd` is an aggregate of, as SQL over the results of `Speeds`."""

Position = NDArray[np.float64]
"""A cab's latest report: time in microseconds, latitude, longitude, whether it had a passenger, and the speed up to there (NaN: none)."""
Turns = dict[int, tuple[int, int]]
"""How many cabs were braked to a crawl in a minute, and how many drove off."""


def area(metres: int) -> str:
    """Return P1's grid function as SQL over the columns lat and lon: the number of the square of so many metres that a position lies in.

    Squares are numbered from the south-west corner of the bay, a thousand to a row; a position outside has none (NULL).

    >>> area(500).startswith("CASE WHEN lat >= 37.0 AND lat < 38.0")
    True
    """
    check_integer("metres", metres, 100, 10_000)
    inside = f"lat >= {SOUTH} AND lat < {SOUTH + 1} AND lon >= {WEST} AND lon < {WEST + 1}"
    row = f"floor((lat - double({SOUTH})) * {M_PER_DEGREE}D / {metres})"
    column = f"floor((lon - double({WEST})) * {M_PER_DEGREE_EAST}D / {metres})"
    return f"CASE WHEN {inside} THEN {PER_ROW} * {row} + {column} END"


def corner(number: int, metres: int) -> tuple[float, float]:
    """Return the latitude and the longitude of the south-west corner of an area.

    >>> [round(degrees, 4) for degrees in corner(175_104, 500)]
    [37.786, -122.4092]
    """
    row, column = divmod(number, PER_ROW)
    return SOUTH + row * metres / M_PER_DEGREE, WEST + column * metres / M_PER_DEGREE_EAST


@dataclass(frozen=True, kw_only=True)
class Speeds:
    """An operator on keys: the speed of a cab at each report, from its position then and at the report before.

    A result has the report's `ts`, `lat` and `lon`; `ride`: whether a passenger was in the cab both times, so that it was in traffic and did not
    wait at a stand; the mean `speed` between the two in km/h; and the speed `before` that, on the same ride, or NULL. A report has no result if it is the
    first of a cab, or comes more than `max_gap_s` after the last, or is too far away: a speed above `max_kmh` comes from a wrong position.

    >>> from datetime import datetime
    >>> times = [datetime(2008, 5, 20, 17, minute) for minute in range(3)]
    >>> rows = pa.table({"ts": times, "lat": [37.75, 37.755, 37.756], "lon": [-122.4] * 3, "occupied": [True] * 3})
    >>> _, reports = Speeds().process(None, rows)
    >>> [round(speed, 1) for speed in reports["speed"].to_pylist()], reports["before"].null_count
    ([33.4, 6.7], 1)
    """

    version: ClassVar[int] = 1

    max_gap_s: float = 180.0
    max_kmh: float = 150.0

    def __post_init__(self) -> None:
        """Refuse options that no report fulfils."""
        check_number("max_gap_s", self.max_gap_s, above=0, meaning="seconds, more than 0")
        check_number("max_kmh", self.max_kmh, above=0, meaning="kilometres an hour, more than 0")

    def check(self, rows: pa.Schema) -> None:
        """Refuse rows that lack a column, or have one of another type."""
        types = pa.types
        fits = {"ts": types.is_timestamp, "lat": types.is_float64, "lon": types.is_float64, "occupied": types.is_boolean}
        for name, is_right in fits.items():
            if name not in rows.names or not is_right(rows.field(name).type):
                remedy = "pass reports with ts, a timestamp, lat and lon, doubles, and occupied, a boolean"
                raise InvalidInput(value=f"column {name}", reason="it is missing, or of another type", remedy=remedy)

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns of a result, for rows of this schema."""
        self.check(rows)
        places = [(name, pa.float64()) for name in ("lat", "lon")]
        return pa.schema([rows.field("ts"), *places, ("ride", pa.bool_()), ("speed", pa.float64()), ("before", pa.float64())])

    def open(self, key: object) -> None:
        """Return the state of a cab that has not reported yet: none."""

    def process(self, state: Position | None, rows: pa.Table) -> tuple[Position | None, pa.Table]:
        """Return the cab's latest report, and a result for each report that has a speed."""
        schema, found = self.schema(rows.schema), list[dict[str, Any]]()
        latest = None if state is None else tuple(state.tolist())
        rows = rows.select(["ts", "lat", "lon", "occupied"]).drop_null()
        times = rows["ts"].cast(pa.timestamp("us", schema.field("ts").type.tz)).cast(pa.int64()).to_pylist()
        for at_us, report in zip(times, rows.to_pylist(), strict=True):
            speed = math.nan
            if latest is not None:
                before_us, lat, lon, occupied, before = latest
                seconds = (at_us - before_us) / 1e6
                metres = math.hypot((report["lat"] - lat) * M_PER_DEGREE, (report["lon"] - lon) * M_PER_DEGREE_EAST)
                if 0 < seconds <= self.max_gap_s and metres <= self.max_kmh / KMH * seconds:
                    ride = bool(occupied) and report["occupied"]
                    speed = KMH * metres / seconds
                    place = {"ts": report["ts"], "lat": report["lat"], "lon": report["lon"]}
                    found.append({**place, "ride": ride, "speed": speed, "before": None if math.isnan(before) else before})
                    speed = speed if ride else math.nan
            latest = (at_us, report["lat"], report["lon"], float(report["occupied"]), speed)
        return None if latest is None else np.array(latest), pa.Table.from_pylist(found, schema=schema)


@dataclass(frozen=True)
class QueueEnd(Mergeable[tuple[int, Turns]]):
    """An aggregate of one's own: whether a queue of cars ends in an area, P1's isQueueEnd.

    A queue ends where cars that drove freely (at `free_kmh` or faster) are braked to a crawl (below `crawl_kmh`) from one report to the next; where it begins, cars drive off. So
    an area has the end of a queue if within the last `minutes` before its latest report at least `least` cars were braked, and more than twice as many as drove off:
    at a red light, on average as many do the one as the other. P1 leaves open what its function does; this is ours.

    The state is the minute of the latest report, and for each minute not older than `minutes` how many cars were braked and drove off: small, whole numbers, so the
    answer does not depend on how reports were divided.

    >>> from datetime import datetime
    >>> braked = [{"ts": datetime(2008, 5, 20, 17, minute), "before": 50.0, "speed": 5.0} for minute in range(3)]
    >>> end = QueueEnd()
    >>> one, other = end.add(end.start(), pa.array(braked[:2])), end.add(end.start(), pa.array(braked[2:]))
    >>> end.finish(one), end.finish(end.merge(one, other))
    (False, True)
    """

    free_kmh: float = 40.0
    crawl_kmh: float = 15.0
    minutes: int = 30
    least: int = 3

    def __post_init__(self) -> None:
        """Refuse options that no queue fulfils."""
        check_number("crawl_kmh", self.crawl_kmh, above=0, meaning="kilometres an hour, more than 0")
        check_number("free_kmh", self.free_kmh, above=self.crawl_kmh, meaning="kilometres an hour, more than crawl_kmh")
        check_integer("minutes", self.minutes, 1, 24 * 60)
        check_integer("least", self.least, 1, 1_000_000)

    def start(self) -> tuple[int, Turns]:
        """Return the state of no reports."""
        return (-(2**62), {})

    def add(self, state: tuple[int, Turns], values: pa.Array) -> tuple[int, Turns]:
        """Return the state with more reports."""
        times, before, speed = (values.field(name) for name in ("ts", "before", "speed"))
        minutes = times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64()).to_numpy() // US_PER_MINUTE
        earlier, now = (each.to_numpy(zero_copy_only=False) for each in (before, speed))  # NULL is NaN, and compares as neither
        turns: Turns = {}
        for minute in minutes[(earlier >= self.free_kmh) & (now < self.crawl_kmh)].tolist():
            braked, gone = turns.get(minute, (0, 0))
            turns[minute] = (braked + 1, gone)
        for minute in minutes[(earlier < self.crawl_kmh) & (now >= self.free_kmh)].tolist():
            braked, gone = turns.get(minute, (0, 0))
            turns[minute] = (braked, gone + 1)
        return self.merge(state, (int(minutes.max()), turns))

    def merge(self, state: tuple[int, Turns], other: tuple[int, Turns]) -> tuple[int, Turns]:
        """Return the state of the reports of both."""
        latest, (one, more) = max(state[0], other[0]), (state[1], other[1])
        turns = {
            minute: (
                one.get(minute, (0, 0))[0] + more.get(minute, (0, 0))[0],
                one.get(minute, (0, 0))[1] + more.get(minute, (0, 0))[1],
            )
            for minute in {*one, *more}
            if minute > latest - self.minutes
        }
        return (latest, turns)

    def finish(self, state: tuple[int, Turns]) -> bool:
        """Return whether a queue ends here."""
        braked = sum(braked for braked, _ in state[1].values())
        return braked >= self.least and braked > 2 * sum(gone for _, gone in state[1].values())

    def kind(self, values: pa.DataType) -> pa.DataType:
        """Return the type of the answer; refuse values that are no reports with speeds."""
        if not (pa.types.is_struct(values) and {"ts", "before", "speed"} <= {field.name for field in values}):
            raise InvalidInput(
                value=f"QueueEnd of {values}", reason="not reports with speeds", remedy="pass QUEUE_INPUT as its column"
            )
        return pa.bool_()
