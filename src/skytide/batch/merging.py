"""When partial results are merged, so that files are few whatever the number of batches: by tiers, of which each has few."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from skytide.batch.reports import Piece, Run
from skytide.batch.state import OpenPane

FAN_IN = 16
"""The pieces of so many batches, or so many runs of a level, are put together."""
MAX_PIECES = 4096
"""No tier has more: a manifest has to name them all."""
PIECES_AT_ONCE = 64
"""The most pieces that one task merges."""
SMALL_ROWS = 2**14
"""So many rows are written once more in no time; a second file takes longer."""
MAX_RUN_ROWS = 2**18
"""Runs with more rows together, for each slot that wrote them, are not put into one: to copy them would take longer than to open them."""
MANY_RUNS = 64
"""With twice as many runs, twice as many rows are copied: each file is opened in every batch, and named in every manifest."""


@dataclass(frozen=True)
class PiecesToMerge:
    """Pieces of an open pane that become one."""

    pane: int
    pieces: tuple[Piece, ...]

    @property
    def rows(self) -> int:
        """How many rows they have."""
        return sum(piece.rows for piece in self.pieces)


def pieces_to_merge(pane: int, open_pane: OpenPane, added: int) -> Iterator[PiecesToMerge]:
    """Yield which pieces of a pane to merge now, after a batch that added some: those of a tier that has as many as come in 16 batches.

    So a pane that closes after a few batches is never merged before, however many tasks there are, and one that stays open for days has
    a few tiers of 16 batches each.

    >>> pieces = [Piece(str(number), 0, 1, 5) for number in range(20)]
    >>> [len(merge.pieces) for merge in pieces_to_merge(3, OpenPane(100, tuple(pieces)), added=1)]
    [20]
    >>> list(pieces_to_merge(3, OpenPane(100, tuple(pieces[:15])), added=1)), list(pieces_to_merge(3, OpenPane(100, tuple(pieces)), added=2))
    ([], [])
    """
    tiers: dict[int, list[Piece]] = {}
    for piece in open_pane.pieces:
        tiers.setdefault(piece.tier, []).append(piece)
    at_once = added
    for tier in range(max(tiers, default=-1) + 1):
        pieces, full = tiers.get(tier, []), min(FAN_IN * at_once, MAX_PIECES)
        if len(pieces) >= full:
            for first in range(0, len(pieces), PIECES_AT_ONCE):
                some = pieces[first : first + PIECES_AT_ONCE]
                if len(some) > 1:
                    yield PiecesToMerge(pane, tuple(some))
        at_once = -(-full // PIECES_AT_ONCE)  # so many pieces of the next tier are made at a time


def runs_to_replace(runs: Sequence[Run], new_rows: int) -> int:
    """Return how many of the latest runs are written once more with the panes that close now.

    As with digits of a number: when a level is full, all of its runs become one of the next. A row is rewritten no more often than
    there are levels, and never once its run is large; with many large runs, larger ones are put together, so that their number grows with
    the square root of the rows.

    >>> runs_to_replace([Run(0, 0, 1), *[Run(n, n, 0) for n in range(15)]], 10), runs_to_replace([Run(0, 0, 0)] * 14, 10)
    (15, 0)
    """
    level = taken = 0
    most_rows = MAX_RUN_ROWS * max(1, len(runs) // MANY_RUNS) * max(1, len(runs[-1].files) if runs else 0)
    while True:
        alike, rows = 0, new_rows
        for run in reversed(runs[: len(runs) - taken]):
            if run.level != level or rows + run.rows > most_rows:
                break
            alike, rows = alike + 1, rows + run.rows
        if alike < FAN_IN - 1:
            return taken
        level, taken, new_rows = level + 1, taken + alike, rows


def changes_to_replace(runs: Sequence[Run], new_rows: int) -> int:
    """Return how many of the latest runs are written once more, where rows of earlier runs die: none, or all.

    The first run is the base, the others are changes. All are written once more when the changes have come to be as many as the base:
    so a row is written twice on average, whatever the number of rows and of slots, each of which has a file of its own.

    >>> base, change = Run(0, 0, 0, ("b",), 50_000), Run(0, 0, 0, ("c",), 9_000)
    >>> [changes_to_replace([base, *[change] * changes], 9_000) for changes in range(6)]
    [0, 0, 0, 0, 0, 6]
    >>> changes_to_replace([Run(0, 0, 0, ("b",), 500), Run(0, 0, 0, ("c",), 90)], 90)
    2
    """
    if not runs:
        return 0
    changes = sum(run.rows for run in runs[1:]) + new_rows
    is_small = runs[0].rows + changes <= SMALL_ROWS
    return len(runs) if is_small or changes > runs[0].rows or len(runs) > FAN_IN else 0
