"""The rows about windows that a batch lets out."""

from collections.abc import Sequence

from skytide.batch.reports import WindowFound
from skytide.records import WindowRow
from skytide.windows import Windows

MAX_EMPTY_ROWS = 1_000
"""Longer runs of empty windows come out as one row."""


def window_rows(windows: Windows, ended: range, found: Sequence[WindowFound], late: int, at_s: float) -> tuple[WindowRow, ...]:
    """Return a row for each window that ended, and one for each long run of empty ones."""
    rows: list[WindowRow] = []

    def add(first: int, count: int, tuples: int = 0, kept: int = 0) -> None:
        end_us = windows.end_us(first + count - 1)
        lost = 0 if rows else late
        rows.append(WindowRow(windows.start_us(first), end_us, tuples, kept, lost, at_s - end_us / 1e6, count))

    def add_empty(first: int, stop: int) -> None:
        if stop - first > MAX_EMPTY_ROWS:
            add(first, stop - first)
        else:
            for window in range(first, stop):
                add(window, 1)

    next_window = ended.start
    for each in found:
        add_empty(next_window, each.window)
        add(each.window, 1, each.tuples, each.kept)
        next_window = each.window + 1
    add_empty(next_window, ended.stop)
    return tuple(rows)
