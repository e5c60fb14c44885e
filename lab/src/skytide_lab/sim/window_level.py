"""The window level of a query with groups in virtual time: each slot opens files, merges the rows of its parts of the groups, and answers windows."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from skytide.batch import MergePieces, Parts, Piece, Run, RunWindows, WindowFound, WindowReport
from skytide.batch.merging import PIECES_AT_ONCE
from skytide.batch.spreading import PARTS
from skytide.queries.blocks import FANOUT
from skytide.windows import Windows

RANKS = 4_000
"""Groups are looked at in so many bundles of about the same share: enough to count to a thousandth."""


@dataclass(frozen=True)
class WindowCosts:
    """The costs of a slot of the window level, measured on its real tasks."""

    task_s: float
    """Time of a task without rows."""
    open_s: float
    """Time to open a file with a piece, a pane or a block, and to find the rows of the slot in it."""
    row_s: float
    """Time per row that is read and merged."""
    answer_s: float
    """Time per row of an answer."""
    kept_s: float = 0.0
    """Time per row that is written to be remembered, or instead of pieces."""
    cached_files: int = 512
    """So many files of what is remembered stay open in a process."""


@dataclass(frozen=True)
class Groups:
    """The groups of a stream: number n comes 1 / (n + 1)^exponent times as often as the first; with exponent 0, all equally often.

    >>> Groups(10).among(1), Groups(10).among(1_000_000)
    (1, 10)
    """

    count: int
    exponent: float = 0.0
    _counted: dict[float, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def among(self, tuples: float) -> int:
        """Return how many groups some tuples have, on average."""
        if tuples not in self._counted:
            shares, sizes = self._bundles
            self._counted[tuples] = round(float(-(np.expm1(tuples * np.log1p(-shares)) * sizes).sum()))
        return self._counted[tuples]

    @cached_property
    def _bundles(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The share of a group in each bundle, and how many groups that has."""
        ends = np.unique(np.geomspace(1, self.count + 1, RANKS).astype(np.int64)).astype(np.float64)
        sizes = np.diff(ends)
        middle = np.sqrt(ends[:-1] * np.maximum(ends[1:] - 1, ends[:-1]))
        weights = middle**-self.exponent
        return np.minimum(weights / (weights * sizes).sum(), 1 - 1e-12), sizes


@dataclass
class WindowLevel:
    """The rows of panes, by how many tuples they stand for, and what slots do with them."""

    groups: Groups
    costs: WindowCosts
    stands_for: int = 1
    """Tuples of the stream for one that is played."""
    merge_cuts: int = 1
    """Into so many cuts of the parts each merge of pieces is divided; the engine has one."""
    gathers: bool = False
    """Whether new pieces are merged in such tasks before slots open what is theirs; the engine does not."""
    opened: int = field(default=0, init=False)
    """How often slots opened a file in the latest batch."""
    _tuples: dict[tuple[str, int], int] = field(default_factory=dict, init=False)

    def piece(self, file: str, at: int, tuples: int, tier: int = 0) -> Piece:
        """Return what a task keeps of some tuples of a pane."""
        self._tuples[file, at] = tuples
        return Piece(file, at, 1, self.rows(tuples), tier)

    def rows(self, tuples: float) -> int:
        """Return what is kept of some tuples that are played."""
        return self.groups.among(tuples * self.stands_for)

    def forget(self, files: set[str]) -> None:
        """Forget all pieces in other files."""
        self._tuples = {key: tuples for key, tuples in self._tuples.items() if key[0] in files}

    def merge(self, work: MergePieces, tasks: int) -> tuple[list[Piece], list[float]]:
        """Return the pieces that merging makes, and the time of each task; without cuts there are at most so many tasks."""
        pieces, times_s = [], []
        for number, merge in enumerate(work.merges):
            tuples = sum(self._tuples[piece.file, piece.at] for piece in merge.pieces)
            tier = 1 + max(piece.tier for piece in merge.pieces)
            pieces.append(self.piece(f"{work.sequence}-merged-{number}", 0, tuples, tier))
            times_s.append(self._merging_s(merge.pieces, pieces[-1].rows))
        size = 1 if self.merge_cuts > 1 else -(-len(times_s) // tasks)
        of_tasks = [self.costs.task_s + sum(times_s[first : first + size]) for first in range(0, len(times_s), size)]
        return pieces, [task_s for task_s in of_tasks for _ in range(self.merge_cuts)]

    def gather(self, work: RunWindows) -> list[float]:
        """Return the time of each task that merges new pieces, those of some tasks of the pane level at a time."""
        tasks_s = []
        for pieces in work.panes.values() if self.gathers else ():
            new = [piece for piece in pieces if not piece.tier]
            for first in range(0, len(new), PIECES_AT_ONCE):
                some = new[first : first + PIECES_AT_ONCE]
                merged = self.rows(sum(self._tuples[piece.file, piece.at] for piece in some))
                tasks_s += [self.costs.task_s + self._merging_s(some, merged)] * self.merge_cuts
        return tasks_s

    def run(self, work: RunWindows, windows: Windows) -> tuple[WindowReport, list[float]]:
        """Return the report of all slots, and the time of each: parts are by hash, so slots have the same number of rows."""
        costs = self.costs
        of_slots = [mine.bit_count() for mine in work.spreading.of_slots] if isinstance(work.spreading, Parts) else [PARTS]
        read, pieces = self._pieces(work)
        files = [file for run in work.memory for file in run.files]
        opened = pieces + (len(files) if len(files) > costs.cached_files else len(files) // len(of_slots))
        self.opened = opened * len(of_slots)
        per_pane = sum(work.tuples.values()) / max(len(work.tuples), 1)
        kept, needed = 0, windows.panes_of(work.ended.stop).start
        for pane, tuples in work.tuples.items():
            kept += self.rows(tuples) if pane >= needed else 0
            for size in _sizes(windows):
                if (pane + 1) % size == 0:  # a block is complete
                    read += FANOUT * self.rows(per_pane * size / FANOUT)
                    kept += self.rows(per_pane * size)
        of_window = sum(self.rows(per_pane * size) for size in cover(windows.panes_of(work.ended.start), windows))
        answered = len(work.ended) * self.rows(per_pane * windows.panes_per_window)
        rows_s = (read + len(work.ended) * of_window) * costs.row_s + kept * costs.kept_s + answered * costs.answer_s
        slots_s = [costs.task_s + opened * costs.open_s + rows_s * parts / PARTS for parts in of_slots]
        made = tuple(f"{work.sequence}-memory-{slot}" for slot in range(len(of_slots)))
        run = Run(min(work.panes), max(work.panes), work.level, made, kept) if kept else None
        found = tuple(WindowFound(window, 1, 1) for window in work.ended)
        return WindowReport(found, ("results",), run, sum(slots_s), others_s=sum(slots_s) - max(slots_s)), slots_s

    def _pieces(self, work: RunWindows) -> tuple[int, int]:
        """Return the rows of pieces that slots merge, and how many files each slot opens for them."""
        rows = files = 0
        for pieces in work.panes.values():
            new = [piece for piece in pieces if not piece.tier]
            rows += sum(piece.rows for piece in pieces if piece.tier)
            files += len(pieces) - len(new)
            if self.gathers:
                groups = -(-len(new) // PIECES_AT_ONCE)
                tuples = sum(self._tuples[piece.file, piece.at] for piece in new)
                rows += groups * self.rows(tuples / max(groups, 1))
                files += groups
            else:
                rows += sum(piece.rows for piece in new)
                files += len(new)
        return rows, files

    def _merging_s(self, pieces: Sequence[Piece], merged: int) -> float:
        """Return the time to merge a cut of some pieces."""
        rows_s = sum(piece.rows for piece in pieces) * self.costs.row_s + merged * (self.costs.answer_s + self.costs.kept_s)
        return len(pieces) * self.costs.open_s + rows_s / self.merge_cuts


def cover(panes: range, windows: Windows) -> Sequence[int]:
    """Return the sizes of the blocks that a window is made of, of panes and blocks that are all there.

    >>> cover(range(14, 50), Windows(36, 1))
    [1, 1, 16, 16, 1, 1]
    """
    sizes, at = [], panes.start
    while at < panes.stop:
        size = next(size for size in (*reversed(_sizes(windows)), 1) if at % size == 0 and at + size <= panes.stop)
        sizes.append(size)
        at += size
    return sizes


def _sizes(windows: Windows) -> list[int]:
    """Return the sizes of the blocks that fit into a window."""
    sizes, size = [], FANOUT
    while size <= windows.panes_per_window:
        sizes.append(size)
        size *= FANOUT
    return sizes
