"""The panes that are still open, as a batch changes them."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate

from skytide.batch.merging import PiecesToMerge
from skytide.batch.reports import PanePart, PaneReport, Piece
from skytide.batch.state import OpenPane, State
from skytide.windows import Windows

MAX_AHEAD = 1_000
"""How many pieces of panes ahead of the stream are kept: it may never get there."""


def with_parts(open_: dict[int, OpenPane], report: PaneReport) -> dict[int, OpenPane]:
    """Return the open panes with what tasks added to them."""
    added: dict[int, list[PanePart]] = {}
    for part in report.parts:
        added.setdefault(part.pane, []).append(part)
    panes = dict(open_)
    for pane, parts in added.items():
        before = panes.get(pane, OpenPane())
        tuples = before.tuples + sum(part.tuples for part in parts)
        panes[pane] = OpenPane(tuples, (*before.pieces, *(part.piece for part in parts)))
    return panes


def with_merged(open_: dict[int, OpenPane], merges: Sequence[PiecesToMerge], merged: Sequence[Piece]) -> dict[int, OpenPane]:
    """Return the open panes with merged pieces in place of those they were made of.

    A piece without rows has no record batch, so it begins where the next one of its file does: their sizes tell them apart.
    """
    panes = dict(open_)
    gone = {(piece.file, piece.at, piece.batches) for merge in merges for piece in merge.pieces}
    added: dict[int, list[Piece]] = {}
    for merge, piece in zip(merges, merged, strict=True):
        added.setdefault(merge.pane, []).append(piece)
    for pane, pieces in added.items():
        left = (piece for piece in panes[pane].pieces if (piece.file, piece.at, piece.batches) not in gone)
        panes[pane] = replace(panes[pane], pieces=(*left, *pieces))
    return panes


def within_bounds(state: State, windows: Windows) -> State:
    """Return a state that does not keep too much of times far ahead of the stream: the furthest are let out as invalid."""
    clock = state.clock
    ahead = sorted(pane for pane in state.open if clock.is_ahead(pane, windows))
    pieces = accumulate(len(state.open[pane].pieces) for pane in ahead)
    beyond = {pane for pane, so_far in zip(ahead, pieces, strict=True) if so_far > MAX_AHEAD and not clock.is_held(pane, windows)}
    output = replace(state.output, suspects=state.suspects, odd_panes=tuple(sorted(beyond))) if beyond else state.output
    needed = {copies_of(piece.file) for pane in ahead if pane not in beyond for piece in state.open[pane].pieces}
    return replace(
        state,
        open={pane: open_pane for pane, open_pane in state.open.items() if pane not in beyond},
        invalid=state.invalid + sum(state.open[pane].tuples for pane in beyond),
        suspects=tuple(name for name in state.suspects if name in needed),
        output=output,
    )


def copies_of(file: str) -> str:
    """Return the name of the file with copies of those tuples of a file of panes that are far ahead."""
    return f"suspects/{file.rpartition('/')[2]}"


def reached_us(state: State, windows: Windows, leap_us: int, with_held: bool) -> int | None:
    """Return how far a stream has come that has ended: over all windows with no more than a leap between them, and on request to what is held.

    A held time that is implausibly far ahead stays held: behind it, all that comes later would be late.
    """
    reached = state.clock.newest_us
    for pane in sorted(state.open):
        start_us = windows.pane_start_us(pane)
        near = reached is not None and start_us - windows.end_us(windows.last_of_pane(windows.pane_of(reached))) <= leap_us
        held = with_held and (reached is None or state.clock.is_held(pane, windows))
        if near or (held and (reached is None or state.clock.is_plausible(start_us - reached))):
            reached = max(start_us, start_us if reached is None else reached)
    return reached


def windows_ahead(panes: Iterable[int], windows: Windows, leap_us: int) -> tuple[range, ...]:
    """Return the windows with these panes, and those between them that take no longer than a leap.

    >>> windows_ahead([3, 5, 90], Windows(length_us=20, slide_us=10), leap_us=10)
    (range(2, 6), range(89, 91))
    """
    spans: list[range] = []
    for pane in sorted(panes):
        mine = range(windows.first_of_pane(pane), windows.last_of_pane(pane) + 1)
        if spans and windows.pane_start_us(pane) - windows.end_us(spans[-1].stop - 1) <= leap_us:
            mine = range(spans.pop().start, mine.stop)
        spans.append(mine)
    return tuple(spans)


def rows_of(panes: dict[int, OpenPane]) -> int:
    """Return how many rows the partial results of panes have."""
    return sum(piece.rows for open_pane in panes.values() for piece in open_pane.pieces)
