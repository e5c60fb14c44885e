"""Windows of a skyline, updated row by row (SPEC T5).

A row that a row of the same or a younger pane dominates never comes back; a row that an older one dominates comes back once the
youngest of its dominators has left. So a row is in the answers of consecutive windows: from the first one after the pane that blocks it
to the last one before the pane that drops it. Each pair of rows is compared at most once, and a slide costs as much as it changes.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pyarrow as pa

from skytide.kernels import NO_TURN, Indices, Points, first_dominators
from skytide.queries.columns import group_numbers, matrix
from skytide.queries.memory import PANE, Answers, Panes, constant
from skytide.queries.preferences import chains_of
from skytide.queries.query import Query, stands_for_window
from skytide.queries.skyline import Skyline
from skytide.windows import Windows, pane_bounds, stretches

BLOCKED = "__skytide_blocked"
KILLED = "__skytide_killed"
PLACE = "__skytide_place"
"""Where a row was read from, or that it is new."""
NEW = -1
NOTES = [PANE, BLOCKED, PLACE]
NEVER = np.iinfo(np.int64).min
ALIVE = NO_TURN
ALL = slice(None)
ROWS_AT_ONCE = 1024  # small panes are added together up to this number of rows
ROWS_PER_THREAD = 4096  # of the memory: for fewer, another thread costs more than it saves


class Incremental:
    """A memory of closed panes as one Arrow table, to which panes are added in order: the rows that can still be in an answer, each with the youngest pane that blocks it."""

    def __init__(self, query: Query, threads: int = 1) -> None:
        """Create the memory of a query that contains a skyline; slices of it are compared with new panes by up to so many threads."""
        self.query, self.threads = query, threads
        inside = query.skyline_inside()
        assert inside is not None
        self.skyline: Skyline = inside
        of_skyline = stands_for_window(query, "window_of_skyline")
        self._window = query.window_of_skyline if of_skyline else query.window
        is_ours = type(query).window_of_skyline is Skyline.window_of_skyline
        self.is_skyline = of_skyline and is_ours and query == inside
        """Whether the rows that nothing blocks are the answer: those of different parts need not be looked at together."""

    def empty(self, rows: pa.Schema) -> pa.Table:
        """Return the memory of no panes."""
        return pa.schema([*rows, *(pa.field(name, pa.int64()) for name in NOTES)]).empty_table()

    def add(self, memory: pa.Table, pane: int, kept: pa.Table) -> pa.Table:
        """Return the memory without the rows that the new pane dominates, and with the new rows and the panes that block them."""
        return _alive(self._with(memory, [(pane, kept)]))

    def answer(self, memory: pa.Table, panes: range) -> pa.Table:
        """Return the rows that no pane of the window blocks."""
        free = (memory[PANE].to_numpy() >= panes.start) & (memory[BLOCKED].to_numpy() < panes.start)
        best = memory.filter(pa.array(free)).drop_columns(NOTES)
        return best if self.is_skyline else self._window(best)

    def slide(self, memory: pa.Table, panes: Panes, windows: Windows, wanted: Indices) -> tuple[Answers, pa.Table]:
        """Add panes, small ones together, and return answers and memory; dropped rows still count for the windows before that."""
        gone = [memory.slice(0, 0).append_column(KILLED, pa.array([], pa.int64()))]
        start, stop = pane_bounds(windows, np.append(wanted, wanted[-1] + 1) if len(wanted) else wanted)
        for group in _groups(panes):
            if len(wanted):  # rows that have left all windows that hold the group need not be compared with it
                needed = start[min(int(np.searchsorted(stop, group[0][0], side="right")), len(wanted))]
                old = memory.filter(pa.array(memory[PANE].to_numpy() < needed))
                gone.append(old.append_column(KILLED, constant(ALIVE, old)))
                memory = self.forget(memory, int(needed))
            both = self._with(memory, group)
            gone.append(both.filter(pa.array(both[KILLED].to_numpy() != ALIVE)))
            memory = _alive(both)
        answers = self.answers(pa.concat_tables([*gone, memory.append_column(KILLED, constant(ALIVE, memory))]), windows, wanted)
        return answers, self.forget(memory, int(start[-1])) if len(wanted) else memory

    def forget(self, memory: pa.Table, first: int) -> pa.Table:
        """Return the memory without panes before `first`."""
        return memory.filter(pa.array(memory[PANE].to_numpy() >= first))

    def compare(self, memory: pa.Table, panes: Panes) -> tuple[Indices, Indices]:
        """Compare a part of the memory with new panes; return which pane drops each of its rows, and which blocks each new row.

        Parts of it can be compared independently of each other: a row that is dropped meanwhile blocks nothing that the younger row which dropped
        it does not block as well.
        """
        points = self._points(pa.concat_tables([memory.drop_columns(NOTES), *(kept for _, kept in panes)]))
        old, young = points[: memory.num_rows], points[memory.num_rows :]
        killed = first_dominators(old, young, _numbers(panes))
        rivals = killed > min((pane for pane, _ in panes), default=ALIVE - 1)
        return killed, _youngest(first_dominators(young, old[rivals], -memory[PANE].to_numpy()[rivals]))

    def among(self, panes: Panes, some: slice = ALL) -> tuple[Indices, Indices]:
        """Return the same as `compare`, for some of the rows of new panes and all of the others."""
        numbers = _numbers(panes)
        mine = numbers[some]
        if len(panes) < 2:
            return np.full(len(mine), ALIVE), np.full(len(mine), NEVER)
        points = self._points(pa.concat_tables([kept for _, kept in panes]))
        killed = first_dominators(points[some], points, numbers, begins=mine + 1)
        return killed, _youngest(first_dominators(points[some], points, -numbers, begins=1 - mine))

    def assemble(self, memory: pa.Table, panes: Panes, killed: Indices, blocked: Indices) -> pa.Table:
        """Return the memory after all new panes, with the pane that drops each row; for windows before that the row is still there."""
        both = pa.concat_tables(
            [memory.drop_columns(NOTES), *(kept for _, kept in panes)]
        ).combine_chunks()  # not thousands of chunks
        notes = (_numbers(panes), blocked, np.full(len(blocked), NEW))
        for name, new in zip(NOTES, notes, strict=True):
            both = both.append_column(name, pa.array(np.concatenate([memory[name].to_numpy(), new])))
        return both.append_column(KILLED, pa.array(killed))

    def at(self, assembled: pa.Table, panes: range) -> pa.Table:
        """Return the memory as it was when the window of these panes ended."""
        then = (assembled[KILLED].to_numpy() >= panes.stop) & (assembled[PANE].to_numpy() < panes.stop)
        return assembled.filter(pa.array(then)).drop_columns([KILLED])

    def answers(self, assembled: pa.Table, windows: Windows, wanted: Indices) -> Answers:
        """Return the answers of windows from an assembled memory: each row is in consecutive ones, found by two searches."""
        pane, blocked, killed = (assembled[name].to_numpy() for name in (PANE, BLOCKED, KILLED))
        start, stop = pane_bounds(windows, wanted)
        first = np.maximum(np.searchsorted(start, blocked, side="right"), np.searchsorted(stop, pane, side="right"))
        end = np.minimum(np.searchsorted(start, pane, side="right"), np.searchsorted(stop, killed, side="right"))
        out = np.flatnonzero(first < end)
        runs = np.unique(np.concatenate([[0, len(wanted)], first[out], end[out]]))  # where the answer changes
        lengths = np.searchsorted(runs, end[out]) - np.searchsorted(runs, first[out])
        run = stretches(np.searchsorted(runs, first[out]), lengths)
        places = np.repeat(out, lengths)[np.argsort(run, kind="stable")]
        rows = assembled.drop_columns([*NOTES, KILLED]).take(pa.array(places))
        answers = Answers(rows, np.bincount(run, minlength=len(runs) - 1))
        if not self.is_skyline:
            with ThreadPoolExecutor(self.threads) as threads:
                windows_out = list(threads.map(self._window, answers.tables()))
            answers = Answers.of(windows_out, self.query.window(rows.slice(0, 0)))
        return answers.repeated(np.diff(runs))

    def _with(self, memory: pa.Table, panes: Panes) -> pa.Table:
        slices = max(1, min(self.threads, memory.num_rows // ROWS_PER_THREAD))
        cuts = list(pairwise(memory.num_rows * at // slices for at in range(slices + 1)))
        with ThreadPoolExecutor(slices) as threads:
            compared = list(threads.map(lambda cut: self.compare(memory.slice(cut[0], cut[1] - cut[0]), panes), cuts))
        dropped = np.concatenate([killed for killed, _ in compared])
        blocked = np.max([blocks for _, blocks in compared], axis=0)
        killed, blocks = self.among(panes)
        return self.assemble(memory, panes, np.concatenate([dropped, killed]), np.maximum(blocked, blocks))

    def _points(self, rows: pa.Table) -> Points:
        points = matrix(rows, chains_of(self.skyline.preference))
        if not self.skyline.groups():
            return points
        # The group is both preferred low and high, so that rows never dominate those of other groups.
        group = group_numbers(rows, self.skyline.groups()).astype(np.float64)
        return np.column_stack([points, group, -group])


def _groups(panes: Panes) -> Iterator[Panes]:
    """Yield groups of consecutive panes with few rows; large panes are on their own."""
    ends = np.cumsum([kept.num_rows for _, kept in panes])
    first = 0
    while first < len(panes):
        before = ends[first] - panes[first][1].num_rows
        end = max(first + 1, int(np.searchsorted(ends, before + ROWS_AT_ONCE, side="right")))
        yield panes[first:end]
        first = end


def _alive(assembled: pa.Table) -> pa.Table:
    return assembled.filter(pa.array(assembled[KILLED].to_numpy() == ALIVE)).drop_columns([KILLED])


def _numbers(panes: Panes) -> Indices:
    return np.repeat(np.array([pane for pane, _ in panes], np.int64), [kept.num_rows for _, kept in panes])


def _youngest(turns: Indices) -> Indices:
    """Return the panes for turns, which are negated so that the youngest comes first."""
    return np.where(turns == NO_TURN, NEVER, -turns)
