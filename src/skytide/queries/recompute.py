"""Windows computed from what was kept of their panes, for queries that contain no skyline.

A window of thousands of panes is not merged pane by pane each time: 32 consecutive panes are merged once into a block, 32 blocks into
a block of the next level, and so on. A window is then made of the largest blocks inside it: a few dozen parts, however many panes it has.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa

from skytide.kernels import Indices
from skytide.queries.memory import PANE, Answers, Panes, Sliding, constant
from skytide.windows import Windows, pane_bounds

LAST = "__skytide_last"
LEVEL = "__skytide_level"
HELPERS = [PANE, LAST, LEVEL]
FANOUT = 32


@dataclass(frozen=True)
class _Parts:
    """What was kept of the parts of one level, in order of time: of panes, or of blocks of the level below."""

    rows: pa.Table

    @cached_property
    def starts(self) -> Indices:
        """Return the row at which each part starts."""
        panes = self.rows[PANE].to_numpy()
        return np.flatnonzero(np.diff(panes, prepend=panes[0] - 1)) if len(panes) else np.empty(0, np.int64)

    @cached_property
    def firsts(self) -> Indices:
        """Return the first pane of each part."""
        return np.asarray(self.rows[PANE].to_numpy()[self.starts])

    @cached_property
    def lasts(self) -> Indices:
        """Return the last pane of each part."""
        return np.asarray(self.rows[LAST].to_numpy()[self.starts])

    def kept(self, first: int, end: int) -> pa.Table:
        """Return what was kept of consecutive parts."""
        bounds = np.append(self.starts, self.rows.num_rows)
        start, stop = int(bounds[first]), int(bounds[end])
        return self.rows.slice(start, stop - start).drop_columns(HELPERS)


class Recompute(Sliding):
    """Remembers what was kept of each pane and of each block of panes; a helper column has the level, which is 0 for panes."""

    def empty(self, rows: pa.Schema) -> pa.Table:
        """Return the memory of no panes."""
        helpers = [pa.field(name, pa.int64()) for name in HELPERS]
        return pa.schema([*self.query.kept_schema(rows), *helpers]).empty_table()

    def add(self, memory: pa.Table, pane: int, kept: pa.Table) -> pa.Table:
        """Return the memory with the pane, and the blocks it completes."""
        return self._extended(memory, [(pane, kept)])

    def answer(self, memory: pa.Table, panes: range) -> pa.Table:
        """Return the answer from the largest parts that make up the window."""
        return self._answer(_levels(memory), panes.start, panes.stop)

    def slide(self, memory: pa.Table, panes: Panes, windows: Windows, wanted: Indices) -> tuple[Answers, pa.Table]:
        """Append all panes, and return answers and memory; only windows whose panes differ from those of the window before are computed."""
        if len(wanted) == 0:
            return self._no_answers(memory), self._extended(memory, panes)
        memory = self._extended(memory, panes)
        levels = _levels(memory)
        start, stop = pane_bounds(windows, wanted)
        held = np.column_stack([np.searchsorted(levels[0].firsts, start), np.searchsorted(levels[0].firsts, stop)])
        runs = np.append(0, np.flatnonzero((held[1:] != held[:-1]).any(axis=1)) + 1)
        windows_out = [self._answer(levels, int(start[run]), int(stop[run])) for run in runs]
        answers = Answers.of(windows_out, windows_out[0].slice(0, 0)).repeated(np.diff(runs, append=len(wanted)))
        return answers, self.forget(memory, int(start[-1]) + windows.panes_per_slide)

    def _answer(self, levels: list[_Parts], start: int, stop: int) -> pa.Table:
        return self.query.window(pa.concat_tables([levels[0].kept(0, 0), *_cover(levels, start, stop)]))

    def _no_answers(self, memory: pa.Table) -> Answers:
        return Answers(self.query.window(memory.slice(0, 0).drop_columns(HELPERS)).slice(0, 0), np.empty(0, np.int64))

    def _extended(self, memory: pa.Table, panes: Panes) -> pa.Table:
        levels = _levels(memory)
        new = [_part(kept, pane, pane, 0) for pane, kept in panes]
        levels[0] = _Parts(pa.concat_tables([levels[0].rows, *new]).combine_chunks())
        for level, parts in enumerate(levels):  # `levels` grows meanwhile
            above = levels[level + 1 :]
            first = int(np.searchsorted(parts.firsts, above[0].lasts[-1], side="right")) if above and len(above[0].lasts) else 0
            blocks = [
                _part(self.query.merge(parts.kept(at, at + FANOUT)), parts.firsts[at], parts.lasts[at + FANOUT - 1], level + 1)
                for at in range(first, len(parts.firsts) - FANOUT + 1, FANOUT)
            ]
            if not blocks:
                break
            if not above:
                levels.append(_Parts(memory.slice(0, 0)))
            levels[level + 1] = _Parts(pa.concat_tables([levels[level + 1].rows, *blocks]).combine_chunks())
        return pa.concat_tables([parts.rows for parts in levels])


def _levels(memory: pa.Table) -> list[_Parts]:
    """Return the parts of a memory by level; the level of panes always exists."""
    number = memory[LEVEL].to_numpy()
    cuts = np.searchsorted(number, np.arange(number.max(initial=0) + 2)).tolist()
    return [_Parts(memory.slice(a, b - a).combine_chunks()) for a, b in pairwise(cuts)]


def _part(kept: pa.Table, first: int, last: int, level: int) -> pa.Table:
    for name, value in zip(HELPERS, (first, last, level), strict=True):
        kept = kept.append_column(name, constant(value, kept))
    return kept


def _cover(levels: list[_Parts], start: int, stop: int) -> list[pa.Table]:
    """Return what was kept of the panes in [start, stop): of the largest blocks inside, and of the panes before and after them."""
    if not levels or start >= stop:
        return []
    *lower, top = levels
    first, end = int(np.searchsorted(top.firsts, start)), int(np.searchsorted(top.lasts, stop))
    if first >= end:
        return _cover(lower, start, stop)
    before = _cover(lower, start, int(top.firsts[first]))
    after = _cover(lower, int(top.lasts[end - 1]) + 1, stop)
    return [*before, top.kept(first, end), *after]
