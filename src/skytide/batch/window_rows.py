"""The rows about windows that a batch lets out."""

from collections import deque
from collections.abc import Sequence

from skytide.batch.reports import WindowFound
from skytide.records import WindowRow
from skytide.windows import Windows

MAX_EMPTY_ROWS = 1_000
"""With more empty windows than this in a batch, each run of them comes out as one row."""


def window_rows(
    windows: Windows, out: Sequence[range], reported: Sequence[WindowFound], late: int, at_s: float
) -> tuple[WindowRow, ...]:
    """Return a row for each window that comes out; if many are empty, one for each run of empty ones."""
    one_by_one = sum(map(len, out)) - len(reported) <= MAX_EMPTY_ROWS
    rows: list[WindowRow] = []

    def add(first: int, count: int, tuples: int = 0, kept: int = 0) -> None:
        end_us = windows.end_us(first + count - 1)
        lost = 0 if rows else late
        rows.append(WindowRow(windows.start_us(first), end_us, tuples, kept, lost, at_s - end_us / 1e6, count))

    def add_empty(first: int, stop: int) -> None:
        step = 1 if one_by_one else max(stop - first, 1)
        for window in range(first, stop, step):
            add(window, step)

    left = deque(reported)
    for some in out:
        next_window = some.start
        while left and left[0].window < some.stop:
            item = left.popleft()
            add_empty(next_window, item.window)
            add(item.window, 1, item.tuples, item.kept)
            next_window = item.window + 1
        add_empty(next_window, some.stop)
    return tuple(rows)
