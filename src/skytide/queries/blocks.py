"""Windows computed from what was kept of their panes, for queries that contain no skyline.

A window of thousands of panes is not merged pane by pane each time: 16 consecutive panes are merged once into a block, 16 blocks into
a block of the next level, and so on. A window is then made of the largest blocks inside it: a few dozen parts, however many panes it has.
Panes and blocks never change once they are made; what is new of a slide is its panes, and the blocks that they complete.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from skytide.kernels import Indices
from skytide.queries.memory import Answers, Panes
from skytide.queries.query import Query
from skytide.windows import Windows, pane_bounds

FANOUT = 16


class Place(NamedTuple):
    """A pane, or a block of panes: blocks are aligned, so a level and a number name one."""

    level: int
    number: int

    @property
    def panes(self) -> range:
        """The panes it is made of.

        >>> Place(1, 2).panes
        range(32, 48)
        """
        size = FANOUT**self.level
        return range(self.number * size, (self.number + 1) * size)


class Segment(NamedTuple):
    """What was kept of a pane or a block."""

    place: Place
    kept: pa.Table


class Segments(Protocol):
    """Panes and blocks that are remembered."""

    @property
    def panes(self) -> Indices:
        """The panes with rows, in order."""

    def kept(self, place: Place) -> list[pa.Table] | None:
        """Return what was kept of a pane or block, in one or several parts; None if it is not remembered."""


class InMemory:
    """Panes and blocks that are held in memory; at first, none."""

    def __init__(self) -> None:
        """Remember nothing."""
        self._kept: dict[Place, pa.Table] = {}

    @property
    def panes(self) -> Indices:
        """The panes with rows, in order."""
        return np.array(sorted(place.number for place in self._kept if place.level == 0), np.int64)

    @property
    def rows(self) -> int:
        """How many rows are remembered."""
        return sum(kept.num_rows for kept in self._kept.values())

    def kept(self, place: Place) -> list[pa.Table] | None:
        """Return what was kept of a pane or block; None if it is not remembered."""
        return [self._kept[place]] if place in self._kept else None

    def add(self, segments: Iterable[Segment], needed: int) -> None:
        """Remember segments, and forget those without a pane from `needed` on."""
        self._kept |= dict(segments)
        self._kept = {place: kept for place, kept in self._kept.items() if place.panes.stop > needed}


class Blocks:
    """Answers windows from panes and blocks."""

    def __init__(self, query: Query, rows: pa.Schema) -> None:
        """Create the answers of a query on rows of a schema."""
        self.query = query
        self._empty = query.kept_schema(rows).empty_table()

    def slide(
        self, remembered: Segments, panes: Panes, windows: Windows, wanted: Indices, closed: int
    ) -> tuple[Iterator[Answers], list[Segment]]:
        """Return the answers of windows, some at a time, and what is new: the panes, and the blocks that are complete.

        All panes before `closed` are there, and no other. Consecutive windows with the same panes cost as much as one.
        """
        held = _Held(remembered, panes)
        new = [Segment(Place(0, pane), kept) for pane, kept in panes]
        new += self._complete(held, panes, windows, closed)
        return self._answers(held, windows, wanted), new

    def _complete(self, held: "_Held", panes: Panes, windows: Windows, closed: int) -> Iterator[Segment]:
        """Make the blocks that new panes, or the end of earlier ones, have completed; with few panes inside, a block saves nothing."""
        touched = np.array([pane for pane, _ in panes], np.int64)
        before = held.panes[: len(held.panes) - len(touched)] if len(touched) else held.panes
        touched = np.concatenate([before[-1:], touched])
        level = 1
        while FANOUT**level <= windows.panes_per_window:
            for number in np.unique(touched // FANOUT**level).tolist():
                place = Place(level, number)
                if place.panes.stop <= closed and held.count(place.panes) >= max(2, FANOUT // 2) and held.kept(place) is None:
                    kept = self.query.merge(self.together(held.cover(place.panes, level - 1)))
                    held.add(place, kept)
                    yield Segment(place, kept)
            level += 1

    def _answers(self, held: "_Held", windows: Windows, wanted: Indices) -> Iterator[Answers]:
        if not len(wanted):
            return
        start, stop = pane_bounds(windows, wanted)
        some = np.column_stack([np.searchsorted(held.panes, start), np.searchsorted(held.panes, stop)])
        runs = np.append(0, np.flatnonzero((some[1:] != some[:-1]).any(axis=1)) + 1)
        top = _levels(windows)
        for run, windows_alike in zip(runs.tolist(), np.diff(runs, append=len(wanted)).tolist(), strict=True):
            answer = self.query.window(self.together(held.cover(range(int(start[run]), int(stop[run])), top)))
            yield Answers(answer, np.array([answer.num_rows])).repeated(np.array([windows_alike]))

    def together(self, tables: list[pa.Table]) -> pa.Table:
        """Return what was kept of several parts, one after the other."""
        return tables[0] if len(tables) == 1 else pa.concat_tables([self._empty, *tables])


class _Held:
    """Panes and blocks that are remembered, with new ones."""

    def __init__(self, remembered: Segments, panes: Panes) -> None:
        self._remembered = remembered
        self._new = {Place(0, pane): kept for pane, kept in panes}
        self.panes = np.concatenate([remembered.panes, np.array([pane for pane, _ in panes], np.int64)])

    def add(self, place: Place, kept: pa.Table) -> None:
        self._new[place] = kept

    def kept(self, place: Place) -> list[pa.Table] | None:
        new = self._new.get(place)
        return self._remembered.kept(place) if new is None else [new]

    def count(self, panes: range) -> int:
        """Return how many of these panes have rows."""
        return int(np.searchsorted(self.panes, panes.stop) - np.searchsorted(self.panes, panes.start))

    def cover(self, panes: range, level: int) -> list[pa.Table]:
        """Return what was kept of some panes, from the largest blocks up to a level that are inside."""
        tables: list[pa.Table] = []
        at = panes.start
        while at < panes.stop:
            here = int(np.searchsorted(self.panes, at))
            if here == len(self.panes) or self.panes[here] >= panes.stop:
                break
            at = int(self.panes[here])  # no rows before it
            for size in range(level, -1, -1):
                place = Place(size, at // FANOUT**size)
                if place.panes.start >= panes.start and place.panes.stop <= panes.stop:
                    kept = self.kept(place)
                    if kept is not None:
                        tables += kept
                        at = place.panes.stop
                        break
            else:
                at += 1
        return tables


def _levels(windows: Windows) -> int:
    """Return the level of the largest blocks that fit into a window.

    >>> _levels(Windows(length_us=FANOUT * FANOUT, slide_us=1)), _levels(Windows(length_us=3, slide_us=1))
    (2, 0)
    """
    level = 0
    while FANOUT ** (level + 1) <= windows.panes_per_window:
        level += 1
    return level
