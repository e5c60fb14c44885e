"""Windows of the rows of each key: by number of rows, or by time."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skytide.errors import InvalidInput
from skytide.errors.checks import check_integer
from skytide.errors.limits import MAX_ROWS_PER_WINDOW
from skytide.keyed.chunk import Chunk, Numbers
from skytide.keyed.key_set import ranges
from skytide.windows import Windows, shown

TICK_US = 100_000
"""How often tuples that wait for late ones are admitted, and windows by number of rows come out."""


@dataclass(frozen=True, eq=False)
class Cut:
    """Windows of rows that are sorted by key: the key, the rows and the bounds of each."""

    keys: Numbers
    begins: Numbers
    ends: Numbers
    bounds: dict[str, Numbers]
    """Positions, and times in microseconds, by the name of their column."""

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self.keys)


@dataclass(frozen=True)
class CountWindows:
    """`length` rows of a key, every `slide` rows: row i closes a window if i >= length and (i - length) mod slide = 0 (SPEC W4).

    >>> CountWindows(3, slide=2)
    CountWindows(length=3, slide=2)
    """

    length: int
    slide: int
    tick_us: int = field(default=TICK_US, repr=False)
    """The resolution of time: rows are admitted, and windows come out, one tick at a time."""

    def __post_init__(self) -> None:
        """Refuse windows without rows, and windows that leave rows out."""
        check_integer("length", self.length, 1, MAX_ROWS_PER_WINDOW)
        check_integer("slide", self.slide, 1, MAX_ROWS_PER_WINDOW)
        if self.slide > self.length:
            raise InvalidInput(
                value=f"slide={self.slide}",
                reason=f"more than the {self.length} rows of a window: rows between windows would be lost",
                remedy="choose slide <= length",
            )

    @property
    def tick(self) -> Windows:
        """Return the resolution of time."""
        return Windows(self.tick_us, self.tick_us)

    @property
    def text(self) -> str:
        """Return the windows in words; a checkpoint depends on the ticks, so they are included."""
        ticks = "" if self.tick_us == TICK_US else f", in ticks of {shown(self.tick_us)}"
        return f"{self.length:,} rows every {self.slide:,}{ticks}"

    @property
    def limit(self) -> int:
        """Return how many of the last rows of a key to remember: those that a later window may hold, and at least one, which has the key."""
        return max(self.length - 1, 1)

    def cut(self, rows: Chunk, times: Numbers, before: Numbers, since_us: int | None, until_us: int) -> Cut:
        """Return the windows that end with rows of each key after the first `before`."""
        first = np.maximum(-(-(before - self.length + 1) // self.slide), 0)
        last = (rows.totals - self.length) // self.slide
        counts = np.where(rows.totals >= self.length, np.maximum(last - first + 1, 0), 0)
        keys = np.repeat(np.arange(len(rows)), counts)
        starts = ranges(first, counts) * self.slide
        begins = starts - (rows.totals - rows.counts)[keys] + rows.starts[keys]
        bounds = {"row_start": starts, "row_end": starts + self.length}
        if len(times):
            bounds |= {"window_start": times[begins], "window_end": times[begins + self.length - 1]}
        else:
            bounds |= {"window_start": starts, "window_end": starts}
        return Cut(keys, begins, begins + self.length, bounds)

    def needed(self, rows: Chunk, times: Numbers, until_us: int) -> Chunk:
        """Return the rows that a later window may hold."""
        return rows.last(self.limit)


@dataclass(frozen=True)
class TimeWindows:
    """Windows by time; windows of a key without rows do not come out."""

    windows: Windows

    limit: None = None

    @property
    def tick(self) -> Windows:
        """Return the resolution of time: windows end where ticks end."""
        tick_us = int(np.gcd(self.windows.length_us, self.windows.slide_us))
        return Windows(tick_us, tick_us)

    @property
    def text(self) -> str:
        """Return the windows in words."""
        return f"{shown(self.windows.length_us)} every {shown(self.windows.slide_us)}"

    def cut(self, rows: Chunk, times: Numbers, before: Numbers, since_us: int | None, until_us: int) -> Cut:
        """Return the windows that hold a row and end by `until_us`, but not by `since_us`."""
        first_out = -(2**62) if since_us is None else self.windows.last_ended_by(since_us) + 1
        panes, owners = self.windows.pane_of(times), rows.keys_of_rows()
        same = owners[1:] == owners[:-1]
        places = np.flatnonzero(np.concatenate([np.ones(min(len(times), 1), np.bool_), ~same | (panes[1:] != panes[:-1])]))
        panes, owners = panes[places], owners[places]  # of each key, in order: each window is counted with its first pane
        last = np.minimum(self.windows.last_of_pane(panes), self.windows.last_ended_by(until_us))
        first = np.maximum(self.windows.first_of_pane(panes), first_out)
        first[1:] = np.where(owners[1:] == owners[:-1], np.maximum(first[1:], last[:-1] + 1), first[1:])
        counts = np.maximum(last - first + 1, 0)
        keys, numbers = np.repeat(owners, counts), ranges(first, counts)
        starts = numbers * self.windows.slide_us
        ends = starts + self.windows.length_us
        bounds = {"window_start": starts, "window_end": ends}
        return Cut(keys, _places(rows, times, keys, starts), _places(rows, times, keys, ends), bounds)

    def needed(self, rows: Chunk, times: Numbers, until_us: int) -> Chunk:
        """Return the rows that a later window may hold."""
        return rows.where(times >= self.needed_us(until_us))

    def needed_us(self, until_us: int) -> int:
        """Return the time from which rows may belong to a window that has not ended by a time."""
        return self.windows.start_us(self.windows.last_ended_by(until_us) + 1)


def _places(rows: Chunk, times: Numbers, keys: Numbers, wanted_us: Numbers) -> Numbers:
    """Return where the rows of a key at or after a time begin."""
    if not len(times):
        return np.zeros(len(keys), np.int64)
    places = np.empty(len(keys), np.int64)
    both = np.concatenate([wanted_us, times])
    owner = np.concatenate([keys, rows.keys_of_rows()])
    is_row = np.concatenate([np.zeros(len(keys), np.bool_), np.ones(len(times), np.bool_)])
    sorted_ = np.lexsort((is_row, both, owner))  # a time comes before the rows that have it
    before = np.cumsum(is_row[sorted_])
    asked = ~is_row[sorted_]
    places[sorted_[asked]] = before[asked]
    return places


def bounds_schema(windows: CountWindows | TimeWindows, time: pa.DataType) -> pa.Schema:
    """Return the columns that identify the window of a result."""
    times = [("window_start", time), ("window_end", time)]
    positions = [("row_start", pa.int64()), ("row_end", pa.int64())] if isinstance(windows, CountWindows) else []
    return pa.schema([*positions, *times])


def as_columns(cut: Cut, schema: pa.Schema, counts: NDArray[np.int64]) -> dict[str, pa.Array]:
    """Return the bounds of windows, repeated for each result."""
    return {field.name: pa.array(np.repeat(cut.bounds[field.name], counts), pa.int64()).cast(field.type) for field in schema}
