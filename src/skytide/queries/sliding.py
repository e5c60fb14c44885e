"""Windows from panes: what is remembered of the panes that closed, and the answer of each window.

A memory is one Arrow table. `Incremental` obeys SPEC T5: a row that one of the same or a younger pane dominates never comes back;
a row that an older one dominates comes back once the youngest of its dominators has left. So each pair of rows is compared at most
once, and a slide costs its change. `Recompute` is the obvious way, for queries without a skyline inside, and the twin in the tests.
"""

from abc import ABC, abstractmethod

import numpy as np
import pyarrow as pa

from skytide.kernels import Indices, Mask, Points, count_dominators
from skytide.queries.columns import group_numbers, matrix
from skytide.queries.preferences import chains_of
from skytide.queries.query import Query
from skytide.queries.skyline import Skyline

PANE = "__skytide_pane"
BLOCKED = "__skytide_blocked"
KILLED = "__skytide_killed"
NEVER = np.iinfo(np.int64).min
ALIVE = np.iinfo(np.int64).max
Panes = list[tuple[int, pa.Table]]
"""New panes, from the oldest to the youngest, and what was kept of each."""


class Sliding(ABC):
    """What is remembered of closed panes; panes are added in order."""

    def __init__(self, query: Query) -> None:
        """Remember for one query."""
        self.query = query

    @abstractmethod
    def empty(self, rows: pa.Schema) -> pa.Table:
        """Give the memory of no panes."""

    @abstractmethod
    def add(self, memory: pa.Table, pane: int, kept: pa.Table) -> pa.Table:
        """Give the memory after a younger pane closed, of which `kept` was kept."""

    @abstractmethod
    def answer(self, memory: pa.Table, panes: range) -> pa.Table:
        """Give the answer of the window of these panes, all of which have been added, and no younger one."""

    def forget(self, memory: pa.Table, first: int) -> pa.Table:
        """Give the memory without panes before `first`."""
        return memory.filter(pa.array(memory[PANE].to_numpy() >= first))


def sliding_memory(query: Query) -> Sliding:
    """Give the cheapest memory for a query."""
    return Recompute(query) if query.skyline_inside() is None else Incremental(query)


class Recompute(Sliding):
    """Remembers what was kept of each pane, and answers each window from its panes."""

    def empty(self, rows: pa.Schema) -> pa.Table:
        """Give the memory of no panes."""
        return self.query.kept_schema(rows).append(pa.field(PANE, pa.int64())).empty_table()

    def add(self, memory: pa.Table, pane: int, kept: pa.Table) -> pa.Table:
        """Append the pane."""
        return pa.concat_tables([memory, kept.append_column(PANE, _constant(pane, kept))])

    def answer(self, memory: pa.Table, panes: range) -> pa.Table:
        """Answer from all panes of the window."""
        number = memory[PANE].to_numpy()
        inside = memory.filter(pa.array((number >= panes.start) & (number < panes.stop)))
        return self.query.window(self.query.merge(inside.drop_columns([PANE])))


class Incremental(Sliding):
    """Remembers the rows that can still come out, each with the youngest pane that blocks it."""

    def __init__(self, query: Query) -> None:
        """Remember for a query that has a skyline inside."""
        super().__init__(query)
        inside = query.skyline_inside()
        assert inside is not None
        self.skyline: Skyline = inside

    def empty(self, rows: pa.Schema) -> pa.Table:
        """Give the memory of no panes."""
        return rows.append(pa.field(PANE, pa.int64())).append(pa.field(BLOCKED, pa.int64())).empty_table()

    def add(self, memory: pa.Table, pane: int, kept: pa.Table) -> pa.Table:
        """Drop for ever what the new pane dominates; note for the new rows which pane blocks them."""
        new = kept.append_column(PANE, _constant(pane, kept)).append_column(BLOCKED, _constant(NEVER, kept))
        if memory.num_rows == 0 or kept.num_rows == 0:
            return pa.concat_tables([memory, new])
        both = pa.concat_tables([memory.drop_columns([PANE, BLOCKED]), kept])
        points = self._points(both)
        old, young = points[: memory.num_rows], points[memory.num_rows :]
        stays = ~_dominated(old, young)
        memory, old = memory.filter(pa.array(stays)), old[stays]
        blocked = self._blocked(young, old, memory[PANE].to_numpy())
        new = new.set_column(new.num_columns - 1, BLOCKED, pa.array(blocked))
        return pa.concat_tables([memory, new])

    def answer(self, memory: pa.Table, panes: range) -> pa.Table:
        """Give what is not blocked by a pane of the window."""
        free = (memory[PANE].to_numpy() >= panes.start) & (memory[BLOCKED].to_numpy() < panes.start)
        best = memory.filter(pa.array(free)).drop_columns([PANE, BLOCKED])
        return best if self.query == self.skyline else self.query.window(best)

    def compare(self, memory: pa.Table, panes: Panes) -> tuple[Indices, Indices]:
        """Compare a slice of the memory with new panes: which pane drops each of its rows, and which blocks each new row.

        Slices can be compared apart from each other: a row that is dropped meanwhile blocks nothing that the row which dropped it,
        a younger one, does not block as well.
        """
        rows = [memory.drop_columns([PANE, BLOCKED]), *(kept for _, kept in panes)]
        points = np.split(self._points(pa.concat_tables(rows)), np.cumsum([table.num_rows for table in rows])[:-1])
        old, young = points[0], points[1:]
        killed = np.full(len(old), ALIVE, dtype=np.int64)
        for (pane, _), new in zip(panes, young, strict=True):
            alive = np.flatnonzero(killed == ALIVE)
            killed[alive[_dominated(old[alive], new)]] = pane
        numbers = memory[PANE].to_numpy()
        blocked = [self._blocked(new, old, numbers) for new in young]
        return killed, np.concatenate(blocked) if blocked else np.empty(0, np.int64)

    def among(self, panes: Panes) -> tuple[Indices, Indices]:
        """Compare new panes with each other, as `compare` does with the memory."""
        killed = [np.full(kept.num_rows, ALIVE, dtype=np.int64) for _, kept in panes]
        blocked = [np.full(kept.num_rows, NEVER, dtype=np.int64) for _, kept in panes]
        for at, (pane, kept) in enumerate(panes):
            older = kept.append_column(PANE, _constant(pane, kept)).append_column(BLOCKED, _constant(NEVER, kept))
            dropped, blocks = self.compare(older, panes[at + 1 :])
            killed[at] = dropped
            ends = np.cumsum([table.num_rows for _, table in panes[at + 1 :]])
            for later, found in zip(range(at + 1, len(panes)), np.split(blocks, ends[:-1]) if len(ends) else [], strict=True):
                blocked[later] = np.maximum(blocked[later], found)
        return np.concatenate([np.empty(0, np.int64), *killed]), np.concatenate([np.empty(0, np.int64), *blocked])

    def assemble(self, memory: pa.Table, panes: Panes, killed: Indices, blocked: Indices) -> pa.Table:
        """Give the memory after all new panes, with the pane that drops each row; it is still there for windows before that."""
        new = [kept.append_column(PANE, _constant(pane, kept)) for pane, kept in panes]
        both = pa.concat_tables([memory.drop_columns([BLOCKED]), *new])
        blocked = np.concatenate([memory[BLOCKED].to_numpy(), blocked])
        return both.append_column(BLOCKED, pa.array(blocked)).append_column(KILLED, pa.array(killed))

    def at(self, assembled: pa.Table, panes: range) -> pa.Table:
        """Give the memory as it was when the window of these panes ended."""
        then = (assembled[KILLED].to_numpy() >= panes.stop) & (assembled[PANE].to_numpy() < panes.stop)
        return assembled.filter(pa.array(then)).drop_columns([KILLED])

    def _blocked(self, young: Points, old: Points, panes: Indices) -> Indices:
        """Find the youngest pane with a dominator of each young row, from the youngest pane to the oldest."""
        blocked = np.full(len(young), NEVER, dtype=np.int64)
        for pane in np.unique(panes)[::-1]:
            free = np.flatnonzero(blocked == NEVER)
            blocked[free[_dominated(young[free], old[panes == pane])]] = pane
        return blocked

    def _points(self, rows: pa.Table) -> Points:
        points = matrix(rows, chains_of(self.skyline.preference))
        if not self.skyline.groups():
            return points
        # Equal groups and nothing else are at most and at least each other: so rows of other groups never dominate.
        group = group_numbers(rows, self.skyline.groups()).astype(np.float64)
        return np.column_stack([points, group, -group])


def _dominated(points: Points, by: Points) -> Mask:
    both = np.concatenate([points, by])
    asked = np.arange(len(both)) < len(points)
    return np.asarray(count_dominators(both, 1, tested=asked, dominating=~asked)[: len(points)] > 0)


def _constant(value: int, rows: pa.Table) -> pa.Array:
    return pa.array(np.full(rows.num_rows, value, dtype=np.int64))
