"""The panes that are still open, as a batch changes them."""

from dataclasses import replace

from skytide.batch.reports import PaneReport
from skytide.batch.state import OpenPane, State
from skytide.windows import Windows


def with_parts(open_: dict[int, OpenPane], report: PaneReport) -> dict[int, OpenPane]:
    """Return the open panes with what tasks added to them."""
    known = dict(open_)
    for part in report.parts:
        before = known.get(part.pane, OpenPane())
        known[part.pane] = OpenPane(before.tuples + part.tuples, (*before.pieces, part.piece))
    return known


def without_odd(state: State, windows: Windows) -> State:
    """Return a state whose open panes hold no tuple with a wrong time: those are let out as invalid."""
    odd = state.clock.odd_panes(list(state.open), windows)
    output = replace(state.output, suspects=state.suspects, odd_panes=tuple(sorted(odd))) if odd else state.output
    return replace(
        state,
        open={pane: known for pane, known in state.open.items() if pane not in odd},
        invalid=state.invalid + sum(state.open[pane].tuples for pane in odd),
        suspects=state.suspects if state.clock.held else (),
        output=output,
    )


def rows_of(panes: dict[int, OpenPane]) -> int:
    """Return how many rows the partial results of panes have."""
    return sum(piece.rows for known in panes.values() for piece in known.pieces)
